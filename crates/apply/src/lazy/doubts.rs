//! What makes a choice of ranges doubtful: lines that go with little to show it, runs that can stand elsewhere, ends that say
//! little.
//!
//! Invariant: it only refuses, and changes no choice.

use super::candidates::Candidate;
use super::changed_ends::MIN_SHARE;
use super::choice::Choice;
use super::indent::indent;
use super::keys::declared_name;
use super::likeness::LineFeatures;
use super::lines::{is_blank, is_distinctive};
use super::scopes::{belongs_to_the_next, is_annotation};
use super::weights::Weights;
use std::ops::Range;

/// Of so many lines that go, with nothing that stands for them nor comes, a marker may have been forgotten.
const FORGOTTEN: usize = 8;
/// The same where lines come in their place, but none that stands once in the file holds the change on each side.
const FORGOTTEN_UNHELD: usize = 15;
/// Of so many lines that go alone, with nothing but brackets and blank lines shown above or below, these may be others that are equal.
const SEVERAL: usize = 2;
/// A line that has so much less in common with a changed one than the line in its place is none that it may stand for (percent).
const LESS_LIKE: i32 = 10;

/// Lines that go with too little to show that they should: a marker may be missing there, or a line that is shown be another
/// one that is equal.
pub(super) fn doubtful(choice: &Choice<'_>, part: usize) -> Option<(usize, usize)> {
    let kept = &choice.kept[part];
    let hunk = choice.hunks[part].iter().find(|[gone, comes]| {
        let lost = lost(choice.weights, gone.clone(), comes.clone());
        let is_held = is_held(choice.weights, kept, gone);
        let declares = |line: &usize| declared_name(choice.weights.source.line(*line)).is_some();
        let is_deletion = comes.is_empty() && (lost.len() >= FORGOTTEN || lost.iter().any(declares) && !is_held);
        // Lines that the file has at another indentation as well may be those, so they hold nothing that is declared.
        let at_one_depth = |token: usize| !choice.weights.stands_at_other_depths(token);
        let may_be_apart =
            is_held && lost.iter().any(declares) && !is_held_by(choice.weights, kept, gone, at_one_depth);
        let code = lost.iter().filter(|&&line| !belongs_to_the_next(choice.weights.source.line(line))).count();
        let is_bare = code >= SEVERAL && !is_between_words(choice.weights, kept, gone, comes);
        let is_other = lost.len() >= FORGOTTEN_UNHELD && !is_held;
        is_deletion || may_be_apart || is_bare || is_other || joins_blocks(choice.weights, kept, [gone, comes], &lost)
    });
    hunk.map(|[gone, _]| (gone.start, gone.end - 1))
}

/// Whether lines come in the place of those that go, or lines with words are shown both above and below them, the closers of blocks that are named, or
/// an edge of the file.
fn is_between_words(weights: &Weights<'_>, kept: &[(usize, usize)], gone: &Range<usize>, comes: &Range<usize>) -> bool {
    let says = |pair: &(usize, usize)| {
        is_distinctive(weights.text(pair.0)) || weights.places[pair.0].closes.is_some() && is_its_closer(weights, pair)
    };
    let replaces = comes.clone().any(|token| !is_blank(weights.text(token)));
    let [no_first, no_last] = weights.prepared.implied;
    let is_first = no_first && kept.first().is_some_and(|pair| pair.1 == 0);
    let last = || (0..weights.source.line_count()).rev().find(|&line| !is_blank(weights.source.line(line)));
    let is_last = || no_last && kept.iter().any(|pair| Some(pair.1) == last());
    let above = || is_first || kept.iter().any(|pair| pair.1 < gone.start && says(pair));
    let below = || kept.iter().any(|pair| pair.1 >= gone.end && says(pair)) || is_last();
    replaces || above() && below()
}

/// Whether a declaration goes that is further out than the lines above and below it, and none as far out comes: these are of two blocks, and would be
/// of one.
fn joins_blocks(
    weights: &Weights<'_>,
    kept: &[(usize, usize)],
    [gone, comes]: [&Range<usize>; 2],
    lost: &[usize],
) -> bool {
    let depth = |line: usize| indent(weights.source.line(line)).len();
    let full = |pair: &&(usize, usize)| !is_blank(weights.text(pair.0));
    let above = kept.iter().rev().filter(full).find(|pair| pair.1 < gone.start).map(|pair| depth(pair.1));
    let below = kept.iter().filter(full).find(|pair| pair.1 >= gone.end).map(|pair| depth(pair.1));
    let Some(inner) = above.zip(below).map(|(above, below)| above.min(below)) else { return false };
    let is_out = |token: usize| !is_blank(weights.text(token)) && indent(weights.text(token)).len() < inner;
    !comes.clone().any(is_out)
        && lost.iter().any(|&line| depth(line) < inner && declared_name(weights.source.line(line)).is_some())
}

/// Whether a line that stands once in the file is shown on both sides of lines that go, in the unbroken runs around them.
pub(super) fn is_held(weights: &Weights<'_>, kept: &[(usize, usize)], gone: &Range<usize>) -> bool {
    is_held_by(weights, kept, gone, |_| true)
}

/// Whether a line that closes a block of the update stands where the file closes that block, if it does.
fn is_its_closer(weights: &Weights<'_>, &(token, line): &(usize, usize)) -> bool {
    let place = &weights.places[token];
    place.closes.is_none() || place.line == Some(line)
}

/// The same by lines for which a condition holds.
fn is_held_by(
    weights: &Weights<'_>,
    kept: &[(usize, usize)],
    gone: &Range<usize>,
    condition: impl Fn(usize) -> bool,
) -> bool {
    let is_holding =
        |pair: &(usize, usize)| holds(weights, pair.0) && is_its_closer(weights, pair) && condition(pair.0);
    let above = kept.iter().rev().skip_while(|(_, line)| *line >= gone.start);
    let mut above = above.zip((0..gone.start).rev()).take_while(|(pair, line)| pair.1 == *line);
    let below = kept.iter().skip_while(|(_, line)| *line < gone.end);
    let mut below = below.zip(gone.end..).take_while(|(pair, line)| pair.1 == *line);
    above.any(|(pair, _)| is_holding(pair)) && below.any(|(pair, _)| is_holding(pair))
}

/// Whether all parts can stand in the file as they are, one after the other.
pub(super) fn may_be_applied(choice: &Choice<'_>) -> bool {
    let mut at = 0;
    choice.parts.iter().all(|part| {
        let ends = part.iter().filter(|it| it.is_idle && it.lines.start >= at).map(|it| it.lines.end);
        ends.min().inspect(|end| at = *end).is_some()
    })
}

/// Whether a line goes by one candidate that another one leaves where it is.
pub(super) fn loses(choice: &Choice<'_>, chosen: &Candidate, other: &Candidate) -> bool {
    let weights = choice.weights;
    let stands = |line: usize| chosen.tokens.clone().any(|token| weights.ids[token] == Some(weights.numbers[line]));
    let mut alone = chosen.lines.clone().filter(|line| !other.lines.contains(line));
    alone.any(|line| !is_blank(weights.source.line(line)) && !stands(line))
}

/// Whether a line stands once in the file and stands for itself.
pub(super) fn holds(weights: &Weights<'_>, token: usize) -> bool {
    let text = weights.text(token);
    let place = &weights.places[token];
    weights.stands_once(token) && is_distinctive(text) && !is_annotation(text)
        || place.closes.is_some() && place.line.is_some()
}

/// The lines with text that go, and for which none of those stands that come: each of these stands for one.
pub(super) fn lost(weights: &Weights<'_>, gone: Range<usize>, comes: Range<usize>) -> Vec<usize> {
    let mut left: Vec<usize> = comes.filter(|&token| !is_blank(weights.text(token))).collect();
    let mut is_stood_for = |line: usize| {
        let text = weights.source.line(line).trim();
        let same = left.iter().position(|&token| weights.text(token).trim() == text);
        let found = same.or_else(|| left.iter().position(|&token| weights.replaces(token, line)));
        found.is_some_and(|at| {
            left.remove(at);
            true
        })
    };
    gone.filter(|&line| !is_blank(weights.source.line(line)) && !is_stood_for(line)).collect()
}

/// How many ends of parts are shown only by lines that say little, such as brackets, and that stand again where a marker
/// hides the file: what lies between may be meant to go.
pub(super) fn weak_ends(choice: &Choice<'_>) -> usize {
    let weights = choice.weights;
    let all: Vec<&Candidate> = choice.chosen().collect();
    let is_weak =
        |&(token, _): &(usize, usize)| !is_distinctive(weights.text(token)) && weights.places[token].closes.is_none();
    let stands_in = |run: &[(usize, usize)], hidden: Range<usize>| {
        let ids: Vec<u32> = run.iter().map(|&(_, line)| weights.numbers[line]).collect();
        hidden
            .clone()
            .any(|line| weights.numbers[line] == ids[0] && weights.numbers[line..hidden.end].starts_with(&ids))
    };
    let (mut ends, mut from) = (0, 0);
    for (at, candidate) in all.iter().enumerate() {
        let to = all.get(at + 1).map_or(weights.source.line_count(), |next| next.lines.start);
        let mut runs = choice.kept[at].chunk_by(|one, other| one.1 + 1 == other.1 && one.0 + 1 == other.0);
        let first = runs.next();
        let last = runs.last().or(first).filter(|run| run[run.len() - 1].0 + 1 == candidate.tokens.end);
        let first = first.filter(|run| run[0].0 == candidate.tokens.start);
        let above = first.is_some_and(|run| run.iter().all(is_weak) && stands_in(run, from..candidate.lines.start));
        let below = last.is_some_and(|run| run.iter().all(is_weak) && stands_in(run, candidate.lines.end..to));
        ends += if candidate.is_idle { 0 } else { usize::from(above) + usize::from(below) };
        from = candidate.lines.end;
    }
    ends
}

/// Whether the parts that change something can stand in the file in one way only, by the lines of them that stay: in runs that are unbroken
/// there, in their order. Where a part stands that changes nothing makes no other text, as long as it has a place between the others.
pub(super) fn stands_once(choice: &Choice<'_>) -> bool {
    // Ends of the runs so far, and the ways in which they can end there.
    let mut ends: Vec<(usize, usize)> = vec![(0, 1)];
    for (kept, chosen) in choice.kept.iter().zip(choice.chosen()) {
        for run in kept.chunk_by(|one, other| one.1 + 1 == other.1) {
            let places = places_of(choice.weights, chosen, kept, run);
            ends = if chosen.is_idle {
                first_ends(&ends, &places, run.len())
            } else {
                all_ends(&ends, &places, run.len())
            };
        }
    }
    ends.iter().map(|(_, ways)| ways).sum::<usize>() == 1
}

/// The ends of a run that may stand in any of its places.
fn all_ends(ends: &[(usize, usize)], places: &[usize], length: usize) -> Vec<(usize, usize)> {
    let (mut seen, mut sum) = (0, 0_usize);
    let mut next = Vec::new();
    for place in places {
        while seen < ends.len() && ends[seen].0 <= *place {
            sum = (sum + ends[seen].1).min(2);
            seen += 1;
        }
        if sum > 0 {
            next.push((place + length, sum));
        }
    }
    next
}

/// The ends of a run that takes the first of its places.
fn first_ends(ends: &[(usize, usize)], places: &[usize], length: usize) -> Vec<(usize, usize)> {
    let mut next: Vec<(usize, usize)> = Vec::new();
    for (end, ways) in ends {
        let Some(place) = places.get(places.partition_point(|place| place < end)) else { continue };
        match next.last_mut().filter(|last| last.0 == place + length) {
            Some(last) => last.1 = (last.1 + ways).min(2),
            None => next.push((place + length, *ways)),
        }
    }
    next
}

/// Where a run of lines, each with its line of the snippet, can stand: where it does if the blocks around it or an edge of
/// the file say so, and else where a line beside it is as like the changed one that is shown there.
fn places_of(weights: &Weights<'_>, chosen: &Candidate, kept: &[(usize, usize)], run: &[(usize, usize)]) -> Vec<usize> {
    let Weights { source, lines, prepared, places, .. } = weights;
    let is_placed = |&(token, line): &(usize, usize)| {
        let place = &places[token];
        place.is_same && place.line == Some(line) && (place.closes.is_some() || place.inside.is_some())
    };
    let [no_first, no_last] = prepared.implied;
    let (first, last) = (run[0].1, run[run.len() - 1].1);
    let is_at_edge = no_first && first == 0 || no_last && last + 1 == source.line_count();
    if is_at_edge || run.iter().any(is_placed) {
        return vec![first];
    }
    let ids: Vec<u32> = run.iter().map(|(_, line)| lines.ids[*line]).collect();
    let mut found: Vec<usize> = lines.runs(&ids).collect();
    if found.len() > 1 {
        let above = run[0].0.checked_sub(1).zip(first.checked_sub(1)).map(|beside| (beside, -1));
        let below = Some(((run[run.len() - 1].0 + 1, last + 1), run.len() as isize));
        for ((token, line), off) in [above, below].into_iter().flatten() {
            let is_changed = chosen.tokens.contains(&token)
                && chosen.lines.contains(&line)
                && !kept.iter().any(|pair| pair.0 == token || pair.1 == line);
            let new = LineFeatures::of(weights.text(token));
            let share = |line: usize| new.share_with(&LineFeatures::of(source.line(line)));
            let here = if is_changed { share(line) } else { 0 };
            let there = |place: usize| place.checked_add_signed(off).filter(|line| *line < source.line_count());
            let is_like = |place: &usize| there(*place).is_some_and(|line| share(line) > here - LESS_LIKE);
            found.retain(|place| here < MIN_SHARE || *place == first || is_like(place));
        }
    }
    found
}
