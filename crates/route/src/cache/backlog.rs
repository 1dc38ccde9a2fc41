//! The prompts that a lane is busy with: how long until a prompt that is sent now has its turn, and what else is in that turn.
//!
//! Engines work in steps: whoever waits when a step begins is in it, all prompts of a step have their first token at its end, and those
//! sent meanwhile wait for the next. Where first tokens come, a step has just ended. Invariant: what was put in is in it until it is taken
//! out, once.

use tokrate_core::Tick;

/// Prompts without a first token, in order of their starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backlog {
    waiting: Vec<(u64, f64)>,
    tokens: f64,
    /// When the step that runs began, or before it at the latest.
    begun_at: Tick,
    /// Whether a first token told when it began: else the first prompt came somewhere in a step of answers.
    is_told: bool,
    /// Of those that wait, the first so many are in it, with so many new tokens.
    in_step: usize,
    in_step_tokens: f64,
    next: u64,
}

/// What stands before a prompt that is sent now.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Ahead {
    /// Seconds to the end of the step that runs, and the time of the next without its prompts.
    pub seconds: f64,
    /// New tokens of the others that are in the next step, and how many these are.
    pub tokens: f64,
    pub calls: usize,
}

impl Backlog {
    /// What stands before a prompt at `now`, where a step without prompts takes `step` seconds and each new token so many.
    pub fn ahead(&self, now: Tick, step: f64, seconds_per_token: f64) -> Ahead {
        if self.waiting.is_empty() {
            return Ahead { seconds: 1.5 * step, tokens: 0.0, calls: 0 };
        }
        let late = if self.is_told { 0.0 } else { step / 2.0 };
        let ends = late + step + seconds_per_token * self.in_step_tokens;
        let rest = (ends - now.since(self.begun_at).as_secs_f64()).max(0.0);
        let tokens = (self.tokens - self.in_step_tokens).max(0.0);
        Ahead { seconds: rest + step, tokens, calls: self.waiting.len() - self.in_step }
    }

    /// New tokens of all that wait.
    pub fn tokens(&self) -> f64 {
        self.tokens
    }

    /// A prompt with so many new tokens is sent; its number.
    pub fn push(&mut self, now: Tick, new_tokens: f64) -> u64 {
        if self.waiting.is_empty() {
            (self.begun_at, self.is_told) = (now, false);
            (self.in_step, self.in_step_tokens) = (1, new_tokens);
        }
        self.next += 1;
        self.waiting.push((self.next, new_tokens));
        self.tokens += new_tokens;
        self.next
    }

    /// A prompt has its first token, with which a step ended: all that wait are in the next.
    pub fn first_token(&mut self, now: Tick, number: u64) {
        if self.take(number).is_some() {
            (self.begun_at, self.is_told) = (now, true);
            (self.in_step, self.in_step_tokens) = (self.waiting.len(), self.tokens);
        }
    }

    /// A prompt was given up.
    pub fn remove(&mut self, number: u64) {
        if let Some((place, tokens)) = self.take(number)
            && place < self.in_step
        {
            self.in_step -= 1;
            self.in_step_tokens = if self.in_step == 0 { 0.0 } else { self.in_step_tokens - tokens };
        }
    }

    fn take(&mut self, number: u64) -> Option<(usize, f64)> {
        let place = self.waiting.iter().position(|(waiting, _)| *waiting == number)?;
        let (_, tokens) = self.waiting.remove(place);
        self.tokens = if self.waiting.is_empty() { 0.0 } else { self.tokens - tokens };
        Some((place, tokens))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Tick {
        Tick::from_nanos(milliseconds * 1_000_000)
    }

    /// Steps of 20 ms, 10,000 tokens a second.
    #[track_caller]
    fn expect(backlog: &Backlog, milliseconds: u64, ahead: (f64, f64, usize)) {
        let found = backlog.ahead(at(milliseconds), 0.02, 1e-4);
        assert!((found.seconds * 1e3 - ahead.0).abs() < 1e-6, "{found:?}");
        assert_eq!((found.tokens, found.calls), (ahead.1, ahead.2));
    }

    #[test]
    fn whoever_waits_when_a_step_begins_is_in_it_and_the_others_are_in_the_next() {
        let mut backlog = Backlog::default();
        expect(&backlog, 5, (30.0, 0.0, 0));
        let one = backlog.push(at(0), 1_000.0);
        let two = backlog.push(at(20), 500.0);
        let three = backlog.push(at(30), 250.0);
        // Half a step until the first's begins, which takes 120 ms, then one of 20 ms.
        expect(&backlog, 30, (120.0, 750.0, 2));
        expect(&backlog, 900, (20.0, 750.0, 2));
        backlog.first_token(at(130), one);
        let four = backlog.push(at(135), 100.0);
        // The two that waited are in a step of 95 ms from 130 on.
        expect(&backlog, 140, (105.0, 100.0, 1));
        backlog.remove(two);
        expect(&backlog, 140, (55.0, 100.0, 1));
        backlog.remove(two);
        backlog.first_token(at(175), three);
        expect(&backlog, 175, (50.0, 0.0, 0));
        backlog.first_token(at(205), four);
        expect(&backlog, 205, (30.0, 0.0, 0));
        assert_eq!(backlog.tokens(), 0.0);
    }
}
