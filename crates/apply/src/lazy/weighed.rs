//! Weighs what speaks for and against the cheapest choice of ranges.
//!
//! It does not decide. Invariant: no number knows a language or a style of update.

use super::candidates::Candidate;
use super::choice::Choice;
use super::doubts;
use super::ends::PartEnds;
use super::lines::{MIN_INFORMATION, UNIT, is_blank, is_distinctive};
use super::otherwise;
use super::weakness::Doubts;
use crate::evidence::Evidence;
use std::ops::Range;

/// Margins are told apart up to here: further off no candidates are looked for.
pub(super) const WIDE: i32 = 5 * UNIT;
/// Rivals that are worse by less are counted.
const NEAR: i32 = 4 * UNIT;
/// Lines at an end that are looked for again.
const OUTERMOST: usize = 3;
/// Where they stand again within so many lines, these are counted apart.
const AGAIN_NEAR: usize = 30;
/// Lines beyond an end that are looked at for one that a new line may stand for.
const BEYOND: usize = 3;

/// How the reading by alignment stands to the one by ranges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reading {
    Same,
    NoAnchor,
    Ambiguous,
    Deletion,
    Other,
    Differs,
}

impl Evidence {
    /// That of a choice.
    pub(super) fn of(choice: &Choice<'_>) -> Evidence {
        let mut it = Evidence {
            margin: WIDE,
            margin_of_blanks: WIDE,
            margin_of_lines: WIDE,
            margin_elsewhere: WIDE,
            worth: 6 * UNIT,
            told_once: 3,
            kept: 9,
            changed_share: 100,
            weak_ends: doubts::weak_ends(choice) as i32,
            open: i32::from(!doubts::stands_once(choice)),
            applied: i32::from(doubts::may_be_applied(choice)),
            parts: choice.parts.len() as i32,
            reindented: i32::from(choice.weights.prepared.reindented),
            unmarked: i32::from(choice.weights.prepared.implied == [true; 2] && choice.parts.len() == 1),
            ..Evidence::default()
        };
        let all: Vec<&Candidate> = choice.chosen().collect();
        let count = choice.weights.source.line_count();
        it.cut_off = cut_off(choice, &all);
        for (part, chosen) in all.iter().enumerate() {
            let above = part.checked_sub(1).map_or(0, |above| all[above].lines.end);
            let below = all.get(part + 1).map_or(count, |below| below.lines.start);
            it.add_rivals(choice, part, chosen);
            it.add_part(choice, part, chosen, [above..chosen.lines.start, chosen.lines.end..below]);
        }
        super::context::add(choice, &all, &mut it);
        if it.shows_no_words() {
            it.foreign_words = super::foreign::foreign_words(choice.weights);
        }
        it
    }

    /// The same with what the other reading says.
    pub(super) fn beside(mut self, reading: Reading) -> Evidence {
        match reading {
            Reading::Same => {}
            Reading::NoAnchor => self.no_anchor = 1,
            Reading::Ambiguous => self.ambiguous = 1,
            Reading::Deletion => self.deletion = 1,
            Reading::Other => self.other = 1,
            Reading::Differs => self.differs = 1,
        }
        self
    }

    fn add_rivals(&mut self, choice: &Choice<'_>, part: usize, chosen: &Candidate) {
        for (other, through) in choice.parts[part].iter().zip(&choice.through[part]) {
            let worse = through - choice.total();
            if worse >= WIDE || other == chosen || choice.are_same(chosen, other, true) {
                continue;
            }
            if choice.are_same(chosen, other, false) {
                self.margin_of_blanks = self.margin_of_blanks.min(worse);
                continue;
            }
            self.margin = self.margin.min(worse);
            self.rivals += i32::from(worse < NEAR);
            if doubts::loses(choice, chosen, other) {
                self.margin_of_lines = self.margin_of_lines.min(worse);
            }
            if other.lines.start >= chosen.lines.end || other.lines.end <= chosen.lines.start {
                self.margin_elsewhere = self.margin_elsewhere.min(worse);
            }
        }
    }

    fn add_part(&mut self, choice: &Choice<'_>, part: usize, chosen: &Candidate, hidden: [Range<usize>; 2]) {
        let weights = choice.weights;
        let is = |doubt: Doubts| i32::from(chosen.doubts.has(doubt));
        self.weak_above += is(Doubts::WEAK_ABOVE);
        self.weak_below += is(Doubts::WEAK_BELOW);
        self.doubled += is(Doubts::DOUBLED);
        self.set_off += is(Doubts::SET_OFF);
        self.unanchored += is(Doubts::UNANCHORED);
        self.idle_weak += is(Doubts::IDLE);
        self.cost = self.cost.max(chosen.cost);
        self.idle += i32::from(chosen.is_idle);
        if chosen.is_idle {
            return;
        }
        PartEnds { choice, part, chosen, hidden: hidden.clone() }.add(self);
        self.add_enclosed(choice, chosen);
        let kept = &choice.kept[part];
        let full = |token: &usize| !is_blank(weights.text(*token));
        let ends = [chosen.tokens.clone().find(full), chosen.tokens.clone().rev().find(full)];
        for end in ends.into_iter().flatten() {
            if !kept.iter().any(|(token, _)| *token == end) {
                self.new_ends += 1;
                self.new_marked += i32::from(weights.ids[end].is_none() && is_distinctive(weights.text(end)));
                self.known_ends += i32::from(weights.ids[end].is_some() || weights.stands_elsewhere(end));
            }
        }
        let mut runs = kept.chunk_by(|one, other| one.1 + 1 == other.1 && one.0 + 1 == other.0);
        let first = runs.next();
        let holds = |run: &[(usize, usize)]| run.iter().any(|&(token, _)| doubts::holds(weights, token));
        let held = |run: Option<&[(usize, usize)]>| run.is_some_and(holds);
        let last = runs.last().or(first);
        self.unheld_ends += i32::from(!held(first)) + i32::from(!held(last));
        self.add_again(choice, first.filter(|run| Some(run[0].0) == ends[0]), &hidden[0], true);
        self.add_again(choice, last.filter(|run| Some(run[run.len() - 1].0) == ends[1]), &hidden[1], false);
        let told = |&&(token, _): &&(usize, usize)| doubts::holds(weights, token);
        self.told_once = self.told_once.min(kept.iter().filter(told).count() as i32);
        self.indented_apart += kept.iter().filter(|(token, _)| weights.stands_at_other_depths(*token)).count() as i32;
        let worth: i32 = kept.iter().filter(|(token, _)| full(token)).map(|&(token, _)| weights.worth[token]).sum();
        self.worth = self.worth.min(worth);
        let mut brackets = [0_i32; 3];
        for hunk in choice.hunks[part].clone() {
            self.add_hunk(choice, kept, hunk.clone(), &hidden);
            self.made_after += i32::from(otherwise::may_be_beside(choice, part, &hunk));
            self.like_elsewhere += i32::from(otherwise::may_be_elsewhere(choice, part, &hunk));
            let [gone, comes] = hunk;
            let sums = gone.map(|line| (weights.brackets_of_line(line), -1));
            for (of, sign) in sums.chain(comes.map(|token| (weights.brackets_of_token(token), 1))) {
                (0..3).for_each(|kind| brackets[kind] += sign * i32::from(of[kind]));
            }
        }
        self.unbalanced += brackets.iter().map(|sum| sum.abs()).sum::<i32>();
        let beyond = (chosen.lines.start.saturating_sub(BEYOND)..chosen.lines.start)
            .chain(chosen.lines.end..(chosen.lines.end + BEYOND).min(weights.source.line_count()));
        let is_new = |token: &usize| weights.ids[*token].is_none() && is_distinctive(weights.text(*token));
        let stands = |line: usize| chosen.tokens.clone().filter(is_new).any(|token| weights.replaces(token, line));
        self.kin_beyond += beyond.filter(|&line| stands(line)).count() as i32;
    }

    /// Counts a part by whether it lies in the block that the update shows around it, which stands once there.
    fn add_enclosed(&mut self, choice: &Choice<'_>, chosen: &Candidate) {
        let places = &choice.weights.places;
        let outer = |token: usize| places[token].inside.clone();
        let inside = chosen.tokens.clone().filter(|&token| !is_blank(choice.weights.text(token))).find_map(outer);
        let is_in =
            inside.is_some_and(|inside| inside.start <= chosen.lines.start && chosen.lines.end <= inside.end + 1);
        *(if is_in { &mut self.enclosed } else { &mut self.not_enclosed }) += 1;
    }

    fn add_hunk(
        &mut self,
        choice: &Choice<'_>,
        kept: &[(usize, usize)],
        [gone, comes]: [Range<usize>; 2],
        hidden: &[Range<usize>; 2],
    ) {
        let weights = choice.weights;
        let lost = doubts::lost(weights, gone.clone(), comes.clone());
        let is_held = doubts::is_held(weights, kept, &gone);
        let count = lost.len() as i32;
        let text = |line: &usize| !is_blank(weights.source.line(*line));
        let all = gone.clone().filter(text).count() as i32;
        self.gone += all;
        self.replaced += all - count;
        self.comes += comes.clone().filter(|&token| !is_blank(weights.text(token))).count() as i32;
        self.lost = self.lost.max(count);
        self.lost_all += count;
        self.hunks += 1;
        self.deleted = self.deleted.max(if comes.is_empty() { count } else { 0 });
        self.lost_unheld = self.lost_unheld.max(if is_held { 0 } else { count });
        let declares = |line: &usize| super::keys::declared_name(weights.source.line(*line)).is_some();
        self.declaration_lost += i32::from(!is_held && lost.iter().any(declares));
        for token in comes.clone() {
            let is_known = weights.ids[token].is_some() && is_distinctive(weights.text(token));
            let is_new_here = !weights.may_be_new(token);
            self.known += i32::from(is_known && is_new_here);
            self.copies += i32::from(
                is_known && is_new_here && weights.worth[token] >= MIN_INFORMATION && weights.stands_once(token),
            );
            let near = |line: &usize| hidden.iter().any(|hidden| hidden.contains(line));
            let id = weights.ids[token].filter(|_| is_known && is_new_here);
            self.copies_near +=
                i32::from(id.is_some_and(|id| weights.lines.places_of(id).take(20).any(|line| near(&line))));
            let stays = |line: usize| !gone.contains(&line);
            self.twice += i32::from(weights.ids[token].is_none() && weights.prepared.namesakes(token).any(stays));
        }
    }

    /// Counts an end whose outermost lines stand again in what is hidden beyond it: what lies between may be meant to go.
    fn add_again(
        &mut self,
        choice: &Choice<'_>,
        run: Option<&[(usize, usize)]>,
        hidden: &Range<usize>,
        is_above: bool,
    ) {
        let Some(run) = run else { return };
        let run = if is_above { &run[..run.len().min(OUTERMOST)] } else { &run[run.len().saturating_sub(OUTERMOST)..] };
        let numbers = &choice.weights.numbers;
        let ids: Vec<u32> = run.iter().map(|&(_, line)| numbers[line]).collect();
        let mut stands =
            hidden.clone().filter(|&line| numbers[line] == ids[0] && numbers[line..hidden.end].starts_with(&ids));
        let nearest = if is_above { stands.next_back() } else { stands.next() };
        let Some(nearest) = nearest else { return };
        let between = if is_above { hidden.end - nearest } else { nearest + ids.len() - hidden.start };
        *(if between <= AGAIN_NEAR { &mut self.again } else { &mut self.again_far }) += 1;
    }
}

/// How many ends of the update have no marker, though others are written, where the file goes on. Heads and closers of blocks that change
/// nothing cut nothing off.
fn cut_off(choice: &Choice<'_>, all: &[&Candidate]) -> i32 {
    let weights = choice.weights;
    let implied = weights.prepared.implied;
    let says_more = all.len() > 1 || implied != [true; 2];
    let text = |lines: Range<usize>| lines.into_iter().any(|line| !is_blank(weights.source.line(line)));
    let (Some(first), Some(last)) = (all.first(), all.last()) else { return 0 };
    let above = implied[0] && !first.is_scope && text(0..first.lines.start);
    let below = implied[1] && !last.is_scope && text(last.lines.end..weights.source.line_count());
    if says_more { i32::from(above) + i32::from(below) } else { 0 }
}
