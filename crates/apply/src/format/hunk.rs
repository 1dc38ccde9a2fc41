//! A hunk of a diff or patch: context, deleted and added lines.
//!
//! Invariant: a hunk that is placed shows all lines that it deletes.

use super::change::{Change, change, filled_with, nowhere};
use super::find::{Finder, Wanted};
use super::lines::core;
use crate::outcome::{Code, Refused};

/// Lines of outer context that may be missing in the file, on each side.
const MAX_DROPPED: usize = 2;

/// A line of a hunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HunkLine<'a> {
    /// Stays. As the format has it, and as it was written, before the leading space was taken off.
    Context(&'a str, &'a str),
    /// Goes.
    Minus(&'a str),
    /// Comes.
    Plus(&'a str),
}

/// Lines in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Hunk<'a> {
    pub lines: Vec<HunkLine<'a>>,
    /// Whether it must end at the end of the file.
    pub at_end: bool,
}

impl<'a> Hunk<'a> {
    /// Reads one line of a hunk, in whatever it begins with.
    pub fn push(&mut self, line: &'a str) {
        self.lines.push(match line.as_bytes().first() {
            Some(b'-') => HunkLine::Minus(&line[1..]),
            Some(b'+') => HunkLine::Plus(&line[1..]),
            Some(b' ') => HunkLine::Context(&line[1..], line),
            // Written without the space before it.
            _ => HunkLine::Context(line, line),
        });
    }

    /// Takes off the empty lines at the end, which stand between hunks and are no lines of the file.
    pub fn trim_end(&mut self) {
        while let Some(HunkLine::Context(_, "")) = self.lines.last() {
            self.lines.pop();
        }
    }

    /// Marks that the file ends after the last line, if that is a line of the original.
    pub fn ends_file(&mut self) {
        self.at_end |= !matches!(self.lines.last(), None | Some(HunkLine::Plus(_)));
    }

    /// Whether it changes anything.
    pub fn changes(&self) -> bool {
        self.lines.iter().any(|line| !matches!(line, HunkLine::Context(..)))
    }

    /// The lines before and after, context as the format has it or as it was written.
    fn sides(&self, as_written: bool) -> (Vec<&'a str>, Vec<&'a str>) {
        let text = |line: &HunkLine<'a>| match *line {
            HunkLine::Context(_, written) if as_written => written,
            HunkLine::Context(text, _) | HunkLine::Minus(text) | HunkLine::Plus(text) => text,
        };
        let old = self.lines.iter().filter(|line| !matches!(line, HunkLine::Plus(_))).map(text).collect();
        let new = self.lines.iter().filter(|line| !matches!(line, HunkLine::Minus(_))).map(text).collect();
        (old, new)
    }

    /// How many lines it shows of the file, and how many stand there afterwards.
    pub fn counts(&self) -> (usize, usize) {
        let plus = self.lines.iter().filter(|line| matches!(line, HunkLine::Plus(_))).count();
        let minus = self.lines.iter().filter(|line| matches!(line, HunkLine::Minus(_))).count();
        (self.lines.len() - plus, self.lines.len() - minus)
    }

    /// Context at the start and at the end.
    fn context(&self) -> (usize, usize) {
        let is_context = |line: &&HunkLine<'_>| matches!(line, HunkLine::Context(..));
        let leading = self.lines.iter().take_while(is_context).count();
        (leading, self.lines[leading..].iter().rev().take_while(is_context).count())
    }

    /// Where the hunk belongs.
    ///
    /// # Errors
    /// When its lines stand nowhere or at several places.
    pub fn locate(&self, finder: &Finder<'a>, wanted: &Wanted<'_>) -> Result<Change, Refused> {
        let (old, new) = self.sides(false);
        if old.iter().all(|line| line.is_empty()) && finder.lines.source.text.is_empty() {
            return Ok(filled_with(&new));
        }
        if old.is_empty() {
            return Err(nowhere(wanted.name));
        }
        let refused = match placed(finder, &old, &new, wanted) {
            Err(refused) if refused.code == Code::NoAnchor => refused,
            done => return done,
        };
        let (written, after) = self.sides(true);
        if written != old {
            match placed(finder, &written, &after, wanted) {
                Err(again) if again.code == Code::NoAnchor => {}
                done => return done,
            }
        }
        self.with_less_context(finder, wanted)?.ok_or(refused)
    }

    /// The place of the hunk when outer lines of context are left out, as few as will do.
    fn with_less_context(&self, finder: &Finder<'a>, wanted: &Wanted<'_>) -> Result<Option<Change>, Refused> {
        let (leading, trailing) = self.context();
        // A line of context stays on each side that has one: the changed lines are not moved along the file.
        let most = (leading.saturating_sub(1).min(MAX_DROPPED), trailing.saturating_sub(1).min(MAX_DROPPED));
        let (count, _) = self.counts();
        for dropped in 1..=most.0 + most.1 {
            let mut found: Option<Change> = None;
            for first in dropped.saturating_sub(most.1)..=dropped.min(most.0) {
                let rest = Hunk {
                    lines: self.lines[first..self.lines.len() - (dropped - first)].to_vec(),
                    at_end: self.at_end,
                };
                let (old, new) = rest.sides(false);
                if old.len() * 2 < count || !old.iter().any(|line| is_informative(line)) {
                    continue;
                }
                let near = wanted.near.map(|line| line + first);
                match placed(finder, &old, &new, &Wanted { near, ..wanted.clone() }) {
                    Ok(change) => match &found {
                        Some(other) if other.splices != change.splices => return Ok(None),
                        _ => found = Some(change),
                    },
                    Err(refused) if refused.code == Code::NoAnchor => {}
                    Err(refused) => return Err(refused),
                }
            }
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

fn placed<'a>(finder: &Finder<'a>, old: &[&'a str], new: &[&'a str], wanted: &Wanted<'_>) -> Result<Change, Refused> {
    let place = finder.find(old, wanted)?;
    change(finder, &place, old, new, wanted.name)
}

/// Whether a line helps to find a place: a bracket or `end` alone occurs everywhere.
fn is_informative(line: &str) -> bool {
    core(line).chars().filter(|it| it.is_alphanumeric()).take(4).count() == 4
}
