//! A true change of a file: its lines before and after, and what differs.
//!
//! Invariant: outside of its hunks the lines before and after are equal.

use super::history::Version;
use imara_diff::{Algorithm, Diff, InternedInput};
use std::collections::HashMap;
use std::ops::Range;

/// Fewer lines give no context, and more are no file that models are shown.
const LINES: std::ops::RangeInclusive<usize> = 5..=5000;

/// Lines of the file before and after that stand for each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hunk {
    /// Lines that go.
    pub old: Range<usize>,
    /// Lines that come.
    pub new: Range<usize>,
}

/// A change of a file.
pub struct Change {
    /// Lines before it, without their ends.
    pub old: Vec<String>,
    /// Lines after it.
    pub new: Vec<String>,
    /// What differs, in order.
    pub hunks: Vec<Hunk>,
    /// Whether the file ends with a newline, before and after.
    pub final_newline: bool,
    /// For each line after, the line before that it is, if it did not change.
    pub kept: Vec<Option<usize>>,
    /// Where each line of the file before stands in it.
    places: HashMap<String, Vec<usize>>,
}

impl Change {
    /// The change between two versions, if it is one that a model could be asked for.
    pub fn of(version: &Version) -> Option<Change> {
        let (before, after) = (&version.before, &version.after);
        let plain = |text: &str| !text.contains(['\r', '\0', '\u{feff}']);
        let final_newline = before.ends_with('\n');
        if !plain(before) || !plain(after) || after.ends_with('\n') != final_newline {
            return None;
        }
        let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
        Change::between(lines(before), lines(after), final_newline)
    }

    /// The change between two lists of lines.
    pub fn between(old: Vec<String>, new: Vec<String>, final_newline: bool) -> Option<Change> {
        if !LINES.contains(&old.len()) || !LINES.contains(&new.len()) {
            return None;
        }
        let mut change = Change::compared(old, new)?;
        change.final_newline = final_newline;
        let touched: usize = change.hunks.iter().map(|hunk| hunk.old.len() + hunk.new.len()).sum();
        (touched * 10 <= (change.old.len() + change.new.len()) * 4).then_some(change)
    }

    /// The difference between two lists of lines, if there is any.
    pub fn compared(old: Vec<String>, new: Vec<String>) -> Option<Change> {
        let (before, after) = (old.join("\n") + "\n", new.join("\n") + "\n");
        let input = InternedInput::new(&*before, &*after);
        let mut diff = Diff::compute(Algorithm::Histogram, &input);
        diff.postprocess_lines(&input);
        let wide = |range: Range<u32>| range.start as usize..range.end as usize;
        let hunks: Vec<Hunk> =
            diff.hunks().map(|hunk| Hunk { old: wide(hunk.before), new: wide(hunk.after) }).collect();
        if hunks.is_empty() {
            return None;
        }
        let mut kept = vec![None; new.len()];
        let (mut old_at, mut new_at) = (0, 0);
        for hunk in hunks.iter().chain([&Hunk { old: old.len()..old.len(), new: new.len()..new.len() }]) {
            for step in 0..hunk.new.start - new_at {
                kept[new_at + step] = Some(old_at + step);
            }
            (old_at, new_at) = (hunk.old.end, hunk.new.end);
        }
        let mut places: HashMap<String, Vec<usize>> = HashMap::new();
        for (place, line) in old.iter().enumerate() {
            places.entry(line.clone()).or_default().push(place);
        }
        Some(Change { old, new, hunks, final_newline: true, kept, places })
    }

    /// The file of some lines.
    pub fn file<S: AsRef<str>>(&self, lines: &[S]) -> String {
        let mut text = String::new();
        for line in lines {
            text.push_str(line.as_ref());
            text.push('\n');
        }
        if !self.final_newline {
            text.pop();
        }
        text
    }

    /// Where lines stand in the file before, one after the other.
    pub fn places_of(&self, run: &[&str]) -> Vec<usize> {
        let Some(rarest) = (0..run.len()).min_by_key(|&at| self.places.get(run[at]).map_or(0, Vec::len)) else {
            return Vec::new();
        };
        let candidates = self.places.get(run[rarest]).map_or(&[][..], Vec::as_slice);
        let fits = |&start: &usize| {
            self.old.get(start..start + run.len()).is_some_and(|lines| lines.iter().zip(run).all(|(a, b)| a == b))
        };
        candidates.iter().filter_map(|place| place.checked_sub(rarest)).filter(fits).collect()
    }

    /// Whether a line stands in the file before.
    pub fn has(&self, line: &str) -> bool {
        self.places.contains_key(line)
    }

    /// Hunks with so many unchanged lines around each, those that touch joined: lines before and after.
    pub fn groups(&self, context: usize) -> Vec<Hunk> {
        let mut groups: Vec<Hunk> = Vec::new();
        for hunk in &self.hunks {
            let above = context.min(hunk.old.start).min(hunk.new.start);
            let below = context.min(self.old.len() - hunk.old.end).min(self.new.len() - hunk.new.end);
            let wide = Hunk {
                old: hunk.old.start - above..hunk.old.end + below,
                new: hunk.new.start - above..hunk.new.end + below,
            };
            match groups.last_mut() {
                Some(last) if wide.new.start <= last.new.end && wide.old.start <= last.old.end => {
                    last.old.end = wide.old.end;
                    last.new.end = wide.new.end;
                }
                _ => groups.push(wide),
            }
        }
        groups
    }

    /// The lines of a group as a diff shows them: `' '`, `'-'` or `'+'` and the line.
    pub fn diff(&self, group: &Hunk) -> Vec<(char, &str)> {
        let mut lines = Vec::new();
        let (mut old_at, mut new_at) = (group.old.start, group.new.start);
        let inside = |hunk: &&Hunk| {
            hunk.old.start >= group.old.start
                && hunk.old.end <= group.old.end
                && hunk.new.start >= group.new.start
                && hunk.new.end <= group.new.end
        };
        for hunk in self.hunks.iter().filter(inside) {
            lines.extend(self.old[old_at..hunk.old.start].iter().map(|line| (' ', line.as_str())));
            lines.extend(self.old[hunk.old.clone()].iter().map(|line| ('-', line.as_str())));
            lines.extend(self.new[hunk.new.clone()].iter().map(|line| ('+', line.as_str())));
            (old_at, new_at) = (hunk.old.end, hunk.new.end);
        }
        debug_assert_eq!(group.old.end - old_at, group.new.end - new_at, "the rest of a group is unchanged");
        lines.extend(self.old[old_at..group.old.end].iter().map(|line| (' ', line.as_str())));
        lines
    }

    /// The line that heads the block around lines of the new file, and the line that closes it, by indentation.
    pub fn scope(&self, lines: &Range<usize>) -> Option<(usize, Option<usize>)> {
        let is_full = |line: &&String| !line.trim().is_empty();
        let base = self.new[lines.clone()].iter().filter(is_full).map(|line| indent(line)).min()?;
        let heads = |&at: &usize| !self.new[at].trim().is_empty() && indent(&self.new[at]) < base;
        let head = (0..lines.start).rev().find(heads)?;
        let level = indent(&self.new[head]);
        let out =
            (lines.end..self.new.len()).find(|&at| !self.new[at].trim().is_empty() && indent(&self.new[at]) <= level);
        let closes = |&at: &usize| {
            let line = self.new[at].trim_start();
            indent(&self.new[at]) == level
                && (line.starts_with(['}', ')', ']']) || line.starts_with("</") || line.starts_with("end"))
        };
        Some((head, out.filter(closes)))
    }
}

/// Bytes of white space before a line.
pub fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}
