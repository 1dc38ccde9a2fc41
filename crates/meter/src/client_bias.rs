//! Bias of the client: its figures minus those from the server's own clock.
//!
//! Invariant: both sides cover the same requests, and each figure is computed by the code that computes those of a phase.

use crate::pooled::Pool;
use crate::request::RequestNumbers;
use serde::{Deserialize, Serialize};
use tokrate_stats::{Distribution, Quantile, Unit};

/// Parts of a calibration in each of which the bias of a tail is looked at.
const TAIL_PARTS: usize = 4;

/// The client's figure minus the server's, for each figure that is judged; `None` where one of them has none.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClientBias {
    /// Median of TTFT (ms).
    pub ttft_p50_ms: Option<f64>,
    /// 99th percentile of TTFT (ms).
    pub ttft_p99_ms: Option<f64>,
    /// Median of ITL (ms).
    pub itl_p50_ms: Option<f64>,
    /// 99th percentile of ITL (ms).
    pub itl_p99_ms: Option<f64>,
    /// Median of TPOT (ms).
    pub tpot_p50_ms: Option<f64>,
    /// 99th percentile of TPOT (ms).
    pub tpot_p99_ms: Option<f64>,
    /// Median of E2E (ms).
    pub e2e_p50_ms: Option<f64>,
    /// 99th percentile of E2E (ms).
    pub e2e_p99_ms: Option<f64>,
    /// Mean time that a request held its place in the load, minus the mean time that the server worked on it (ms).
    pub slot_mean_ms: Option<f64>,
    /// Mean tokens of an answer after the first: an error in TPOT is shared by all of them.
    pub later_tokens: f64,
}

/// The times of requests as a phase has them.
struct Times {
    ttft: Distribution,
    itl: Distribution,
    tpot: Distribution,
    e2e: Distribution,
}

impl ClientBias {
    /// Compares the same answered requests as the client saw them and as the server's log has them
    /// ([`RequestNumbers::with_server_times`]).
    pub fn between(seen: &[&RequestNumbers], logged: &[&RequestNumbers]) -> ClientBias {
        let (ours, theirs) = (Times::of(seen), Times::of(logged));
        let moved = |of: fn(&Times) -> &Quantile| Some(of(&ours).nearest_rank()? - of(&theirs).nearest_rank()?);
        let held = mean(seen.iter().map(|request| (request.ended_at_ns - request.due_at_ns) as f64 / 1e6));
        let later = seen.iter().map(|request| (request.tokens_std - request.tokens_first_chunk) as f64);
        ClientBias {
            ttft_p50_ms: moved(|times| &times.ttft.p50),
            ttft_p99_ms: moved(|times| &times.ttft.p99),
            itl_p50_ms: moved(|times| &times.itl.p50),
            itl_p99_ms: moved(|times| &times.itl.p99),
            tpot_p50_ms: moved(|times| &times.tpot.p50),
            tpot_p99_ms: moved(|times| &times.tpot.p99),
            e2e_p50_ms: moved(|times| &times.e2e.p50),
            e2e_p99_ms: moved(|times| &times.e2e.p99),
            slot_mean_ms: held.zip(theirs.e2e.mean).map(|(held, worked)| held - worked),
            later_tokens: mean(later).unwrap_or(0.0),
        }
    }

    /// The same for a calibration that stands for another time: a tail is made of few moments, which it may have met or not, so that its
    /// bias is that of the part in which it is largest. Parts that do not carry a tail say nothing.
    pub fn expected_between(seen: &[&RequestNumbers], logged: &[&RequestNumbers]) -> ClientBias {
        let mut bias = ClientBias::between(seen, logged);
        let size = seen.len().div_ceil(TAIL_PARTS).max(1);
        for (seen, logged) in seen.chunks(size).zip(logged.chunks(size)) {
            let [ours, theirs] = [seen, logged].map(|part| Pool::Itl.distribution(part).p99.stated());
            let moved = ours.zip(theirs).map(|(ours, theirs)| ours - theirs);
            let larger = moved.filter(|moved| bias.itl_p99_ms.is_none_or(|known| moved.abs() > known.abs()));
            bias.itl_p99_ms = larger.or(bias.itl_p99_ms);
        }
        bias
    }

    /// Keeps the smaller bias of two calibrations for each figure; a figure that only one has is taken from it.
    pub(crate) fn keep_smaller(&mut self, other: &ClientBias) {
        let pairs = [
            (&mut self.ttft_p50_ms, other.ttft_p50_ms),
            (&mut self.ttft_p99_ms, other.ttft_p99_ms),
            (&mut self.itl_p50_ms, other.itl_p50_ms),
            (&mut self.itl_p99_ms, other.itl_p99_ms),
            (&mut self.tpot_p50_ms, other.tpot_p50_ms),
            (&mut self.tpot_p99_ms, other.tpot_p99_ms),
            (&mut self.e2e_p50_ms, other.e2e_p50_ms),
            (&mut self.e2e_p99_ms, other.e2e_p99_ms),
            (&mut self.slot_mean_ms, other.slot_mean_ms),
        ];
        for (ours, theirs) in pairs {
            let theirs = theirs.filter(|theirs| ours.is_none_or(|ours| theirs.abs() < ours.abs()));
            *ours = theirs.or(*ours);
        }
    }

    /// The bias of TPOT in answers with this many tokens after the first.
    pub fn tpot_at(&self, moved: Option<f64>, later_tokens: f64) -> Option<f64> {
        moved.filter(|_| later_tokens > 0.0).map(|moved| moved * self.later_tokens / later_tokens)
    }
}

impl Times {
    fn of(requests: &[&RequestNumbers]) -> Times {
        let nanos = |of: fn(&RequestNumbers) -> Option<u64>| {
            let mut samples: Vec<u64> = requests.iter().filter_map(|request| of(request)).collect();
            Distribution::of_nanos(&mut samples)
        };
        let mut tpot: Vec<f64> = requests.iter().filter_map(|request| request.tpot_ms).collect();
        Times {
            ttft: nanos(|request| request.ttft_ns),
            itl: Pool::Itl.distribution(requests),
            tpot: Distribution::of_values(&mut tpot, Unit::Milliseconds),
            e2e: nanos(|request| request.e2e_ns),
        }
    }
}

/// Mean of the values; `None` without any.
pub fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0_u64), |(sum, n), value| (sum + value, n + 1));
    (n > 0).then(|| sum / n as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{RequestBuilder, numbers, steady_request};

    #[test]
    fn a_tail_that_a_calibration_met_in_one_part_only_is_expected_in_all() {
        // 80 tokens, a token each 10 ms; 16 of the gaps are 12 ms in one request as the client saw it: 0.5 % of all gaps, 2 % of those of
        // its quarter.
        let steady = |index: u64| steady_request(index, index * 2_000, 100, 10, 80);
        let busy = (1..80).fold((RequestBuilder::sent(0, 0).answer(100, " a"), 100), |(story, at), token| {
            let at = at + if token <= 16 { 12 } else { 10 };
            (story.answer(at, " a"), at)
        });
        let busy = numbers(&busy.0.done(busy.1, busy.1));
        let logged: Vec<RequestNumbers> = (0..40).map(steady).collect();
        let seen: Vec<RequestNumbers> = (0..39).map(steady).chain([busy]).collect();
        let (seen, logged): (Vec<&RequestNumbers>, Vec<&RequestNumbers>) = seen.iter().zip(&logged).unzip();
        let bias = |bias: ClientBias| bias.itl_p99_ms.expect("3,160 gaps");
        assert_eq!(bias(ClientBias::between(&seen, &logged)), 0.0);
        assert!((bias(ClientBias::expected_between(&seen, &logged)) - 2.0).abs() < 1e-9);
        // A quarter of 5 requests has too few gaps for a p99 of its own.
        let (few_seen, few_logged) = (&seen[20..], &logged[20..]);
        assert_eq!(
            bias(ClientBias::expected_between(few_seen, few_logged)),
            bias(ClientBias::between(few_seen, few_logged))
        );
    }
}
