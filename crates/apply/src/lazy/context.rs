//! How regular the unchanged lines are that an update shows around its changes: where as many stand at every end, one end more or less would
//! be another update, and where the outermost of them stands nowhere else, no other range begins or ends with it.
//!
//! It does not decide. Invariant: nothing is known here of the styles in which updates are written.

use super::candidates::Candidate;
use super::choice::Choice;
use super::lines::{is_blank, is_distinctive};
use crate::evidence::Evidence;
use std::ops::{Range, RangeInclusive};

/// More unchanged lines at an end are shown for another reason than to hold a change.
const WIDEST: usize = 12;

/// Adds what the unchanged lines at the ends of parts say.
pub(super) fn add(choice: &Choice<'_>, all: &[&Candidate], evidence: &mut Evidence) {
    let count = choice.weights.source.line_count();
    let mut widths: Vec<(RangeInclusive<usize>, bool)> = Vec::new();
    for (part, chosen) in all.iter().enumerate() {
        let above = part.checked_sub(1).map_or(0, |above| all[above].lines.end);
        let below = all.get(part + 1).map_or(count, |below| below.lines.start);
        let hidden = [above..chosen.lines.start, chosen.lines.end..below];
        for (is_above, hidden) in [true, false].into_iter().zip(hidden) {
            let end = End { choice, part, chosen, is_above, hidden };
            if !end.hides() {
                continue;
            }
            if chosen.is_idle || choice.hunks[part].is_empty() {
                let is_shown = !chosen.is_scope;
                evidence.idle_lines = evidence.idle_lines.max(if is_shown { end.shown().len() as i32 } else { 0 });
                evidence.idle_again += i32::from(is_shown && !end.is_told());
                continue;
            }
            let Some(width) = end.width() else { continue };
            let is_told = end.is_told();
            evidence.ends_untold += i32::from(!is_told);
            evidence.ends_again += i32::from(end.stands_again());
            widths.push((width, is_told));
        }
    }
    let off = |width: &RangeInclusive<usize>, of: usize| {
        let (least, most) = (*width.start(), *width.end());
        if of < least { least - of } else { of.saturating_sub(most) }
    };
    let worst = |of: usize| widths.iter().map(|(width, _)| off(width, of)).max().unwrap_or_default();
    let usual = (1..=WIDEST).min_by_key(|&of| worst(of)).unwrap_or(1);
    evidence.width = if widths.is_empty() { 0 } else { usual as i32 };
    evidence.uneven = worst(usual) as i32;
    let untold = widths.iter().filter(|(_, is_told)| !is_told);
    let least = widths.iter().map(|(width, _)| *width.end()).min().unwrap_or_default();
    evidence.untold_wide =
        untold.map(|(width, _)| width.start().saturating_sub(least)).max().unwrap_or_default() as i32;
}

/// An end of a part, with the lines of the file that are hidden beyond it.
struct End<'e> {
    choice: &'e Choice<'e>,
    part: usize,
    chosen: &'e Candidate,
    is_above: bool,
    hidden: Range<usize>,
}

impl End<'_> {
    /// Whether lines with text are hidden beyond it.
    fn hides(&self) -> bool {
        self.hidden.clone().any(|line| !is_blank(self.choice.weights.source.line(line)))
    }

    /// The lines of the update that are shown of its part, with blank lines at their ends that are no mere padding of markers.
    fn shown(&self) -> Range<usize> {
        let prepared = self.choice.weights.prepared;
        let segment = prepared.segment_of(self.chosen.tokens.start).filter(|_| !prepared.is_padded());
        segment.cloned().unwrap_or(self.chosen.tokens.clone())
    }

    /// Blank lines beyond it that are shown, and taken for those that the marker stands for.
    fn blanks_beyond(&self) -> usize {
        let shown = self.shown();
        if self.is_above {
            self.chosen.tokens.start.saturating_sub(shown.start)
        } else {
            shown.end.saturating_sub(self.chosen.tokens.end)
        }
    }

    /// Its outermost line, if that is one of the file.
    fn outermost(&self) -> Option<(usize, usize)> {
        let kept = &self.choice.kept[self.part];
        if self.is_above {
            kept.first().copied().filter(|pair| pair.0 == self.chosen.tokens.start)
        } else {
            kept.last().copied().filter(|pair| pair.0 + 1 == self.chosen.tokens.end)
        }
    }

    /// How many unchanged lines stand between it and the nearest change, as far as that may be moved over equal lines.
    fn width(&self) -> Option<RangeInclusive<usize>> {
        self.outermost()?;
        let hunks = &self.choice.hunks[self.part];
        let tokens = &self.chosen.tokens;
        let [gone, comes] = if self.is_above { hunks.first() } else { hunks.last() }?;
        let width = if self.is_above { comes.start - tokens.start } else { tokens.end - comes.end };
        let [up, down] = self.slides(gone, comes);
        let [outwards, inwards] = if self.is_above { [up, down] } else { [down, up] };
        let beyond = self.blanks_beyond();
        Some(beyond + width.saturating_sub(outwards)..=beyond + width + inwards)
    }

    /// By how many lines a change may be moved up and down without another text coming of it.
    fn slides(&self, gone: &Range<usize>, comes: &Range<usize>) -> [usize; 2] {
        let weights = self.choice.weights;
        let new = |token: usize| weights.ids[token];
        let old = |line: usize| Some(weights.numbers[line]);
        let tokens = &self.chosen.tokens;
        let lines = &self.chosen.lines;
        if gone.is_empty() && !comes.is_empty() {
            let up = (1..=comes.start - tokens.start).take_while(|off| {
                new(comes.start - off).is_some()
                    && new(comes.start - off) == new(comes.end - 1 - (off - 1) % comes.len())
            });
            let down = (0..tokens.end - comes.end).take_while(|off| {
                new(comes.end + off).is_some() && new(comes.end + off) == new(comes.start + off % comes.len())
            });
            return [up.count(), down.count()];
        }
        if comes.is_empty() && !gone.is_empty() {
            let up = (1..=gone.start - lines.start)
                .take_while(|off| old(gone.start - off) == old(gone.end - 1 - (off - 1) % gone.len()));
            let down =
                (0..lines.end - gone.end).take_while(|off| old(gone.end + off) == old(gone.start + off % gone.len()));
            return [up.count(), down.count()];
        }
        [0, 0]
    }

    /// Whether its outermost line says where it is: it stands once in the file.
    fn is_told(&self) -> bool {
        let weights = self.choice.weights;
        self.blanks_beyond() == 0
            && self
                .outermost()
                .is_some_and(|(token, _)| is_distinctive(weights.text(token)) && weights.stands_once(token))
    }

    /// Whether its outermost line stands again in what is hidden beyond it.
    fn stands_again(&self) -> bool {
        let numbers = &self.choice.weights.numbers;
        if self.blanks_beyond() > 0 {
            // One blank line next to the end is the one that is shown; any other may be it as well.
            let is_blank = |line: &usize| is_blank(self.choice.weights.source.line(*line));
            let full = |line: &usize| !is_blank(line);
            let mut further: Box<dyn Iterator<Item = usize>> = if self.is_above {
                Box::new(self.hidden.clone().rev().skip_while(is_blank))
            } else {
                Box::new(self.hidden.clone().skip_while(is_blank))
            };
            return further.by_ref().any(|line| full(&line)) && further.any(|line| is_blank(&line));
        }
        self.outermost().is_some_and(|(_, line)| self.hidden.clone().any(|other| numbers[other] == numbers[line]))
    }
}
