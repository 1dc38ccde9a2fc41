//! What answers that come whole teach: how long they took in all.
//!
//! It refuses to take such a time for that of a first token. Invariant: the more streams have said of a lane, the less an answer
//! that came whole moves its curves, because it cannot tell which of its parts was slow.

use super::{LaneModel, PACE_PRIOR, WAIT_PRIOR, WEIGHT_LEAST};
use tokrate_core::{Span, Tick};

/// Where nothing is known of either, a first token is taken to need as long as so many further ones.
const FIRST_TOKEN_IN_TOKENS: f64 = 30.0;
/// Of a time that goes beyond the known first token, at least this share is the other tokens'.
const REST_SHARE_LEAST: f64 = 0.1;

/// An answer that comes whole, as far as its lane's model wants to know it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WholeAnswer {
    /// Tokens of its prompt.
    pub prompt_tokens: u64,
    /// Calls in flight, on average over its life, itself included.
    pub in_flight: f64,
    /// Output tokens that it had been expected to have.
    pub expected_tokens: f64,
    /// From its begin to its end, or until it was given up.
    pub took: Span,
}

/// Seconds to the first token, and per further token.
#[derive(Clone, Copy)]
struct Parts {
    first: f64,
    pace: f64,
}

impl Parts {
    fn seconds(self, tokens: f64) -> f64 {
        (self.first + tokens * self.pace).max(1e-9)
    }
}

impl LaneModel {
    /// An answer of so many tokens came whole.
    pub fn saw_whole(&mut self, now: Tick, answer: &WholeAnswer, output_tokens: u64) {
        let seconds = answer.took.as_secs_f64();
        let tokens = output_tokens as f64;
        let parts = self.known_parts(now, answer).unwrap_or_else(|known| known.completed(seconds, tokens));
        self.whole.add(now, seconds / parts.seconds(answer.expected_tokens), 1.0);
        // Each part is taken to have departed as the whole did.
        let ratio = self.without_tail(now, seconds, parts.seconds(tokens)) / parts.seconds(tokens);
        let weight = 1.0 / (1.0 + self.spread.weight(now));
        let first = parts.first * ratio;
        if let Some(expected) = self.plain_ttft(answer.prompt_tokens, answer.in_flight) {
            self.wait_drift.add(now, first / expected, weight, &self.config);
        }
        self.add_ttft(now, answer.prompt_tokens, answer.in_flight, first, weight);
        if output_tokens > 0 {
            self.add_pace(now, answer.in_flight, parts.pace * ratio, output_tokens, weight);
        }
    }

    /// An answer that was to come whole was given up; it would have taken at least so long.
    pub fn gave_up_whole(&mut self, now: Tick, answer: &WholeAnswer) {
        if let Ok(parts) = self.known_parts(now, answer) {
            let ratio = answer.took.as_secs_f64() / parts.seconds(answer.expected_tokens);
            self.whole.add_at_least(now, ratio, 1.0);
        }
    }

    /// The 90th percentile of the time to the end of an answer that comes whole, of so many tokens as may be expected; of what
    /// streams have shown where no such answers were seen.
    pub fn whole_p90(
        &self,
        now: Tick,
        prompt_tokens: u64,
        output_tokens: f64,
        in_flight: u32,
        samples_least: f64,
    ) -> Option<Span> {
        let model = self.at(now, prompt_tokens)?;
        if self.whole.weight(now) >= samples_least.max(WEIGHT_LEAST) {
            let (_, p90) = self.whole.middle_and_tail()?;
            let (first, pace) = model.parts(in_flight)?;
            return Some(Span::from_secs_f64(Parts { first, pace }.seconds(output_tokens) * p90));
        }
        let first = self.ttft_p90(now, prompt_tokens, in_flight, samples_least)?;
        Some(first + Span::from_secs_f64(output_tokens / model.expect(in_flight)?.speed))
    }

    fn known_parts(&self, now: Tick, answer: &WholeAnswer) -> Result<Parts, HalfKnown> {
        let first = self.plain_ttft(answer.prompt_tokens, answer.in_flight);
        let first = first.map(|first| first * self.wait_drift.factor(now, &self.config, WAIT_PRIOR));
        let pace = self.pace.value(answer.in_flight);
        let pace = pace.map(|pace| pace * self.pace_drift.factor(now, &self.config, PACE_PRIOR));
        match (first, pace) {
            (Some(first), Some(pace)) => Ok(Parts { first, pace }),
            (first, pace) => Err(HalfKnown { first, pace }),
        }
    }
}

/// What is known of a lane of which not all is.
struct HalfKnown {
    first: Option<f64>,
    pace: Option<f64>,
}

impl HalfKnown {
    /// Completed by what one answer took.
    fn completed(&self, seconds: f64, tokens: f64) -> Parts {
        let pace = match (self.first, self.pace) {
            (_, Some(pace)) => pace,
            (Some(first), None) => (seconds - first).max(REST_SHARE_LEAST * seconds) / tokens.max(1.0),
            (None, None) => seconds / (tokens + FIRST_TOKEN_IN_TOKENS),
        };
        let first = self.first.unwrap_or_else(|| (seconds - tokens * pace).max(pace));
        Parts { first, pace }
    }
}
