//! Which lines of the changed file an update shows and which it hides; whether that describes the change, and names one place.
//!
//! Invariant: the pieces in order are the whole changed file.

use super::change::{Change, Hunk};
use std::ops::Range;

/// Lines of the changed file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    /// They are written.
    Show(Range<usize>),
    /// A marker, or nothing, stands for them.
    Hide(Range<usize>),
}

/// A changed file in pieces that take turns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sketch {
    /// Shown and hidden lines in turn.
    pub pieces: Vec<Piece>,
}

/// How well the unchanged lines of an update name its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// The runs of unchanged lines fit the file before in one way only.
    pub unique: bool,
    /// Each shown part has a run of unchanged lines that stands once in the file before.
    pub anchored: bool,
}

impl Place {
    /// Of an update whose blocks stand once in the file, or do not.
    pub fn of(once: bool) -> Place {
        Place { unique: once, anchored: once }
    }
}

/// Letters and digits of a line that says where it is.
pub const TELLING: usize = 4;
/// Stands for the edge of a file among its lines.
const EDGE: &str = "\0edge";

impl Sketch {
    /// Shows ranges of the changed file, joined where no line with text lies between.
    pub fn of(change: &Change, mut shown: Vec<Range<usize>>) -> Sketch {
        shown.sort_by_key(|range| (range.start, range.end));
        let blank = |range: Range<usize>| change.new[range].iter().all(|line| line.trim().is_empty());
        let mut joined: Vec<Range<usize>> = Vec::new();
        for range in shown {
            match joined.last_mut() {
                Some(last) if range.start <= last.end || blank(last.end..range.start) => {
                    last.end = last.end.max(range.end);
                }
                None if blank(0..range.start) => joined.push(0..range.end),
                _ => joined.push(range),
            }
        }
        if let Some(last) = joined.last_mut().filter(|last| blank(last.end..change.new.len())) {
            last.end = change.new.len();
        }
        let mut pieces = Vec::new();
        let mut at = 0;
        for range in joined {
            if at < range.start {
                pieces.push(Piece::Hide(at..range.start));
            }
            at = range.end;
            pieces.push(Piece::Show(range));
        }
        if at < change.new.len() {
            pieces.push(Piece::Hide(at..change.new.len()));
        }
        Sketch { pieces }
    }

    /// Each hunk with so many lines of context.
    pub fn with_context(change: &Change, context: usize) -> Sketch {
        Sketch::of(change, change.groups(context).into_iter().map(|group| group.new).collect())
    }

    /// The shown ranges.
    pub fn shown(&self) -> impl Iterator<Item = &Range<usize>> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Show(range) => Some(range),
            Piece::Hide(_) => None,
        })
    }

    /// Whether anything is hidden.
    pub fn hides(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Hide(_)))
    }

    /// Whether the pieces, with the hidden lines taken from the file before, give the file after; and whether, if `bounded`,
    /// unchanged lines stand at each bound between shown and hidden ones.
    pub fn is_faithful(&self, change: &Change, bounded: bool) -> bool {
        let mut rebuilt: Vec<&str> = Vec::with_capacity(change.new.len());
        for (number, piece) in self.pieces.iter().enumerate() {
            let hidden = match piece {
                Piece::Show(range) => {
                    rebuilt.extend(change.new[range.clone()].iter().map(String::as_str));
                    continue;
                }
                Piece::Hide(range) => range,
            };
            let (Some(first), Some(last)) = (change.kept[hidden.start], change.kept[hidden.end - 1]) else {
                return false;
            };
            if last - first + 1 != hidden.len() {
                return false;
            }
            rebuilt.extend(change.old[first..=last].iter().map(String::as_str));
            let before = if number == 0 {
                first == 0
            } else {
                change.kept[hidden.start - 1] == first.checked_sub(1) && first > 0
            };
            let after = match change.kept.get(hidden.end) {
                None => last + 1 == change.old.len(),
                Some(kept) => *kept == Some(last + 1),
            };
            if bounded && !(before && after) {
                return false;
            }
        }
        rebuilt.iter().zip(&change.new).all(|(a, b)| a == b) && rebuilt.len() == change.new.len()
    }

    /// Whether the update says what goes: no reading of it leaves more of the file. Where the unchanged lines below a change stand in what goes
    /// as well, the marker may begin there; and what goes at an edge of the file, with nothing in its place, is shown by nothing, as a marker
    /// at an edge may be left out.
    pub fn says_what_goes(&self, change: &Change) -> bool {
        self.shown().all(|range| {
            let inside = |hunk: &&Hunk| range.start <= hunk.new.start && hunk.new.end <= range.end;
            let (Some(first), Some(last)) = (change.hunks.iter().find(inside), change.hunks.iter().rev().find(inside))
            else {
                return true;
            };
            let (above, below) = (&change.new[range.start..first.new.start], &change.new[last.new.end..range.end]);
            let stands = |lines: &[String], at: usize| change.old[at..].starts_with(lines);
            let is_bare =
                |hunk: &Hunk, lines: &[String]| lines.is_empty() && hunk.new.is_empty() && !hunk.old.is_empty();
            let begins_late = !above.is_empty()
                && (first.old.start + 1..=first.old.end)
                    .filter_map(|end| end.checked_sub(above.len()))
                    .any(|start| start + above.len() > first.old.start && stands(above, start));
            let ends_early = !below.is_empty() && last.old.clone().any(|start| stands(below, start));
            !begins_late && !ends_early && !is_bare(first, above) && !is_bare(last, below)
        })
    }

    /// Whether no new line beside a marker is one that the file has: that would be the line that is shown there.
    pub fn ends_are_told(&self, change: &Change) -> bool {
        let is_full = |at: &usize| !change.new[*at].trim().is_empty();
        let says_much = |at: usize| change.new[at].chars().filter(|sign| sign.is_alphanumeric()).count() >= TELLING;
        let is_other = |at: usize| change.kept[at].is_none() && says_much(at) && change.has(&change.new[at]);
        self.shown().all(|range| {
            let above = range.clone().find(is_full).filter(|_| range.start > 0);
            let below = range.clone().rev().find(is_full).filter(|_| range.end < change.new.len());
            ![above, below].into_iter().flatten().any(is_other)
        })
    }

    /// Whether the unchanged lines that are shown name one place. Without `edges` the update does not say that it begins or
    /// ends with the file.
    pub fn place(&self, change: &Change, edges: bool) -> Place {
        let mut runs: Vec<Vec<usize>> = Vec::new();
        let mut anchored = true;
        for shown in self.shown() {
            let of_this = runs_of(change, shown, edges);
            anchored &= of_this.iter().any(|run| places(change, run).len() == 1);
            runs.extend(of_this.into_iter().map(|run| run.lines));
        }
        let runs: Vec<Run> = runs.into_iter().map(|lines| Run { lines }).collect();
        Place { unique: !runs.is_empty() && ways(change, &runs) == 1, anchored: anchored && !runs.is_empty() }
    }
}

/// Unchanged lines one after the other, by their numbers in the file before plus 1; 0 and the number after the last are its
/// edges.
struct Run {
    lines: Vec<usize>,
}

fn runs_of(change: &Change, shown: &Range<usize>, edges: bool) -> Vec<Run> {
    let mut numbers: Vec<usize> = Vec::new();
    if edges && shown.start == 0 {
        numbers.push(0);
    }
    numbers.extend(change.kept[shown.clone()].iter().flatten().map(|line| line + 1));
    if edges && shown.end == change.new.len() {
        numbers.push(change.old.len() + 1);
    }
    // New lines alone do not part a run: its lines still stand together in the file before.
    numbers.chunk_by(|a, b| a + 1 == *b).map(|run| Run { lines: run.to_vec() }).collect()
}

/// First numbers of the places where the lines of a run stand.
fn places(change: &Change, run: &Run) -> Vec<usize> {
    let text = |&number: &usize| {
        if number == 0 || number > change.old.len() { EDGE } else { change.old[number - 1].as_str() }
    };
    let (front, back) = (run.lines.first() == Some(&0), run.lines.last() == Some(&(change.old.len() + 1)));
    let inner: Vec<&str> = run.lines.iter().map(text).filter(|line| *line != EDGE).collect();
    if inner.is_empty() {
        return vec![run.lines[0]];
    }
    let mut places: Vec<usize> = change.places_of(&inner).into_iter().map(|place| place + 1).collect();
    if front {
        places.retain(|&place| place == 1);
    }
    if back {
        places.retain(|&place| place + inner.len() == change.old.len() + 1);
    }
    places
}

/// In how many ways runs can stand in the file before, in order; more than one counts as two.
fn ways(change: &Change, runs: &[Run]) -> usize {
    // Ends of the runs so far, and the ways in which they can end there.
    let mut ends: Vec<(usize, usize)> = vec![(0, 1)];
    for run in runs {
        let length = run.lines.len() - usize::from(run.lines.len() > 1 && run.lines[0] == 0);
        let mut next = Vec::new();
        let (mut seen, mut sum) = (0, 0_usize);
        for place in places(change, run) {
            while seen < ends.len() && ends[seen].0 <= place {
                sum = (sum + ends[seen].1).min(2);
                seen += 1;
            }
            if sum > 0 {
                next.push((place + length, sum));
            }
        }
        ends = next;
    }
    ends.iter().map(|(_, ways)| ways).sum::<usize>().min(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(old: &str, new: &str) -> Change {
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect();
        Change::between(lines(old), lines(new), true).expect("a change")
    }

    #[test]
    fn a_place_is_unique_when_its_lines_fit_once() {
        let once = change("a b c d e f g h", "a b c X e f g h");
        assert_eq!(Sketch::with_context(&once, 1).place(&once, true), Place { unique: true, anchored: true });
        let twice = change("a b d e f a b d e q r s", "a b X e f a b d e q r s");
        let place = Sketch::with_context(&twice, 1).place(&twice, true);
        assert_eq!(place, Place { unique: false, anchored: false });
        let told_by_one_side = change("a b d } f g h } e q r }", "a b X } f g h } e q r }");
        let place = Sketch::with_context(&told_by_one_side, 1).place(&told_by_one_side, true);
        assert_eq!(place, Place { unique: false, anchored: true });
    }

    #[test]
    fn an_edge_names_its_place_only_if_it_is_told() {
        let change = change("a a b c d e f g a", "X a a b c d e f g a");
        let sketch = Sketch::with_context(&change, 1);
        assert!(sketch.place(&change, true).unique);
        assert!(!sketch.place(&change, false).unique);
    }

    #[test]
    fn an_update_says_what_goes_if_no_reading_leaves_more() {
        let says = |old: &str, new: &str, context: usize| {
            let change = change(old, new);
            Sketch::with_context(&change, context).says_what_goes(&change)
        };
        assert!(says("a b c d e f g h", "a b X e f g h", 1));
        // The bracket that is shown may be the nearer one.
        assert!(!says("a b c } g h } e f i j", "a b X } e f i j", 1));
        assert!(says("a b c } g h } e f i j", "a b X } e f i j", 2));
        assert!(!says("a b { c d { e f g h i", "a b { X e f g h i", 1));
        // Nothing says that the first line goes.
        assert!(!says("a b c d e f g h", "b c d e f g h", 1));
    }

    #[test]
    fn a_marker_that_covers_a_change_is_found() {
        let change = change("a b c d e f g h i j k", "a b X d e f g h Y j k");
        assert!(Sketch::with_context(&change, 1).is_faithful(&change, true));
        assert!(!Sketch::of(&change, Vec::from_iter([1..3, 3..4])).is_faithful(&change, true));
        assert!(!Sketch::of(&change, vec![2..3, 8..9]).is_faithful(&change, true), "no line bounds the change");
        assert!(Sketch::of(&change, vec![2..3, 8..9]).is_faithful(&change, false));
    }
}
