//! What a part of an update stands for among the lines of the original that it replaces.
//!
//! Invariant: a line of the original beside a marker is stood for only by a line of the part that is the same, that
//! declares or assigns the same name, or that is alike.

use super::indent::indent;
use super::keys::{Key, declared_name, key};
use super::likeness::are_similar;
use super::lines::{Lines, is_distinctive};
use imara_diff::{Algorithm, Diff, Token};
use std::collections::BTreeMap;
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

/// Lines by numbers: those of an original, and further ones.
pub(super) struct Texts<'l> {
    lines: &'l Lines<'l>,
    more: Vec<&'l str>,
    numbers: BTreeMap<&'l str, u32>,
}

impl<'l> Texts<'l> {
    /// Those of an original.
    pub fn of(lines: &'l Lines<'l>) -> Texts<'l> {
        Texts { lines, more: Vec::new(), numbers: BTreeMap::default() }
    }

    /// How many numbers there are.
    pub fn count(&self) -> usize {
        self.lines.count() + self.more.len()
    }

    /// The number of a line, if there is one like it.
    pub fn id_of(&self, line: &str) -> Option<u32> {
        self.lines.id_of(line).or_else(|| self.numbers.get(line).copied())
    }

    /// The number of a line, a new one if there is none like it.
    pub fn number(&mut self, line: &'l str) -> u32 {
        self.id_of(line).unwrap_or_else(|| {
            let id = self.count() as u32;
            self.more.push(line);
            self.numbers.insert(line, id);
            id
        })
    }

    /// The line of a number.
    pub fn text(&self, id: u32) -> &'l str {
        match (id as usize).checked_sub(self.lines.count()) {
            Some(more) => self.more.get(more).copied().unwrap_or_default(),
            None => self.lines.text(id),
        }
    }
}

/// The number of a line of which nothing was asked yet.
const UNSEEN: u32 = u32::MAX;
/// The number of all blank lines, whatever their white space.
const BLANK: u32 = 0;

/// What is known of lines by their numbers, each found when it is first asked for.
pub(super) struct Seen<'l> {
    pub texts: Texts<'l>,
    /// The number of what each line is without the blanks around it.
    trimmed: Vec<u32>,
    words: BTreeMap<&'l str, u32>,
    /// Which lines stand for which.
    stands_for: BTreeMap<(u32, u32), bool>,
    /// For each number of words, the last comparison in which it was met, and its token there.
    tokens: Vec<(u32, u32)>,
    comparisons: u32,
}

impl<'l> Seen<'l> {
    /// What is known of lines: nothing yet.
    pub fn of(texts: Texts<'l>) -> Seen<'l> {
        let trimmed = vec![UNSEEN; texts.count()];
        let (words, stands_for) = (BTreeMap::from([("", BLANK)]), BTreeMap::default());
        Seen { texts, trimmed, words, stands_for, tokens: Vec::new(), comparisons: 0 }
    }

    /// The words of two lists of lines as tokens, numbered in the order in which they are first met, blank lines left out; and how many there are.
    fn tokens(&mut self, lists: [&[u32]; 2]) -> ([Vec<Token>; 2], u32) {
        self.comparisons += 1;
        self.tokens.resize(self.words.len(), (0, 0));
        let mut count = 0;
        let mut token = |words: u32| {
            let known = &mut self.tokens[words as usize];
            if known.0 != self.comparisons {
                *known = (self.comparisons, count);
                count += 1;
            }
            Token(known.1)
        };
        let full = |list: &[u32]| list.iter().copied().filter(|words| *words != BLANK).map(&mut token).collect();
        (lists.map(full), count)
    }

    fn trimmed(&mut self, id: u32) -> u32 {
        let known = self.trimmed[id as usize];
        if known != UNSEEN {
            return known;
        }
        let next = self.words.len() as u32;
        let found = *self.words.entry(self.texts.text(id).trim()).or_insert(next);
        self.trimmed[id as usize] = found;
        found
    }

    /// Whether a line of an update stands for one of the file.
    fn stands_for(&mut self, new: u32, old: u32) -> bool {
        let texts = &self.texts;
        *self.stands_for.entry((new, old)).or_insert_with(|| stands_for(texts.text(new), texts.text(old)))
    }
}

/// A line that is not blank: where it stands, and its number.
#[derive(Clone, Copy)]
struct Line {
    at: u32,
    id: u32,
}

/// Lines of the original and the lines of a part in their place, blank ones left out.
pub(super) struct Replaced {
    old: Vec<Line>,
    new: Vec<Line>,
    /// Where they differ, whatever the indentation: the lines that go and those that come.
    hunks: Vec<[Range<usize>; 2]>,
    /// A blank line at the edge of those that go, of which there are more than of those that come.
    blank: Option<usize>,
}

/// Whether lines begin with more blank ones than those in their place, where these do not set the same line off from new lines before it.
fn fewer_blanks(gone: impl Iterator<Item = u32> + Clone, comes: impl Iterator<Item = u32> + Clone) -> bool {
    let blanks = |lines: &mut dyn Iterator<Item = u32>| lines.take_while(|line| *line == BLANK).count();
    let count = blanks(&mut gone.clone());
    if count == 0 {
        return false;
    }
    let first = gone.clone().nth(count);
    let before = comes.clone().position(|line| Some(line) == first);
    let last_blanks = |at: usize| comes.clone().take(at).fold(0, |run, line| if line == BLANK { run + 1 } else { 0 });
    count > blanks(&mut comes.clone()).max(before.map_or(0, last_blanks))
}

impl Replaced {
    /// The lines of an original and those that stand there now; nothing where a blank line is lost whatever else is, if that is enough.
    pub fn of(gone: &[u32], comes: &[u32], seen: &mut Seen<'_>, is_enough: bool) -> Option<Replaced> {
        let [gone_words, comes_words] =
            [gone, comes].map(|ids| ids.iter().map(|&id| seen.trimmed(id)).collect::<Vec<u32>>());
        let above = fewer_blanks(gone_words.iter().copied(), comes_words.iter().copied());
        let below = fewer_blanks(gone_words.iter().rev().copied(), comes_words.iter().rev().copied());
        let blank = if above { Some(0) } else { gone.len().checked_sub(1).filter(|_| below) };
        if is_enough && blank.is_some() {
            return None;
        }
        let full = |ids: &[u32], words: &[u32]| -> Vec<Line> {
            let lines = ids.iter().zip(words).enumerate().filter(|(_, (_, words))| **words != BLANK);
            lines.map(|(at, (&id, _))| Line { at: at as u32, id }).collect()
        };
        let (old, new) = (full(gone, &gone_words), full(comes, &comes_words));
        let ([before, after], count) = seen.tokens([&gone_words, &comes_words]);
        let wide = |range: Range<u32>| range.start as usize..range.end as usize;
        let is_small = old.len().saturating_mul(new.len()) <= MAX_MINIMAL;
        let algorithm = if is_small { Algorithm::MyersMinimal } else { Algorithm::Histogram };
        let mut diff = Diff::default();
        diff.compute_with(algorithm, &before, &after, count);
        let hunks = diff.hunks().map(|hunk| [wide(hunk.before), wide(hunk.after)]).collect();
        Some(Replaced { old, new, hunks, blank })
    }

    /// A line of the original that is gone beyond the outermost ones that the part shows, with nothing in its place.
    pub fn lost(&self, part: &Part<'_>, seen: &mut Seen<'_>) -> Option<usize> {
        let firm = self.firm(&seen.texts);
        // A head of another name, above the same line, is that of the same block.
        let renamed: Vec<u32> =
            self.hunks.iter().filter_map(|[gone, comes]| self.renamed(gone, comes, &seen.texts)).collect();
        for [gone, comes] in &self.hunks {
            let is_between = firm.start < comes.start && comes.end < firm.end;
            if is_between || gone.is_empty() {
                continue;
            }
            // Of a block that has another name only what is stood for goes.
            if renamed.is_empty() && self.is_rest_of_block(part, gone, comes, seen) {
                continue;
            }
            let mut left = self.new[comes.clone()].iter();
            let mut goes = self.old[gone.clone()].iter().filter(|line| !renamed.contains(&line.at));
            let lost = goes.find(|old| !left.any(|new| seen.stands_for(new.id, old.id)));
            if let Some(line) = lost {
                return Some(line.at as usize);
            }
        }
        self.blank
    }

    /// The line of the original that declares what the part declares by another name, where the same line with text is next below both.
    fn renamed(&self, gone: &Range<usize>, comes: &Range<usize>, texts: &Texts<'_>) -> Option<u32> {
        let (old, new) = (self.old[gone.clone()].last()?, self.new[comes.clone()].last()?);
        let next = self.old.get(gone.end).zip(self.new.get(comes.end)).filter(|(old, new)| old.id == new.id)?.0;
        let (old_text, new_text) = (texts.text(old.id), texts.text(new.id));
        let declare = || declared_name(old_text).is_some() && declared_name(new_text).is_some();
        let is_next = is_distinctive(texts.text(next.id)) && indent(old_text) == indent(new_text);
        (is_next && declare()).then_some(old.at)
    }

    /// From before the first line of the part that holds what goes below it, to after the last that holds what goes above it: lines of the
    /// original that are the outermost of the part, or say more than a bracket does, of which any other may be meant.
    fn firm(&self, texts: &Texts<'_>) -> Range<usize> {
        let is_new = |at: &usize| self.hunks.iter().any(|[_, comes]| comes.contains(at));
        let count = self.new.len();
        let holds =
            |at: &usize| !is_new(at) && (*at == 0 || at + 1 == count || is_distinctive(texts.text(self.new[*at].id)));
        let first = (0..count).find(holds);
        let last = (0..count).rev().find(holds);
        first.zip(last).map_or(0..0, |(first, last)| first..last + 1)
    }

    /// The numbers of the outermost lines of the part that are new.
    pub fn new_edges(&self, texts: &Texts<'_>) -> impl Iterator<Item = u32> {
        let edges = [self.new.first().map(|_| 0), self.new.len().checked_sub(1)];
        edges.into_iter().flatten().filter(|at| self.is_new(*at, texts)).map(|at| self.new[at].id)
    }

    /// Whether a line of the part is new, distinctive, and in no declaration that is new.
    fn is_new(&self, at: usize, texts: &Texts<'_>) -> bool {
        let comes = |at: usize| self.hunks.iter().any(|[_, comes]| comes.contains(&at));
        let text = |at: usize| texts.text(self.new[at].id);
        let line = text(at);
        let is_in_new = || {
            let mut depth = indent(line).len();
            let heads = (0..at).rev().filter(move |&above| {
                let is_out = indent(text(above)).len() < depth;
                if is_out {
                    depth = indent(text(above)).len();
                }
                is_out
            });
            heads.into_iter().any(|head| comes(head) && declared_name(text(head)).is_some())
        };
        comes(at) && is_distinctive(line) && !is_in_new()
    }

    /// Whether a block without an end of its own, of which the part shows the head, ends in the part as it did in the file: with a line that
    /// leaves it, as deep. Nothing of the block can be meant to stay behind such a line, so the part shows the whole block.
    fn is_rest_of_block(
        &self,
        part: &Part<'_>,
        gone: &Range<usize>,
        comes: &Range<usize>,
        seen: &mut Seen<'_>,
    ) -> bool {
        let (Some(old), Some(new)) = (self.old.last(), self.new.last()) else { return false };
        if gone.end != self.old.len() || comes.end != self.new.len() {
            return false;
        }
        let depth = |line: &Line| indent(seen.texts.text(line.id)).len();
        // The head stands above, or is new in the place of one of its name.
        let head = (0..comes.end).rev().find(|&at| depth(&self.new[at]) < depth(new));
        let Some((at, head)) = head.map(|at| (at, self.new[at])) else { return false };
        let is_deeper = self.old[gone.clone()].iter().all(|line| depth(line) > depth(&head));
        let may_be_inside = is_deeper || gone.start == 0 && depth(&head) == depth(&self.old[0]);
        let lines = &part.lines;
        let is_out = part
            .marker_below
            .is_none_or(|marker| marker <= indent(lines[lines.len().saturating_sub(self.new.len() - at)]).len());
        let (old_text, new_text) = (seen.texts.text(old.id), seen.texts.text(new.id));
        declared_name(seen.texts.text(head.id)).is_some()
            && may_be_inside
            && is_out
            && depth(old) == depth(new)
            && leaves(old_text)
            && leaves(new_text)
            && (is_deeper || seen.stands_for(head.id, self.old[0].id))
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
