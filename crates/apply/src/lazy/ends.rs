//! What speaks against the ends of a part: new lines that may be what became of hidden ones, and lines that go although little is shown
//! below or above them.
//!
//! It does not decide. Invariant: only the hidden lines next to a part are looked at, as many as a reader sees at a glance.

use super::candidates::Candidate;
use super::changed_ends::MIN_SHARE;
use super::choice::Choice;
use super::doubts;
use super::indent::indent;
use super::keys::{brought, declared_name, key};
use super::likeness::LineFeatures;
use super::lines::{is_blank, is_distinctive};
use super::scopes::{is_annotation, is_closer, is_head};
use crate::evidence::Evidence;
use std::ops::Range;

/// Hidden lines with text that are looked at for one that new lines at an end may stand for: so many more than there are new ones, and at
/// most so many.
const MORE: usize = 4;
const MOST_ALIKE: usize = 16;
/// The same for one that is equal.
const MOST_EQUAL: usize = 40;
/// Lines on each side of an end that are looked at for others of the kind.
const NEAR: usize = 4;
/// Lines that are shown above and below lines that go, and may hold them.
const MOST_HELD: usize = 64;

/// A part of a choice with the lines of the file that markers hide above and below it.
pub(super) struct PartEnds<'p> {
    pub choice: &'p Choice<'p>,
    pub part: usize,
    pub chosen: &'p Candidate,
    pub hidden: [Range<usize>; 2],
}

impl PartEnds<'_> {
    /// Adds what speaks against its ends.
    pub fn add(&self, evidence: &mut Evidence) {
        for is_above in [true, false] {
            let new = self.new_at_end(is_above);
            if new.is_empty() {
                evidence.thin_ends += i32::from(self.kept_at_end(is_above) <= 1);
                evidence.slack = evidence.slack.max(self.slack(is_above));
                evidence.blank_ends += i32::from(self.is_blank_end(is_above));
                self.add_weak_end(is_above, evidence);
            } else {
                self.add_new_end(&new, is_above, evidence);
            }
        }
        for [gone, comes] in &self.choice.hunks[self.part] {
            self.add_thin(gone, comes, evidence);
        }
        let kept = self.choice.kept[self.part].iter().filter(|(token, _)| is_distinctive(self.text(*token)));
        evidence.kept = evidence.kept.min(kept.count() as i32);
        evidence.blank_apart += self.blanks_apart();
        evidence.head_off += i32::from(self.is_head_off());
        let comes = |[_, comes]: &[Range<usize>; 2]| comes.clone().any(|token| is_blank(self.text(token)));
        let is_blank_at = |token: usize| self.chosen.tokens.contains(&token) && is_blank(self.text(token));
        let news = self.choice.hunks[self.part].iter().flat_map(|[_, comes]| comes.clone());
        let twice = news.filter(|&at| is_blank_at(at) && (is_blank_at(at.wrapping_sub(1)) || is_blank_at(at + 1)));
        evidence.blank_twice += twice.count() as i32;
        let is_reindented = self.choice.weights.prepared.reindented;
        evidence.blank_comes += i32::from(is_reindented && self.choice.hunks[self.part].iter().any(comes));
    }

    fn text(&self, token: usize) -> &str {
        self.choice.weights.text(token)
    }

    fn line(&self, line: usize) -> &str {
        self.choice.weights.source.line(line)
    }

    /// The new lines with text at an end, the outermost first.
    fn new_at_end(&self, is_above: bool) -> Vec<usize> {
        let kept = &self.choice.kept[self.part];
        let is_new = |token: &usize| kept.binary_search_by_key(token, |pair| pair.0).is_err();
        let full = |token: &usize| !is_blank(self.text(*token));
        let tokens = self.chosen.tokens.clone().filter(full);
        if is_above { tokens.take_while(is_new).collect() } else { tokens.rev().take_while(is_new).collect() }
    }

    /// How many lines with text are shown at an end in one run.
    fn kept_at_end(&self, is_above: bool) -> usize {
        let mut runs = self.choice.kept[self.part].chunk_by(|one, other| one.1 + 1 == other.1 && one.0 + 1 == other.0);
        let run = if is_above { runs.next() } else { runs.last() };
        run.map_or(0, |run| run.iter().filter(|(token, _)| !is_blank(self.text(*token))).count())
    }

    /// How many lines with text are shown between the nearest change and an end whose outermost line says little: what is hidden next to it
    /// may be meant to go, as so many lines are shown there.
    fn slack(&self, is_above: bool) -> i32 {
        let full = |pair: &&(usize, usize)| !is_blank(self.text(pair.0));
        let kept = &self.choice.kept[self.part];
        let outermost = if is_above { kept.iter().find(full) } else { kept.iter().rev().find(full) };
        let hunks = &self.choice.hunks[self.part];
        let nearest = if is_above { hunks.first() } else { hunks.last() };
        let (Some(&(token, _)), Some([_, comes])) = (outermost, nearest) else { return 0 };
        if is_distinctive(self.text(token)) && !self.is_blank_end(is_above) {
            return 0;
        }
        let between = if is_above { self.chosen.tokens.start..comes.start } else { comes.end..self.chosen.tokens.end };
        between.filter(|&token| !is_blank(self.text(token))).count() as i32
    }

    /// Whether a blank line is the outermost that is shown at an end beside a written marker.
    fn is_blank_end(&self, is_above: bool) -> bool {
        let prepared = self.choice.weights.prepared;
        let Some(segment) = prepared.segment_of(self.chosen.tokens.start) else { return false };
        let outermost = if is_above { segment.start } else { segment.end - 1 };
        !prepared.is_padded() && is_blank(self.text(outermost))
    }

    /// The hidden lines with text beyond an end, the nearest first.
    fn beyond(&self, is_above: bool) -> Box<dyn Iterator<Item = usize> + '_> {
        let full = |line: &usize| !is_blank(self.line(*line));
        if is_above {
            Box::new(self.hidden[0].clone().rev().filter(full))
        } else {
            Box::new(self.hidden[1].clone().filter(full))
        }
    }

    fn add_new_end(&self, new: &[usize], is_above: bool, evidence: &mut Evidence) {
        let telling: Vec<usize> = new.iter().copied().filter(|&token| is_distinctive(self.text(token))).collect();
        let looks: Vec<LineFeatures<'_>> = telling.iter().map(|&token| LineFeatures::of(self.text(token))).collect();
        for line in self.beyond(is_above).take((new.len() + MORE).min(MOST_ALIKE)) {
            let old = LineFeatures::of(self.line(line));
            let is_alike = is_distinctive(self.line(line)) && self.is_any_alike(&telling, &looks, &old, line);
            evidence.alike_beyond += i32::from(is_alike);
        }
        self.add_share(new, is_above, evidence);
        let equal = |line: usize| telling.iter().any(|&token| self.text(token).trim() == self.line(line).trim());
        evidence.stands_beyond += self.beyond(is_above).take(MOST_EQUAL).filter(|&line| equal(line)).count() as i32;
        // A line of a new block may well be written once more.
        let weights = self.choice.weights;
        let is_told = |token: &usize| !weights.may_be_new(*token) && !weights.prepared.is_apart(*token);
        let told: Vec<usize> = telling.iter().copied().filter(is_told).collect();
        let equal = |line: usize| told.iter().any(|&token| self.text(token).trim() == self.line(line).trim());
        evidence.stands_told += self.beyond(is_above).take(MOST_EQUAL).filter(|&line| equal(line)).count() as i32;
        let is_known = weights.ids[new[0]].is_some() || weights.stands_elsewhere(new[0]);
        evidence.known_told += i32::from(is_known && is_told(&new[0]));
        let depth = |text: &str| indent(text).len();
        let outermost = self.text(new[0]);
        let next = self.beyond(is_above).next().map(|line| self.line(line));
        // New lines may not part a head from its block, or an annotation from what it is of.
        let parts = match next {
            Some(next) if is_above => is_annotation(next) && !is_annotation(outermost),
            Some(next) => depth(next) > depth(outermost),
            None => false,
        };
        evidence.splits += i32::from(parts);
        evidence.next_out += i32::from(next.is_some_and(|next| depth(next) < depth(outermost)));
        let has_other = if is_above { self.part > 0 } else { self.part + 1 < self.choice.parts.len() };
        evidence.void_markers += i32::from(next.is_none() && has_other);
        evidence.at_file_end += i32::from(next.is_none() && !has_other);
        let first = if is_above { new[0] } else { new[new.len() - 1] };
        evidence.new_declares += i32::from(declared_name(self.text(first)).is_some());
        evidence.new_brings += i32::from(new.iter().all(|&token| brought(self.text(token)).is_some()));
        evidence.new_most = evidence.new_most.max(new.len() as i32);
        evidence.set_apart += i32::from(self.is_set_apart(new[0], is_above));
        let inner = if is_above { new[new.len() - 1] + 1 } else { new[new.len() - 1].wrapping_sub(1) };
        let beside = self.choice.kept[self.part].iter().find(|pair| pair.0 == inner);
        let is_beside = |line: usize| {
            let block = if is_above { line.checked_sub(1) } else { Some(line + 1) };
            block.is_some_and(|inside| {
                inside < self.choice.weights.source.line_count() && depth(self.line(inside)) > depth(self.line(line))
            })
        };
        evidence.beside_head += i32::from(beside.is_some_and(|pair| is_beside(pair.1)));
        let sums = new.iter().fold([0_i32; 3], |mut sums, &token| {
            let brackets = self.choice.weights.brackets_of_token(token);
            (0..3).for_each(|kind| sums[kind] += i32::from(brackets[kind]));
            sums
        });
        evidence.ragged += i32::from(sums != [0; 3]);
        if !is_above && let Some(marker) = self.marker() {
            evidence.marker_deeper += i32::from(marker > depth(outermost)) - i32::from(marker < depth(outermost));
        }
    }

    /// How much the outermost new line has in common with the one that goes there, or what new ones have in common with the next that is hidden; and how
    /// many lines near by it is like as well.
    fn add_share(&self, new: &[usize], is_above: bool, evidence: &mut Evidence) {
        let hunks = &self.choice.hunks[self.part];
        let hunk = if is_above { hunks.first() } else { hunks.last() };
        let goes = hunk.filter(|[_, comes]| comes.contains(&new[0])).map(|[gone, _]| gone.clone()).unwrap_or_default();
        let outermost = LineFeatures::of(self.text(new[0]));
        let share = |line: usize| outermost.share_with(&LineFeatures::of(self.line(line)));
        let best = goes.clone().map(share).max().unwrap_or_default();
        if best >= MIN_SHARE {
            evidence.changed_ends += 1;
            evidence.changed_share = evidence.changed_share.min(best);
        }
        let near = |line: &usize| !goes.contains(line) && share(*line) >= MIN_SHARE;
        let Range { start, end } = self.chosen.lines;
        let inner = if is_above { start..end.min(start + NEAR) } else { start.max(end.saturating_sub(NEAR))..end };
        let siblings = self.beyond(is_above).take(NEAR).chain(inner).filter(near).count();
        evidence.siblings = evidence.siblings.max(siblings as i32);
        let Some(next) = self.beyond(is_above).next() else { return };
        let old = LineFeatures::of(self.line(next));
        let shares = new.iter().map(|&token| LineFeatures::of(self.text(token)).share_with(&old));
        evidence.share_beyond = evidence.share_beyond.max(shares.max().unwrap_or_default());
    }

    /// Counts hidden lines that new ones may stand for, beyond an end that no line which stands once holds: it may belong further out.
    fn add_weak_end(&self, is_above: bool, evidence: &mut Evidence) {
        let kept = &self.choice.kept[self.part];
        let mut runs = kept.chunk_by(|one, other| one.1 + 1 == other.1 && one.0 + 1 == other.0);
        let Some(run) = (if is_above { runs.next() } else { runs.last() }) else { return };
        if run.iter().any(|pair| doubts::holds(self.choice.weights, pair.0)) {
            return;
        }
        let inner = if is_above { run[run.len() - 1].0 + 1 } else { run[0].0.wrapping_sub(1) };
        let Some([_, comes]) = self.choice.hunks[self.part].iter().find(|[_, comes]| comes.contains(&inner)) else {
            return;
        };
        let telling: Vec<usize> = comes.clone().filter(|&token| is_distinctive(self.text(token))).collect();
        let looks: Vec<LineFeatures<'_>> = telling.iter().map(|&token| LineFeatures::of(self.text(token))).collect();
        for line in self.beyond(is_above).take((run.len() + telling.len() + MORE).min(MOST_ALIKE)) {
            let old = LineFeatures::of(self.line(line));
            let is_equal = telling.iter().any(|&token| self.text(token).trim() == self.line(line).trim());
            let is_alike = is_distinctive(self.line(line)) && self.is_any_alike(&telling, &looks, &old, line);
            evidence.stands_weak += i32::from(is_equal);
            evidence.alike_weak += i32::from(is_alike && !is_equal);
        }
    }

    /// Whether one of new lines may be what became of a hidden one: it is similar, and names nothing else.
    fn is_any_alike(&self, tokens: &[usize], looks: &[LineFeatures<'_>], old: &LineFeatures<'_>, line: usize) -> bool {
        let names_other = |token: usize| match (key(self.text(token)), key(self.line(line))) {
            (Some(new), Some(old)) => new.name() != old.name(),
            _ => false,
        };
        tokens.iter().zip(looks).any(|(&token, new)| !names_other(token) && new.is_similar_to(old))
    }

    /// Whether a blank line is shown between new lines at an end and the marker.
    fn is_set_apart(&self, outermost: usize, is_above: bool) -> bool {
        let beyond = if is_above { outermost.wrapping_sub(1) } else { outermost + 1 };
        let prepared = self.choice.weights.prepared;
        beyond < prepared.len() && prepared.is_line(beyond) && is_blank(self.text(beyond))
    }

    /// How far the marker below is indented.
    fn marker(&self) -> Option<usize> {
        let prepared = self.choice.weights.prepared;
        let segment = prepared.segment_of(self.chosen.tokens.start)?;
        prepared.marker_indent(segment.end)
    }

    /// Counts lines that go where one line alone is shown above or below them at an end, which may be another one that is equal.
    fn add_thin(&self, gone: &Range<usize>, comes: &Range<usize>, evidence: &mut Evidence) {
        let lost = doubts::lost(self.choice.weights, gone.clone(), comes.clone());
        if lost.is_empty() {
            return;
        }
        let kept = &self.choice.kept[self.part];
        let full = |pair: &&(usize, usize)| !is_blank(self.text(pair.0));
        let above = kept[..kept.partition_point(|pair| pair.1 < gone.start)].iter().rev().filter(full).take(MOST_HELD);
        let below = kept[kept.partition_point(|pair| pair.1 < gone.end)..].iter().filter(full).take(MOST_HELD);
        let sides = [above.collect::<Vec<_>>(), below.collect::<Vec<_>>()];
        let holds = |side: &Vec<&(usize, usize)>| side.iter().any(|pair| doubts::holds(self.choice.weights, pair.0));
        evidence.lost_open += if sides.iter().any(holds) { 0 } else { lost.len() as i32 };
        let says_much = |side: &Vec<&(usize, usize)>| side.iter().any(|pair| is_distinctive(self.text(pair.0)));
        evidence.lost_bare += if sides.iter().all(says_much) { 0 } else { lost.len() as i32 };
        let is_deletion = !comes.clone().any(|token| !is_blank(self.text(token)));
        evidence.bare_deletion += i32::from(is_deletion && sides.iter().all(|side| side.len() <= 1));
        for side in sides {
            let [(token, _)] = side[..] else { continue };
            evidence.thin += lost.len() as i32;
            let shown = LineFeatures::of(self.text(*token));
            let is_kin = |line: &usize| {
                let old = LineFeatures::of(self.line(*line));
                indent(self.line(*line)) == indent(self.text(*token)) && !is_closer(self.text(*token))
                    || shown.is_similar_to(&old)
            };
            evidence.thin_kin += i32::from(lost.iter().any(is_kin));
        }
    }

    /// Whether a blank line is shown above the first line of the part, where the file has what belongs to that line: a comment, an annotation.
    fn is_head_off(&self) -> bool {
        let prepared = self.choice.weights.prepared;
        let Some(&(token, line)) = self.choice.kept[self.part].iter().find(|pair| !is_blank(self.text(pair.0))) else {
            return false;
        };
        let is_shown = |above: usize| prepared.is_line(above) && is_blank(self.text(above));
        let is_first = self.chosen.tokens.clone().find(|&token| !is_blank(self.text(token))) == Some(token);
        // Where markers are padded, one blank line is theirs.
        let beyond = if prepared.is_padded() { 2 } else { 1 };
        let is_set_off = is_first && (1..=beyond).all(|off| token.checked_sub(off).is_some_and(is_shown));
        is_set_off && line.checked_sub(1).is_some_and(|above| is_head(self.line(above)) && !is_head(self.text(token)))
    }

    /// How many blank lines may be another one than the file's or the update's, where their white space is not the same: those of a snippet at
    /// another indentation, and those beside a marker.
    fn blanks_apart(&self) -> i32 {
        let weights = self.choice.weights;
        let prepared = weights.prepared;
        let mut count = 0;
        if prepared.reindented {
            let changes = self.choice.hunks[self.part].iter().any(|[gone, comes]| {
                gone.clone().any(|line| is_blank(self.line(line)))
                    || comes.clone().any(|token| self.text(token).is_empty())
            });
            let kept = &self.choice.kept[self.part];
            let differs = kept.iter().any(|&(token, line)| {
                is_blank(self.text(token)) && is_blank(self.line(line)) && self.text(token) != self.line(line)
            });
            count += i32::from(differs || changes && weights.has_filled_blanks());
        }
        let Some(segment) = prepared.segment_of(self.chosen.tokens.start) else { return count };
        let differs = |token: usize, line: Option<usize>| {
            line.is_some_and(|line| {
                is_blank(self.text(token)) && is_blank(self.line(line)) && self.text(token) != self.line(line)
            })
        };
        let above = self.chosen.tokens.start.checked_sub(1).filter(|token| segment.contains(token));
        let below = Some(self.chosen.tokens.end).filter(|token| segment.contains(token));
        let next = Some(self.chosen.lines.end).filter(|line| *line < weights.source.line_count());
        count += i32::from(above.is_some_and(|token| differs(token, self.chosen.lines.start.checked_sub(1))));
        count + i32::from(below.is_some_and(|token| differs(token, next)))
    }
}
