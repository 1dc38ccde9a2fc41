//! Snippets written freely: on each side of a change none, one or a few unchanged lines, the head of the block or not, markers or none at
//! the edges, at any depth, set off by blank lines or not.
//!
//! Invariant: without its markers and the blank lines beside them a snippet is lines of the changed file. Where lines go and none is shown
//! beside them, the new line there has most words of the one that it stands for.

use super::chance::Chance;
use super::change::{Change, Hunk, indent};
use super::language::Leader;
use super::lazy::is_marker_like;
use super::scoped::alone;
use super::sketch::{Piece, Place, Sketch, TELLING};
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

/// A snippet with the file that it stands for.
pub struct Snippet {
    /// The style's name.
    pub style: &'static str,
    /// Its text.
    pub text: String,
    /// The file that it means.
    pub truth: String,
    /// How well it names its place.
    pub place: Place,
}

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
    let is_deletion = hunk.new.is_empty();
    let [mut above, mut below] = [chance.below(MAX_CONTEXT), chance.below(MAX_CONTEXT)];
    // A change that stands alone between markers has no place.
    (above, below) = if above + below == 0 { (1, 1) } else { (above, below) };
    let may_be_bare = |old: Option<usize>, new: Option<usize>| match (old, new) {
        (Some(old), Some(new)) => is_another_form(&change.old[old], &change.new[new]),
        _ => false,
    };
    if !hunk.old.is_empty() {
        let is_even = hunk.old.len() == hunk.new.len();
        let ends = [
            may_be_bare(Some(hunk.old.start), (!is_deletion).then_some(hunk.new.start)),
            may_be_bare(Some(hunk.old.end - 1), hunk.new.end.checked_sub(1).filter(|_| !is_deletion)),
        ];
        above = if ends[0] && is_even { above } else { above.max(1) };
        below = if ends[1] && is_even { below } else { below.max(1) };
    }
    let up = (0..hunk.new.start).rev();
    let down = hunk.new.end..change.new.len();
    let start = reach(change, up, above)?.map_or(hunk.new.start, |line| line);
    let end = reach(change, down, below)?.map_or(hunk.new.end, |line| line + 1);
    let mut shown: Vec<Range<usize>> = std::iter::once(start..end).collect();
    if chance.coin()
        && let Some((head, closer)) = change.scope(&(start..end.max(start + 1).min(change.new.len())))
    {
        shown.push(head..head + 1);
        shown.extend(closer.map(|closer| closer..closer + 1));
    }
    let is_told = |range: &Range<usize>| range.len() > 1 || change.kept[range.start].is_some();
    shown.iter().skip(1).all(is_told).then_some(shown)
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

/// Whether a line has at least half of the words of another.
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
    let markers = lines.iter().filter(|line| is_marker_like(line)).count();
    let reads_otherwise =
        markers > sketch.pieces.len() || lines.iter().any(|line| is_marker_like(line) && change.has(line));
    let shows_marker = sketch.shown().any(|range| change.new[range.clone()].iter().any(|line| is_marker_like(line)));
    let place = sketch.place(change, false);
    (!reads_otherwise && !shows_marker).then(|| Snippet {
        style,
        text: lines.join("\n") + "\n",
        truth: change.file(&change.new),
        place,
    })
}

/// Whether the lines beside hidden ones are unchanged and have text, so that blank lines there belong to the marker.
fn is_apart(change: &Change, hidden: &Range<usize>) -> bool {
    let is_plain =
        |at: usize| change.new.get(at).is_none_or(|line| change.kept[at].is_some() && !line.trim().is_empty());
    hidden.start.checked_sub(1).is_none_or(is_plain) && is_plain(hidden.end)
}
