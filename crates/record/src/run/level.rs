//! A phase as one level of the degradation curve.
//!
//! Invariant: what the phase does not state, the level does not have.

use super::PhaseResult;
use crate::curve::{LoadAxis, LoadLevel, Measured};
use tokrate_stats::{Distribution, Quantile};

/// Standard errors to each side of a mean that hold it with 95 %.
const NORMAL_95: f64 = 1.959_963_984_540_054;

impl PhaseResult {
    /// What the load of this phase counts.
    pub fn load_axis(&self) -> LoadAxis {
        if self.load.is_closed() { LoadAxis::Concurrency } else { LoadAxis::Rate }
    }

    /// This phase as a point of the curve: throughput of the steady window, median output speed and median TTFT, each with
    /// its 95 % interval where there is one. Medians of few requests are taken as they are, without an interval.
    pub fn load_level(&self) -> LoadLevel {
        let throughput = self.throughput.as_ref().map(|throughput| Measured {
            value: throughput.tokens_per_second,
            low: throughput.interval.map(|interval| interval.low),
            high: throughput.interval.map(|interval| interval.high),
        });
        LoadLevel {
            load: self.load.amount(),
            throughput,
            output_speed: measured(&self.output_speed.median),
            ttft: measured(&self.ttft.p50),
            mean_ttft: measured_mean(&self.ttft),
            mean_e2e: measured_mean(&self.e2e),
            requests: self.counts.started,
            failures: self.counts.failed,
            rate_limited: self.counts.rate_limited,
        }
    }
}

fn measured(quantile: &Quantile) -> Option<Measured> {
    Some(both_ends(quantile.nearest_rank()?, quantile.low, quantile.high))
}

/// The mean with the interval that its samples' spread gives, if there are at least two.
fn measured_mean(times: &Distribution) -> Option<Measured> {
    let mean = times.mean?;
    let half = times.standard_deviation.map(|spread| NORMAL_95 * spread / (times.n as f64).sqrt());
    Some(both_ends(mean, half.map(|half| mean - half), half.map(|half| mean + half)))
}

fn both_ends(value: f64, low: Option<f64>, high: Option<f64>) -> Measured {
    let ends = low.zip(high);
    Measured { value, low: ends.map(|ends| ends.0), high: ends.map(|ends| ends.1) }
}

#[cfg(test)]
mod tests {
    use crate::fixtures::{closed, phase};
    use tokrate_meter::fixtures::steady_request;

    #[test]
    fn a_mean_has_the_interval_of_its_standard_error_if_there_are_two_samples() {
        let requests: Vec<_> = (1..=4).map(|i| steady_request(i, i * 2_000, 100 * i, 10, 40)).collect();
        // 100, 200, 300 and 400 ms: the variance is 50,000 / 3, and half of its root is the standard error of the mean.
        let level = phase(&closed(1), &requests).load_level();
        let mean = level.mean_ttft.expect("four samples");
        let half = 1.959_963_984_540_054 * (50_000.0_f64 / 3.0).sqrt() / 2.0;
        assert!((mean.value - 250.0).abs() < 1e-9, "{mean:?}");
        assert!(mean.low.is_some_and(|low| (low - (250.0 - half)).abs() < 1e-6), "{mean:?}");
        assert!(mean.high.is_some_and(|high| (high - (250.0 + half)).abs() < 1e-6), "{mean:?}");
        let alone = phase(&closed(1), &requests[..1]).load_level().mean_ttft.expect("one sample");
        assert_eq!((alone.value, alone.low, alone.high), (100.0, None, None));
    }
}
