//! A block of lines found in a file: at one place, or not at all.
//!
//! It does not take the first of several places, fold case or look at the ends of a block alone. Invariant: what
//! is found fits line by line, but for white space at the ends of lines and one indentation for the whole block, and no
//! other place fits as well.

use super::lines::{LineIndex, blank_edges, core, indent};
use super::similar;
use crate::outcome::{Code, Refused};
use crate::source::Source;
use std::cell::Cell;
use std::ops::Range;

/// Lines compared in one merge before it is given up.
const WORK_MOST: u64 = 1 << 26;
/// Places named in a refusal.
const PLACES_MOST: usize = 20;
/// How far a line number may be off and still choose.
const HINT_REACH: usize = 10;

/// Finds blocks in one file, with a bound on the work for all of them.
pub(crate) struct Finder<'a> {
    pub lines: LineIndex<'a>,
    /// Lines compared so far.
    work: Cell<u64>,
}

/// What is looked for besides the lines themselves.
#[derive(Clone, Debug)]
pub(crate) struct Wanted<'w> {
    /// What the block is called in a refusal, such as "block 2".
    pub name: &'w str,
    /// Lines that it may begin in.
    pub within: Range<usize>,
    /// The line that it is said to begin in, counted from 0.
    pub near: Option<usize>,
    /// Whether a place exactly at that line is chosen though others are near it.
    pub trusted: bool,
    /// Whether it is said to end with the file.
    pub at_end: bool,
}

/// Where a block stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place<'a> {
    /// Lines of the file.
    pub lines: Range<usize>,
    /// How much further in the file stands than the block.
    pub shift: Shift<'a>,
    /// Blank lines at the start and the end of the block that the file has not.
    pub dropped: (usize, usize),
}

/// What is put before every line, or taken from it, to get from a block to the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Shift<'a> {
    pub added: &'a str,
    pub removed: &'a str,
}

/// How well a block fits, the best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Fit {
    Exact,
    /// White space at the ends of lines differs.
    Trailing,
    /// The indentation of the whole block differs.
    Shifted,
}

impl<'a> Shift<'a> {
    fn between(written: &'a str, stands: &'a str) -> Option<Shift<'a>> {
        if let Some(added) = stands.strip_suffix(written) {
            return Some(Shift { added, removed: "" });
        }
        written.strip_suffix(stands).map(|removed| Shift { added: "", removed })
    }

    /// Whether nothing is shifted.
    pub fn is_none(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}

impl Wanted<'_> {
    /// A block that may stand anywhere.
    pub fn anywhere<'w>(name: &'w str, source: &Source) -> Wanted<'w> {
        Wanted { name, within: 0..source.line_count(), near: None, trusted: false, at_end: false }
    }
}

impl<'a> Finder<'a> {
    /// Reads the lines of a file.
    pub fn new(source: &'a Source) -> Finder<'a> {
        Finder { lines: LineIndex::new(source), work: Cell::new(0) }
    }

    /// The one place where a block stands.
    ///
    /// # Errors
    /// When it stands nowhere, at several places, or the search takes too long.
    pub fn find(&self, block: &[&'a str], wanted: &Wanted<'_>) -> Result<Place<'a>, Refused> {
        if let Some(place) = self.once(block, wanted)? {
            return Ok(place);
        }
        let dropped = blank_edges(block);
        let rest = &block[dropped.0..block.len() - dropped.1];
        if !rest.is_empty() && rest.len() < block.len() {
            // The number named the line that the blank lines begin in.
            let near = wanted.near.map(|line| line + dropped.0);
            if let Some(place) = self.once(rest, &Wanted { near, ..wanted.clone() })? {
                return Ok(Place { dropped, ..place });
            }
        }
        self.charge(block.len() as u64 * 4)?;
        Err(similar::missing(&self.lines, block, wanted.name, &wanted.within))
    }

    /// The place of a block, none if there is none.
    fn once(&self, block: &[&'a str], wanted: &Wanted<'_>) -> Result<Option<Place<'a>>, Refused> {
        let Some((fit, starts)) = self.fits(block, &wanted.within)? else { return Ok(None) };
        if let [start] = starts[..] {
            return Ok(Some(self.place(block, start)));
        }
        let chosen = match wanted.near {
            _ if wanted.at_end => {
                let last = self.lines.source.line_count() - block.len();
                self.is_at(block, last, fit).then_some(last)
            }
            Some(line) if wanted.trusted && self.is_at(block, line, fit) => Some(line),
            Some(line) => self.only_near(block, fit, line, &wanted.within)?,
            None => None,
        };
        match chosen {
            Some(start) => Ok(Some(self.place(block, start))),
            None => Err(ambiguous(block, &starts, wanted.name)),
        }
    }

    /// The one place within reach of a line number.
    fn only_near(
        &self,
        block: &[&'a str],
        fit: Fit,
        line: usize,
        within: &Range<usize>,
    ) -> Result<Option<usize>, Refused> {
        let reach = line.saturating_sub(HINT_REACH).max(within.start)..(line + HINT_REACH + 1).min(within.end);
        Ok(match self.fits(block, &reach)? {
            Some((here, starts)) if here == fit => match starts[..] {
                [start] => Some(start),
                _ => None,
            },
            _ => None,
        })
    }

    fn is_at(&self, block: &[&'a str], start: usize, fit: Fit) -> bool {
        let inside = self.lines.source.line_count() >= start + block.len();
        inside
            && block.iter().enumerate().all(|(at, line)| core(line) == core(self.lines.source.line(start + at)))
            && self.fit(block, start).is_some_and(|(here, _)| here == fit)
    }

    fn place(&self, block: &[&'a str], start: usize) -> Place<'a> {
        let shift = self.fit(block, start).map(|(_, shift)| shift).unwrap_or_default();
        Place { lines: start..start + block.len(), shift, dropped: (0, 0) }
    }

    /// The best fit that there is and where it is, at most one place more than are named.
    fn fits(&self, block: &[&'a str], within: &Range<usize>) -> Result<Option<(Fit, Vec<usize>)>, Refused> {
        let mut ids = Vec::with_capacity(block.len());
        for line in block {
            let Some(id) = self.lines.id(line) else { return Ok(None) };
            ids.push(id);
        }
        let Some((at, rarest)) =
            block.iter().enumerate().map(|(at, line)| (at, self.lines.like(line))).min_by_key(|it| it.1.len())
        else {
            return Ok(None);
        };
        let from = rarest.partition_point(|&line| (line as usize) < within.start + at);
        let mut best: Option<(Fit, Vec<usize>)> = None;
        for &line in &rarest[from..] {
            let start = line as usize - at;
            if start >= within.end || start + ids.len() > self.lines.ids.len() {
                break;
            }
            self.charge(1 + ids.len() as u64 / 16)?;
            if self.lines.ids[start..start + ids.len()] != ids[..] {
                continue;
            }
            self.charge(ids.len() as u64)?;
            let Some((fit, _)) = self.fit(block, start) else { continue };
            match &mut best {
                Some((best_fit, starts)) if *best_fit == fit => {
                    if starts.len() <= PLACES_MOST {
                        starts.push(start);
                    }
                    if fit == Fit::Exact && starts.len() > PLACES_MOST {
                        break;
                    }
                }
                Some((best_fit, _)) if *best_fit < fit => {}
                _ => best = Some((fit, vec![start])),
            }
        }
        Ok(best)
    }

    /// How a block fits where its lines stand, white space aside.
    fn fit(&self, block: &[&'a str], start: usize) -> Option<(Fit, Shift<'a>)> {
        let mut exact = true;
        let mut shift: Option<Shift<'a>> = None;
        for (at, line) in block.iter().enumerate() {
            let stands = self.lines.source.line(start + at);
            exact &= stands == *line;
            if core(line).is_empty() {
                continue;
            }
            let here = Shift::between(indent(line), indent(stands))?;
            if *shift.get_or_insert(here) != here {
                return None;
            }
        }
        let shift = shift.unwrap_or_default();
        Some(match (exact, shift.is_none()) {
            (true, _) => (Fit::Exact, shift),
            (false, true) => (Fit::Trailing, shift),
            (false, false) => (Fit::Shifted, shift),
        })
    }

    /// Counts lines that are compared.
    pub fn charge(&self, lines: u64) -> Result<(), Refused> {
        self.work.set(self.work.get() + lines);
        if self.work.get() <= WORK_MOST {
            return Ok(());
        }
        Err(Refused::new(
            Code::TooLarge,
            "the file repeats the lines of the update so often that the search was given up",
            "write fewer edits at a time, each with a line that stands in the file once",
        ))
    }
}

fn ambiguous(block: &[&str], starts: &[usize], name: &str) -> Refused {
    let count = if starts.len() > PLACES_MOST { format!("more than {PLACES_MOST}") } else { starts.len().to_string() };
    let shown = &starts[..starts.len().min(PLACES_MOST)];
    let text = block
        .iter()
        .find(|line| !core(line).is_empty())
        .map_or_else(|| "a blank line".to_owned(), |line| similar::quoted(line));
    let what = if block.len() == 1 { text } else { format!("the block that begins with {text}") };
    let hint =
        format!("{what} stands at {}; add a line above or below that tells them apart", similar::numbered(shown));
    Refused::new(Code::AmbiguousLocation, format!("{name} fits {count} places"), hint)
        .at(shown.iter().map(|&start| (start, start + block.len().max(1) - 1)))
}

#[cfg(test)]
mod tests;
