//! Lines of a file as numbers: equal lines have equal numbers.
//!
//! Invariant: the worth of matching a line falls with the number of its occurrences in the file.

use foldhash::HashMap;

/// One unit of worth; a long line that occurs once is worth six.
pub(crate) const UNIT: i32 = 100;

/// Lines that a message names.
const MAX_NAMED: usize = 6;

/// Distinct lines that space is reserved for at first.
const DEFAULT_CAPACITY: usize = 2_048;

/// The lines of a file.
pub(crate) struct Lines<'o> {
    /// The number of each line.
    pub ids: Vec<u32>,
    /// The text of each number.
    texts: Vec<&'o str>,
    numbers: HashMap<&'o str, u32>,
    /// By number: the first line that has it, and how many have it.
    kinds: Vec<(u32, u32)>,
}

/// Statistics of a line in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LineStats {
    /// Its number.
    pub id: u32,
    /// How often it occurs in the file.
    pub count: u32,
    /// The worth of matching it.
    pub worth: i32,
}

impl<'o> Lines<'o> {
    /// Numbers the lines of a file.
    pub fn of(lines: impl ExactSizeIterator<Item = &'o str>) -> Lines<'o> {
        Lines::of_all(lines.len(), lines)
    }

    /// Numbers so many lines.
    pub fn of_all(count: usize, lines: impl Iterator<Item = &'o str>) -> Lines<'o> {
        let usual = count.min(DEFAULT_CAPACITY);
        let mut all = Lines {
            ids: Vec::with_capacity(count),
            texts: Vec::with_capacity(usual),
            numbers: HashMap::default(),
            kinds: Vec::with_capacity(usual),
        };
        all.numbers.reserve(usual);
        for line in lines {
            let next = all.kinds.len() as u32;
            let id = *all.numbers.entry(line).or_insert(next);
            if id == next {
                all.kinds.push((all.ids.len() as u32, 0));
                all.texts.push(line);
            }
            all.kinds[id as usize].1 += 1;
            all.ids.push(id);
        }
        all
    }

    /// How many numbers there are.
    pub fn count(&self) -> usize {
        self.kinds.len()
    }

    /// The number of a line; nothing if the file has none like it.
    pub fn id_of(&self, line: &str) -> Option<u32> {
        self.numbers.get(line).copied()
    }

    /// The statistics of a snippet's line; `None` if the file has none like it.
    pub fn stats(&self, line: &str) -> Option<LineStats> {
        let id = self.id_of(line)?;
        let (_, count) = self.kinds[id as usize];
        let rarity = f64::from(count).sqrt();
        Some(LineStats { id, count, worth: ((f64::from(information(line)) / rarity) as i32).max(1) })
    }

    /// The places of a line, if they are at most `max`.
    pub fn places(&self, stats: &LineStats, max: usize) -> impl Iterator<Item = usize> {
        let few = stats.count as usize <= max;
        self.places_of(stats.id).filter(move |_| few)
    }

    /// The places of the line with that number.
    pub fn places_of(&self, id: u32) -> impl Iterator<Item = usize> {
        let (first, count) =
            self.kinds.get(id as usize).map_or((self.ids.len(), 0), |it| (it.0 as usize, it.1 as usize));
        let places = self.ids[first..].iter().enumerate().filter(move |(_, other)| **other == id);
        places.map(move |(at, _)| first + at).take(count)
    }

    /// The line of a number.
    pub fn text(&self, id: u32) -> &'o str {
        self.texts.get(id as usize).copied().unwrap_or_default()
    }

    /// How often the line of a number occurs in the file.
    pub fn count_of(&self, id: u32) -> usize {
        self.kinds.get(id as usize).map_or(0, |(_, count)| *count as usize)
    }

    /// Where lines of these numbers follow one another.
    pub fn runs<'r>(&'r self, ids: &'r [u32]) -> impl Iterator<Item = usize> + 'r {
        let rarest = (0..ids.len()).min_by_key(|&at| self.count_of(ids[at]));
        let places = rarest
            .into_iter()
            .flat_map(move |at| self.places_of(ids[at]).filter_map(move |place| place.checked_sub(at)));
        places.filter(move |&at| self.ids[at..].starts_with(ids))
    }

    /// The first place of a line.
    pub fn place_of_first(&self, id: u32) -> Option<usize> {
        self.kinds.get(id as usize).map(|(first, _)| *first as usize)
    }
}

/// Whether a line is more than a bracket or a word of three letters.
pub(crate) fn is_distinctive(text: &str) -> bool {
    letters(text, 4) == 4
}

/// Whether as many brackets of each kind close as open. Those in texts count as well: what is turned down for them stays refused.
pub(crate) fn is_balanced(lines: &[&str]) -> bool {
    [('(', ')'), ('[', ']'), ('{', '}')].into_iter().all(|(open, close)| {
        let count = |sign: char| lines.iter().map(|line| line.matches(sign).count()).sum::<usize>();
        count(open) == count(close)
    })
}

/// How much a line identifies its place: six units for a long one, half a unit for a lone bracket, nearly nothing for a blank
/// one.
pub(crate) fn information(text: &str) -> i32 {
    match letters(text, 24) {
        0 if text.trim().is_empty() => UNIT / 20,
        0 => UNIT / 2,
        1..=3 => UNIT,
        letters => (UNIT * (letters + 4) / 4).min(6 * UNIT),
    }
}

/// The number of letters and digits of a line, at most `max`.
fn letters(text: &str, max: usize) -> i32 {
    let mut letters = 0;
    for byte in text.bytes() {
        if !byte.is_ascii() {
            return text.chars().filter(|c| c.is_alphanumeric()).take(max).count() as i32;
        }
        letters += usize::from(byte.is_ascii_alphanumeric());
        if letters == max {
            break;
        }
    }
    letters as i32
}

/// The least information of a line that can anchor a snippet: a word of four letters.
pub(crate) const MIN_INFORMATION: i32 = 2 * UNIT;

/// Whether a line has only white space.
pub(crate) fn is_blank(line: &str) -> bool {
    // The first byte that is no white space decides for nearly every line.
    match line.bytes().find(|byte| !matches!(byte, b' ' | b'\t')) {
        None => true,
        Some(byte) => !byte.is_ascii_graphic() && line.chars().all(char::is_whitespace),
    }
}

/// The first lines of places, each once, as a message names them: `line 3`, `lines 3 and 9`.
pub(super) fn named(at: &[(usize, usize)]) -> String {
    let mut firsts: Vec<usize> = at.iter().map(|(first, _)| first + 1).collect();
    firsts.sort_unstable();
    firsts.dedup();
    let shown: Vec<String> = firsts.iter().take(MAX_NAMED).map(usize::to_string).collect();
    format!("{} {}", if shown.len() == 1 { "line" } else { "lines" }, shown.join(" and "))
}
