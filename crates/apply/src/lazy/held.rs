//! What a part of an update stands for among the lines of the original that it replaces.
//!
//! Invariant: a line of the original beside a marker is stood for only by a line of the part that is the same, that
//! declares or assigns the same name, or that is alike.

use super::indent::indent;
use super::keys::{Key, declared_name, key};
use super::likeness::are_similar;
use super::lines::{is_blank, is_distinctive};
use imara_diff::{Algorithm, Diff, InternedInput, Interner};
use std::ops::Range;

/// Pairs of lines up to which the smallest difference is looked for, whose work grows with them.
const MAX_MINIMAL: usize = 4_000_000;

/// A part of an update: its lines, without the blank ones at its ends, and how many of those there are.
pub(super) struct Part<'u> {
    pub lines: Vec<&'u str>,
    pub blanks: [usize; 2],
    /// How far the marker below is indented, if one is written.
    pub marker_below: Option<usize>,
}

/// Lines of the original and the lines of a part in their place, blank ones left out.
pub(super) struct Replaced<'l> {
    /// Number and text.
    old: Vec<(usize, &'l str)>,
    new: Vec<&'l str>,
    /// Where they differ, whatever the indentation: the lines that go and those that come.
    hunks: Vec<[Range<usize>; 2]>,
    /// A blank line at the edge of those that go, of which there are more than of those that come.
    blank: Option<usize>,
}

/// Whether lines begin with more blank ones than those in their place, where these do not set the same line off from new lines before it.
fn fewer_blanks<'t>(gone: impl Iterator<Item = &'t str> + Clone, comes: impl Iterator<Item = &'t str> + Clone) -> bool {
    let blanks = |lines: &mut dyn Iterator<Item = &'t str>| lines.take_while(|line| is_blank(line)).count();
    let count = blanks(&mut gone.clone());
    let first = gone.clone().nth(count).map(str::trim);
    let before = comes.clone().position(|line| Some(line.trim()) == first);
    let last_blanks = |at: usize| comes.clone().take(at).fold(0, |run, line| if is_blank(line) { run + 1 } else { 0 });
    count > blanks(&mut comes.clone()).max(before.map_or(0, last_blanks))
}

impl<'l> Replaced<'l> {
    /// The lines of an original and those that stand there now.
    pub fn of(gone: &[&'l str], comes: &[&'l str]) -> Replaced<'l> {
        let old: Vec<(usize, &'l str)> =
            gone.iter().enumerate().map(|(at, line)| (at, *line)).filter(|(_, line)| !is_blank(line)).collect();
        let new: Vec<&'l str> = comes.iter().copied().filter(|line| !is_blank(line)).collect();
        let mut input =
            InternedInput { before: Vec::new(), after: Vec::new(), interner: Interner::new(old.len() + new.len()) };
        input.update_before(old.iter().map(|(_, line)| line.trim()));
        input.update_after(new.iter().map(|line| line.trim()));
        let wide = |range: Range<u32>| range.start as usize..range.end as usize;
        let is_small = old.len().saturating_mul(new.len()) <= MAX_MINIMAL;
        let algorithm = if is_small { Algorithm::MyersMinimal } else { Algorithm::Histogram };
        let diff = Diff::compute(algorithm, &input);
        let hunks = diff.hunks().map(|hunk| [wide(hunk.before), wide(hunk.after)]).collect();
        let above = fewer_blanks(gone.iter().copied(), comes.iter().copied());
        let below = fewer_blanks(gone.iter().rev().copied(), comes.iter().rev().copied());
        let blank = if above { Some(0) } else { gone.len().checked_sub(1).filter(|_| below) };
        Replaced { old, new, hunks, blank }
    }

    /// A line of the original that is gone beyond the outermost ones that the part shows, with nothing in its place.
    pub fn lost(&self, part: &Part<'_>) -> Option<usize> {
        let firm = self.firm();
        // A head of another name, above the same line, is that of the same block.
        let renamed: Vec<usize> = self.hunks.iter().filter_map(|[gone, comes]| self.renamed(gone, comes)).collect();
        for [gone, comes] in &self.hunks {
            let is_between = firm.start < comes.start && comes.end < firm.end;
            if is_between || gone.is_empty() {
                continue;
            }
            // Of a block that has another name only what is stood for goes.
            if renamed.is_empty() && self.is_rest_of_block(part, gone, comes) {
                continue;
            }
            let mut left = self.new[comes.clone()].iter();
            let mut goes = self.old[gone.clone()].iter().filter(|(line, _)| !renamed.contains(line));
            let lost = goes.find(|(_, old)| !left.any(|new| stands_for(new, old)));
            if let Some((line, _)) = lost {
                return Some(*line);
            }
        }
        self.blank
    }

    /// The line of the original that declares what the part declares by another name, where the same line with text is next below both.
    fn renamed(&self, gone: &Range<usize>, comes: &Range<usize>) -> Option<usize> {
        let (line, old) = *self.old[gone.clone()].last()?;
        let new = *self.new[comes.clone()].last()?;
        let declare = declared_name(old).is_some() && declared_name(new).is_some() && indent(old) == indent(new);
        let next = self.old.get(gone.end)?.1;
        (declare && is_distinctive(next) && self.new.get(comes.end) == Some(&next)).then_some(line)
    }

    /// From before the first line of the part that holds what goes below it, to after the last that holds what goes above it: lines of the
    /// original that are the outermost of the part, or say more than a bracket does, of which any other may be meant.
    fn firm(&self) -> Range<usize> {
        let is_new = |at: &usize| self.hunks.iter().any(|[_, comes]| comes.contains(at));
        let count = self.new.len();
        let holds = |at: &usize| !is_new(at) && (*at == 0 || at + 1 == count || is_distinctive(self.new[*at]));
        let first = (0..count).find(holds);
        let last = (0..count).rev().find(holds);
        first.zip(last).map_or(0..0, |(first, last)| first..last + 1)
    }

    /// The outermost lines of the part that are new.
    pub fn new_edges(&self) -> impl Iterator<Item = &'l str> {
        let edges = [self.new.first().map(|_| 0), self.new.len().checked_sub(1)];
        edges.into_iter().flatten().filter(|at| self.is_new(*at)).map(|at| self.new[at])
    }

    /// Whether a line of the part is new, distinctive, and in no declaration that is new.
    fn is_new(&self, at: usize) -> bool {
        let comes = |at: usize| self.hunks.iter().any(|[_, comes]| comes.contains(&at));
        let line = self.new[at];
        let is_in_new = || {
            let mut depth = indent(line).len();
            let heads = (0..at).rev().filter(move |&above| {
                let is_out = indent(self.new[above]).len() < depth;
                if is_out {
                    depth = indent(self.new[above]).len();
                }
                is_out
            });
            heads.into_iter().any(|head| comes(head) && declared_name(self.new[head]).is_some())
        };
        comes(at) && is_distinctive(line) && !is_in_new()
    }

    /// Whether a block without an end of its own, of which the part shows the head, ends in the part as it did in the file: with a line that
    /// leaves it, as deep. Nothing of the block can be meant to stay behind such a line, so the part shows the whole block.
    fn is_rest_of_block(&self, part: &Part<'_>, gone: &Range<usize>, comes: &Range<usize>) -> bool {
        let (Some((_, old)), Some(new)) = (self.old.last(), self.new.last()) else { return false };
        let depth = |line: &str| indent(line).len();
        // The head stands above, or is new in the place of one of its name.
        let head = (0..comes.end).rev().find(|&at| depth(self.new[at]) < depth(new));
        let Some(head) = head.filter(|_| gone.end == self.old.len() && comes.end == self.new.len()) else {
            return false;
        };
        let is_inside = self.old[gone.clone()].iter().all(|(_, line)| depth(line) > depth(self.new[head]))
            || gone.start == 0
                && stands_for(self.new[head], self.old[0].1)
                && depth(self.new[head]) == depth(self.old[0].1);
        let is_out = part
            .marker_below
            .is_none_or(|marker| marker <= depth(part.lines[part.lines.len().saturating_sub(self.new.len() - head)]));
        declared_name(self.new[head]).is_some()
            && is_inside
            && is_out
            && depth(old) == depth(new)
            && leaves(old)
            && leaves(new)
    }
}

/// First words of lines behind which nothing of their block is carried out.
const LEAVING: [&str; 5] = ["return", "raise", "throw", "break", "continue"];

/// Whether nothing of a block is carried out behind a line of it.
fn leaves(line: &str) -> bool {
    let word = line.trim_start().split(|letter: char| !letter.is_alphanumeric() && letter != '_').next();
    word.is_some_and(|word| LEAVING.contains(&word))
}

/// Whether a line of an update stands for one of the file: it declares or assigns the same, or is alike and names nothing else.
fn stands_for(new: &str, old: &str) -> bool {
    match (key(new), key(old)) {
        (Some(Key::Declares(one)), Some(Key::Declares(other))) => one == other,
        (Some(one), Some(other)) if one.name() != other.name() => false,
        (Some(_), Some(_)) => true,
        // Of two lines of brackets neither says that it is the other, unless it is the beginning of it.
        _ if !is_worded(old) => new.trim().starts_with(old.trim()) || old.trim().starts_with(new.trim()),
        _ => are_similar(old, new),
    }
}

fn is_worded(line: &str) -> bool {
    line.contains(char::is_alphanumeric)
}
