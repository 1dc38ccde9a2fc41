//! Phases at one load, pooled: the rounds of it count as one.
//!
//! It refuses to know how figures are shown. Invariant: pooled are requests, never figures; what one of the rounds lacks, the rounds
//! together lack.

use super::{Load, PhaseResult};
use crate::stats::Distribution;

/// The phases of a run at one load.
#[derive(Clone, Debug)]
pub struct Rounds<'a> {
    /// The load.
    pub load: Load,
    /// Its phases, in the order in which they ran; at least one.
    pub phases: Vec<&'a PhaseResult>,
}

/// The phases by load, in the order in which loads came first.
pub fn by_load(phases: &[PhaseResult]) -> Vec<Rounds<'_>> {
    let mut loads: Vec<Rounds<'_>> = Vec::new();
    for phase in phases {
        match loads.iter_mut().find(|rounds| rounds.load == phase.load) {
            Some(rounds) => rounds.phases.push(phase),
            None => loads.push(Rounds { load: phase.load, phases: vec![phase] }),
        }
    }
    loads
}

impl Rounds<'_> {
    /// A count, added up.
    pub fn count(&self, of: impl Fn(&PhaseResult) -> u64) -> u64 {
        self.phases.iter().map(|phase| of(phase)).sum()
    }

    /// The samples of all rounds together; of several their times within 0.55 %, which is how finely a record keeps them.
    /// `None` if a round has none.
    pub fn distribution(&self, of: impl Fn(&PhaseResult) -> &Distribution) -> Option<Distribution> {
        let parts: Vec<&Distribution> = self.phases.iter().map(|phase| of(phase)).collect();
        Distribution::pooled(&parts).filter(|_| parts.iter().all(|part| !part.is_empty()))
    }

    /// Tokens per second of all requests together, over the steady windows one after the other.
    pub fn throughput(&self) -> Option<f64> {
        let windows = || self.phases.iter().filter_map(|phase| phase.throughput.as_ref());
        let seconds: f64 = windows().map(|window| window.window_seconds).sum();
        let tokens: f64 = windows().map(|window| window.tokens_per_second * window.window_seconds).sum();
        (seconds > 0.0).then(|| tokens / seconds)
    }

    /// Share of the judged requests that keep every objective.
    pub fn kept_share(&self) -> Option<f64> {
        let kept = || self.phases.iter().filter_map(|phase| phase.goodput.as_ref());
        let of: u64 = kept().map(|goodput| goodput.of - goodput.undecided).sum();
        let met: u64 = kept().map(|goodput| goodput.met).sum();
        (of > 0).then(|| met as f64 / of as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{closed, failed_request, phase, steady_request};
    use tokrate_core::FailureKind;

    #[test]
    fn rounds_are_pooled_by_their_requests() {
        let round = |ttft| -> Vec<_> { (1..=30).map(|i| steady_request(i, i * 2_000, ttft, 10, 40)).collect() };
        let (fast, slow, other) =
            (phase(&closed(1), &round(100)), phase(&closed(1), &round(300)), phase(&closed(2), &round(100)));
        let phases = [fast.clone(), other, slow];
        let loads = by_load(&phases);
        assert_eq!(loads.iter().map(|rounds| rounds.phases.len()).collect::<Vec<usize>>(), [2, 1]);
        let ttft = loads[0].distribution(|phase| &phase.ttft).expect("both have one");
        assert_eq!((ttft.n, loads[0].count(|phase| phase.counts.measured)), (60, 60));
        let p90 = ttft.p90.nearest_rank().expect("60 samples");
        assert!((p90 - 300.0).abs() < 300.0 * 0.0055, "half of the samples are slow: {p90}");
        assert_eq!(loads[1].throughput(), phases[1].throughput.as_ref().map(|all| all.tokens_per_second));
    }

    #[test]
    fn what_one_round_lacks_the_rounds_lack() {
        let round: Vec<_> = (1..=30).map(|i| steady_request(i, i * 2_000, 100, 10, 40)).collect();
        let phases = [phase(&closed(1), &round), phase(&closed(1), &[failed_request(1, 0, 10, FailureKind::TimedOut)])];
        let loads = by_load(&phases);
        assert_eq!(loads[0].distribution(|phase| &phase.ttft), None);
        assert_eq!(loads[0].kept_share(), None, "nothing was asked for");
    }
}
