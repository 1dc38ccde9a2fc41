//! When a prompt's first token comes on a lane, and by how much it makes those of the others come later.
//!
//! A lane computes prompts one after another in steps, so that the time is that of a queue: what is ahead ([`Ahead`]), and the new tokens
//! times seconds each. Only these seconds are fitted; what departs from it all, a way that is long or a lane that is full, is followed
//! for as long as it is seen. Invariant: whoever brings nothing new holds up nobody but by the load it adds.

use super::backlog::Ahead;
use crate::decay::DecayingMean;
use crate::lane_model::{PromptSlope, TokenTime};
use tokrate_core::{Span, Tick};

/// Half-life of times to first token in the fit.
const FIT_HALF_LIFE: Span = Span::from_secs(300);
/// Half-life of what departs from it: longer than a moment, since a lane that was late once would lose conversations that only it holds.
/// What is not seen for a few minutes is taken to be over: a lane that was full would never be asked again otherwise.
const DEPARTURE_HALF_LIFE: Span = Span::from_secs(30);
const DEPARTURE_PRIOR: f64 = 10.0;
/// Time in which prompts count for how many come, and how much of the time they take.
const RATE_SECONDS: f64 = 30.0;
/// A new token takes this long even where nothing is known, so that of equal lanes the one that has the prompt is taken: 100,000
/// a second, which few engines do.
pub(super) const LEAST_TOKEN_SECONDS: f64 = 1e-5;
/// Least share of a lane's time that is taken to be left beside prompts: where there seems to be none the estimate is of a moment.
const LEAST_IDLE: f64 = 0.2;
/// One more answer makes each step longer, for as many first tokens as there are calls (Little's law), and all of them stay the longer for
/// it: about twice as much where half of a step is due to load, as near the knee.
const LOAD_WEIGHT: f64 = 2.0;

/// What is known of one lane.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FirstTokens {
    slope: PromptSlope,
    departure: DecayingMean,
    /// Fading sums: prompts, and the seconds that their new tokens take.
    prompts: f64,
    prompt_seconds: f64,
    summed_at: Tick,
    began_at: Option<Tick>,
    /// When the last one came.
    heard_at: Tick,
}

/// What is expected of a prompt before its first token.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Wait {
    /// Seconds that do not depend on tokens.
    seconds: f64,
    /// Tokens up to its first token, its own included.
    tokens: f64,
}

impl FirstTokens {
    /// Seconds that a new token takes.
    pub fn token_seconds(&self) -> f64 {
        self.slope.slope().max(LEAST_TOKEN_SECONDS)
    }

    /// Whether a first token has ever come.
    pub fn is_known(&self) -> bool {
        self.heard_at > Tick::ZERO
    }

    /// Since when none has come.
    pub fn unheard(&self, now: Tick) -> Span {
        now.since(self.heard_at)
    }

    /// Seconds of a step without prompts: what tokens of an answer take, less what prompts between them do.
    pub fn step_seconds(&self, now: Tick, token: &TokenTime) -> f64 {
        token.seconds * self.idle(now)
    }

    /// What a prompt of so many new tokens waits for.
    pub fn wait(&self, ahead: &Ahead, new: f64) -> Wait {
        Wait { seconds: ahead.seconds, tokens: ahead.tokens + new }
    }

    /// Seconds until its first token.
    pub fn expect(&self, now: Tick, wait: &Wait) -> f64 {
        let departure = self.departure.shrunk_towards(0.0, now, DEPARTURE_HALF_LIFE, DEPARTURE_PRIOR);
        let seconds = wait.seconds + self.token_seconds() * wait.tokens;
        (seconds + departure).max(seconds / 4.0)
    }

    /// Seconds by which a prompt of so many new tokens makes the first tokens of others come later, where its own comes after `first`.
    /// Those that share its step wait for its tokens, and those that come before the step ends as well. One more answer makes steps longer.
    pub fn others(&self, now: Tick, ahead: &Ahead, new: f64, first: f64, (token, in_flight): (&TokenTime, u32)) -> f64 {
        let own = new * self.token_seconds();
        let (rate, _) = self.rates(now);
        let held_up = ahead.calls as f64 + rate * (first - own / 2.0).max(0.0);
        let load = LOAD_WEIGHT * 1.5 * f64::from(in_flight) * token.slope.max(0.0);
        own * held_up + load
    }

    /// A prompt was sent.
    pub fn sent(&mut self, now: Tick, new: f64) {
        let left = self.left(now);
        self.prompts = self.prompts * left + 1.0;
        self.prompt_seconds = self.prompt_seconds * left + new * self.slope.slope();
        self.summed_at = now;
        self.began_at.get_or_insert(now);
    }

    /// Its first token came.
    pub fn observe(&mut self, now: Tick, wait: &Wait, seconds: f64) {
        let spent = wait.seconds + self.slope.slope() * wait.tokens;
        self.departure.add(now, seconds - spent, 1.0, DEPARTURE_HALF_LIFE);
        // Long times vary in proportion to their length, so they weigh less.
        let inverse_variance = 1.0 / spent.max(1e-3).powi(2);
        self.slope.add(now, wait.tokens, seconds - wait.seconds, (1.0, inverse_variance), FIT_HALF_LIFE);
        self.heard_at = now;
    }

    /// Prompts a second, and the share of time that they take.
    fn rates(&self, now: Tick) -> (f64, f64) {
        let Some(began_at) = self.began_at else { return (0.0, 0.0) };
        let seen = RATE_SECONDS * (1.0 - (-(now.since(began_at).as_secs_f64() + 1.0) / RATE_SECONDS).exp());
        let left = self.left(now);
        (self.prompts * left / seen, self.prompt_seconds * left / seen)
    }

    fn idle(&self, now: Tick) -> f64 {
        (1.0 - self.rates(now).1).max(LEAST_IDLE)
    }

    fn left(&self, now: Tick) -> f64 {
        (-now.since(self.summed_at).as_secs_f64() / RATE_SECONDS).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: TokenTime = TokenTime { seconds: 0.02, slope: 0.0 };

    fn at(milliseconds: u64) -> Tick {
        Tick::from_nanos(milliseconds * 1_000_000)
    }

    fn free(step: f64) -> Ahead {
        Ahead { seconds: 1.5 * step, tokens: 0.0, calls: 0 }
    }

    /// Of a lane that computes 10,000 tokens a second in steps of 20 ms, after 200 prompts, one each 100 ms.
    fn learned() -> FirstTokens {
        let mut firsts = FirstTokens::default();
        for call in 0..200_u64 {
            let new = (100 + 50 * (call % 7)) as f64;
            firsts.sent(at(100 * call), new);
            let wait = firsts.wait(&free(0.02), new);
            firsts.observe(at(100 * call + 50), &wait, 0.03 + 1e-4 * new);
        }
        firsts
    }

    #[test]
    fn the_time_of_a_token_is_learned_and_what_stands_before_a_prompt_counts_with_it() {
        let firsts = learned();
        let now = at(20_000);
        assert!((firsts.token_seconds() * 1e4 - 1.0).abs() < 0.05, "{}", firsts.token_seconds());
        let ahead = Ahead { seconds: 0.1, tokens: 500.0, calls: 2 };
        let first = firsts.expect(now, &firsts.wait(&ahead, 400.0));
        assert!((first - 0.19).abs() < 0.005, "{first}");
    }

    #[test]
    fn a_prompt_holds_up_whom_it_shares_a_step_with_and_who_comes_before_that_ends() {
        let firsts = learned();
        let now = at(20_000);
        let of = |ahead: &Ahead, new: f64| {
            let first = firsts.expect(now, &firsts.wait(ahead, new));
            firsts.others(now, ahead, new, first, (&TOKEN, 10))
        };
        assert_eq!(of(&free(0.02), 0.0), 0.0, "nothing new holds up nobody");
        // 40 ms, for the 10 a second that come within 50 ms or so: half a call.
        let few = of(&free(0.02), 400.0);
        assert!((0.015..0.03).contains(&few), "{few}");
        assert!(of(&free(0.02), 4_000.0) > 30.0 * few, "ten times the tokens hold up more, and each longer");
        let busy = of(&Ahead { calls: 5, ..free(0.02) }, 400.0);
        assert!((busy - few - 5.0 * 0.04).abs() < 0.03, "{busy}");
    }

    #[test]
    fn a_lane_that_was_late_for_a_while_is_not_taken_to_be_late_for_ever() {
        let mut firsts = learned();
        for call in 0..40 {
            let wait = firsts.wait(&free(0.02), 300.0);
            firsts.observe(at(20_000 + 100 * call), &wait, 3.0);
        }
        let expect = |seconds: u64| firsts.expect(at(1_000 * seconds), &firsts.wait(&free(0.02), 300.0));
        assert!(expect(24) > 0.5, "{}: in time it took 0.06", expect(24));
        assert!(expect(384) < expect(24) / 2.0, "{} six minutes later", expect(384));
    }
}
