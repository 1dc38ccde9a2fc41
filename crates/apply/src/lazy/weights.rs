//! What it costs that a line of the file goes, or that a line of a snippet is new; and which lines may be each other.
//!
//! Invariant: a line that the file has costs more as a new one than a line that it does not have.

use super::indent::indent;
use super::keys::{bring_others, declared_name};
use super::lines::{Lines, Says, UNIT, is_blank, is_distinctive};
use super::prepared::PreparedSnippet;
use super::scopes::{self, Place, is_closer};
use crate::source::Source;
use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::ops::Range;

/// How many times its worth a line costs as a new one that stands once in the file: it would be doubled.
const DOUBLED: i32 = 6;
/// Cost of a new line that declares or assigns what one line of the file does, as deep.
const DECLARED_TWICE: i32 = 5 * UNIT;
/// Cost of a line that the file has in a new block, where it may well be written once more.
const IN_NEW_BLOCK: i32 = UNIT / 20;
/// What it costs that a blank line goes.
const BLANK: i32 = UNIT / 10;
/// What speaks against a line being one outside of the block that the snippet shows around it.
const OUTSIDE: i32 = 4 * UNIT;
/// What speaks against a line being another one that declares the same.
const REWRITTEN: i32 = UNIT;
/// Signs at the beginning of lines that are like each other.
const KIN: usize = 10;

/// Ways to read a line of the snippet that are looked at to place all parts of an update, to bound the work: so many, and more
/// for each line of the update. What has more is not placed by ranges.
const MAX_WAYS: usize = 300_000;
const MAX_WAYS_OF_LINE: usize = 200;

/// What it costs that lines of a file go: for each line the sum of those above it, and the sum of all.
pub(super) struct Gone(Vec<i32>);

impl Gone {
    /// Those of lines. Of the largest file that is read the sum fits: a line of five bytes costs a unit.
    pub fn of(lines: &[Says]) -> Gone {
        let mut sums = Vec::with_capacity(lines.len() + 1);
        let mut sum = 0_i32;
        sums.push(sum);
        for line in lines {
            sum = sum.saturating_add(cost_of(*line));
            sums.push(sum);
        }
        Gone(sums)
    }

    /// That of a line.
    pub fn line(&self, line: usize) -> i32 {
        self.0[line + 1] - self.0[line]
    }

    /// That of lines.
    pub fn lines(&self, lines: Range<usize>) -> i32 {
        self.0[lines.end] - self.0[lines.start]
    }

    /// The last line up to which lines from one on cost no more than a bound together.
    pub fn reach(&self, from: usize, bound: i32) -> usize {
        let most = self.0[from].saturating_add(bound);
        // No line costs less than a blank one.
        let end = (from + 2 + bound.max(0) as usize / BLANK as usize).min(self.0.len());
        from + self.0[from..end].partition_point(|&sum| sum <= most).saturating_sub(1)
    }
}

/// A snippet beside a file, line by line.
pub(super) struct Weights<'w> {
    /// Ways that may still be looked at.
    pub ways_left: Cell<usize>,
    pub source: &'w Source,
    pub lines: &'w Lines<'w>,
    pub prepared: &'w PreparedSnippet<'w>,
    /// Where each line of the snippet is by the blocks around it.
    pub places: Vec<Place>,
    /// Whether each line of the snippet heads a block of which it shows a line.
    pub heads: Vec<bool>,
    /// The number of each line of the file; blank lines are equal if the snippet stood at another indentation.
    pub numbers: Vec<u32>,
    /// The number of each line of the snippet that the file has.
    pub ids: Vec<Option<u32>>,
    /// The cost of each line of the file if it goes.
    pub gone: Gone,
    /// The cost of each line of the snippet if it is new.
    pub new: Vec<i32>,
    /// How much each line of the snippet says about its place.
    pub worth: Vec<i32>,
    /// Whether each line of the snippet lies in a block of its part whose head the file does not have.
    in_new_block: Vec<bool>,
    /// Whether each line of the snippet is more than a bracket or a short word.
    pub is_telling: Vec<bool>,
    /// What lines of the snippet begin with, as numbers, how many brackets they open, by kind, and what they declare.
    kin: Vec<u32>,
    brackets: Vec<[i8; 3]>,
    declared: Vec<Option<&'w str>>,
    /// The same of lines of the file, once they are asked for: of a long one few are.
    kin_of_file: Vec<Cell<Option<u32>>>,
    brackets_of_file: Vec<Cell<Option<[i8; 3]>>>,
    /// Where the name stands in the line: nowhere, if it declares none.
    declared_in_file: Vec<Cell<Option<[usize; 2]>>>,
    /// How often the file has the words of each line of the snippet that is telling, whatever the indentation.
    times: OnceCell<Vec<u32>>,
    filled_blanks: OnceCell<bool>,
}

impl<'w> Weights<'w> {
    /// Those of a snippet and a file.
    pub fn of(source: &'w Source, lines: &'w Lines<'w>, prepared: &'w PreparedSnippet<'w>) -> Weights<'w> {
        let texts = || (0..prepared.len()).map(|token| prepared.is_line(token).then(|| prepared.text(token)));
        let places = scopes::places(texts(), source, lines);
        let mut ids: Vec<Option<u32>> = texts().map(|text| text.and_then(|text| lines.id_of(text))).collect();
        let mut numbers = lines.ids.to_vec();
        let blank = source.lines().position(is_blank).map(|line| numbers[line]);
        if let Some(blank) = blank.filter(|_| prepared.reindented) {
            let of_file = numbers.iter_mut().zip(source.lines()).filter(|(_, line)| is_blank(line));
            of_file.for_each(|(number, _)| *number = blank);
            let of_snippet = ids.iter_mut().zip(texts()).filter(|(_, text)| text.is_some_and(is_blank));
            of_snippet.for_each(|(id, _)| *id = Some(blank));
        }
        let mut heads = vec![false; prepared.len()];
        places.iter().flat_map(|place| [place.parent, place.closes]).flatten().for_each(|head| heads[head] = true);
        let in_new_block = in_new_blocks(prepared, &ids, &places);
        let cost = |token: usize| {
            let Some(id) = ids[token] else {
                let is_twice = !in_new_block[token] && prepared.namesakes(token).next().is_some();
                return if is_twice { DECLARED_TWICE } else { 0 };
            };
            let text = prepared.text(token);
            let cost = cost_of(Says::of(text));
            match () {
                () if in_new_block[token] || prepared.is_apart(token) => IN_NEW_BLOCK.min(cost),
                () if is_distinctive(text) && lines.count_of(id) == 1 => DOUBLED * cost,
                () => cost,
            }
        };
        let new = (0..prepared.len()).map(cost).collect();
        let gone = Gone::of(lines.says());
        let kin = texts().map(|text| text.map_or(0, kin)).collect();
        let brackets = texts().map(|text| brackets(text.unwrap_or_default())).collect();
        let worth =
            texts().map(|text| text.and_then(|text| lines.stats(text)).map_or(0, |stats| stats.worth)).collect();
        Weights {
            ways_left: Cell::new(MAX_WAYS + MAX_WAYS_OF_LINE * prepared.len()),
            source,
            lines,
            prepared,
            places,
            heads,
            numbers,
            ids,
            gone,
            new,
            worth,
            in_new_block,
            is_telling: texts().map(|text| text.is_some_and(is_distinctive)).collect(),
            kin,
            brackets,
            declared: texts().map(|text| text.and_then(declared_name)).collect(),
            kin_of_file: vec![Cell::new(None); source.line_count()],
            declared_in_file: vec![Cell::new(None); source.line_count()],
            brackets_of_file: vec![Cell::new(None); source.line_count()],
            times: OnceCell::new(),
            filled_blanks: OnceCell::new(),
        }
    }

    /// The text of a line of the snippet.
    pub fn text(&self, token: usize) -> &'w str {
        self.prepared.text(token)
    }

    /// Whether a line of the snippet stands once in the file.
    pub fn stands_once(&self, token: usize) -> bool {
        self.ids[token].is_some_and(|id| self.lines.count_of(id) == 1)
    }

    /// Whether the file has the words of a line of the snippet at another indentation.
    pub fn stands_elsewhere(&self, token: usize) -> bool {
        self.is_telling[token] && self.times_of_words(token) > 0
    }

    /// Whether the file has the words of a line that stands once in it at another indentation as well.
    pub fn stands_at_other_depths(&self, token: usize) -> bool {
        self.is_telling[token] && self.stands_once(token) && self.times_of_words(token) > 1
    }

    /// How often the file has the words of a line that is telling, whatever the indentation.
    fn times_of_words(&self, token: usize) -> u32 {
        self.times.get_or_init(|| self.times_of_all_words())[token]
    }

    fn times_of_all_words(&self) -> Vec<u32> {
        let words = |token: usize| self.text(token).trim();
        let telling = (0..self.prepared.len()).filter(|&token| self.is_telling[token]);
        let mut times: BTreeMap<&str, u32> = telling.map(|token| (words(token), 0)).collect();
        // Most lines differ in their last bytes; few end with white space or another sign that is not ASCII.
        let mut ends = [false; ENDS];
        times.keys().filter_map(|words| end(words)).for_each(|end| ends[end] = true);
        for line in self.source.lines() {
            let is_plain = line.as_bytes().last().is_some_and(u8::is_ascii_graphic);
            let may_be = if is_plain { end(line).is_some_and(|end| ends[end]) } else { !line.is_empty() };
            if let Some(times) = Some(line).filter(|_| may_be).and_then(|line| times.get_mut(line.trim())) {
                *times += 1;
            }
        }
        (0..self.prepared.len()).map(|token| times.get(words(token)).copied().unwrap_or_default()).collect()
    }

    /// Whether the file or the snippet has a blank line that holds white space.
    pub fn has_filled_blanks(&self) -> bool {
        let holds = |text: &str| !text.is_empty() && is_blank(text);
        let of_snippet = || (0..self.prepared.len()).any(|token| holds(self.text(token)));
        *self.filled_blanks.get_or_init(|| self.source.lines().any(holds) || of_snippet())
    }

    /// Whether a line of the snippet belongs to a block whose head the file does not have.
    pub fn may_be_new(&self, token: usize) -> bool {
        self.places[token].closes_new || self.in_new_block[token]
    }

    /// The lines of the file that a line of the snippet may be, with what speaks against each.
    pub fn lines_of(&self, token: usize) -> Vec<(usize, i32)> {
        let place = &self.places[token];
        if self.prepared.is_apart(token) {
            return Vec::new();
        }
        let Some(id) = self.ids[token] else {
            let declared = place.line.filter(|_| place.closes.is_none());
            let mut lines: Vec<usize> = declared.into_iter().chain(self.prepared.namesakes(token)).collect();
            lines.sort_unstable();
            lines.dedup();
            return lines.into_iter().map(|line| (line, REWRITTEN)).collect();
        };
        let against = |line: usize| {
            let is_outside = match place.closes {
                Some(_) => place.line != Some(line),
                None => place.inside.as_ref().is_some_and(|inside| !inside.contains(&line)),
            };
            if is_outside { OUTSIDE } else { 0 }
        };
        if self.prepared.reindented && is_blank(self.text(token)) {
            let blank = (0..self.numbers.len()).filter(|&line| self.numbers[line] == id);
            return blank.map(|line| (line, against(line))).collect();
        }
        self.lines.places_of(id).map(|line| (line, against(line))).collect()
    }

    /// Whether a line of the snippet may be what became of one of the file: it declares the same, or begins
    /// alike or is similar and declares nothing else.
    pub fn replaces(&self, token: usize, line: usize) -> bool {
        let old = self.kin_of_line(line);
        let new = self.kin[token];
        let is_alike = new != 0 && old == new || self.prepared.is_similar(token, line);
        if !is_alike && !self.prepared.namesakes(token).any(|namesake| namesake == line) {
            return false;
        }
        match (self.declared[token], self.declared_by_line(line)) {
            (Some(new), Some(old)) => new == old,
            _ => is_alike && !bring_others(self.text(token), self.source.line(line)),
        }
    }

    /// How many brackets a line of the file opens, by kind.
    pub fn brackets_of_line(&self, line: usize) -> [i8; 3] {
        once(&self.brackets_of_file[line], || brackets(self.source.line(line)))
    }

    /// How many brackets a line of the snippet opens, by kind.
    pub fn brackets_of_token(&self, token: usize) -> [i8; 3] {
        self.brackets[token]
    }

    /// By how many brackets, at most two, more or fewer open where lines of the snippet come in the place of lines of the file.
    pub fn unbalanced(&self, lines: Range<usize>, tokens: Range<usize>) -> i32 {
        let mut sums = [0_i32; 3];
        for token in tokens {
            (0..3).for_each(|kind| sums[kind] += i32::from(self.brackets[token][kind]));
        }
        for line in lines {
            let brackets = self.brackets_of_line(line);
            (0..3).for_each(|kind| sums[kind] -= i32::from(brackets[kind]));
        }
        sums.iter().map(|sum| sum.abs()).sum::<i32>().min(2)
    }

    /// Whether a line of the snippet is long enough for others to begin as it does.
    pub fn has_kin(&self, token: usize) -> bool {
        self.kin[token] != 0
    }

    /// The next line from one on, before another, that begins as a line of the snippet does.
    pub fn next_of_kin(&self, token: usize, from: usize, before: usize) -> Option<usize> {
        let kin = self.kin[token];
        let before = if self.has_kin(token) { before.min(self.source.line_count()) } else { from };
        (from..before).find(|&line| self.kin_of_line(line) == kin)
    }

    /// What a line of the file declares.
    fn declared_by_line(&self, line: usize) -> Option<&str> {
        let text = self.source.line(line);
        let find = || {
            let name = declared_name(text);
            name.and_then(|name| text.find(name).map(|at| [at, at + name.len()])).unwrap_or_default()
        };
        let [start, end] = once(&self.declared_in_file[line], find);
        (start < end).then(|| &text[start..end])
    }

    fn kin_of_line(&self, line: usize) -> u32 {
        once(&self.kin_of_file[line], || kin(self.source.line(line)))
    }

    /// The lines that a line of the snippet may take the place of, whatever they begin with.
    pub fn likes(&self, token: usize) -> impl Iterator<Item = usize> {
        self.prepared.likes(token)
    }
}

/// What a cell holds, found when it is first asked for.
fn once<T: Copy>(cell: &Cell<Option<T>>, find: impl FnOnce() -> T) -> T {
    cell.get().unwrap_or_else(|| {
        let found = find();
        cell.set(Some(found));
        found
    })
}

/// Whether each line lies in a block of its part whose head the file does not have, the closer included.
fn in_new_blocks(prepared: &PreparedSnippet<'_>, ids: &[Option<u32>], places: &[Place]) -> Vec<bool> {
    let mut inside = vec![false; prepared.len()];
    for segment in &prepared.segments {
        let mut head: Option<usize> = None;
        let full = |token: &usize| !is_blank(prepared.text(*token));
        for token in segment.clone().filter(full) {
            let text = prepared.text(token);
            let depth = indent(text).len();
            if head.is_some_and(|head| depth > head || depth == head && is_closer(text)) {
                inside[token] = true;
                continue;
            }
            let next = (token + 1..segment.end).find(full);
            let opens = next.is_some_and(|next| indent(prepared.text(next)).len() > depth);
            head = (opens && ids[token].is_none() && places[token].line.is_none()).then_some(depth);
        }
    }
    inside
}

fn cost_of(line: Says) -> i32 {
    match line {
        Says::Nothing => BLANK,
        Says::Much => UNIT,
        Says::Little => UNIT / 2,
    }
}

/// What a line begins with, as a number; nothing for short lines.
fn kin(line: &str) -> u32 {
    let begins = || line.bytes().filter(|byte| !byte.is_ascii_whitespace()).take(KIN);
    if begins().count() < KIN { 0 } else { hash(begins()) as u32 | 1 }
}

/// So many numbers stand for the ends of lines.
const ENDS: usize = 1 << 12;

/// The last four bytes of a line, as a number: all lines that are more than a bracket have as many.
fn end(line: &str) -> Option<usize> {
    let bytes = u32::from_le_bytes(*line.as_bytes().last_chunk()?);
    Some(bytes.wrapping_mul(0x9e37_79b1) as usize >> 20 & (ENDS - 1))
}

/// A number of bytes (FNV-1a).
fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// How many brackets a line opens, by kind.
fn brackets(text: &str) -> [i8; 3] {
    let mut sums = [0_i8; 3];
    for byte in text.bytes() {
        let (kind, sign) = match byte {
            b'(' => (0, 1),
            b')' => (0, -1),
            b'[' => (1, 1),
            b']' => (1, -1),
            b'{' => (2, 1),
            b'}' => (2, -1),
            _ => continue,
        };
        sums[kind] = sums[kind].saturating_add(sign);
    }
    sums
}
