//! Places a snippet by ranges: each part takes the place of one range of lines of the file, and all else stays.
//!
//! It does not say what the parts change, so it agrees with nothing that was found otherwise. Invariant: a text is given only
//! with how much worse the next choice of ranges is that gives another one.

use super::candidates::{Candidate, candidates};
use super::choice::Choice;
use super::doubts;
use super::lines::{Lines, UNIT, is_blank};
use super::prepared::PreparedSnippet;
use super::weights::Weights;
use crate::format::replaced;
use crate::source::Source;
use crate::splice::Splice;
use std::ops::Range;

/// Choices that are worse by less than this are rivals.
const MARGIN: i32 = UNIT;
/// The same, if they leave a line where it is that goes by the better one.
const MARGIN_OF_LINES: i32 = 2 * UNIT;
/// The same, if they differ in blank lines only.
const MARGIN_OF_BLANKS: i32 = UNIT / 4;
/// A choice whose rivals are all worse by this much needs no other reading.
const CERTAIN: i32 = 4 * UNIT;
/// The margin of a part that ends with a line which stands again beyond it, and says little.
const MARGIN_OF_WEAK: i32 = 5 * UNIT;
/// Candidates that are worse than the best of their part by more than this are left out at first, and in any case.
const KEPT: i32 = 8 * UNIT;
const KEPT_AT_MOST: i32 = 40 * UNIT;

/// Why a snippet was not placed.
pub(super) enum Failed {
    /// A part has no place, or a weak one.
    NoPlace,
    /// These lines of the file, and others, could be meant.
    Ambiguous(Vec<(usize, usize)>),
}

/// A snippet that has one place.
pub(super) struct Placed {
    pub splices: Vec<Splice>,
    /// Whether no other place comes near.
    pub is_certain: bool,
}

/// Places a snippet.
pub(super) fn locate(source: &Source, lines: &Lines<'_>, prepared: &PreparedSnippet<'_>) -> Result<Placed, Failed> {
    let weights = Weights::of(source, lines, prepared);
    let full = |segment: &&Range<usize>| (*segment).clone().any(|token| !is_blank(prepared.text(token)));
    let mut kept = KEPT;
    loop {
        let segments = prepared.segments.iter().filter(full);
        let parts: Vec<Vec<Candidate>> = segments.map(|segment| candidates(&weights, segment, kept)).collect();
        let least: i32 = parts.iter().filter_map(|part| part.first()).map(|candidate| candidate.cost).sum();
        let choice = Choice::best(&weights, &parts);
        // What was left out costs more than this.
        let total = choice.as_ref().map(Choice::total);
        let may_miss = total.is_none_or(|total| total + MARGIN_OF_WEAK > least + kept);
        if may_miss && kept == KEPT && !parts.iter().any(Vec::is_empty) {
            kept = total.map_or(KEPT_AT_MOST, |total| total - least + MARGIN_OF_WEAK);
            continue;
        }
        return checked(&choice.ok_or(Failed::NoPlace)?);
    }
}

/// The changes, if nothing else could be meant.
fn checked(choice: &Choice<'_>) -> Result<Placed, Failed> {
    if choice.chosen().any(|candidate| candidate.is_unsure) {
        return Err(Failed::NoPlace);
    }
    let mut is_certain = true;
    let weak = doubts::weak_ends(choice) > 0;
    for (part, chosen) in choice.chosen().enumerate() {
        for (other, through) in choice.parts[part].iter().zip(&choice.through[part]) {
            let worse = through - choice.total();
            if worse >= MARGIN_OF_WEAK || other == chosen {
                continue;
            }
            let is_same = |with_blanks| choice.are_same(chosen, other, with_blanks);
            let least = match () {
                () if weak => MARGIN_OF_WEAK,
                () if worse < MARGIN_OF_LINES && doubts::loses(choice, chosen, other) => MARGIN_OF_LINES,
                () => MARGIN,
            };
            let least = if worse < least && is_same(false) { MARGIN_OF_BLANKS } else { least };
            if worse < least && !is_same(true) {
                return Err(Failed::Ambiguous(vec![choice.shown(chosen), choice.shown(other)]));
            }
            is_certain &= worse >= CERTAIN || is_same(false);
        }
    }
    if doubts::may_be_applied(choice) && choice.chosen().any(|candidate| !candidate.is_idle)
        || !doubts::stands_once(choice)
    {
        return Err(Failed::Ambiguous(choice.chosen().map(|candidate| choice.shown(candidate)).collect()));
    }
    if let Some(gone) = choice.chosen().find_map(|candidate| doubts::doubtful(choice, candidate)) {
        return Err(Failed::Ambiguous(vec![gone]));
    }
    let change = |candidate: &Candidate| {
        let old: Vec<&str> = candidate.lines.clone().map(|line| choice.weights.source.line(line)).collect();
        replaced(choice.weights.source, candidate.lines.start, &old, &choice.text_of(candidate))
    };
    Ok(Placed { splices: choice.chosen().flat_map(change).collect(), is_certain: is_certain && !weak })
}
