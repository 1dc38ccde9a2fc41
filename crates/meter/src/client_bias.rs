//! Bias of the client: its figures minus those from the server's own clock.
//!
//! Invariant: both sides cover the same requests, and each figure is computed by the code that computes those of a phase.

use crate::pooled::Pool;
use crate::request::RequestNumbers;
use serde::{Deserialize, Serialize};
use tokrate_stats::{Distribution, Quantile, Unit};

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
