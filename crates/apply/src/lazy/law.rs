//! The law of a snippet: a merged text is the parts of the update, in order, with contiguous pieces of the original in the
//! gaps; what lay between two pieces goes only where the part between them stands for it.
//!
//! It knows the three texts and nothing of how the places were found, so it holds for any text, an own one or a model's.
//! Invariant: each line of the original is in a piece, or in a part, or gone between two lines that a part shows next to
//! each other, or replaced by a line at the edge of a part.

use super::held::{Part, Replaced};
use super::indent::indent;
use super::lines::{Lines, is_blank, is_distinctive};
use super::snippet::{Piece, Snippet};
use crate::source::Source;
use crate::splice::Splice;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Lines that are compared, to bound the work of hostile updates.
const MAX_COMPARED: usize = 50_000_000;
/// Ways to read the text up to a part that are followed.
const MAX_WAYS: usize = 256;

/// Blank lines that may set a part off although the update does not show them.
const SET_OFF: usize = 1;

/// Why a text is not what an update makes of an original; lines are counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Breach {
    /// The parts of the update do not stand in the text with pieces of the original between them.
    NotTheParts,
    /// This line of the original is gone, and no line of the update stands for it.
    Lost(usize),
    /// This line of the original is shown at the edge of a part, and the text has it there as a new one.
    Inserted(usize),
    /// A part that begins like this line of the original would stand twice.
    Twice(usize),
    /// There are too many ways in which the text could be the update's.
    TooMuch,
}

/// Checks that a text is what a snippet makes of an original.
pub(crate) fn check<'l>(original: &[&'l str], snippet: &Snippet<'_>, merged: &[&'l str]) -> Result<(), Breach> {
    // Above the first change and below the last one both texts have the same lines, which are numbered once.
    let above = original.iter().zip(merged).take_while(|(old, new)| old == new).count();
    let least = original.len().min(merged.len()) - above;
    let below = original.iter().rev().zip(merged.iter().rev()).take(least);
    let below = below.take_while(|(old, new)| old == new).count();
    let middle = &merged[above..merged.len() - below];
    let all = original.iter().chain(middle).copied();
    let mut numbers = Lines::of_all(original.len() + middle.len(), all);
    let count = numbers.count();
    let middle = numbers.ids.split_off(original.len());
    let ids = std::mem::take(&mut numbers.ids);
    let new = Numbered::of([&ids[..above], &middle, &ids[ids.len() - below..]].concat(), count);
    let old = Numbered::of(ids, count);
    let mut law = Law { original, merged, numbers, old, new, left: MAX_COMPARED, breach: None };
    let mut ways = BTreeSet::from([Way { start: 0, end: 0, from: 0 }]);
    let mut last: Option<Part<'_>> = None;
    for part in parts(snippet) {
        ways = law.with_part(&ways, last.as_ref(), &part)?;
        last = Some(part);
    }
    match last {
        Some(last) if !ways.iter().any(|way| law.ends(way, &last)) => Err(law.why()),
        Some(_) => Ok(()),
        None if original == merged => Ok(()),
        None => Err(Breach::NotTheParts),
    }
}

/// A line of the source that splices, in order, take away although no line of a snippet stands for it.
pub(super) fn line_lost(source: &Source, splices: &[Splice], snippet: &Snippet<'_>) -> Option<usize> {
    let merged = source.spliced(splices, 0..source.text.len());
    let original: Vec<&str> = source.lines().collect();
    let merged: Vec<&str> = merged.split_terminator('\n').collect();
    match check(&original, snippet, &merged) {
        Err(Breach::Lost(line)) if snippet.removals.is_empty() => Some(line),
        _ => None,
    }
}

fn parts<'u>(snippet: &Snippet<'u>) -> Vec<Part<'u>> {
    let mut parts: Vec<Part<'u>> = Vec::new();
    for run in snippet.pieces.split_inclusive(|piece| matches!(piece, Piece::Marker(_))) {
        let line = |piece: &Piece<'u>| match piece {
            Piece::Line(line) => Some(*line),
            Piece::Marker(_) => None,
        };
        let lines: Vec<&'u str> = run.iter().filter_map(line).collect();
        let Some(first) = lines.iter().position(|line| !is_blank(line)) else { continue };
        let end = lines.iter().rposition(|line| !is_blank(line)).map_or(0, |last| last + 1);
        let marker_below = match run.last() {
            Some(Piece::Marker(marker)) => Some(indent(marker.line).len()),
            _ => None,
        };
        let blanks = [first, lines.len() - end];
        parts.push(Part { lines: lines[first..end].to_vec(), blanks, marker_below });
    }
    parts
}

/// Lines as numbers, and where each number stands.
struct Numbered {
    ids: Vec<u32>,
    /// The places, those of one number after those of another, and where those of each begin.
    places: Vec<u32>,
    begins: Vec<u32>,
}

impl Numbered {
    /// Lines whose numbers are less than a count.
    fn of(ids: Vec<u32>, count: usize) -> Numbered {
        let mut begins = vec![0_u32; count + 2];
        ids.iter().for_each(|&id| begins[id as usize + 2] += 1);
        for number in 2..begins.len() {
            begins[number] += begins[number - 1];
        }
        let mut places = vec![0; ids.len()];
        for (at, &id) in ids.iter().enumerate() {
            let next = &mut begins[id as usize + 1];
            places[*next as usize] = at as u32;
            *next += 1;
        }
        Numbered { ids, places, begins }
    }

    /// Where a number stands.
    fn places_of(&self, id: u32) -> &[u32] {
        &self.places[self.begins[id as usize] as usize..self.begins[id as usize + 1] as usize]
    }

    /// Where these numbers stand one after the other, from a line on.
    fn stands(&self, run: &[u32], from: usize) -> Vec<usize> {
        // The number that stands least often is looked for.
        let Some(rarest) = (0..run.len()).min_by_key(|&at| self.places_of(run[at]).len()) else { return Vec::new() };
        let begins = self.places_of(run[rarest]).iter().filter_map(|&place| (place as usize).checked_sub(rarest));
        begins.filter(|&start| start >= from && self.ids[start..].starts_with(run)).collect()
    }
}

/// A way to read the merged text up to a part, the part included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    /// Where the part begins in the merged text, blank lines of it included.
    start: usize,
    /// The line after its last with text.
    end: usize,
    /// The line of the original after the piece above the part.
    from: usize,
}

struct Law<'l> {
    original: &'l [&'l str],
    merged: &'l [&'l str],
    numbers: Lines<'l>,
    old: Numbered,
    new: Numbered,
    left: usize,
    /// The first breach that was met.
    breach: Option<Breach>,
}

impl Law<'_> {
    /// The ways to read the text up to the next part.
    fn with_part(
        &mut self,
        ways: &BTreeSet<Way>,
        last: Option<&Part<'_>>,
        part: &Part<'_>,
    ) -> Result<BTreeSet<Way>, Breach> {
        let places = self.places(part)?;
        let mut next = BTreeSet::new();
        for way in ways {
            for &place in places.iter().filter(|&&place| place >= way.end) {
                let belows = self.blanks(way.end..place, last.map_or(0, |last| last.blanks[1] + SET_OFF));
                for below in 0..=belows {
                    let begin = way.end + below;
                    let aboves =
                        (begin..place).rev().take(part.blanks[0] + SET_OFF).take_while(|&at| is_blank(self.merged[at]));
                    for above in 0..=aboves.count() {
                        let piece = begin..place - above;
                        for start in self.pieces(piece.clone(), way.from, last) {
                            let gone =
                                last.map_or(Ok(()), |last| self.accounts(last, way.start..begin, way.from..start));
                            match gone {
                                Ok(()) => {
                                    next.insert(Way {
                                        start: piece.end,
                                        end: place + part.lines.len(),
                                        from: start + piece.len(),
                                    });
                                }
                                Err(breach) => _ = self.breach.get_or_insert(breach),
                            }
                        }
                    }
                }
                if self.left == 0 || next.len() > MAX_WAYS {
                    return Err(Breach::TooMuch);
                }
            }
        }
        if next.is_empty() { Err(self.why()) } else { Ok(next) }
    }

    /// Whether the text goes on behind the last part as the original does.
    fn ends(&mut self, way: &Way, last: &Part<'_>) -> bool {
        let belows = self.blanks(way.end..self.merged.len(), last.blanks[1] + SET_OFF);
        (0..=belows).any(|below| {
            let begin = way.end + below;
            let piece = &self.new.ids[begin..];
            let start = self.old.ids.len().checked_sub(piece.len()).filter(|&start| start >= way.from);
            let Some(start) = start.filter(|&start| self.old.ids[start..] == *piece) else { return false };
            match self.accounts(last, way.start..begin, way.from..start) {
                Ok(()) => true,
                Err(breach) => {
                    self.breach.get_or_insert(breach);
                    false
                }
            }
        })
    }

    fn why(&self) -> Breach {
        if self.left == 0 { Breach::TooMuch } else { self.breach.unwrap_or(Breach::NotTheParts) }
    }

    /// Where a part stands in the merged text: as it is, or at another indentation as a whole.
    fn places(&mut self, part: &Part<'_>) -> Result<Vec<usize>, Breach> {
        let ids: Option<Vec<u32>> = part.lines.iter().map(|line| self.numbers.id_of(line)).collect();
        let [old, new] =
            [&self.old, &self.new].map(|lines| ids.as_ref().map_or(Vec::new(), |ids| lines.stands(ids, 0)));
        if let Some(&first) = old.first().filter(|_| new.len() > old.len())
            && part.lines.iter().any(|line| is_distinctive(line))
        {
            return Err(Breach::Twice(first));
        }
        if !new.is_empty() {
            return Ok(new);
        }
        self.left = self.left.saturating_sub(self.merged.len());
        let count = part.lines.len();
        let places = 0..(self.merged.len() + 1).saturating_sub(count);
        Ok(places.filter(|&place| is_shifted(&part.lines, &self.merged[place..place + count])).collect())
    }

    /// How many of the first lines are blank, at most so many.
    fn blanks(&self, lines: Range<usize>, most: usize) -> usize {
        lines.take(most).take_while(|&line| is_blank(self.merged[line])).count()
    }

    /// Where a piece of the merged text stands in the original, from a line on. The first piece begins with the file.
    fn pieces(&mut self, piece: Range<usize>, from: usize, last: Option<&Part<'_>>) -> Vec<usize> {
        let run = &self.new.ids[piece];
        self.left = self.left.saturating_sub(run.len() + 1);
        match last {
            None if self.old.ids.starts_with(run) => vec![0],
            None => Vec::new(),
            // A marker that stands for nothing: what the parts around it replace meets somewhere.
            Some(last) if run.is_empty() => {
                (from..=(from + 2 * last.lines.len() + 8).min(self.old.ids.len())).collect()
            }
            Some(_) => self.old.stands(run, from),
        }
    }

    /// Checks that lines of the original are gone because a part, as it stands in the merged text, stands for them.
    fn accounts(&mut self, part: &Part<'_>, new: Range<usize>, old: Range<usize>) -> Result<(), Breach> {
        self.left = self.left.saturating_sub(new.len() + old.len());
        let (gone, comes) = (&self.original[old.clone()], &self.merged[new]);
        let replaced = Replaced::of(gone, comes);
        if let Some(line) = replaced.lost(part) {
            return Err(Breach::Lost(old.start + line));
        }
        let only = |line: &str| match *self.old.places_of(self.numbers.id_of(line)?) {
            [place] => Some(place as usize),
            _ => None,
        };
        match replaced.new_edges().find_map(only) {
            Some(line) => Err(Breach::Inserted(line)),
            None => Ok(()),
        }
    }
}

/// Whether lines are others with one change of their indentation.
fn is_shifted(shown: &[&str], stands: &[&str]) -> bool {
    let mut shift: BTreeMap<&str, &str> = BTreeMap::new();
    shown.iter().zip(stands).all(|(shown, stands)| {
        let same = shown.trim() == stands.trim();
        same && (is_blank(shown) || *shift.entry(indent(shown)).or_insert(indent(stands)) == indent(stands))
    })
}

#[cfg(test)]
mod tests;
