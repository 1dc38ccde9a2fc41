//! Snippets written freely: on each side of a change none, one or a few unchanged lines, the head of the block or not, markers or none at
//! the edges, at any depth, set off by blank lines or not.
//!
//! Invariant: without its markers and the blank lines beside them a snippet is lines of the changed file. Where lines go and none is shown
//! beside them, the new line there has most words of the one that it stands for.

use super::chance::Chance;
use super::change::{Change, Hunk, indent};
use super::language::Leader;
use super::lazy::{is_marker_like, reads_like_markers};
use super::scoped::{Snippet, alone};
use super::sketch::{Piece, Sketch, TELLING};
use std::collections::BTreeMap;
use std::ops::Range;

/// Hunks of a change that are written alone, each as a change of its own.
const MAX_ALONE: usize = 3;
/// Most hunks of an update that shows several.
const MAX_HUNKS: usize = 6;
/// Most unchanged lines on a side of a change.
const MAX_CONTEXT: usize = 4;
/// Lines up to the last one that says where it is.
const MAX_REACH: usize = 8;
/// What models write in place of the rest.
const PHRASES: [&str; 8] = [
    "... existing code ...",
    "... rest of the code ...",
    "... rest of the file ...",
    "... (unchanged) ...",
    "... other methods ...",
    "... keep the rest unchanged ...",
    "... remaining code ...",
    "...",
];

/// The snippets of a change as a whole and of its hunks alone.
pub fn snippets(change: &Change, leader: Leader, chance: &mut Chance) -> Vec<Snippet> {
    let mut snippets = Vec::new();
    if (2..=MAX_HUNKS).contains(&change.hunks.len()) {
        snippets.extend(written(change, "several in one update", leader, chance));
    }
    let mut order: Vec<usize> = (0..change.hunks.len()).collect();
    chance.shuffle(&mut order);
    for number in order.into_iter().take(MAX_ALONE) {
        let Some(alone) = alone(change, &change.hunks[number]) else { continue };
        let [hunk] = &alone.hunks[..] else { continue };
        let style = match (hunk.old.is_empty(), hunk.new.is_empty()) {
            (true, _) => "new lines",
            (_, true) => "lines deleted",
            _ => "lines changed",
        };
        snippets.extend(written(&alone, style, leader, chance));
    }
    snippets
}

/// The lines that are shown around a hunk, if they say what goes.
fn around(change: &Change, hunk: &Hunk, chance: &mut Chance) -> Option<Vec<Range<usize>>> {
    let [mut above, mut below] = [chance.below(MAX_CONTEXT), chance.below(MAX_CONTEXT)];
    // A change that stands alone between markers has no place.
    (above, below) = if above + below == 0 { (1, 1) } else { (above, below) };
    if !hunk.old.is_empty() {
        let (old, new) = (&change.old[hunk.old.clone()], &change.new[hunk.new.clone()]);
        let may_be_bare = |at: usize| old.len() == new.len() && is_another_form(&old[at], &new[at]);
        above = if may_be_bare(0) { above } else { above.max(1) };
        below = if may_be_bare(old.len() - 1) { below } else { below.max(1) };
    }
    let up = (0..hunk.new.start).rev();
    let down = hunk.new.end..change.new.len();
    let start = reach(change, up, above)?.unwrap_or(hunk.new.start);
    let end = reach(change, down, below)?.map_or(hunk.new.end, |line| line + 1);
    let mut scope: Vec<usize> = Vec::new();
    if chance.coin()
        && let Some((head, closer)) = change.scope(&(start..end.max(start + 1).min(change.new.len())))
    {
        scope.push(head);
        scope.extend(closer);
    }
    // A head or a closer that changed would need its own context.
    let is_kept = scope.iter().all(|&line| change.kept[line].is_some());
    is_kept.then(|| std::iter::once(start..end).chain(scope.into_iter().map(|line| line..line + 1)).collect())
}

/// The last of so many lines that say where they are: brackets and blank lines between them do not count. None are left out where the file
/// ends before.
fn reach(change: &Change, lines: impl Iterator<Item = usize>, count: usize) -> Option<Option<usize>> {
    let tells = |line: &usize| {
        let text = &change.new[*line];
        text.chars().filter(|sign| sign.is_alphanumeric()).count() >= TELLING && change.places_of(&[text]).len() <= 2
    };
    match count {
        0 => Some(None),
        count => lines.take(MAX_REACH).filter(tells).nth(count - 1).map(Some),
    }
}

/// Whether two lines, as deep, have six tenths of the words of the shorter one in common.
fn is_another_form(old: &str, new: &str) -> bool {
    let words = |line: &'_ str| -> BTreeMap<String, usize> {
        let mut words = BTreeMap::new();
        let all = line.split(|sign: char| !sign.is_alphanumeric() && sign != '_').filter(|word| !word.is_empty());
        all.for_each(|word| *words.entry(word.to_owned()).or_default() += 1);
        words
    };
    let (old_words, new_words) = (words(old), words(new));
    let common: usize = old_words.iter().map(|(word, count)| *count.min(new_words.get(word).unwrap_or(&0))).sum();
    let least = old_words.values().sum::<usize>().min(new_words.values().sum());
    indent(old) == indent(new) && least > 1 && common * 10 >= least * 6
}

fn written(change: &Change, style: &'static str, leader: Leader, chance: &mut Chance) -> Option<Snippet> {
    let mut shown: Vec<Range<usize>> = Vec::new();
    for hunk in &change.hunks {
        shown.extend(around(change, hunk, chance)?);
    }
    let sketch = Sketch::of(change, shown);
    if !sketch.hides()
        || !sketch.is_faithful(change, false)
        || !sketch.says_what_goes(change)
        || !sketch.ends_are_told(change)
    {
        return None;
    }
    // A marker at an edge is left out where what is shown there is a line of the file.
    let is_kept = |line: usize| change.kept[line].is_some() && !change.new[line].trim().is_empty();
    let first = sketch.shown().next().is_some_and(|range| is_kept(range.start));
    let last = sketch.shown().last().is_some_and(|range| is_kept(range.end - 1));
    let edges = [!first || chance.below(3) > 0, !last || chance.below(3) > 0];
    let phrase = *chance.one_of(&PHRASES);
    let (is_deep, is_set_off) = (chance.below(4) > 0, chance.below(3) == 0);
    let mut lines: Vec<String> = Vec::new();
    let end = sketch.pieces.len() - 1;
    for (number, piece) in sketch.pieces.iter().enumerate() {
        match piece {
            Piece::Show(range) => lines.extend(change.new[range.clone()].iter().cloned()),
            Piece::Hide(_) if number == 0 && !edges[0] || number == end && !edges[1] => {}
            Piece::Hide(range) => {
                let hidden = change.new[range.clone()].iter().find(|line| !line.trim().is_empty());
                let blanks = hidden.filter(|_| is_deep).map_or("", |line| &line[..indent(line)]);
                let is_off = is_set_off && is_apart(change, range);
                lines.extend((is_off && number > 0).then(String::new));
                lines.push(format!("{blanks}{} {phrase}{}", leader.0, leader.1));
                lines.extend((is_off && number < end).then(String::new));
            }
        }
    }
    let reads_otherwise =
        reads_like_markers(change, &sketch) || lines.iter().any(|line| is_marker_like(line) && change.has(line));
    let (truth, place) = (change.file(&change.new), sketch.place(change, false));
    (!reads_otherwise).then(|| Snippet { style, text: lines.join("\n") + "\n", truth, place })
}

/// Whether the lines beside hidden ones are unchanged and have text, so that blank lines there belong to the marker.
fn is_apart(change: &Change, hidden: &Range<usize>) -> bool {
    let is_plain =
        |at: usize| change.new.get(at).is_none_or(|line| change.kept[at].is_some() && !line.trim().is_empty());
    hidden.start.checked_sub(1).is_none_or(is_plain) && is_plain(hidden.end)
}
