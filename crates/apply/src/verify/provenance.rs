//! Where lines come from: splices lie in the text and carry no marker that the original did not have.
//!
//! Whether lines are in their right places is not checked here. Invariant: the work is linear in both texts.

use crate::lazy::{has_gap, is_worded_marker};
use crate::outcome::{Check, Code, Refused};
use crate::source::Source;
use crate::splice::Splice;
use memchr::memchr_iter;
use std::collections::BTreeSet;

/// Checks that splices are in order and inside the text, so that every other line is the original's.
pub(super) fn check_order(source: &Source, splices: &[Splice]) -> Result<(), Refused> {
    let mut at = 0;
    for splice in splices {
        let fits = at <= splice.old.start && splice.old.start <= splice.old.end;
        if !fits || source.text.get(splice.old.clone()).is_none() {
            return Err(Refused::new(
                Code::OverlappingEdits,
                "two of the edits change the same text",
                "write them as one",
            ));
        }
        at = splice.old.end;
    }
    Ok(())
}

/// Checks that a text is what splices make of the original (`lf`, with LF), and that what they bring is no marker.
pub(super) fn check(source: &Source, splices: &[Splice], lf: &str, text: &str, update: &str) -> Result<Check, Refused> {
    let is_same = std::ptr::eq(lf, text) || has_same_lines(lf, text.strip_prefix('\u{feff}').unwrap_or(text));
    if !is_same {
        return Err(Refused::new(
            Code::AmbiguousLocation,
            "the merged text has lines that are neither the original's nor the update's",
            "report this as a defect",
        ));
    }
    let brought = splices.iter().flat_map(|splice| {
        let first = source.line_of(splice.old.start);
        splice.new.lines().map(move |line| (first, line))
    });
    let markers: Vec<(usize, &str)> = brought.filter(|(_, line)| is_worded_marker(line) || has_gap(line)).collect();
    if markers.is_empty() {
        return Ok(Check::Passed);
    }
    let had: BTreeSet<&str> = source.lines().map(str::trim).collect();
    for (line, marker) in markers {
        if !had.contains(marker.trim()) {
            let shown = update.lines().position(|it| it.trim() == marker.trim());
            let place = shown.map_or(String::new(), |at| format!(" (line {} of the update)", at + 1));
            return Err(Refused::new(
                Code::MarkerUnresolved,
                format!("the marker `{}`{place} would be left in the merged text", marker.trim()),
                "show a line of the file on each side of the marker",
            )
            .at([(line, line)]));
        }
    }
    Ok(Check::Passed)
}

/// Whether two texts have the same lines, whatever the lines end with.
fn has_same_lines(one: &str, other: &str) -> bool {
    let one = one.strip_suffix('\n').unwrap_or(one);
    // A file without a final newline may still end with a blank line.
    lines(one).eq(lines(other.strip_suffix('\n').unwrap_or(other))) || lines(one).eq(lines(other))
}

/// The lines of a text, without what they end with.
fn lines(text: &str) -> impl Iterator<Item = &[u8]> {
    let bytes = text.as_bytes();
    let mut at = 0;
    memchr_iter(b'\n', bytes).chain([bytes.len()]).map(move |end| {
        let line = &bytes[std::mem::replace(&mut at, end + 1)..end];
        let returns = line.iter().rev().take_while(|&&byte| byte == b'\r').count();
        &line[..line.len() - returns]
    })
}
