//! Two readings of a snippet that know nothing of each other: by the alignment of its lines, and by the ranges of the file that
//! its parts take the place of.
//!
//! Invariant: a text is given only if both readings give it.

use super::placement::Failed;
use super::readings::AS_A_BLOCK;
use crate::outcome::{Code, Refused};
use crate::source::Source;
use crate::splice::Splice;

/// Lines that a message names.
const MAX_NAMED: usize = 6;

/// The changes on which two readings agree.
///
/// # Errors
/// Names the places that the readings differ in.
pub(super) fn agreed(
    source: &Source,
    by_lines: Vec<Splice>,
    by_ranges: impl FnOnce() -> Result<Vec<Splice>, Failed>,
) -> Result<Vec<Splice>, Refused> {
    // The file is as the update wants it.
    if by_lines.is_empty() {
        return Ok(by_lines);
    }
    match by_ranges() {
        Ok(other) if source.is_same_with(&by_lines, &other) => Ok(by_lines),
        Ok(other) => Err(differing(source, [&by_lines, &other])),
        Err(Failed::NoPlace) => Err(weak(places(source, &by_lines))),
        Err(Failed::Ambiguous(at)) => Err(ambiguous(at)),
    }
}

/// The lines of the file that changes touch.
fn places(source: &Source, splices: &[Splice]) -> Vec<(usize, usize)> {
    let last = source.line_count().saturating_sub(1);
    let place = |splice: &Splice| {
        let first = source.line_of(splice.old.start).min(last);
        (first, source.line_of(splice.old.end.saturating_sub(1).max(splice.old.start)).clamp(first, last))
    };
    splices.iter().map(place).collect()
}

fn differing(source: &Source, readings: [&[Splice]; 2]) -> Refused {
    let [one, other] = readings;
    let alone = |these: &[Splice], those: &[Splice]| -> Vec<Splice> {
        these.iter().filter(|splice| !those.contains(splice)).cloned().collect()
    };
    let mut at = places(source, &alone(one, other));
    at.extend(places(source, &alone(other, one)));
    ambiguous(at)
}

fn ambiguous(mut at: Vec<(usize, usize)>) -> Refused {
    at.sort_unstable();
    at.dedup();
    let named: Vec<String> = at.iter().take(MAX_NAMED).map(|(first, _)| (first + 1).to_string()).collect();
    let message = format!("the update can be read in more than one way, around lines {}", named.join(" and "));
    Refused::new(Code::AmbiguousLocation, message, AS_A_BLOCK).at(at)
}

fn weak(at: Vec<(usize, usize)>) -> Refused {
    let named: Vec<String> = at.iter().take(MAX_NAMED).map(|(first, _)| (first + 1).to_string()).collect();
    let message =
        format!("too little of the update stands in the file to place it, perhaps at lines {}", named.join(" and "));
    Refused::new(Code::AmbiguousLocation, message, AS_A_BLOCK).at(at)
}
