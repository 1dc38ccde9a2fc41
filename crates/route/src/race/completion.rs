//! Races that are won by the answer: which attempt is expected to complete first, how long its first token is held back for
//! another one, and which candidates are not worth asking beside those that run.
//!
//! An attempt's end is projected from its lane's curve and what it has shown so far. Invariant: a first token is held no longer
//! than a share of the time that the wait may save, and never where nobody else runs.

use super::{Attempt, Candidate, Commit, Mode, Race, Role, State, WinRule};
use crate::lane_model::Expectation;
use tokrate_core::{Span, Tick};

/// How many tokens the expected speed of a lane counts as, beside those that its attempt has shown.
const PRIOR_TOKENS: f64 = 16.0;
/// Tokens after the first one from which an attempt of an unknown lane shows a speed.
const MIN_SHOWN_TOKENS: f64 = 8.0;
/// Bytes of text that make a token, on the high side: o200k has 4 to 5 of code and English prose. Too few tokens make an attempt look slower
/// than it is, by its share of what was shown, and the wait for a better one a little longer; too many end that wait too early.
const BYTES_PER_TOKEN: f64 = 5.0;
/// How long a first token is held while no attempt's speed is known: 8 tokens at 32 tokens a second, a slow hosted model.
const LEARNING_HOLD: Span = Span::from_millis(250);
/// Ends that differ by less than this share of the way there count as equal.
const SAME_END: f64 = 0.01;

/// The attempt that the client gets as things stand, and until when it is held back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub winner: usize,
    pub held_until: Tick,
}

impl Race {
    /// Who would win at `now`; `None` before the first token.
    pub(super) fn standing(&self, now: Tick) -> Option<Standing> {
        let first = self.earliest_ready()?;
        let ready_at = self.ready_at(&self.attempts[first]).expect("it is ready");
        let at_once = Standing { winner: first, held_until: ready_at };
        let (WinRule::Completion { hold }, Commit::FirstToken) = (self.config.win, self.config.commit) else {
            return Some(at_once);
        };
        let is_contested = self
            .attempts
            .iter()
            .enumerate()
            .any(|(number, run)| number != first && (run.state == State::Running || self.ready_at(run).is_some()));
        if !is_contested {
            return Some(at_once);
        }
        let ready = (0..self.attempts.len()).filter(|&number| self.ready_at(&self.attempts[number]).is_some());
        let Some((end, winner)) =
            ready.filter_map(|number| Some((self.projected_end(number, Some(now))?, number))).min()
        else {
            let held_until = ready_at + LEARNING_HOLD;
            return Some(Standing { winner: first, held_until });
        };
        let held_until = (0..self.attempts.len())
            .filter(|&other| other != winner && self.attempts[other].state == State::Running)
            .filter_map(|other| self.worth_waiting_until(other, ready_at, (winner, end), hold, now))
            .max();
        Some(Standing { winner, held_until: held_until.unwrap_or(ready_at) })
    }

    /// Until when a first token that came at `ready_at`, of an answer that ends at `end`, is held back for another attempt.
    ///
    /// That the winner is silent counts only while the other one may be expected: else both being silent would hold the token for good.
    fn worth_waiting_until(
        &self,
        other: usize,
        ready_at: Tick,
        (winner, end): (usize, Tick),
        hold: f64,
        now: Tick,
    ) -> Option<Tick> {
        let run = &self.attempts[other];
        let candidate = &self.candidates[run.candidate];
        if run.first_at.is_some() && self.projected_end(other, Some(now)).is_some() || candidate.is_silent {
            return None;
        }
        let awaited = candidate.expected.filter(|_| run.first_at.is_none());
        let is_due = awaited.is_some_and(|expected| now < run.started + almost_all_have_come_by(&expected));
        let end = match (is_due, self.projected_end(winner, None)) {
            (true, _) => end,
            (false, Some(end)) => end,
            (false, None) => return Some(ready_at + LEARNING_HOLD),
        };
        // A lane of which nothing is known may be the fastest of all.
        let writes = self.seconds_to_write(run, Some(now)).unwrap_or(0.0);
        let saves = end.since(ready_at).as_secs_f64() - writes;
        if saves <= 0.0 {
            return None;
        }
        let last = ready_at + longest_hold(hold, saves);
        let Some(expected) = awaited else { return Some(last) };
        let comes_at = (run.started + expected.ttft_p50).max(now);
        (comes_at <= last).then_some(last)
    }

    /// When an attempt with a first token is expected to end; `None` while its speed is unknown.
    fn projected_end(&self, attempt: usize, now: Option<Tick>) -> Option<Tick> {
        let run = &self.attempts[attempt];
        match run.state == State::Ended || run.done || run.finish.is_some() {
            true => Some(run.progress_at),
            false => Some(run.first_at? + Span::from_secs_f64(self.seconds_to_write(run, now)?)),
        }
    }

    /// How long an attempt takes from its first token to its end, by its lane's speed and what it has shown; silence counts as the
    /// time that one more token takes at least, where the time is given.
    fn seconds_to_write(&self, run: &Attempt, now: Option<Tick>) -> Option<f64> {
        let candidate = &self.candidates[run.candidate];
        let shown_tokens = run.bytes_after_first as f64 / BYTES_PER_TOKEN;
        let since_first = |at: Tick| run.first_at.map_or(0.0, |first_at| at.since(first_at).as_secs_f64());
        let (prior_tokens, prior_seconds) = match candidate.expected.filter(|expected| expected.speed > 0.0) {
            Some(expected) => (PRIOR_TOKENS, PRIOR_TOKENS / expected.speed),
            None if shown_tokens >= MIN_SHOWN_TOKENS => (0.0, 0.0),
            None if now.is_some_and(|now| since_first(now) >= LEARNING_HOLD.as_secs_f64()) => (0.0, 0.0),
            None => return None,
        };
        let shown = (prior_seconds + since_first(run.progress_at)) / (prior_tokens + shown_tokens).max(1.0);
        let silence = now.map_or(0.0, since_first);
        let with_silence = (prior_seconds + silence) / (prior_tokens + shown_tokens + 1.0);
        // An answer that is longer than expected goes on for as long as nobody knows: a token more.
        Some(candidate.expected_output_tokens.max(shown_tokens + 1.0) * shown.max(with_silence))
    }

    /// Which of the lanes that are to race is asked first: the one that is expected to complete first, since none that
    /// completes later may take its place. `None` where the order given is to be kept, or a lane is not known.
    pub(super) fn fastest_entrant(&self, allow: &mut dyn FnMut(&Candidate, Role) -> bool) -> Option<usize> {
        let (Mode::Race { lanes }, WinRule::Completion { .. }) = (self.config.mode, self.config.win) else {
            return None;
        };
        let mut entrants = Vec::with_capacity(lanes.min(self.candidates.len()));
        for (index, candidate) in self.candidates.iter().enumerate().take(lanes) {
            let seconds = candidate.expected?.completion_seconds(candidate.expected_output_tokens);
            entrants.push((seconds, index));
        }
        entrants.sort_by(|one, other| one.0.total_cmp(&other.0));
        entrants.into_iter().map(|(_, index)| index).find(|&index| allow(&self.candidates[index], Role::First))
    }

    /// Until when a candidate is not asked beside the attempts that run: its first token would come before that of one that
    /// completes earlier, and could not be held back for so long. `None` if it may be asked.
    pub(super) fn spoils_until(&self, candidate: usize, now: Tick) -> Option<Tick> {
        let (WinRule::Completion { hold }, Commit::FirstToken) = (self.config.win, self.config.commit) else {
            // Where the whole is waited for, a first token takes nobody's place.
            return None;
        };
        let late = &self.candidates[candidate];
        let of_late = late.expected?;
        let comes_at = now + of_late.ttft_p50;
        let ends_at = now + Span::from_secs_f64(of_late.completion_seconds(late.expected_output_tokens));
        let awaited = self.attempts.iter().filter(|run| run.state == State::Running && run.first_at.is_none());
        let spoilt = awaited.filter_map(|run| {
            let expected = self.candidates[run.candidate].expected?;
            let tokens = self.candidates[run.candidate].expected_output_tokens;
            let late_at = run.started + almost_all_have_come_by(&expected);
            let end = run.started + Span::from_secs_f64(expected.completion_seconds(tokens));
            let same_end = Span::from_secs_f64(SAME_END * end.since(self.started_at).as_secs_f64());
            if now >= late_at || ends_at <= end + same_end {
                return None;
            }
            let saves = ends_at.since(comes_at).as_secs_f64() - self.seconds_to_write(run, Some(now))?;
            let last = comes_at + longest_hold(hold, saves.max(0.0));
            (late_at > last).then_some(late_at)
        });
        spoilt.max()
    }
}

/// How long a first token may be held for an attempt that would save `saves` seconds if its own came now: after a hold of `h` it
/// saves `saves - h`, and `h` is at most the share `hold` of that, which gives `h = hold / (1 + hold) * saves`.
fn longest_hold(hold: f64, saves: f64) -> Span {
    Span::from_secs_f64(hold / (1.0 + hold) * saves)
}

/// The time to first token that 999 in 1,000 of a lane stay below, as far as the two quantiles that are known of it say: times are taken
/// as log-normal, of which that quantile is 3.090 standard deviations from the median where the 90th percentile is 1.282.
fn almost_all_have_come_by(expected: &Expectation) -> Span {
    let (p50, p90) = (expected.ttft_p50.as_secs_f64(), expected.ttft_p90.as_secs_f64());
    if p50 <= 0.0 {
        return expected.ttft_p90;
    }
    Span::from_secs_f64(p50 * (p90 / p50).max(1.0).powf(3.090 / 1.282))
}
