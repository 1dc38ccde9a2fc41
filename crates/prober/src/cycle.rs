//! One cycle: its reference probes, its outcomes, and whether they count.
//!
//! Invariant: a cycle is closed once, when nothing of it is planned or in flight any more.

use std::collections::BTreeMap;
use tokrate_core::{Money, Span};

/// Providers that have to be judged, and to be bad, before the prober is held to be at fault.
const LEAST_PROVIDERS: usize = 3;
/// The client's own error, on the time to the first token or on a gap, from which on a cycle does not count: a tenth of a fast
/// endpoint's time to the first token.
pub const CLIENT_ERROR_LIMIT: Span = Span::from_millis(25);
/// The same of the output speed, as a share.
const SPEED_ERROR_LIMIT: f64 = 0.05;

/// What came of a probe, as far as scheduling needs it. Of several requests at once: what they came to together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outcome {
    /// Whether it was not answered.
    pub failed: bool,
    /// Time to the first token (ns).
    pub ttft_ns: Option<u64>,
    /// Output speed (tokens per second).
    pub output_speed: Option<f64>,
    /// Tokens of prompt and answer.
    pub tokens: u64,
    /// What it cost.
    pub cost: Money,
}

/// What a probe of the engine on loopback came to, held against what the engine did.
#[derive(Clone, PartialEq, Debug)]
pub struct ReferenceResult {
    /// Measured time to the first token less the true one (ns).
    pub ttft_error_ns: i64,
    /// Measured output speed over the true one, less 1.
    pub speed_error: f64,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

/// A cycle that has ended.
#[derive(Clone, PartialEq, Debug)]
pub struct ClosedCycle {
    /// Its number in this run.
    pub cycle: u64,
    /// Why its probes do not count, if they do not.
    pub quarantine: Option<String>,
    /// What its reference probes came to.
    pub references: Vec<ReferenceResult>,
    /// Numbers of its probes.
    pub probes: Vec<u64>,
}

/// A cycle that is under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cycle {
    /// Planned or in flight.
    pub open: u64,
    pub references: Vec<ReferenceResult>,
    /// Provider, series and outcome of each probe, and whether it is bad.
    pub outcomes: Vec<(u64, usize, Outcome, Option<bool>)>,
}

/// Why the client itself is at fault by its reference probes, if it is.
pub fn judge_references(references: &[ReferenceResult]) -> Option<String> {
    references.iter().find_map(|reference| {
        let limit = CLIENT_ERROR_LIMIT.as_nanos();
        if let Some(failure) = &reference.failure {
            return Some(format!("the reference probe on loopback failed: {failure}"));
        }
        if reference.ttft_error_ns.unsigned_abs() > limit {
            let error = reference.ttft_error_ns as f64 / 1e6;
            return Some(format!(
                "the client's own error: {error:+.1} ms on the time to the first token of the reference"
            ));
        }
        let off = reference.speed_error.abs() > SPEED_ERROR_LIMIT;
        off.then(|| {
            format!(
                "the client's own error: {:+.1} % on the output speed of the reference",
                100.0 * reference.speed_error
            )
        })
    })
}

/// Why the prober is at fault by what unrelated providers did together, if it is.
pub(crate) fn judge_providers<'p>(outcomes: impl Iterator<Item = (&'p str, Option<bool>)>) -> Option<String> {
    let mut by_provider: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (provider, is_bad) in outcomes {
        if let Some(is_bad) = is_bad {
            let (bad, all) = by_provider.entry(provider).or_default();
            *bad += usize::from(is_bad);
            *all += 1;
        }
    }
    let bad = by_provider.values().filter(|(bad, all)| 2 * bad > *all).count();
    let together = bad >= LEAST_PROVIDERS && 2 * bad >= by_provider.len();
    together.then(|| {
        format!("{bad} of {} unrelated providers failed or were far slower at the same time", by_provider.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_unrelated_providers_together_is_the_probers_fault() {
        let judge = |bad: usize, all: usize| {
            let names: Vec<String> = (0..all).map(|number| format!("provider-{number}")).collect();
            judge_providers(names.iter().enumerate().map(|(number, name)| (name.as_str(), Some(number < bad))))
        };
        assert_eq!(judge(2, 3), None);
        assert!(judge(3, 3).is_some() && judge(3, 6).is_some() && judge(3, 7).is_none() && judge(6, 12).is_some());
        let one = [("a", Some(true)); 12];
        assert_eq!(judge_providers(one.into_iter()), None, "all of one provider is the provider's");
        assert_eq!(judge_providers([("a", None), ("b", None), ("c", None)].into_iter()), None);
    }

    #[test]
    fn a_reference_that_is_off_says_by_how_much() {
        let reference = |ttft_error_ns, speed_error, failure: Option<&str>| {
            judge_references(&[ReferenceResult { ttft_error_ns, speed_error, failure: failure.map(str::to_owned) }])
        };
        assert_eq!(reference(24_000_000, 0.04, None), None);
        assert!(reference(-26_000_000, 0.0, None).is_some_and(|why| why.contains("-26.0 ms")));
        assert!(reference(0, 0.06, None).is_some_and(|why| why.contains("+6.0 %")));
        assert!(reference(0, 0.0, Some("refused")).is_some_and(|why| why.ends_with("failed: refused")));
    }
}
