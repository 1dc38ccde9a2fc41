//! The client's own error: what measuring itself adds to the numbers, and when that makes them worthless.
//!
//! It refuses to know how the error was found (the embedded engine measured against its own truth log is bench's work).
//! Invariant: a figure is disowned by one rule, alone, and never without a reason; what was not measured disowns nothing.

use crate::stats::{Level, Quantile};
use serde::{Deserialize, Serialize};
use tokrate_core::Span;

/// How the client's error was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ClientErrorSource {
    /// The engine that was measured logs every write itself: the error of these very requests.
    Truth,
    /// Measured in this run, against the embedded engine at the same load.
    Calibrated,
    /// Taken from an earlier calibration on the same machine at the same load.
    Cached,
    /// Not measured; only the timer lag is known.
    #[default]
    Off,
}

/// What the client adds to what it measures, at one concurrency and event rate. `None` is "not measured", not 0.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ClientError {
    /// How it was found.
    pub source: ClientErrorSource,
    /// Requests in flight during the calibration.
    pub concurrency: Option<u32>,
    /// Stream events per second, all requests together, during the calibration.
    pub events_per_second: Option<f64>,
    /// Measured TTFT minus the engine's own, median (ns); may be negative.
    pub ttft_added_p50_ns: Option<i64>,
    /// The same, 99th percentile (ns).
    pub ttft_added_p99_ns: Option<i64>,
    /// Measured chunk gap minus the engine's own, as a size, median (ns).
    pub gap_added_p50_ns: Option<u64>,
    /// The same, 99th percentile (ns).
    pub gap_added_p99_ns: Option<u64>,
    /// By how much the median of the gaps that the client saw differs from that of the true ones (ns).
    #[serde(default)]
    pub gap_moved_p50_ns: Option<i64>,
    /// The same of the 99th percentile (ns).
    #[serde(default)]
    pub gap_moved_p99_ns: Option<i64>,
    /// By how much first text to last text differs from what was written, as a size, median (ns).
    #[serde(default)]
    pub window_moved_p50_ns: Option<u64>,
    /// How late a 1 ms timer of the client fired during the measurement, median (ns).
    pub timer_lag_p50_ns: Option<u64>,
    /// The same, 99th percentile (ns).
    pub timer_lag_p99_ns: Option<u64>,
    /// How late the engine itself wrote what it had planned, 99th percentile (ns); not the client's fault.
    pub engine_lateness_p99_ns: Option<u64>,
    /// Requests of the calibration.
    pub n: u64,
    /// Whether it could have moved a figure by more than the figure may be off.
    pub client_limited: bool,
    /// Which figures, and by how much.
    pub reason: Option<String>,
}

/// A figure of a phase and what the client's error could do to it.
pub(crate) struct Figure<'a> {
    pub name: &'static str,
    pub quantile: &'a Quantile,
    /// By how much it could be moved (ns); `None` where nobody knows.
    pub moved_ns: Option<f64>,
}

/// A figure may be off by this share of itself, however narrow its interval is.
const SHARE_ALLOWED: f64 = 0.02;

impl ClientError {
    /// Says of each figure that could have been moved by more than its interval, or 2 %, whichever is larger.
    pub(crate) fn judge(&mut self, figures: &[Figure<'_>]) {
        let reasons: Vec<String> = figures.iter().filter_map(Figure::disowned).collect();
        self.reason = (!reasons.is_empty()).then(|| reasons.join(", "));
        self.client_limited = self.reason.is_some();
    }

    /// The 99th percentile of what is added to TTFT, if it was measured often enough to have one.
    pub(crate) fn ttft_tail_ns(&self) -> Option<i64> {
        self.ttft_added_p99_ns.filter(|_| self.n >= Level::P99.floor())
    }

    /// By how much the 99th percentile of gaps is moved, if it was measured often enough.
    pub(crate) fn gap_tail_ns(&self) -> Option<i64> {
        self.gap_moved_p99_ns.filter(|_| self.n >= Level::P99.floor())
    }
}

impl Figure<'_> {
    /// Why it is no measurement of the server, if it is none.
    fn disowned(&self) -> Option<String> {
        let (value, moved) = (self.quantile.nearest_rank()?, self.moved_ns?.abs() / 1e6);
        let interval = self.quantile.low.zip(self.quantile.high).map_or(0.0, |(low, high)| (high - low) / 2.0);
        let span = |milliseconds: f64| Span::from_nanos((milliseconds * 1e6) as u64);
        (moved > interval.max(SHARE_ALLOWED * value))
            .then(|| format!("{} of {} could be off by {}", self.name, span(value), span(moved)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Distribution, Unit};

    /// The median of 1,000 samples around a value (ms) that differ by a share of it.
    fn median(value: f64, spread: f64) -> Quantile {
        let mut samples: Vec<f64> = (0..1_000).map(|n| value * (1.0 + spread * (f64::from(n) / 500.0 - 1.0))).collect();
        Distribution::of_values(&mut samples, Unit::Milliseconds).p50
    }

    fn said(quantile: &Quantile, moved_ns: Option<f64>) -> Option<String> {
        let mut error = ClientError::default();
        error.judge(&[Figure { name: "TTFT p50", quantile, moved_ns }]);
        assert_eq!(error.client_limited, error.reason.is_some());
        error.reason
    }

    #[test]
    fn a_figure_is_disowned_when_it_could_be_off_by_more_than_two_percent() {
        let sharp = median(100.0, 0.0);
        assert_eq!(said(&sharp, Some(2e6)), None);
        assert_eq!(said(&sharp, Some(2.1e6)).as_deref(), Some("TTFT p50 of 100 ms could be off by 2.10 ms"));
        assert_eq!(said(&sharp, Some(-2.1e6)).as_deref(), Some("TTFT p50 of 100 ms could be off by 2.10 ms"));
    }

    #[test]
    fn a_wide_interval_allows_for_more_and_what_is_not_known_disowns_nothing() {
        let wide = median(100.0, 1.0);
        let half = (wide.high.expect("stated") - wide.low.expect("stated")) / 2.0;
        assert!(half > 4.0, "{half}");
        assert_eq!(said(&wide, Some((half - 0.1) * 1e6)), None);
        assert!(said(&wide, Some((half + 0.1) * 1e6)).is_some());
        assert_eq!(said(&wide, None), None);
    }

    #[test]
    fn tails_are_judged_by_errors_that_were_measured_as_often() {
        let error =
            ClientError { ttft_added_p99_ns: Some(5), gap_moved_p99_ns: Some(6), n: 661, ..ClientError::default() };
        assert_eq!((error.ttft_tail_ns(), error.gap_tail_ns()), (None, None));
        let error = ClientError { n: 662, ..error };
        assert_eq!((error.ttft_tail_ns(), error.gap_tail_ns()), (Some(5), Some(6)));
    }
}
