//! Learns from non-streamed answers, of which only the total time is known.
//!
//! Invariant: the total is never taken for a time to first token. It cannot tell which part was slow, so it moves the
//! curves less the more streamed answers were seen.

use super::{LaneModel, MIN_WEIGHT, ModelAt, TPOT_DRIFT_PRIOR, TTFT_DRIFT_PRIOR};
use tokrate_core::{Span, Tick};

/// Assumed ratio of time to first token to time per token where neither is known.
const FIRST_TOKEN_IN_TOKENS: f64 = 30.0;
/// At least this share of a total time belongs to the tokens after the first, even if the known time to first token
/// exceeds it.
const MIN_DECODE_SHARE: f64 = 0.1;

/// A non-streamed answer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WholeAnswer {
    /// Tokens of its prompt.
    pub prompt_tokens: u64,
    /// Calls in flight, on average over its life, itself included.
    pub in_flight: f64,
    /// Output tokens that were expected.
    pub expected_tokens: f64,
    /// From its start to its end, or until it was cancelled.
    pub duration: Span,
}

/// Seconds to the first token and per further token.
#[derive(Clone, Copy)]
struct Parts {
    first: f64,
    tpot: f64,
}

impl Parts {
    fn seconds(self, tokens: f64) -> f64 {
        (self.first + tokens * self.tpot).max(1e-9)
    }
}

impl LaneModel {
    /// A non-streamed answer of this many tokens has ended.
    pub fn observe_whole(&mut self, now: Tick, answer: &WholeAnswer, output_tokens: u64) {
        let seconds = answer.duration.as_secs_f64();
        let tokens = output_tokens as f64;
        let parts = self.expected_parts(now, answer).unwrap_or_else(|known| known.completed(seconds, tokens));
        self.whole_ratios.add(now, seconds / parts.seconds(answer.expected_tokens), 1.0);
        // Both parts are assumed to deviate by the same ratio.
        let ratio = self.clip_tail(now, seconds, parts.seconds(tokens)) / parts.seconds(tokens);
        let weight = 1.0 / (1.0 + self.ttft_ratios.weight(now));
        let first = parts.first * ratio;
        if let Some(expected) = self.ttft_without_drift(answer.prompt_tokens, answer.in_flight) {
            self.ttft_drift.add(now, first / expected, weight, &self.config);
        }
        self.add_ttft(now, answer.prompt_tokens, answer.in_flight, first, weight);
        if output_tokens > 0 {
            self.add_tpot(now, answer.in_flight, parts.tpot * ratio, output_tokens, weight);
        }
    }

    /// A non-streamed answer was cancelled; it would have taken at least this long.
    pub fn observe_cancelled_whole(&mut self, now: Tick, answer: &WholeAnswer) {
        if let Ok(parts) = self.expected_parts(now, answer) {
            let ratio = answer.duration.as_secs_f64() / parts.seconds(answer.expected_tokens);
            self.whole_ratios.add_censored(now, ratio, 1.0);
        }
    }

    /// The 90th percentile of the total time of a non-streamed answer of the expected length; estimated from streamed
    /// answers where no others were seen.
    pub fn whole_p90(
        &self,
        now: Tick,
        prompt_tokens: u64,
        output_tokens: f64,
        in_flight: u32,
        min_samples: f64,
    ) -> Option<Span> {
        let model = self.at(now, prompt_tokens).filter(ModelAt::is_known)?;
        if self.whole_ratios.weight(now) >= min_samples.max(MIN_WEIGHT) {
            let (_, p90) = self.whole_ratios.median_and_p90()?;
            let (first, tpot) = model.parts(in_flight)?;
            return Some(Span::from_secs_f64(Parts { first, tpot }.seconds(output_tokens) * p90));
        }
        let first = self.ttft_p90(now, prompt_tokens, in_flight, min_samples)?;
        Some(first + Span::from_secs_f64(output_tokens / model.expect(in_flight)?.speed))
    }

    fn expected_parts(&self, now: Tick, answer: &WholeAnswer) -> Result<Parts, PartialEstimate> {
        let first = self.ttft_without_drift(answer.prompt_tokens, answer.in_flight);
        let first = first.map(|first| first * self.ttft_drift.factor(now, &self.config, TTFT_DRIFT_PRIOR));
        let tpot = self.tpot.value(answer.in_flight);
        let tpot = tpot.map(|tpot| tpot * self.tpot_drift.factor(now, &self.config, TPOT_DRIFT_PRIOR));
        match (first, tpot) {
            (Some(first), Some(tpot)) => Ok(Parts { first, tpot }),
            (first, tpot) => Err(PartialEstimate { first, tpot }),
        }
    }
}

/// A lane of which only a part is known.
struct PartialEstimate {
    first: Option<f64>,
    tpot: Option<f64>,
}

impl PartialEstimate {
    /// Derives the missing part from the total time of one answer.
    fn completed(&self, seconds: f64, tokens: f64) -> Parts {
        let tpot = match (self.first, self.tpot) {
            (_, Some(tpot)) => tpot,
            (Some(first), None) => (seconds - first).max(MIN_DECODE_SHARE * seconds) / tokens.max(1.0),
            (None, None) => seconds / (tokens + FIRST_TOKEN_IN_TOKENS),
        };
        let first = self.first.unwrap_or_else(|| (seconds - tokens * tpot).max(tpot));
        Parts { first, tpot }
    }
}
