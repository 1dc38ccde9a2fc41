//! Goodput: the requests of a phase that meet every objective.
//!
//! Invariant: every request outside the warm-up counts, answered, failed, rate-limited or forfeited; only those cancelled
//! by us do not.

use crate::request::RequestNumbers;
use crate::run::PhaseResult;
use crate::slo::Slo;
use serde::{Deserialize, Serialize};
use tokrate_core::FailureKind;
use tokrate_stats::{Interval, normal_quantile, wilson_interval};

const CONFIDENCE: f64 = 0.95;

/// How many requests met every objective.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    /// Judges the requests of a phase (warm-up marked); `None` without objectives.
    pub fn of(slos: &[Slo], phase: &PhaseResult, requests: &[RequestNumbers]) -> Option<Goodput> {
        if slos.is_empty() {
            return None;
        }
        let judged =
            |request: &&RequestNumbers| !request.warmup && request.failure_kind() != Some(FailureKind::Cancelled);
        let judged: Vec<&RequestNumbers> = requests.iter().filter(judged).collect();
        let good = |request: &RequestNumbers| slos.iter().all(|slo| slo.kept(request) == Some(true));
        let misses = |request: &RequestNumbers| slos.iter().any(|slo| slo.kept(request) == Some(false));
        let met = judged.iter().filter(|request| good(request)).count() as u64;
        let undecided = judged.iter().filter(|request| !good(request) && !misses(request)).count() as u64;
        let of = judged.len() as u64 + phase.counts.forfeited;
        let refused =
            judged.iter().filter(|request| request.failure_kind() == Some(FailureKind::RateLimited)).count() as u64;
        let unanswered = judged.iter().filter(|request| !request.is_answered()).count() as u64;
        let per_second = phase.steady.as_ref().map(|steady| {
            let good = requests.iter().filter(|request| good(request)).map(|request| steady.share_of(request));
            good.sum::<f64>() / steady.span().as_secs_f64()
        });
        Some(Goodput {
            slos: slos.iter().map(|slo| SloCount::of(slo, &judged)).collect(),
            met,
            of,
            missed_rate_limited: refused,
            missed_failed: unanswered - refused + phase.counts.forfeited,
            undecided,
            share: (of > undecided).then(|| met as f64 / (of - undecided) as f64),
            interval: share_interval(met, undecided, of),
            per_second: per_second.filter(|rate| rate.is_finite()),
        })
    }

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

impl SloCount {
    fn of(slo: &Slo, judged: &[&RequestNumbers]) -> SloCount {
        let lacks = |request: &&&RequestNumbers| request.is_answered() && slo.metric.of(request).is_none();
        SloCount {
            slo: slo.to_string(),
            met: judged.iter().filter(|request| slo.kept(request) == Some(true)).count() as u64,
            without_metric: judged.iter().filter(lacks).count() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{closed, failed_request, phase, rate_limited_request, steady_request};
    use crate::run::PhaseInput;
    use tokrate_core::Span;

    fn slos(texts: &[&str]) -> Vec<Slo> {
        texts.iter().map(|text| Slo::parse(text).expect("an objective")).collect()
    }

    #[test]
    fn failed_refused_and_forfeited_requests_miss_and_cancelled_ones_are_not_judged() {
        let input = PhaseInput { forfeited: 2, ..closed(1) };
        let requests = [
            steady_request(0, 0, 100, 20, 40),
            steady_request(1, 1_000, 300, 20, 40),
            steady_request(2, 3_000, 100, 20, 10), // too short for an output speed
            failed_request(3, 5_000, 5_100, FailureKind::Stalled),
            rate_limited_request(4, 5_200, 5_210, Span::from_secs(1)),
            failed_request(5, 5_300, 5_400, FailureKind::Cancelled),
        ];
        let phase = phase(&input, &requests);
        let goodput = Goodput::of(&slos(&["ttft_ms<200", "output_speed>30"]), &phase, &requests).expect("objectives");
        assert_eq!((goodput.met, goodput.undecided, goodput.of), (1, 1, 7));
        assert_eq!(goodput.share, Some(1.0 / 6.0));
        assert_eq!((goodput.missed_rate_limited, goodput.missed_failed), (1, 3));
        assert_eq!(goodput.slos[0], SloCount { slo: "ttft_ms < 200".into(), met: 2, without_metric: 0 });
        assert_eq!(goodput.slos[1], SloCount { slo: "output_speed > 30".into(), met: 2, without_metric: 1 });
        let window = phase.steady.as_ref().expect("one slot was busy").span().as_secs_f64();
        assert_eq!(goodput.per_second, Some(1.0 / window));
        assert_eq!(Goodput::of(&[], &phase, &requests), None);
    }

    #[test]
    fn a_share_is_met_missed_or_undecided_by_its_interval() {
        let requests: Vec<RequestNumbers> = (0..100).map(|i| steady_request(i, i * 1_000, 100, 20, 40)).collect();
        let phase = phase(&closed(1), &requests);
        let goodput = |objective: &str| Goodput::of(&slos(&[objective]), &phase, &requests).expect("an objective");
        let all = goodput("ttft_ms<200");
        let low = all.interval.expect("100 requests").low;
        assert!((low - 100.0 / (100.0 + 3.841_459)).abs() < 1e-6, "{low}");
        assert_eq!((all.verdict(0.95), all.verdict(0.99)), (ShareVerdict::Met, ShareVerdict::Undecided));
        assert_eq!(goodput("ttft_ms<50").verdict(0.95), ShareVerdict::Missed);
        assert_eq!((Goodput::min_requests(0.95), Goodput::min_requests(1.0)), (Some(73), None));
    }

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

    #[test]
    fn where_every_request_is_undecided_there_is_no_share() {
        let requests = [steady_request(0, 0, 100, 20, 10), steady_request(1, 1_000, 100, 20, 10)];
        let phase = phase(&closed(1), &requests);
        let goodput = Goodput::of(&slos(&["output_speed>30"]), &phase, &requests).expect("an objective");
        assert_eq!((goodput.undecided, goodput.of, goodput.share), (2, 2, None));
    }
}
