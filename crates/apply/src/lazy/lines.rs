//! Lines of a file as numbers: equal lines have equal numbers.
//!
//! Invariant: the worth of matching a line falls with the number of its occurrences in the file.

use crate::numbered::{Numbers, Places};
use crate::source::Source;
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;

/// One unit of worth; a long line that occurs once is worth six.
pub(crate) const UNIT: i32 = 100;

/// Lines that a message names.
const MAX_NAMED: usize = 6;

/// The lines of a file.
pub(crate) struct Lines<'o> {
    source: &'o Source,
    numbers: &'o Numbers,
    /// The number of each line.
    pub ids: &'o [u32],
    /// How much each line says, once it is asked for.
    says: OnceCell<Vec<Says>>,
    /// What is known of blocks by the lines that head them.
    pub(super) blocks: RefCell<BTreeMap<usize, Block>>,
}

/// The lines inside of a block, the line that closes it, and how many lines were read to find them.
pub(super) type Block = (Range<usize>, Option<usize>, usize);

/// How much a line says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Says {
    /// It is blank.
    Nothing,
    /// It is a bracket or a short word.
    Little,
    /// It is more.
    Much,
}

impl Says {
    /// That of a line.
    pub fn of(line: &str) -> Says {
        match () {
            () if is_blank(line) => Says::Nothing,
            () if is_distinctive(line) => Says::Much,
            () => Says::Little,
        }
    }
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
    /// Those of a file.
    pub fn of(source: &'o Source) -> Lines<'o> {
        let numbers = source.numbers();
        Lines { source, numbers, ids: &numbers.ids, says: OnceCell::new(), blocks: RefCell::default() }
    }

    /// How much each line says.
    pub(super) fn says(&self) -> &[Says] {
        self.says.get_or_init(|| {
            let all: Vec<Says> = (0..self.count() as u32).map(|id| Says::of(self.text(id))).collect();
            self.ids.iter().map(|&id| all[id as usize]).collect()
        })
    }

    /// Where each number stands.
    pub fn places(&self) -> &'o Places {
        &self.numbers.places
    }

    /// How many numbers there are.
    pub fn count(&self) -> usize {
        self.numbers.places.count()
    }

    /// The number of a line; nothing if the file has none like it.
    pub fn id_of(&self, line: &str) -> Option<u32> {
        self.numbers.id_of(line, |at| self.source.line(at))
    }

    /// The statistics of a snippet's line; `None` if the file has none like it.
    pub fn stats(&self, line: &str) -> Option<LineStats> {
        let id = self.id_of(line)?;
        let count = self.all_places_of(id).len() as u32;
        let rarity = f64::from(count).sqrt();
        Some(LineStats { id, count, worth: ((f64::from(information(line)) / rarity) as i32).max(1) })
    }

    /// The places of a line, if they are at most `max`.
    pub fn few_places(&self, stats: &LineStats, max: usize) -> impl Iterator<Item = usize> {
        let few = stats.count as usize <= max;
        self.places_of(stats.id).filter(move |_| few)
    }

    /// The places of the line with that number.
    pub fn places_of(&self, id: u32) -> impl Iterator<Item = usize> + use<'o> {
        self.all_places_of(id).iter().map(|&place| place as usize)
    }

    /// The same as numbers.
    pub fn all_places_of(&self, id: u32) -> &'o [u32] {
        self.numbers.places.of_id(id)
    }

    /// The line of a number.
    pub fn text(&self, id: u32) -> &'o str {
        self.place_of_first(id).map_or("", |first| self.source.line(first))
    }

    /// How often the line of a number occurs in the file.
    pub fn count_of(&self, id: u32) -> usize {
        self.all_places_of(id).len()
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
        self.all_places_of(id).first().map(|&first| first as usize)
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

/// A byte of a sign that is not ASCII.
const NO_ASCII: u8 = 2;
/// Whether each byte is a letter or a digit (1), another one of ASCII (0), or none.
const KINDS: [u8; 256] = {
    let (mut kinds, mut byte) = ([NO_ASCII; 256], 0_u8);
    while byte.is_ascii() {
        kinds[byte as usize] = byte.is_ascii_alphanumeric() as u8;
        byte += 1;
    }
    kinds
};

/// The number of letters and digits of a line, at most `max`.
fn letters(text: &str, max: usize) -> i32 {
    let mut letters = 0;
    for &byte in &text.as_bytes()[blanks(text)..] {
        match KINDS[usize::from(byte)] {
            NO_ASCII => return text.chars().filter(|c| c.is_alphanumeric()).take(max).count() as i32,
            kind => letters += usize::from(kind),
        }
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
    match line.as_bytes().get(blanks(line)) {
        None => true,
        Some(byte) => !byte.is_ascii_graphic() && line.chars().all(char::is_whitespace),
    }
}

/// How many blanks and tabs a line begins with.
pub(super) fn blanks(line: &str) -> usize {
    let bytes = line.as_bytes();
    // Most lines begin with blanks, if with any: many are compared at once.
    let (words, _) = bytes.as_chunks::<8>();
    let whole = 8 * words.iter().take_while(|word| **word == [b' '; 8]).count();
    whole + bytes[whole..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// The first lines of places, each once, as a message names them: `line 3`, `lines 3 and 9`.
pub(super) fn named(at: &[(usize, usize)]) -> String {
    let mut firsts: Vec<usize> = at.iter().map(|(first, _)| first + 1).collect();
    firsts.sort_unstable();
    firsts.dedup();
    let shown: Vec<String> = firsts.iter().take(MAX_NAMED).map(usize::to_string).collect();
    format!("{} {}", if shown.len() == 1 { "line" } else { "lines" }, shown.join(" and "))
}
