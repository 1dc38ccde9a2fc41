//! What a series usually does, from its latest probes: enough to tell that a probe is far off, and how wide an interval is.
//!
//! It is no detector of changes: a series that got slower is usual again after some probes.
//! Invariant: a probe is judged by probes before it.

use crate::cycle::Outcome;
use std::collections::VecDeque;

/// Probes that are remembered, and fewest that tell what is usual.
const MEMORY: usize = 24;
const LEAST: usize = 6;
/// A number is far off at this many standard deviations, and by no less than [`LEAST_FAR`] (natural logarithm: half as much again).
const FAR: f64 = 4.0;
const LEAST_FAR: f64 = 0.405;
/// Spread of a series that is not known yet (natural logarithm).
const UNKNOWN_SPREAD: f64 = 0.2;
/// The median absolute deviation of a normal distribution, as a share of its standard deviation.
const MAD_OF_NORMAL: f64 = 0.674_489_75;

/// The latest probes of a series.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usual {
    /// Natural logarithms.
    ttft: VecDeque<f64>,
    output_speed: VecDeque<f64>,
    failed: VecDeque<bool>,
    /// Whether the latest one that counts was bad itself.
    was_bad: bool,
}

impl Usual {
    /// Whether a probe became bad: it failed, or is far on the bad side; `None` where that is not known. An endpoint that was bad
    /// before, or often fails, says nothing about its prober when it is bad again.
    pub fn is_bad(&self, outcome: &Outcome) -> Option<bool> {
        self.looks_bad(outcome).filter(|is_bad| !(*is_bad && self.was_bad))
    }

    fn looks_bad(&self, outcome: &Outcome) -> Option<bool> {
        if outcome.failed {
            let failures = self.failed.iter().filter(|failed| **failed).count();
            let is_known = self.failed.len() >= LEAST;
            return is_known.then_some(true).filter(|_| 4 * failures < self.failed.len());
        }
        let far = |memory: &VecDeque<f64>, value: Option<f64>, sign: f64| {
            let value = value.filter(|value| *value > 0.0)?.ln();
            let (middle, spread) = middle_and_spread(memory)?;
            Some(sign * (value - middle) > (FAR * spread).max(LEAST_FAR))
        };
        let ttft = far(&self.ttft, outcome.ttft_ns.map(|ns| ns as f64), 1.0);
        let speed = far(&self.output_speed, outcome.output_speed, -1.0);
        match (ttft, speed) {
            (None, None) => None,
            (one, other) => Some(one.unwrap_or(false) || other.unwrap_or(false)),
        }
    }

    /// Adds a probe.
    pub fn learn(&mut self, outcome: &Outcome) {
        self.was_bad = outcome.failed || self.looks_bad(outcome) == Some(true);
        let push = |memory: &mut VecDeque<f64>, value: Option<f64>| {
            if let Some(value) = value.filter(|value| *value > 0.0 && value.is_finite()) {
                memory.push_back(value.ln());
                if memory.len() > MEMORY {
                    memory.pop_front();
                }
            }
        };
        if !outcome.failed {
            push(&mut self.ttft, outcome.ttft_ns.map(|ns| ns as f64));
            push(&mut self.output_speed, outcome.output_speed);
        }
        self.failed.push_back(outcome.failed);
        if self.failed.len() > MEMORY {
            self.failed.pop_front();
        }
    }

    /// The wider spread of its numbers (natural logarithm).
    pub fn spread(&self) -> f64 {
        let spreads = [&self.ttft, &self.output_speed].into_iter().filter_map(middle_and_spread);
        spreads.map(|(_, spread)| spread).reduce(f64::max).unwrap_or(UNKNOWN_SPREAD)
    }
}

/// Median and spread.
fn middle_and_spread(memory: &VecDeque<f64>) -> Option<(f64, f64)> {
    if memory.len() < LEAST {
        return None;
    }
    let middle = median(memory.iter().copied().collect());
    let deviations = memory.iter().map(|value| (value - middle).abs()).collect();
    Some((middle, median(deviations) / MAD_OF_NORMAL))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len().is_multiple_of(2) { f64::midpoint(values[half - 1], values[half]) } else { values[half] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_core::{Money, Rng};

    fn outcome(ttft_ms: f64) -> Outcome {
        Outcome {
            failed: false,
            ttft_ns: Some((ttft_ms * 1e6) as u64),
            output_speed: Some(100.0),
            tokens: 0,
            cost: Money::ZERO,
        }
    }

    #[test]
    fn far_values_are_bad_once_it_is_known_what_is_usual() {
        let (mut usual, mut rng) = (Usual::default(), Rng::root(1));
        assert_eq!(usual.is_bad(&outcome(6_000.0)), None);
        for _ in 0..30 {
            usual.learn(&outcome(400.0 * (0.2 * rng.normal()).exp()));
        }
        assert_eq!(usual.is_bad(&outcome(500.0)), Some(false));
        assert_eq!(usual.is_bad(&outcome(6_000.0)), Some(true));
        assert_eq!(usual.is_bad(&outcome(1.0)), Some(false), "faster is not bad");
        let failed = Outcome { failed: true, ..outcome(1.0) };
        assert_eq!(usual.is_bad(&failed), Some(true));
        usual.learn(&outcome(6_000.0));
        assert_eq!(usual.is_bad(&outcome(6_000.0)), None, "it was bad before");
        usual.learn(&outcome(400.0));
        for _ in 0..10 {
            usual.learn(&failed);
        }
        assert_eq!(usual.is_bad(&failed), None, "it always fails");
        assert!((0.1..0.4).contains(&usual.spread()), "{}", usual.spread());
    }
}
