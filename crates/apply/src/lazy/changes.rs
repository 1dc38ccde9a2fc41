//! Turns the steps of an alignment into splices.
//!
//! Invariant: lines that matched keep the bytes of the file; everything else that is new is
//! a line of the snippet.

use super::align::Step;
use super::lines::is_blank;
use super::prepared::PreparedSnippet;
use crate::source::Source;
use crate::splice::Splice;
use std::ops::Range;

/// A change of a run of lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Change {
    /// First deleted line of the file, or the one before which lines are inserted.
    pub start: usize,
    /// The line after the last deleted one.
    pub end: usize,
    /// Tokens of the new lines.
    pub new: Vec<usize>,
}

/// The changes that steps make, in order.
pub(crate) fn changes(prepared: &PreparedSnippet<'_>, steps: &[Step]) -> Vec<Change> {
    let steps = without_padding(prepared, steps);
    let mut changes: Vec<Change> = Vec::new();
    let mut at = 0;
    let mut open = Change { start: 0, end: 0, new: Vec::new() };
    let mut close = |open: &mut Change, at: usize, next: usize| {
        // Lines between the last step and this one are deleted.
        open.end = at;
        if open.end > open.start || !open.new.is_empty() {
            changes.push(std::mem::replace(open, Change { start: next, end: next, new: Vec::new() }));
        }
        (open.start, open.end) = (next, next);
    };
    for (token, step) in steps.iter().enumerate() {
        match *step {
            Some(Step::Matched(line)) => {
                close(&mut open, line, line + 1);
                at = line + 1;
            }
            Some(Step::Replaces(line)) => {
                open.new.push(token);
                at = line + 1;
            }
            Some(Step::New(_)) => open.new.push(token),
            Some(Step::Kept(from, to)) => {
                close(&mut open, from.max(at), to);
                at = to;
            }
            None => {}
        }
    }
    close(&mut open, at, at);
    changes
}

/// The splices of changes.
pub(crate) fn splices(source: &Source, prepared: &PreparedSnippet<'_>, changes: &[Change]) -> Vec<Splice> {
    let mut splices = Vec::with_capacity(changes.len());
    for change in changes {
        let mut new: Vec<&str> = change.new.iter().map(|&token| prepared.text(token)).collect();
        let (mut start, mut end) = (change.start, change.end);
        // Lines that are the same on both sides do not change.
        let same = |line: &str, number: usize| line == source.line(number);
        while start < end && new.first().is_some_and(|line| same(line, start)) {
            new.remove(0);
            start += 1;
        }
        while start < end && new.last().is_some_and(|line| same(line, end - 1)) {
            new.pop();
            end -= 1;
        }
        if start == end && new.is_empty() {
            continue;
        }
        let text = new.iter().flat_map(|line| [*line, "\n"]).collect();
        splices.push(Splice { old: source.bytes_of(start..end), new: text });
    }
    splices
}

/// Blank lines between a marker and a line of the file are padding; each such step is taken out.
fn without_padding(prepared: &PreparedSnippet<'_>, steps: &[Step]) -> Vec<Option<Step>> {
    let mut kept: Vec<Option<Step>> = steps.iter().copied().map(Some).collect();
    let is_new_blank = |token: usize| {
        matches!(steps[token], Step::New(_)) && prepared.is_line(token) && is_blank(prepared.text(token))
    };
    for token in (0..steps.len()).filter(|&token| !prepared.is_line(token)) {
        let after: Vec<usize> = (token + 1..steps.len()).take_while(|&next| is_new_blank(next)).collect();
        let next = token + 1 + after.len();
        if next < steps.len() && matches!(steps[next], Step::Matched(_)) {
            after.iter().for_each(|&blank| kept[blank] = None);
        }
        let before: Vec<usize> = (0..token).rev().take_while(|&next| is_new_blank(next)).collect();
        if before.len() < token && matches!(steps[token - before.len() - 1], Step::Matched(_)) {
            before.iter().for_each(|&blank| kept[blank] = None);
        }
    }
    kept
}

/// Blank lines beside a marker, a new block, as many blank lines as the file has in this gap or more, a line of the file:
/// the blank lines beside the marker are those of the gap next to it, the rest of the gap stays, and what is on the other
/// side of the block is new.
fn keep_gap(source: &Source, prepared: &PreparedSnippet<'_>, steps: &mut [Step], marker: usize, side: Side) {
    let Step::Kept(from, to) = steps[marker] else { return };
    let out = |count: usize| match side {
        Side::Below => marker.checked_add(count).filter(|&token| token < steps.len() && prepared.is_line(token)),
        Side::Above => marker.checked_sub(count).filter(|&token| prepared.is_line(token)),
    };
    let is_blank_at = |token: usize| is_blank(prepared.text(token));
    let shown = (1..).map_while(out).take_while(|&token| is_blank_at(token)).count();
    if shown == 0 {
        return;
    }
    let run: Vec<usize> = (1..).map_while(out).collect();
    let is_held = |token: &&usize| !is_blank_at(**token) && !matches!(steps[**token], Step::New(_));
    let Some(held) = run.iter().position(|token| is_held(&token)) else { return };
    let Step::Matched(line) = steps[run[held]] else { return };
    let set_off = run[..held].iter().rev().take_while(|&&token| is_blank_at(token)).count();
    let blank = |line: &usize| is_blank(source.line(*line));
    let gap = match side {
        Side::Below => (0..line).rev().take_while(blank).count(),
        Side::Above => (line + 1..source.line_count()).take_while(blank).count(),
    };
    if held <= shown + set_off || gap <= shown || set_off < gap {
        return;
    }
    let kept = match side {
        Side::Below if to <= line && line - gap >= from => Step::Kept(from, line - shown),
        Side::Above if from > line && line + gap < to => Step::Kept(line + 1 + shown, to),
        Side::Below | Side::Above => return,
    };
    for (place, &token) in run[..held].iter().enumerate() {
        steps[token] = match (side, place < shown) {
            (Side::Below, true) => Step::Matched(line - shown + place),
            (Side::Below, false) => Step::New(line),
            (Side::Above, true) => Step::Matched(line + shown - place),
            (Side::Above, false) => Step::New(line + 1),
        };
    }
    steps[marker] = kept;
}

/// Where blank lines belong to the markers, a blank line beside a marker that matches one of the file deletes nothing.
fn keep_padded(source: &Source, prepared: &PreparedSnippet<'_>, steps: &mut [Step]) {
    let is_padding = |token: usize| prepared.is_line(token) && is_blank(prepared.text(token));
    let goes = |mut lines: Range<usize>| lines.any(|line| !is_blank(source.line(line)));
    for marker in (0..steps.len()).filter(|&token| !prepared.is_line(token)) {
        let line_of = |token: usize| match steps.get(token) {
            Some(Step::Matched(line) | Step::Replaces(line)) if prepared.is_line(token) => Some(*line),
            _ => None,
        };
        let below = line_of(marker + 1).zip(line_of(marker + 2)).filter(|_| is_padding(marker + 1));
        let above = marker.checked_sub(2).and_then(|token| line_of(token).zip(line_of(token + 1)));
        let above = above.filter(|_| is_padding(marker - 1));
        if let (Some((pad, line)), Step::Kept(from, _)) = (below, steps[marker])
            && goes(pad + 1..line)
        {
            (steps[marker], steps[marker + 1]) = (Step::Kept(from, line), Step::New(line));
        }
        if let (Some((line, pad)), Step::Kept(_, to)) = (above, steps[marker])
            && goes(line + 1..pad)
        {
            (steps[marker], steps[marker - 1]) = (Step::Kept(line + 1, to), Step::New(line + 1));
        }
    }
}

/// A side of a marker.
#[derive(Clone, Copy)]
enum Side {
    Above,
    Below,
}

/// Sets new blocks apart: where a block of new lines has a blank line of the file on one side and none on the other, which is
/// a marker, the blank line is a new one, and the file's own stands on the other side.
pub(crate) fn set_apart(source: &Source, prepared: &PreparedSnippet<'_>, steps: &mut [Step]) {
    if prepared.is_padded() {
        keep_padded(source, prepared, steps);
    }
    let blank = |line: usize| line < source.line_count() && is_blank(source.line(line));
    let is_new = |step: &Step| matches!(step, Step::New(_));
    for token in (0..steps.len()).filter(|&token| !prepared.is_line(token)) {
        let Step::Kept(from, to) = steps[token] else { continue };
        // … blank of the file, new lines, marker.
        let first = (0..token).rev().take_while(|&near| is_new(&steps[near])).last();
        if let Some(first) =
            first.filter(|&first| first > 0 && !is_blank(prepared.text(first)) && !is_blank(prepared.text(token - 1)))
            && let Step::Matched(line) = steps[first - 1]
            && blank(line)
            && line + 1 == from
            && from < to
            && !blank(from)
        {
            steps[first - 1] = Step::New(line);
            steps[token] = Step::Kept(line, to);
        }
        // Marker, new lines, blank of the file …
        let last = (token + 1..steps.len()).take_while(|&near| is_new(&steps[near])).last();
        if let Some(last) = last.filter(|&last| !is_blank(prepared.text(last)) && !is_blank(prepared.text(token + 1)))
            && let Some(&Step::Matched(line)) = steps.get(last + 1)
            && blank(line)
            && line == to
            && from < to
            && !blank(to - 1)
        {
            steps[last + 1] = Step::New(line);
            steps[token] = Step::Kept(from, line + 1);
        }
        keep_gap(source, prepared, steps, token, Side::Above);
        keep_gap(source, prepared, steps, token, Side::Below);
    }
}
