//! Checks of seams: where new lines meet lines that the update hides behind a marker.
//!
//! Invariant: the work on each marker is bounded, and a file of few changes is walked a bounded number of times.

use super::align::{Alignment, Step};
use super::boundaries::unclear;
use super::changes::Change;
use super::indent::indent;
use super::keys::declared_name;
use super::lines::{Lines, UNIT, information, is_blank, is_distinctive};
use super::prepared::PreparedSnippet;
use crate::outcome::Refused;
use crate::source::Source;

/// Hidden lines that are checked beside a marker.
const REACH: usize = 40;
/// Lines that are walked upwards from a hidden line, to bound the work.
const MAX_WALKED_LINES: usize = 2_000;
/// Information of a line that is hardly written twice by chance.
const MIN_COPY_INFORMATION: i32 = 3 * UNIT;

/// A name that occurs more often may well be declared once more.
const MAX_REPEATED_PLACES: usize = 4;
/// From this many deleted lines on, both ends need an anchor.
const MIN_DELETED_LINES: usize = 6;
/// Deleted lines that are checked, to bound the work.
const MAX_CHECKED_LINES: usize = 200;
/// Least worth of the lines between deleted ones and a marker.
const MIN_ANCHOR_WORTH: i32 = 3 * UNIT;

/// An update with its alignment.
pub(super) struct Seams<'s> {
    pub source: &'s Source,
    pub lines: &'s Lines<'s>,
    pub prepared: &'s PreparedSnippet<'s>,
    pub alignment: &'s Alignment,
    /// Its changes, in order.
    pub found: &'s [Change],
}

impl Seams<'_> {
    /// Checks that the new lines do not break what is hidden below them.
    pub fn check(&self) -> Result<(), Refused> {
        for change in self.found {
            self.check_head(change)?;
            self.check_name(change)?;
            self.check_hold(change)?;
            self.check_reached(change)?;
            self.check_copies(change)?;
            self.check_twice(change)?;
        }
        let mut comes = vec![false; self.alignment.steps.len()];
        self.found.iter().flat_map(|change| &change.new).for_each(|&token| comes[token] = true);
        for (marker, step) in self.alignment.steps.iter().enumerate() {
            if let Step::Kept(from, to) = *step
                && !self.prepared.is_line(marker)
            {
                self.check_gap(marker, from, to)?;
                self.check_scope(marker, from, to, &comes)?;
            }
        }
        Ok(())
    }

    /// Refuses new lines between a head (an annotation, a comment, a template's parameters) and the hidden declaration that it
    /// belongs to, unless they are a head themselves.
    fn check_head(&self, change: &Change) -> Result<(), Refused> {
        let (Some(&first), Some(&last)) = (change.new.first(), change.new.last()) else { return Ok(()) };
        if change.start != change.end || self.prepared.is_line(last + 1) || change.start >= self.source.line_count() {
            return Ok(());
        }
        let Some(Step::Matched(above)) = first.checked_sub(1).map(|token| self.alignment.steps[token]) else {
            return Ok(());
        };
        let (head, hidden) = (self.source.line(above), self.source.line(change.start));
        let comes = change.new.iter().rev().map(|&token| self.prepared.text(token)).find(|text| !is_blank(text));
        let is_lost = above + 1 == change.start
            && is_head(head)
            && declared_name(hidden).is_some()
            && comes.is_some_and(|line| !is_head(line));
        if is_lost { Err(unclear(above, change.start)) } else { Ok(()) }
    }

    /// Refuses a new declaration right above one whose name differs by one letter within it: likely a corrected name.
    fn check_name(&self, change: &Change) -> Result<(), Refused> {
        let hidden = (change.end..self.source.line_count()).find(|&line| !is_blank(self.source.line(line)));
        let is_shown = change.new.last().is_some_and(|&last| self.is_shown_below(last));
        let (Some(hidden), false) = (hidden.filter(|_| change.start == change.end), is_shown) else { return Ok(()) };
        let Some(old) = declared_name(self.source.line(hidden)) else { return Ok(()) };
        let mut names = change.new.iter().filter_map(|&token| declared_name(self.prepared.text(token)));
        if names.any(|new| differ_by_a_letter(old, new)) { Err(unclear(hidden, hidden)) } else { Ok(()) }
    }

    /// Refuses a new `return` right above hidden lines, which become unreachable: likely they should be deleted.
    fn check_reached(&self, change: &Change) -> Result<(), Refused> {
        let Some(&last) = change.new.iter().rev().find(|&&token| !is_blank(self.prepared.text(token))) else {
            return Ok(());
        };
        let text = self.prepared.text(last);
        let gone = || (change.start..change.end).map(|line| self.source.line(line));
        if self.is_shown_below(last) || !leaves(text) || gone().any(|line| leaves(line) && indent(line) == indent(text))
        {
            return Ok(());
        }
        let below = (change.end..self.source.line_count()).take(REACH);
        match below.into_iter().find(|&line| !is_blank(self.source.line(line)) && !is_head(self.source.line(line))) {
            Some(line) if goes_on(self.source.line(line), indent(text)) => Err(unclear(line, line)),
            _ => Ok(()),
        }
    }

    /// Refuses many deleted lines with nothing between them and a marker but lines that occur at several places.
    fn check_hold(&self, change: &Change) -> Result<(), Refused> {
        let comes = |line: &&str| change.new.iter().any(|&token| self.prepared.text(token).trim() == line.trim());
        let lines = (change.start..change.end).map(|line| self.source.line(line)).filter(|line| is_distinctive(line));
        let gone = lines.take(MAX_CHECKED_LINES).filter(|line| !comes(line)).count();
        if gone < MIN_DELETED_LINES || gone <= 2 * change.new.len() {
            return Ok(());
        }
        let steps = &self.alignment.steps;
        let at = |line: usize| {
            steps.iter().position(|step| matches!(step, Step::Matched(it) | Step::Replaces(it) if *it == line))
        };
        let worth = |token: usize| self.prepared.known[token].map_or(0, |known| known.worth);
        let below = at(change.end)
            .map(|token| (token..steps.len()).take_while(|&it| self.prepared.is_line(it)).map(worth).sum::<i32>());
        let above = change.start.checked_sub(1).and_then(at);
        let above =
            above.map(|token| (0..=token).rev().take_while(|&it| self.prepared.is_line(it)).map(worth).sum::<i32>());
        match [above, below].into_iter().flatten().any(|worth| worth < MIN_ANCHOR_WORTH) {
            true => Err(unclear(change.start, change.end - 1)),
            false => Ok(()),
        }
    }

    /// Refuses more blank lines between a new line and the hidden ones below it than the file has there, but has a little further
    /// down: the change may reach to there.
    fn check_gap(&self, marker: usize, from: usize, to: usize) -> Result<(), Refused> {
        let blank = |line: &usize| is_blank(self.source.line(*line));
        let shown =
            (0..marker).rev().take_while(|&token| self.prepared.is_line(token) && is_blank(self.prepared.text(token)));
        let shown = shown.count();
        let comes =
            marker.checked_sub(shown + 1).map(|token| (self.prepared.is_line(token), self.alignment.steps[token]));
        let Some(hidden) = (from..to).find(|line| !blank(line)) else { return Ok(()) };
        let before = (0..hidden).rev().take_while(blank).count();
        if !matches!(comes, Some((true, Step::New(_)))) || shown <= before.max(1) {
            return Ok(());
        }
        let mut gap = 0;
        for line in (hidden..to).take(REACH) {
            gap = if blank(&line) { gap + 1 } else { 0 };
            if gap == shown {
                return Err(unclear(hidden, line));
            }
        }
        Ok(())
    }

    /// Refuses a new top-level declaration whose first line the file has: likely that one is rewritten.
    fn check_twice(&self, change: &Change) -> Result<(), Refused> {
        for &token in &change.new {
            let text = self.prepared.text(token);
            let declares =
                !text.starts_with(char::is_whitespace) && is_distinctive(text) && declared_name(text).is_some();
            // Blocks that were set apart afterwards are not in the alignment.
            let Some(known) = declares.then(|| self.lines.stats(text)).flatten() else { continue };
            if let Some(place) = self.lines.few_places(&known, MAX_REPEATED_PLACES).find(|&place| !self.goes(place)) {
                return Err(unclear(place, place));
            }
        }
        Ok(())
    }

    /// Refuses a new line that the file has once, hidden right beside the segment: it may be moved or copied.
    fn check_copies(&self, change: &Change) -> Result<(), Refused> {
        let distinctive = || change.new.iter().filter(|&&token| is_distinctive(self.prepared.text(token)));
        // A change that replaces lines or adds others as well is new code that resembles it.
        if change.start != change.end || distinctive().any(|&token| self.prepared.known[token].is_none()) {
            return Ok(());
        }
        for &token in distinctive() {
            let text = self.prepared.text(token);
            let known = self.prepared.known[token]
                .filter(|known| known.count == 1 && information(text) >= MIN_COPY_INFORMATION);
            let Some(place) = known.and_then(|known| self.lines.place_of_first(known.id)) else { continue };
            if self.prepared.is_apart(token) || !matches!(self.alignment.steps[token], Step::New(_)) {
                continue;
            }
            let marker = |near: Option<usize>| near.map(|near| self.alignment.steps[near]);
            let above = marker((0..token).rev().find(|&near| !self.prepared.is_line(near)));
            let below = marker((token..self.prepared.len()).find(|&near| !self.prepared.is_line(near)));
            let hides = |step: Option<Step>| match step {
                Some(Step::Kept(from, to)) => (from..to).contains(&place) && place.abs_diff(change.start) <= REACH,
                _ => false,
            };
            if hides(above) || hides(below) {
                return Err(unclear(place, change.start.min(self.source.line_count().saturating_sub(1))));
            }
        }
        Ok(())
    }

    /// Checks that the first line a marker hides keeps its enclosing lines, by indentation.
    fn check_scope(&self, marker: usize, from: usize, to: usize, comes: &[bool]) -> Result<(), Refused> {
        let is_told = |line: &usize| depth(self.source.line(*line)).is_some();
        let Some(hidden) = (from..to).take(MAX_WALKED_LINES).find(is_told) else { return Ok(()) };
        let mut above = (0..marker).rev().take_while(|&token| self.prepared.is_line(token));
        if !above.any(|token| comes[token]) {
            return Ok(());
        }
        let innermost = self.source.line(hidden);
        let above = (0..hidden).rev().take(MAX_WALKED_LINES);
        let old: Vec<(usize, &str)> = enclosing(innermost, above.map(|line| (line, self.source.line(line)))).collect();
        if old.is_empty() {
            return Ok(());
        }
        let new: Vec<(usize, &str)> = enclosing(innermost, self.merged_above(hidden).take(MAX_WALKED_LINES)).collect();
        match old.iter().find(|(line, text)| !self.goes(*line) && !new.iter().any(|(_, other)| other == text)) {
            Some((line, _)) => Err(unclear(*line, hidden)),
            None => Ok(()),
        }
    }

    /// Whether the next token, blank lines aside, is a line and no marker.
    fn is_shown_below(&self, token: usize) -> bool {
        let is_told = |token: &usize| !self.prepared.is_line(*token) || !is_blank(self.prepared.text(*token));
        (token + 1..self.prepared.len()).find(is_told).is_some_and(|token| self.prepared.is_line(token))
    }

    /// Whether a line of the file is deleted.
    fn goes(&self, line: usize) -> bool {
        self.found_to(line).last().is_some_and(|change| change.end > line)
    }

    /// The change at a line or above it.
    fn found_to(&self, line: usize) -> &[Change] {
        &self.found[..self.found.partition_point(|change| change.start <= line)]
    }

    /// The merged text from above a hidden line upwards: lines with the line of the file that they are or come before.
    fn merged_above(&self, hidden: usize) -> impl Iterator<Item = (usize, &str)> {
        let mut changes = self.found_to(hidden).iter().rev().peekable();
        let (mut line, mut fresh): (usize, &[usize]) = (hidden, &[]);
        std::iter::from_fn(move || {
            loop {
                if let Some((&token, rest)) = fresh.split_last() {
                    fresh = rest;
                    return Some((line, self.prepared.text(token)));
                }
                match changes.next_if(|change| change.end >= line) {
                    Some(change) => (fresh, line) = (&change.new, change.start),
                    None => break,
                }
            }
            line = line.checked_sub(1)?;
            Some((line, self.source.line(line)))
        })
    }
}

/// The lines that enclose a line by indentation, from the innermost on, of those above it from the nearest on.
fn enclosing<'l>(line: &str, above: impl Iterator<Item = (usize, &'l str)>) -> impl Iterator<Item = (usize, &'l str)> {
    let mut least = depth(line).unwrap_or_default();
    let mut above = above;
    // Most lines begin with as many blanks or more.
    let is_deep = |text: &str, least: usize| {
        text.as_bytes().get(..least).is_some_and(|first| first.iter().all(|byte| matches!(byte, b' ' | b'\t')))
    };
    let encloses =
        move |text: &str, least: usize| !is_deep(text, least) && depth(text).is_some_and(|depth| depth < least);
    // Nothing encloses a top-level line.
    std::iter::from_fn(move || {
        let found = if least > 0 { above.find(|(_, text)| encloses(text, least)) } else { None };
        least = found.and_then(|(_, text)| depth(text)).unwrap_or_default();
        found
    })
}

/// Whether a line makes the rest of its block unreachable.
pub(super) fn leaves(line: &str) -> bool {
    let mut words =
        line.split(|it: char| it.is_whitespace() || matches!(it, ';' | '(')).filter(|word| !word.is_empty());
    matches!(words.next(), Some("return" | "raise" | "throw" | "break" | "continue" | "die" | "exit"))
        && words.all(|word| !matches!(word, "if" | "unless"))
        // A statement that continues on the next line does not end here.
        && !line.trim_end().ends_with(['(', '{', '[', ',', '\\', '|', '='])
}

/// Whether a line goes on with the statements of a block.
pub(super) fn goes_on(line: &str, depth: &str) -> bool {
    const OTHER: [&str; 11] =
        ["case", "default", "else", "elif", "elsif", "except", "catch", "finally", "rescue", "ensure", "end"];
    let words = line.trim();
    let first = words.split(|it: char| !it.is_alphanumeric()).next().unwrap_or_default();
    indent(line) == depth
        && !words.starts_with(['}', ')', ']', '<', '&', '|', '.', '+', '?', ':'])
        && !words.ends_with(':')
        && !OTHER.contains(&first)
        && declared_name(line).is_none()
}

/// Whether two names are the same but for one letter within the longer of them.
fn differ_by_a_letter(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    let same = short.bytes().zip(long.bytes()).take_while(|(one, other)| one == other).count();
    let letter = long.as_bytes().get(same).is_some_and(u8::is_ascii_alphabetic);
    long.len() == short.len() + 1
        && same < short.len()
        && letter
        && short.as_bytes()[same..] == long.as_bytes()[same + 1..]
}

/// How far a line is indented; nothing for blank lines and for those that stand at the margin wherever they are.
fn depth(line: &str) -> Option<usize> {
    let depth = indent(line).len();
    (depth < line.len() && !line.starts_with('#')).then_some(depth)
}

/// Whether a line belongs to the declaration below it.
fn is_head(line: &str) -> bool {
    let words = line.trim();
    let is_directive = ["#include", "#define", "#undef", "#if", "#el", "#endif", "#pragma"]
        .iter()
        .any(|directive| words.starts_with(directive));
    let is_sign = ["@", "#", "//", "/*", "*"].iter().any(|sign| words.starts_with(sign)) && !is_directive;
    is_sign
        || (words.starts_with("template") && words.ends_with('>'))
        || (words.starts_with('[') && words.ends_with(']'))
}
