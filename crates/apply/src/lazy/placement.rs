//! Places a snippet by ranges: each part takes the place of one range of lines of the file, and all else stays.
//!
//! It does not say what the parts change, so it agrees with nothing that was found otherwise. Invariant: a text is given only
//! with how much worse the next choice of ranges is that gives another one.

use super::candidates::{Candidate, Finder};
use super::choice::Choice;
use super::doubts;
use super::lines::{Lines, UNIT};
use super::moved;
use super::otherwise;
use super::part::Part;
use super::prepared::PreparedSnippet;
use super::weighed::WIDE;
use super::weights::Weights;
use crate::evidence::Evidence;
use crate::format::replaced;
use crate::source::Source;
use crate::splice::Splice;

/// Candidates that are worse than the best of their part by more than this are left out at first, and in any case.
const KEPT: i32 = 6 * UNIT;
const KEPT_AT_MOST: i32 = 20 * UNIT;

/// More places of all lines of a snippet are not looked at: these take 128 MB.
const MAX_PLACES: usize = 8_000_000;
/// So many candidates that lose a line are passed over, to bound the work.
const MAX_UNLAWFUL: usize = 6;

/// Why a snippet was not placed.
pub(super) enum Failed {
    /// A part has no place, or a weak one.
    NoPlace,
    /// These lines of the file, and others, could be meant.
    Ambiguous(Vec<(usize, usize)>),
}

/// The cheapest choice of ranges.
pub(super) struct Placed {
    pub splices: Vec<Splice>,
    /// What speaks for it and against it.
    pub evidence: Evidence,
    /// The ranges that it changes, and those of the nearest other choices.
    pub at: Vec<(usize, usize)>,
}

/// Places a snippet. `lost` names a line of the file that goes by changes although no line of the snippet stands for it: a choice that loses
/// one is none.
pub(super) fn locate(
    source: &Source,
    lines: &Lines<'_>,
    prepared: &PreparedSnippet<'_>,
    lost: impl Fn(&[Splice]) -> Option<usize>,
) -> Result<Placed, Failed> {
    let weights = Weights::of(source, lines, prepared);
    let count: usize = weights.ids.iter().flatten().map(|&id| lines.count_of(id)).sum();
    if count > MAX_PLACES {
        return Err(Failed::NoPlace);
    }
    let parts = prepared.segments.iter().filter_map(|segment| Part::of(prepared, segment));
    let finders: Vec<Finder<'_>> = parts.map(|part| Finder::new(&weights, part)).collect();
    let found = |kept: i32| finders.iter().map(|finder| finder.candidates(kept)).collect();
    let (mut kept, mut parts): (i32, Vec<Vec<Candidate>>) = (KEPT, found(KEPT));
    let mut unlawful: Vec<Candidate> = Vec::new();
    loop {
        let least: i32 = parts.iter().filter_map(|part| part.first()).map(|candidate| candidate.cost).sum();
        let choice = Choice::best(&weights, &parts);
        // What was left out costs more than this.
        let total = choice.as_ref().map(Choice::total);
        let may_miss = total.is_none_or(|total| total + WIDE > least + kept);
        if may_miss && kept == KEPT && !parts.iter().any(Vec::is_empty) {
            kept = total.map_or(KEPT_AT_MOST, |total| (total - least + WIDE).min(KEPT_AT_MOST));
            parts = found(kept);
            parts.iter_mut().for_each(|part| part.retain(|candidate| !unlawful.contains(candidate)));
            continue;
        }
        // Of rivals that were left out nothing is known.
        let choice = choice.filter(|_| !may_miss).ok_or(Failed::NoPlace)?;
        let placed = checked(&choice)?;
        let may_lose = placed.evidence.lost_all > 0 && unlawful.len() < MAX_UNLAWFUL;
        let Some(line) = may_lose.then(|| lost(&placed.splices)).flatten() else { return Ok(placed) };
        let Some(part) = choice.chosen().position(|it| it.lines.contains(&line)) else { return Ok(placed) };
        let at = choice.best[part];
        unlawful.push(parts[part].remove(at));
    }
}

/// The changes, with what speaks against them.
fn checked(choice: &Choice<'_>) -> Result<Placed, Failed> {
    let doubtful = |part: usize| {
        doubts::doubtful(choice, part)
            .or_else(|| moved::ends_further_on(choice, part))
            .or_else(|| otherwise::meant(choice, part))
            .or_else(|| moved::goes_elsewhere(choice, part))
    };
    if let Some(at) = (0..choice.parts.len()).find_map(doubtful) {
        return Err(Failed::Ambiguous(vec![at]));
    }
    let change = |(part, candidate): (usize, &Candidate)| {
        let old: Vec<&str> = candidate.lines.clone().map(|line| choice.weights.source.line(line)).collect();
        replaced(choice.weights.source, candidate.lines.start, &old, &choice.text_of(part))
    };
    let splices = choice.chosen().enumerate().flat_map(change).collect();
    Ok(Placed { splices, evidence: Evidence::of(choice), at: nearest(choice) })
}

/// The lines of the parts that can stand elsewhere, here and there; else those of all.
fn nearest(choice: &Choice<'_>) -> Vec<(usize, usize)> {
    let mut at = Vec::new();
    for (part, chosen) in choice.chosen().enumerate() {
        let others = choice.parts[part].iter().zip(&choice.through[part]);
        let others = others.filter(|(other, through)| *through - choice.total() < WIDE && *other != chosen);
        if let Some((other, _)) = others.min_by_key(|(_, through)| **through) {
            at.extend([choice.shown(chosen), choice.shown(other)]);
        }
    }
    if at.is_empty() { choice.chosen().map(|candidate| choice.shown(candidate)).collect() } else { at }
}
