//! The law of a snippet: a merged text is the parts of the update, in order, with contiguous pieces of the original in the
//! gaps; what lay between two pieces goes only where the part between them stands for it.
//!
//! It knows the three texts and nothing of how the places were found, so it holds for any text, an own one or a model's.
//! Invariant: each line of the original is in a piece, or in a part, or gone between two lines that a part shows next to
//! each other, or replaced by a line at the edge of a part.

use super::held::{Part, Replaced, Seen, Texts};
use super::indent::indent;
use super::lines::{Lines, is_blank, is_distinctive};
use super::snippet::{Piece, Snippet};
use crate::numbered::Places;
use crate::source::Source;
use crate::splice::Splice;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Lines that are compared, to bound the work of hostile updates.
const MAX_COMPARED: usize = 50_000_000;
/// Ways to read the text up to a part that are followed.
const MAX_WAYS: usize = 256;

/// Bytes that are compared at once.
const CHUNK: usize = 256;

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

/// Checks that a text, with LF, is what a snippet makes of an original.
pub(crate) fn check(original: &Source, snippet: &Snippet<'_>, merged: &str) -> Result<(), Breach> {
    let lines = Lines::of(original);
    // Above the first change and below the last one both texts have the same lines, which are numbered already.
    let (same, middle) = changed(original, merged);
    let mut texts = Texts::of(&lines);
    let middle: Vec<u32> = middle.into_iter().map(|line| texts.number(line)).collect();
    let ids = [&lines.ids[..same.start], &middle, &lines.ids[same.end..]].concat();
    let new = Numbered { places: Places::of(&ids, texts.count()), ids };
    let mut law = Law { lines: &lines, new, seen: Seen::of(texts), left: MAX_COMPARED, breach: None };
    let mut ways = BTreeSet::from([Way { start: 0, end: 0, from: 0 }]);
    let mut last: Option<Part<'_>> = None;
    for part in parts(snippet) {
        ways = law.with_part(&ways, last.as_ref(), &part)?;
        last = Some(part);
    }
    match last {
        Some(last) if !ways.iter().any(|way| law.ends(way, &last)) => Err(law.why()),
        Some(_) => Ok(()),
        None if *lines.ids == law.new.ids => Ok(()),
        None => Err(Breach::NotTheParts),
    }
}

/// The lines of an original that another text may not have, and those that this has in their place: all others are the same.
fn changed<'m>(original: &Source, merged: &'m str) -> (Range<usize>, Vec<&'m str>) {
    let count = original.line_count();
    let (old, new) = (original.text.as_bytes(), merged.as_bytes());
    let above = common(old, new);
    if count == 0 || above == old.len() && above == new.len() {
        return (count..count, merged.split_terminator('\n').filter(|_| count == 0).collect());
    }
    // The line in which they differ, or end, is the first that may be another.
    let first = original.line_of(above).min(count - 1);
    let from = original.bytes_of(first..first).start;
    let below = common_at_end(&old[from..], &new[from..]);
    // What is the same begins behind the end of a line.
    let end = memchr::memchr(b'\n', &old[old.len() - below..]).map_or(old.len(), |end| old.len() - below + end + 1);
    let to = (end + new.len()).checked_sub(old.len()).filter(|_| end < old.len()).unwrap_or(new.len());
    let last = if end < old.len() { original.line_of(end) } else { count };
    (first..last, merged[from..to].split_terminator('\n').collect())
}

/// How many bytes two texts have in common at the beginning: compared many at once.
fn common(one: &[u8], other: &[u8]) -> usize {
    let many = one.chunks(CHUNK).zip(other.chunks(CHUNK)).take_while(|(one, other)| one == other);
    let least = (CHUNK * many.count()).min(one.len()).min(other.len());
    least + one[least..].iter().zip(&other[least..]).take_while(|(one, other)| one == other).count()
}

/// The same at the end.
fn common_at_end(one: &[u8], other: &[u8]) -> usize {
    let many = one.rchunks(CHUNK).zip(other.rchunks(CHUNK)).take_while(|(one, other)| one == other);
    let least = (CHUNK * many.count()).min(one.len()).min(other.len());
    let (one, other) = (&one[..one.len() - least], &other[..other.len() - least]);
    least + one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count()
}

/// A line of the source that splices, in order, take away although no line of a snippet stands for it.
pub(super) fn line_lost(source: &Source, splices: &[Splice], snippet: &Snippet<'_>) -> Option<usize> {
    match check(source, snippet, &source.spliced(splices, 0..source.text.len())) {
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
    places: Places,
}

/// Where these numbers stand one after the other, from a line on, among others.
fn stands(ids: &[u32], places: &Places, run: &[u32], from: usize) -> Vec<usize> {
    // The number that stands least often is looked for.
    let Some(rarest) = (0..run.len()).min_by_key(|&at| places.of_id(run[at]).len()) else { return Vec::new() };
    let begins = places.of_id(run[rarest]).iter().filter_map(|&place| (place as usize).checked_sub(rarest));
    begins.filter(|&start| start >= from && ids[start..].starts_with(run)).collect()
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
    /// The original.
    lines: &'l Lines<'l>,
    /// The merged text.
    new: Numbered,
    seen: Seen<'l>,
    left: usize,
    /// The first breach that was met.
    breach: Option<Breach>,
}

/// What was found of the lines of the merged text and of the original that a part may stand for.
type Accounts = BTreeMap<[usize; 4], Result<(), Breach>>;

impl Law<'_> {
    /// The ways to read the text up to the next part.
    fn with_part(
        &mut self,
        ways: &BTreeSet<Way>,
        last: Option<&Part<'_>>,
        part: &Part<'_>,
    ) -> Result<BTreeSet<Way>, Breach> {
        let places = self.places(part)?;
        let (mut next, mut known) = (BTreeSet::new(), Accounts::new());
        for way in ways {
            for &place in places.iter().filter(|&&place| place >= way.end) {
                let belows = self.blanks(way.end..place, last.map_or(0, |last| last.blanks[1] + SET_OFF));
                for below in 0..=belows {
                    let begin = way.end + below;
                    let aboves =
                        (begin..place).rev().take(part.blanks[0] + SET_OFF).take_while(|&at| is_blank(self.text(at)));
                    for above in 0..=aboves.count() {
                        let piece = begin..place - above;
                        for start in self.pieces(piece.clone(), way.from, last) {
                            let lines = [way.start..begin, way.from..start];
                            let (start, from) = (piece.end, start + piece.len());
                            let way = Way { start, end: place + part.lines.len(), from };
                            // Another way leads there, and of several breaches the first is told.
                            if self.breach.is_some() && next.contains(&way) {
                                self.compared(&lines);
                                continue;
                            }
                            let gone = last.map_or(Ok(()), |last| self.accounts(last, lines, &mut known));
                            match gone {
                                Ok(()) => _ = next.insert(way),
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
        let belows = self.blanks(way.end..self.new.ids.len(), last.blanks[1] + SET_OFF);
        (0..=belows).any(|below| {
            let begin = way.end + below;
            let (piece, old) = (&self.new.ids[begin..], self.lines.ids);
            let start = old.len().checked_sub(piece.len()).filter(|&start| start >= way.from);
            let Some(start) = start.filter(|&start| old[start..] == *piece) else { return false };
            match self.accounts(last, [way.start..begin, way.from..start], &mut Accounts::new()) {
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
        let ids: Option<Vec<u32>> = part.lines.iter().map(|line| self.seen.texts.id_of(line)).collect();
        let (before, after) = ((self.lines.ids, self.lines.places()), (&*self.new.ids, &self.new.places));
        let [old, new] =
            [before, after].map(|(all, places)| ids.as_ref().map_or(Vec::new(), |ids| stands(all, places, ids, 0)));
        if let Some(&first) = old.first().filter(|_| new.len() > old.len())
            && part.lines.iter().any(|line| is_distinctive(line))
        {
            return Err(Breach::Twice(first));
        }
        if !new.is_empty() {
            return Ok(new);
        }
        self.left = self.left.saturating_sub(self.new.ids.len());
        let count = part.lines.len();
        let places = 0..(self.new.ids.len() + 1).saturating_sub(count);
        let stands = |place: usize| (place..place + count).map(|line| self.text(line));
        Ok(places.filter(|&place| is_shifted(&part.lines, stands(place))).collect())
    }

    /// A line of the merged text.
    fn text(&self, line: usize) -> &str {
        self.seen.texts.text(self.new.ids[line])
    }

    /// How many of the first lines are blank, at most so many.
    fn blanks(&self, lines: Range<usize>, most: usize) -> usize {
        lines.take(most).take_while(|&line| is_blank(self.text(line))).count()
    }

    /// Where a piece of the merged text stands in the original, from a line on. The first piece begins with the file.
    fn pieces(&mut self, piece: Range<usize>, from: usize, last: Option<&Part<'_>>) -> Vec<usize> {
        let run = &self.new.ids[piece];
        self.left = self.left.saturating_sub(run.len() + 1);
        match last {
            None if self.lines.ids.starts_with(run) => vec![0],
            None => Vec::new(),
            // A marker that stands for nothing: what the parts around it replace meets somewhere.
            Some(last) if run.is_empty() => {
                (from..=(from + 2 * last.lines.len() + 8).min(self.lines.ids.len())).collect()
            }
            Some(_) => stands(self.lines.ids, self.lines.places(), run, from),
        }
    }

    /// Counts lines that are compared.
    fn compared(&mut self, lines: &[Range<usize>; 2]) {
        self.left = self.left.saturating_sub(lines[0].len() + lines[1].len());
    }

    /// Checks that lines of the original are gone because a part, as it stands in the merged text, stands for them.
    fn accounts(&mut self, part: &Part<'_>, lines: [Range<usize>; 2], known: &mut Accounts) -> Result<(), Breach> {
        self.compared(&lines);
        let [new, old] = lines;
        let key = [new.start, new.end, old.start, old.end];
        if let Some(accounts) = known.get(&key) {
            return *accounts;
        }
        let only = |id: u32| match *self.lines.all_places_of(id) {
            [place] => Some(place as usize),
            _ => None,
        };
        // Of several breaches the first is told.
        let (gone, comes) = (&self.lines.ids[old.clone()], &self.new.ids[new]);
        let accounts = match Replaced::of(gone, comes, &mut self.seen, self.breach.is_some()) {
            None => Err(Breach::Lost(old.start)),
            Some(replaced) => match replaced.lost(part, &mut self.seen) {
                Some(line) => Err(Breach::Lost(old.start + line)),
                None => replaced
                    .new_edges(&self.seen.texts)
                    .find_map(only)
                    .map_or(Ok(()), |line| Err(Breach::Inserted(line))),
            },
        };
        known.insert(key, accounts);
        accounts
    }
}

/// Whether lines are others with one change of their indentation.
fn is_shifted<'s>(shown: &[&'s str], stands: impl Iterator<Item = &'s str>) -> bool {
    let mut shift: BTreeMap<&str, &str> = BTreeMap::new();
    shown.iter().zip(stands).all(|(shown, stands)| {
        let same = shown.trim() == stands.trim();
        same && (is_blank(shown) || *shift.entry(indent(shown)).or_insert(indent(stands)) == indent(stands))
    })
}

#[cfg(test)]
mod tests;
