//! The lines of a file and of a snippet as numbers: equal lines have equal numbers, blank ones have none to speak of.
//!
//! It does not take lines for equal that differ in anything. Invariant: what a match of a line is worth falls with the
//! number of times that the line stands in the file.

use foldhash::HashMap;

/// One unit of worth; a long line that stands once is worth six.
pub(crate) const UNIT: i32 = 100;

/// Room is made for so many different lines at first.
const USUAL: usize = 2_048;

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

/// What the file knows of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    /// Its number.
    pub id: u32,
    /// How often it stands in the file.
    pub count: u32,
    /// What matching it is worth.
    pub worth: i32,
}

impl<'o> Lines<'o> {
    /// Numbers the lines of a file.
    pub fn of(lines: impl ExactSizeIterator<Item = &'o str>) -> Lines<'o> {
        let usual = lines.len().min(USUAL);
        let mut all = Lines {
            ids: Vec::with_capacity(lines.len()),
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

    /// The number of a line; nothing if the file has none like it.
    pub fn id_of(&self, line: &str) -> Option<u32> {
        self.numbers.get(line).copied()
    }

    /// What is known of a line of a snippet; nothing if the file has none like it.
    pub fn known(&self, line: &str) -> Option<Known> {
        let id = self.id_of(line)?;
        let (_, count) = self.kinds[id as usize];
        let rarity = f64::from(count).sqrt();
        Some(Known { id, count, worth: ((f64::from(information(line)) / rarity) as i32).max(1) })
    }

    /// Where a line stands, if that is at few places.
    pub fn places(&self, known: &Known, most: usize) -> impl Iterator<Item = usize> {
        let few = known.count as usize <= most;
        self.places_of(known.id).filter(move |_| few)
    }

    /// Where the line of a number stands.
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

    /// How often the line of a number stands in the file.
    pub fn count_of(&self, id: u32) -> usize {
        self.kinds.get(id as usize).map_or(0, |(_, count)| *count as usize)
    }

    /// Where lines of these numbers stand one after another.
    pub fn runs<'r>(&'r self, ids: &'r [u32]) -> impl Iterator<Item = usize> + 'r {
        let from = ids.first().and_then(|&id| self.place_of_first(id)).unwrap_or(self.ids.len());
        let last = self.ids.len().saturating_sub(ids.len());
        (from..=last).filter(move |&at| self.ids[at..].starts_with(ids))
    }

    /// Where a line stands first.
    pub fn place_of_first(&self, id: u32) -> Option<usize> {
        self.kinds.get(id as usize).map(|(first, _)| *first as usize)
    }
}

/// Whether a line tells more by itself than a bracket or a word of three letters.
pub(crate) fn tells_much(text: &str) -> bool {
    letters(text, 4) == 4
}

/// How much a line tells by itself: six units for a long one, half a unit for a lone bracket, next to nothing for a blank one.
pub(crate) fn information(text: &str) -> i32 {
    match letters(text, 24) {
        0 if text.trim().is_empty() => UNIT / 20,
        0 => UNIT / 2,
        1..=3 => UNIT,
        letters => (UNIT * (letters + 4) / 4).min(6 * UNIT),
    }
}

/// How many letters and digits a line has, up to so many.
fn letters(text: &str, most: usize) -> i32 {
    let mut letters = 0;
    for byte in text.bytes() {
        if !byte.is_ascii() {
            return text.chars().filter(|c| c.is_alphanumeric()).take(most).count() as i32;
        }
        letters += usize::from(byte.is_ascii_alphanumeric());
        if letters == most {
            break;
        }
    }
    letters as i32
}

/// From how much on a line can hold a snippet in its place.
pub(crate) const INFORMATIVE: i32 = 2 * UNIT;

/// Whether a line has nothing but blanks.
pub(crate) fn is_blank(line: &str) -> bool {
    // Nearly every line is told by its first byte that is no blank.
    match line.bytes().find(|byte| !matches!(byte, b' ' | b'\t')) {
        None => true,
        Some(byte) => !byte.is_ascii_graphic() && line.chars().all(char::is_whitespace),
    }
}
