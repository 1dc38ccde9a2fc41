//! Goodput of a phase: how many of its requests meet every objective.
//!
//! Invariant: every request outside the warm-up counts, answered, failed, rate-limited or forfeited; only those cancelled
//! by us do not.

use crate::slo::Slo;
use tokrate_core::FailureKind;
use tokrate_meter::RequestNumbers;
use tokrate_record::{Goodput, PhaseResult, SloCount, share_interval};

/// Judges the requests of a phase (warm-up marked); `None` without objectives.
pub fn goodput(slos: &[Slo], phase: &PhaseResult, requests: &[RequestNumbers]) -> Option<Goodput> {
    if slos.is_empty() {
        return None;
    }
    let judged = |request: &&RequestNumbers| !request.warmup && request.failure_kind() != Some(FailureKind::Cancelled);
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
        slos: slos.iter().map(|slo| count_of(slo, &judged)).collect(),
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

fn count_of(slo: &Slo, judged: &[&RequestNumbers]) -> SloCount {
    let lacks = |request: &&&RequestNumbers| slo.kept(request).is_none();
    SloCount {
        slo: slo.to_string(),
        met: judged.iter().filter(|request| slo.kept(request) == Some(true)).count() as u64,
        without_metric: judged.iter().filter(lacks).count() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_core::Span;
    use tokrate_meter::fixtures::{failed_request, rate_limited_request, steady_request};
    use tokrate_record::fixtures::{closed, phase};
    use tokrate_record::{PhaseInput, ShareVerdict};

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
        let goodput =
            super::goodput(&slos(&["ttft_ms<200", "output_speed>30"]), &phase, &requests).expect("objectives");
        assert_eq!((goodput.met, goodput.undecided, goodput.of), (1, 1, 7));
        assert_eq!(goodput.share, Some(1.0 / 6.0));
        assert_eq!((goodput.missed_rate_limited, goodput.missed_failed), (1, 3));
        assert_eq!(goodput.slos[0], SloCount { slo: "ttft_ms < 200".into(), met: 2, without_metric: 0 });
        assert_eq!(goodput.slos[1], SloCount { slo: "output_speed > 30".into(), met: 2, without_metric: 1 });
        let window = phase.steady.as_ref().expect("one slot was busy").span().as_secs_f64();
        assert_eq!(goodput.per_second, Some(1.0 / window));
        assert_eq!(super::goodput(&[], &phase, &requests), None);
    }

    #[test]
    fn a_share_is_met_missed_or_undecided_by_its_interval() {
        let requests: Vec<RequestNumbers> = (0..100).map(|i| steady_request(i, i * 1_000, 100, 20, 40)).collect();
        let phase = phase(&closed(1), &requests);
        let goodput = |objective: &str| super::goodput(&slos(&[objective]), &phase, &requests).expect("an objective");
        let all = goodput("ttft_ms<200");
        let low = all.interval.expect("100 requests").low;
        assert!((low - 100.0 / (100.0 + 3.841_459)).abs() < 1e-6, "{low}");
        assert_eq!((all.verdict(0.95), all.verdict(0.99)), (ShareVerdict::Met, ShareVerdict::Undecided));
        assert_eq!(goodput("ttft_ms<50").verdict(0.95), ShareVerdict::Missed);
        assert_eq!((Goodput::min_requests(0.95), Goodput::min_requests(1.0)), (Some(73), None));
    }

    #[test]
    fn where_every_request_is_undecided_there_is_no_share() {
        let requests = [steady_request(0, 0, 100, 20, 10), steady_request(1, 1_000, 100, 20, 10)];
        let phase = phase(&closed(1), &requests);
        let goodput = super::goodput(&slos(&["output_speed>30"]), &phase, &requests).expect("an objective");
        assert_eq!((goodput.undecided, goodput.of, goodput.share), (2, 2, None));
    }
}
