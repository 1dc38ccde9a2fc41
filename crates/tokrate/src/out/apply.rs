//! What is reported about an edit: text for people and models, JSON for programs.
//!
//! It does not print. Invariant: a refusal always has its code, its sentence, the lines in question with their text,
//! and what to do.

use serde::Serialize;
use std::fmt::Write;
use tokrate_apply::{Checks, Code, Edit, Encoding, How, Merged, Refused};
use tokrate_apply_host::MergedBy;

/// Places that are shown with their text.
const PLACES_MOST: usize = 6;
/// Lines of one place that are shown.
const LINES_MOST: usize = 6;
/// Characters of a line that are shown.
const CHARACTERS_MOST: usize = 160;

/// Why nothing was changed: the engine's reason, or that of the file system.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Refusal {
    /// The kind.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// Lines in question, first and last, counted from 1.
    pub candidates: Vec<(usize, usize)>,
    /// What to do.
    pub hint: String,
    /// Why the model that was asked did not help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
}

impl Refusal {
    /// A refusal without lines in question.
    pub fn new(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into(), candidates: Vec::new(), hint: hint.into(), fallback: None }
    }

    /// The engine's refusal.
    pub fn of(refused: Refused, fallback: Option<String>) -> Refusal {
        let Refused { code, message, candidates, hint } = refused;
        Refusal { code: code.name(), message, candidates, hint, fallback }
    }

    /// A file that is larger than what the engine reads.
    pub fn too_large(what: &str, bytes: u64, most: u64) -> Refusal {
        let message = format!("{what} has {bytes} bytes, and at most {most} are read");
        Refusal::new(Code::TooLarge.name(), message, "edit a smaller file")
    }

    /// The refusal in some lines, with those of the original that are in question.
    pub fn text(&self, original: &[u8]) -> String {
        let mut out = format!("refused ({}): {}\n", self.code, self.message);
        let (original, _) = Encoding::decode(original);
        let lines: Vec<&str> = if self.candidates.is_empty() { Vec::new() } else { original.lines().collect() };
        // A string takes everything.
        for &(first, last) in self.candidates.iter().take(PLACES_MOST) {
            let _ = writeln!(out, "  {}:", lines_named(first, last));
            for number in (first..=last.max(first)).take(LINES_MOST) {
                let text = lines.get(number - 1).copied().unwrap_or_default();
                let shown: String = text.chars().take(CHARACTERS_MOST).collect();
                let _ = writeln!(out, "  {number:>6} | {shown}");
            }
            if last.saturating_sub(first) >= LINES_MOST {
                let _ = writeln!(out, "         | …");
            }
        }
        if self.candidates.len() > PLACES_MOST {
            let _ = writeln!(out, "  and {} more", self.candidates.len() - PLACES_MOST);
        }
        if !self.hint.is_empty() {
            let _ = writeln!(out, "to do: {}", self.hint);
        }
        if let Some(why) = &self.fallback {
            let _ = writeln!(out, "fallback: {why}");
        }
        out
    }
}

/// A result as JSON: what was merged or why not, and who did it.
#[derive(Serialize)]
#[serde(untagged)]
pub enum MergeReport<'a> {
    /// Merged.
    Merged {
        /// `merged`, or `no_change`.
        status: &'static str,
        by: MergedBy,
        #[serde(skip_serializing_if = "Option::is_none")]
        output: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        diff: Option<&'a str>,
        edits: &'a [Edit],
        #[serde(skip_serializing_if = "Option::is_none")]
        how: Option<How>,
        checks: Checks,
    },
    /// Refused.
    Refused {
        /// `refused`.
        status: &'static str,
        by: &'static str,
        #[serde(flatten)]
        refusal: &'a Refusal,
    },
}

impl<'a> MergeReport<'a> {
    /// Of a merged text; `how` says nothing of one that a model wrote.
    pub fn merged(merged: &'a Merged, by: MergedBy) -> MergeReport<'a> {
        let how = (by == MergedBy::Deterministic).then_some(merged.how);
        let status = if merged.is_unchanged() { "no_change" } else { "merged" };
        MergeReport::Merged { status, by, output: None, diff: None, edits: &merged.edits, how, checks: merged.checks }
    }

    /// Of a refusal.
    pub fn refused(refusal: &'a Refusal) -> MergeReport<'a> {
        MergeReport::Refused { status: "refused", by: "refused", refusal }
    }

    /// One line of JSON.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers are always JSON") + "\n"
    }
}

/// How much changes, in words: `2 edits (lines 3-5, 9)`.
pub fn edits_named(edits: &[Edit]) -> String {
    if edits.is_empty() {
        return "nothing to change".to_owned();
    }
    let places: Vec<String> = edits
        .iter()
        .take(PLACES_MOST)
        .map(|edit| match edit.old_count {
            0 => format!("before {}", edit.old_start),
            1 => edit.old_start.to_string(),
            count => format!("{}-{}", edit.old_start, edit.old_start + count - 1),
        })
        .collect();
    let more = if edits.len() > PLACES_MOST { ", …" } else { "" };
    let noun = if edits.len() == 1 { "edit" } else { "edits" };
    format!("{} {noun} (line {}{more})", edits.len(), places.join(", "))
}

fn lines_named(first: usize, last: usize) -> String {
    if last <= first { format!("line {first}") } else { format!("lines {first}-{last}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_shows_the_lines_in_question() {
        let original: String = (1..40).map(|line| format!("    line {line}\n")).collect();
        let mut refusal = Refusal::new("ambiguous_location", "two places fit", "add a line above");
        refusal.candidates = vec![(3, 4), (10, 30), (39, 39), (41, 41)];
        refusal.fallback = Some("no answer".to_owned());
        insta::assert_snapshot!(refusal.text(original.as_bytes()));
        assert_eq!(Refusal::new("not_text", "it is not", "").text(b"\xff"), "refused (not_text): it is not\n");
        let many = Refusal { candidates: vec![(1, 1); 9], ..refusal };
        assert!(many.text(original.as_bytes()).contains("  and 3 more\n"));
    }

    #[test]
    fn edits_are_named_by_their_lines() {
        let edit = |old_start, old_count| Edit { old_start, old_count, new_start: old_start, new_count: 1 };
        assert_eq!(edits_named(&[]), "nothing to change");
        assert_eq!(edits_named(&[edit(3, 1)]), "1 edit (line 3)");
        assert_eq!(edits_named(&[edit(3, 3), edit(9, 0)]), "2 edits (line 3-5, before 9)");
        assert!(edits_named(&[edit(1, 1); 9]).ends_with(", …)"));
    }
}
