//! Goodput: the requests of a phase that meet every objective.
//!
//! Invariant: every request outside the warm-up counts, answered, failed, rate-limited or forfeited; only those cancelled
//! by us do not.

use serde::{Deserialize, Serialize};
use tokrate_stats::{Interval, normal_quantile, wilson_interval};

const CONFIDENCE: f64 = 0.95;

/// How many requests met every objective.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Goodput {
    /// Each objective with the number of requests that met it.
    pub slos: Vec<SloCount>,
    /// Requests that met all of them.
    pub met: u64,
    /// Requests judged: outside the warm-up and not cancelled, failed ones, rate-limited ones and forfeited arrivals included.
    pub of: u64,
    /// Those of `of` that are undecided: they lack a metric and miss no other objective.
    #[serde(default)]
    pub undecided: u64,
    /// Those of `of` that missed because they were rate-limited.
    pub missed_rate_limited: u64,
    /// Those of `of` that missed because they failed or were never sent.
    pub missed_failed: u64,
    /// `met` / (`of` - `undecided`); absent if that is 0.
    pub share: Option<f64>,
    /// 95 % interval of the share (Wilson 1927; independent requests assumed), from all undecided ones missing to all of them
    /// being kept.
    pub interval: Option<Interval>,
    /// Requests in the steady window that met all objectives, per second; absent without a window.
    pub per_second: Option<f64>,
}

/// How many requests met one objective.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SloCount {
    /// The objective, such as `ttft_ms < 500`.
    pub slo: String,
    /// Requests that met it.
    pub met: u64,
    /// Answered requests that lack the metric: undecided.
    pub without_metric: u64,
}

/// Whether a share reaches the target, judged by its interval.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ShareVerdict {
    /// The whole interval is.
    Met,
    /// No part of it is.
    Missed,
    /// It lies on both sides: more requests are needed.
    Undecided,
}

impl ShareVerdict {
    /// Verdict by the interval of a share.
    pub fn of(interval: Option<&Interval>, share: f64) -> ShareVerdict {
        match interval {
            Some(interval) if interval.low >= share => ShareVerdict::Met,
            Some(interval) if interval.high < share => ShareVerdict::Missed,
            _ => ShareVerdict::Undecided,
        }
    }
}

/// 95 % interval of the share of `of` requests that meet every objective; `met` certainly do, `undecided` may.
pub fn share_interval(met: u64, undecided: u64, of: u64) -> Option<Interval> {
    let low = wilson_interval(met, of, CONFIDENCE)?;
    let high = wilson_interval(met + undecided, of, CONFIDENCE)?;
    Some(Interval { high: high.high, ..low })
}

impl Goodput {
    /// Whether at least `share` of the requests meet every objective.
    pub fn verdict(&self, share: f64) -> ShareVerdict {
        ShareVerdict::of(self.interval.as_ref(), share)
    }

    /// The fewest requests from which `share` can be met at all, if every request meets every objective: the n at which the
    /// lower end of Wilson's interval of n out of n, n / (n + z^2), reaches it. `None` for a share of 1 or more.
    pub fn min_requests(share: f64) -> Option<u64> {
        let z = normal_quantile(0.5 + CONFIDENCE / 2.0)?;
        (share < 1.0).then(|| (z * z * share / (1.0 - share)).ceil().max(1.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_ends_at_the_share_does_not_miss_it() {
        let interval =
            Interval { low: 0.1, high: 0.5, confidence: 0.95, method: tokrate_stats::IntervalMethod::Wilson };
        let verdict = |share| ShareVerdict::of(Some(&interval), share);
        assert_eq!([0.1, 0.5, 0.51].map(verdict), [ShareVerdict::Met, ShareVerdict::Undecided, ShareVerdict::Missed]);
        assert_eq!(ShareVerdict::of(None, 0.5), ShareVerdict::Undecided);
    }

    #[test]
    fn undecided_requests_widen_the_interval_upwards() {
        // Wilson's interval of 10 of 20 is 0.2993 to 0.7007, that of 15 of 20 0.5313 to 0.8881.
        let interval = share_interval(10, 5, 20).expect("draws");
        assert!((interval.low - 0.2993).abs() < 5e-5 && (interval.high - 0.8881).abs() < 5e-5, "{interval:?}");
    }
}
