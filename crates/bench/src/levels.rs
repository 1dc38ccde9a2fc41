//! Groups phases into the levels of a curve: all rounds at one load are one level.
//!
//! Invariant: closed and open loads are never mixed in one curve.

use tokrate_core::Rng;
use tokrate_record::PhaseResult;
use tokrate_record::curve::{CurveResult, LoadAxis, LoadLevel, Measured};

/// The degradation curve over the levels so far; `None` for a single one or for mixed loads.
pub fn curve_of(phases: &[PhaseResult], seed: u64) -> Option<CurveResult> {
    let closed = phases.iter().filter(|phase| matches!(phase.load, tokrate_record::Load::Closed { .. })).count();
    let open = phases.iter().filter(|phase| matches!(phase.load, tokrate_record::Load::Open { .. })).count();
    if !phases.iter().all(PhaseResult::is_text) {
        return None;
    }
    if phases.len() < 2 || closed.max(open) != phases.len() {
        return None;
    }
    let axis = if closed > 0 { LoadAxis::Concurrency } else { LoadAxis::Rate };
    let levels = merge_rounds(phases.iter().map(PhaseResult::load_level));
    (levels.len() > 1).then(|| CurveResult::of(axis, &levels, &Rng::root(seed).child("curve")))
}

/// Rounds at the same load become one level: numbers and interval ends are averaged, which leaves intervals wider than
/// those of all requests together would be.
fn merge_rounds(rounds: impl Iterator<Item = LoadLevel>) -> Vec<LoadLevel> {
    let mut levels: Vec<(LoadLevel, f64)> = Vec::new();
    for round in rounds {
        match levels.iter_mut().find(|(level, _)| level.load == round.load) {
            Some((level, n)) => {
                let mean = |a: Option<Measured>, b: Option<Measured>| match (a, b) {
                    (Some(a), Some(b)) => Some(Measured {
                        value: (a.value * *n + b.value) / (*n + 1.0),
                        low: a.low.zip(b.low).map(|(a, b)| (a * *n + b) / (*n + 1.0)),
                        high: a.high.zip(b.high).map(|(a, b)| (a * *n + b) / (*n + 1.0)),
                    }),
                    (a, b) => a.or(b),
                };
                level.throughput = mean(level.throughput, round.throughput);
                level.output_speed = mean(level.output_speed, round.output_speed);
                level.ttft = mean(level.ttft, round.ttft);
                level.mean_ttft = mean(level.mean_ttft, round.mean_ttft);
                level.mean_e2e = mean(level.mean_e2e, round.mean_e2e);
                level.requests += round.requests;
                level.failures += round.failures;
                level.rate_limited += round.rate_limited;
                *n += 1.0;
            }
            None => levels.push((round, 1.0)),
        }
    }
    levels.into_iter().map(|(level, _)| level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_at_one_load_are_one_level() {
        let level = |load, value, low, requests| LoadLevel {
            load,
            throughput: Some(Measured { value, low: Some(low), high: None }),
            output_speed: None,
            ttft: None,
            mean_ttft: None,
            mean_e2e: None,
            requests,
            failures: 1,
            rate_limited: 0,
        };
        let rounds =
            [level(1.0, 10.0, 9.0, 5), level(2.0, 4.0, 3.0, 1), level(1.0, 20.0, 17.0, 7), level(1.0, 60.0, 40.0, 8)];
        let levels = merge_rounds(rounds.into_iter());
        assert_eq!(levels.len(), 2);
        assert_eq!(levels[0].throughput, Some(Measured { value: 30.0, low: Some(22.0), high: None }));
        assert_eq!((levels[0].requests, levels[0].failures), (20, 3));
    }
}
