//! Ends of a part that stand a little further on in what a marker hides: what lies between may be meant to go.
//!
//! Invariant: it only refuses, and changes no choice.

use super::choice::Choice;
use super::doubts;
use super::lines::{Lines, is_blank, is_distinctive};
use crate::source::Source;
use std::collections::BTreeSet;
use std::ops::Range;

/// Lines with text beyond an end that are looked at.
const REACH: usize = 10;
/// So many lines in a row, one of them new and once in the file, are no chance.
const IN_A_ROW: usize = 2;

/// The lines of the file that the outermost lines of a part are as well, although the chosen range takes some of them as new.
pub(super) fn ends_further_on(choice: &Choice<'_>, part: usize) -> Option<(usize, usize)> {
    let chosen = &choice.parts[part][choice.best[part]];
    let lines = |at: usize| choice.parts[at][choice.best[at]].lines.clone();
    let above = part.checked_sub(1).map_or(0, |above| lines(above).end);
    let below = if part + 1 < choice.parts.len() { lines(part + 1).start } else { choice.weights.source.line_count() };
    let full_line = |line: &usize| !is_blank(choice.weights.source.line(*line));
    let full = |token: &usize| !is_blank(choice.weights.text(*token));
    let tokens = || chosen.tokens.clone().filter(full);
    let outer = |above: Range<usize>| above.rev().filter(full_line).take(REACH).collect::<Vec<usize>>();
    let above: Vec<usize> = outer(above..chosen.lines.start);
    let below: Vec<usize> = (chosen.lines.end..below).filter(full_line).take(REACH).collect();
    stands(choice, part, tokens(), above.iter().rev().copied().collect())
        .or_else(|| stands(choice, part, tokens().rev(), below.into_iter().rev().collect()))
}

/// The place of the first of these lines of the update, in a row, among lines of the file in the same order.
fn stands(
    choice: &Choice<'_>,
    part: usize,
    tokens: impl Iterator<Item = usize>,
    lines: Vec<usize>,
) -> Option<(usize, usize)> {
    let weights = choice.weights;
    let is_same = |token: usize, line: usize| weights.ids[token] == Some(weights.numbers[line]);
    let is_new = |token: usize| {
        let is_kept = choice.kept[part].iter().any(|pair| pair.0 == token);
        !is_kept && weights.stands_once(token) && is_distinctive(weights.text(token))
    };
    let tokens: Vec<usize> = tokens.take(lines.len()).collect();
    (0..lines.len()).find_map(|from| {
        let pairs = tokens.iter().copied().zip(lines[from..].iter().copied());
        let row: Vec<(usize, usize)> = pairs.take_while(|&(token, line)| is_same(token, line)).collect();
        let is_row = row.len() >= IN_A_ROW && row.iter().any(|pair| is_new(pair.0));
        is_row.then(|| {
            let at = row.iter().map(|pair| pair.1);
            (at.clone().min().unwrap_or_default(), at.max().unwrap_or_default())
        })
    })
}

/// A line of the file that comes anew in one place while it goes in another one, as where things are numbered anew: which of them a line is
/// cannot be told where a marker hides some.
pub(super) fn goes_elsewhere(choice: &Choice<'_>, part: usize) -> Option<(usize, usize)> {
    let weights = choice.weights;
    let gone = |line: usize| {
        let hunks = choice.hunks.iter().flatten();
        hunks.filter(|[_, comes]| !comes.is_empty()).any(|[gone, _]| gone.contains(&line))
    };
    let holding: Vec<usize> =
        choice.kept[part].iter().map(|pair| pair.0).filter(|&token| doubts::holds(weights, token)).collect();
    let is_held = |comes: &Range<usize>| {
        holding.first().is_some_and(|first| *first < comes.start)
            && holding.last().is_some_and(|last| *last >= comes.end)
    };
    let hunks = choice.hunks[part].iter().filter(|[_, comes]| !is_held(comes));
    let comes = hunks.flat_map(|[gone, comes]| comes.clone().map(move |token| (token, gone)));
    let mut places = comes.filter_map(|(token, here)| {
        let id = weights.ids[token].filter(|_| weights.stands_once(token) && is_distinctive(weights.text(token)))?;
        weights.lines.place_of_first(id).filter(|line| !here.contains(line) && gone(*line))
    });
    places.next().map(|line| (line, line))
}

/// Whether the file has the first line of a block, and at least a third of the others, at another indentation: it may be one of the file, written
/// less deep.
pub(super) fn stands_at_another_depth(source: &Source, lines: &Lines<'_>, block: &[&str]) -> bool {
    let telling = || block.iter().filter(|line| is_distinctive(line));
    let Some(first) = telling().next().filter(|line| lines.id_of(line).is_none()) else { return false };
    if !source.lines().any(|line| line.trim() == first.trim()) {
        return false;
    }
    let old: BTreeSet<&str> = source.lines().map(str::trim).collect();
    let is_moved = |line: &&&str| lines.id_of(line).is_none() && old.contains(line.trim());
    let moved = telling().filter(is_moved).count();
    moved > 1 && 3 * moved >= telling().count()
}
