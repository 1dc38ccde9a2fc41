//! Changes to a text: ranges and their replacements.
//!
//! Invariant: ordered splices do not overlap and lie inside the text.

use crate::evidence::Evidence;
use crate::outcome::{Code, Refused, Stage};
use std::ops::Range;

/// A range of bytes of [`crate::source::Source::text`] and the text (LF) that takes its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Splice {
    /// Bytes that go.
    pub old: Range<usize>,
    /// The replacement.
    pub new: String,
}

/// The splices in order of their place; those that change nothing are left out.
///
/// # Errors
/// When two of them change the same bytes, or insert at the same place.
pub(crate) fn in_order(mut splices: Vec<Splice>, line_of: impl Fn(usize) -> usize) -> Result<Vec<Splice>, Refused> {
    splices.sort_by_key(|splice| (splice.old.start, splice.old.end));
    for pair in splices.windows(2) {
        if pair[1].old.start < pair[0].old.end || pair[0].old.start == pair[1].old.start {
            let lines = (line_of(pair[1].old.start), line_of(pair[0].old.end.max(pair[1].old.start)));
            return Err(Refused::new(
                Code::OverlappingEdits,
                format!("two of the edits change line {}", lines.0 + 1),
                "write both changes as one edit",
            )
            .at([lines]));
        }
    }
    Ok(splices)
}

/// Where an update belongs.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Located {
    /// The changes, in any order.
    pub splices: Vec<Splice>,
    /// The method that located it.
    pub stage: Stage,
    /// Whether it stood at another indentation.
    pub reindented: bool,
    /// What was decided by.
    pub evidence: Option<Evidence>,
}
