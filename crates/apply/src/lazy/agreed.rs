//! Two readings of a snippet that know nothing of each other: by the alignment of its lines, and by the ranges of the file that
//! its parts take the place of.
//!
//! Invariant: no text is given that differs from what one of the readings gives.

use super::Asked;
use super::decision;
use super::lines::{is_blank, named};
use super::placement::{Failed, Placed};
use super::readings::AS_A_BLOCK;
use super::weighed::Reading;
use crate::evidence::Evidence;
use crate::outcome::{Code, Refused};
use crate::source::Source;
use crate::splice::Splice;

/// The changes of the reading by ranges, if all that speaks for and against them decides for them.
///
/// # Errors
/// Names the places that the readings differ in, or why the one by lines refuses.
pub(super) fn agreed(
    source: &Source,
    by_lines: Result<Vec<Splice>, Refused>,
    by_ranges: Result<Placed, Failed>,
    asked: Asked,
) -> Result<(Vec<Splice>, Option<Evidence>), Refused> {
    let (reading, refused) = match (&by_lines, &by_ranges) {
        // The file is as the update wants it.
        (Ok(one), Err(_)) if one.is_empty() => return by_lines.map(|splices| (splices, None)),
        (Ok(one), Ok(Placed { splices: other, .. })) if one.is_empty() && other.is_empty() => {
            return by_lines.map(|splices| (splices, None));
        }
        (Ok(one), Err(Failed::NoPlace)) => return Err(weak(places(source, one))),
        (Ok(_), Err(Failed::Ambiguous(at))) => return Err(ambiguous(at.clone())),
        (Err(refused), Err(_)) => return Err(refused.clone()),
        (Ok(one), Ok(Placed { splices: other, at, evidence }))
            if source.is_same_with(one, other) || are_alike(source, one, other) =>
        {
            (Reading::Same, unsure(evidence, at.clone()))
        }
        (Ok(one), Ok(Placed { splices: other, .. })) => (Reading::Differs, differing(source, [one, other])),
        (Err(refused), Ok(_)) => {
            let reading = match refused.code {
                Code::NoAnchor => Reading::NoAnchor,
                Code::AmbiguousLocation => Reading::Ambiguous,
                Code::AmbiguousDeletion => Reading::Deletion,
                _ => Reading::Other,
            };
            (reading, refused.clone())
        }
    };
    let Ok(Placed { splices, evidence, .. }) = by_ranges else { return Err(refused) };
    let evidence = evidence.beside(reading);
    if asked == Asked::Any || decision::is_sure(&evidence) { Ok((splices, Some(evidence))) } else { Err(refused) }
}

/// Whether two texts differ only in the white space of blank lines.
fn are_alike(source: &Source, one: &[Splice], other: &[Splice]) -> bool {
    let [one, other] = [one, other].map(|splices| source.with(splices));
    let lines = |text: &str| -> Vec<String> {
        text.lines().map(|line| if is_blank(line) { String::new() } else { line.to_owned() }).collect()
    };
    lines(&one) == lines(&other)
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
    let message = format!("the update can be read in more than one way, around {}", named(&at));
    Refused::new(Code::AmbiguousLocation, message, AS_A_BLOCK).at(at)
}

/// The refusal of the one reading that there is.
fn unsure(evidence: &Evidence, at: Vec<(usize, usize)>) -> Refused {
    if evidence.holds_what_goes() {
        return ambiguous(at);
    }
    let message = format!(
        "lines would go around {}, and a line that is shown beside them may be another one that is equal",
        named(&at)
    );
    let hint = "show two lines above or below what goes, or send it as a SEARCH/REPLACE block";
    Refused::new(Code::AmbiguousDeletion, message, hint).at(at)
}

fn weak(at: Vec<(usize, usize)>) -> Refused {
    let message = format!("too little of the update stands in the file to place it, perhaps at {}", named(&at));
    Refused::new(Code::AmbiguousLocation, message, AS_A_BLOCK).at(at)
}
