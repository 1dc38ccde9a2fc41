//! The client's own error: what measuring adds to the figures, and which figures that makes invalid. `bench` measures it,
//! against the embedded engine's log.
//!
//! Invariant: every figure is judged by the same rule, with a reason; an error that was not measured invalidates nothing.

use crate::client_bias::ClientBias;
use serde::{Deserialize, Serialize};
use tokrate_core::{Span, format};

/// How the client's error was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// The client's bias on each figure, in the requests of the calibration.
    #[serde(default)]
    pub moved: Option<ClientBias>,
    /// How late a 1 ms timer of the client fired during the measurement, median (ns).
    pub timer_lag_p50_ns: Option<u64>,
    /// The same, 99th percentile (ns).
    pub timer_lag_p99_ns: Option<u64>,
    /// How late the engine itself wrote what it had planned, 99th percentile (ns); not the client's fault.
    pub engine_lateness_p99_ns: Option<u64>,
    /// Requests of the calibration.
    pub n: u64,
    /// Whether its bias exceeds the tolerance of a figure.
    pub client_limited: bool,
    /// Which figures are invalid, and by how much.
    pub reason: Option<String>,
    /// Every figure that was judged; none where nothing was measured.
    #[serde(default)]
    pub figures: Vec<FigureValidity>,
}

/// A figure of a phase and the client's bias on it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FigureValidity {
    /// Name, such as `TTFT p50`.
    pub figure: String,
    /// Unit of every number here: `ms` or `tok/s`.
    pub unit: String,
    /// The reported value.
    pub value: f64,
    /// The client's bias.
    pub moved: f64,
    /// Tolerance: half its interval or 2 % of it, whichever is larger.
    pub allowed: f64,
    /// Whether the bias is within the tolerance.
    pub valid: bool,
}

/// Relative tolerance of a figure, however narrow its interval is; the client error is specified to 2 % (docs/method.md).
const MAX_RELATIVE_ERROR: f64 = 0.02;

impl ClientError {
    /// This calibration, with each bias reduced to the smaller of it and an earlier one at the same load.
    #[must_use]
    pub fn combined_with(mut self, earlier: &ClientError) -> ClientError {
        if let (Some(moved), Some(before)) = (&mut self.moved, &earlier.moved) {
            moved.keep_smaller(before);
        }
        self
    }

    /// The figures that are not valid.
    pub fn invalid(&self) -> impl Iterator<Item = &FigureValidity> {
        self.figures.iter().filter(|figure| !figure.valid)
    }

    /// Stores the judged figures, and the reason if any is invalid.
    pub fn judge(&mut self, figures: Vec<FigureValidity>) {
        let reasons: Vec<String> = figures.iter().filter(|figure| !figure.valid).map(FigureValidity::reason).collect();
        self.reason = (!reasons.is_empty()).then(|| reasons.join(", "));
        self.client_limited = self.reason.is_some();
        self.figures = figures;
    }
}

impl FigureValidity {
    /// A time in milliseconds with half of its interval (0 if it has none), and the client's bias.
    pub fn time(figure: &str, value: f64, half_interval: f64, moved: f64) -> FigureValidity {
        FigureValidity::new(figure, "ms", [value, half_interval, moved])
    }

    /// The same of tokens per second.
    pub fn speed(figure: &str, value: f64, half_interval: f64, moved: f64) -> FigureValidity {
        FigureValidity::new(figure, "tok/s", [value, half_interval, moved])
    }

    fn new(figure: &str, unit: &str, [value, half_interval, moved]: [f64; 3]) -> FigureValidity {
        let (moved, allowed) = (moved.abs(), half_interval.max(MAX_RELATIVE_ERROR * value));
        FigureValidity {
            figure: figure.to_owned(),
            unit: unit.to_owned(),
            value,
            moved,
            allowed,
            valid: moved <= allowed,
        }
    }

    /// What it is and by how much it could be off.
    pub fn reason(&self) -> String {
        let with_unit = |value: f64| match self.unit.as_str() {
            "ms" => Span::from_nanos((value * 1e6) as u64).to_string(),
            unit => format!("{} {unit}", format::number(value)),
        };
        format!("{} of {} could be off by {}", self.figure, with_unit(self.value), with_unit(self.moved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason_of(half_interval: f64, moved: f64) -> Option<String> {
        let mut error = ClientError::default();
        error.judge(vec![FigureValidity::time("TTFT p50", 100.0, half_interval, moved)]);
        assert_eq!(error.client_limited, error.reason.is_some());
        error.reason
    }

    #[test]
    fn a_figure_is_not_valid_when_it_could_be_off_by_more_than_two_percent() {
        assert_eq!(reason_of(0.0, 2.0), None);
        assert_eq!(reason_of(0.0, 2.1).as_deref(), Some("TTFT p50 of 100 ms could be off by 2.10 ms"));
        assert_eq!(reason_of(0.0, -2.1).as_deref(), Some("TTFT p50 of 100 ms could be off by 2.10 ms"));
    }

    #[test]
    fn a_wide_interval_allows_for_more() {
        assert_eq!(reason_of(4.0, 4.0), None);
        assert_eq!(reason_of(4.0, 4.1).as_deref(), Some("TTFT p50 of 100 ms could be off by 4.10 ms"));
    }

    #[test]
    fn two_calibrations_invalidate_only_what_both_do() {
        let error = |ttft_p50_ms, itl_p50_ms| ClientError {
            moved: Some(ClientBias { ttft_p50_ms, itl_p50_ms, ..ClientBias::default() }),
            ..ClientError::default()
        };
        let both = error(Some(-3.0), Some(0.5)).combined_with(&error(Some(2.0), None)).moved.expect("both have it");
        assert_eq!((both.ttft_p50_ms, both.itl_p50_ms, both.e2e_p50_ms), (Some(2.0), Some(0.5), None));
        let both = error(Some(1.0), None).combined_with(&error(Some(-2.0), Some(0.1))).moved.expect("both have it");
        assert_eq!((both.ttft_p50_ms, both.itl_p50_ms), (Some(1.0), Some(0.1)));
        assert_eq!(error(Some(1.0), None).combined_with(&ClientError::default()), error(Some(1.0), None));
    }

    #[test]
    fn figures_are_judged_one_by_one_in_their_own_units() {
        let mut error = ClientError::default();
        error.judge(vec![
            FigureValidity::time("ITL p50", 5.0, 0.0, 0.05),
            FigureValidity::time("ITL p99", 6.0, 0.0, 0.5),
            FigureValidity::speed("throughput", 2_000.0, 0.0, 60.0),
        ]);
        assert_eq!(error.figures.iter().map(|figure| figure.valid).collect::<Vec<bool>>(), [true, false, false]);
        let message = "ITL p99 of 6.00 ms could be off by 500 µs, throughput of 2,000 tok/s could be off by 60.0 tok/s";
        assert_eq!(error.reason.as_deref(), Some(message));
    }
}
