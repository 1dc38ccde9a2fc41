//! The client's own error: what measuring itself adds to the numbers, and when that makes them worthless.
//!
//! It refuses to know how the error was found (the embedded engine measured against its own truth log is bench's work).
//! Invariant: `client_limited` is decided here by one rule, and never without a reason.

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
    /// How late a 1 ms timer of the client fired during the measurement, median (ns).
    pub timer_lag_p50_ns: Option<u64>,
    /// The same, 99th percentile (ns).
    pub timer_lag_p99_ns: Option<u64>,
    /// How late the engine itself wrote what it had planned, 99th percentile (ns); not the client's fault.
    pub engine_lateness_p99_ns: Option<u64>,
    /// Requests of the calibration.
    pub n: u64,
    /// Whether the client, not the server, set the numbers: such a run is not valid.
    pub client_limited: bool,
    /// Why it is client-limited.
    pub reason: Option<String>,
}

impl ClientError {
    /// Timer lag p99 above which a run is client-limited whatever it measures.
    pub const LAG_LIMIT: Span = Span::from_millis(1);
    /// Share of the median itl above which the timer lag p99 makes a run client-limited.
    pub const LAG_SHARE_OF_ITL: f64 = 0.05;

    /// Decides whether the run is client-limited: timer lag p99 above 1 ms or above 5 % of the median itl. Without a known
    /// lag nothing is decided.
    pub fn judge(&mut self, itl_p50: Option<Span>) {
        let lag = self.timer_lag_p99_ns.map(Span::from_nanos);
        let allowed = itl_p50.map(|itl| Span::from_nanos((itl.as_nanos() as f64 * Self::LAG_SHARE_OF_ITL) as u64));
        self.reason = match (lag, allowed) {
            (Some(lag), _) if lag > Self::LAG_LIMIT => {
                Some(format!("timer lag p99 of {lag} is above {}", Self::LAG_LIMIT))
            }
            (Some(lag), Some(allowed)) if lag > allowed => {
                Some(format!("timer lag p99 of {lag} is above 5 % of the median itl ({allowed})"))
            }
            _ => None,
        };
        self.client_limited = self.reason.is_some();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(lag: Option<Span>, itl: Option<Span>) -> ClientError {
        let mut error = ClientError { timer_lag_p99_ns: lag.map(Span::as_nanos), ..ClientError::default() };
        error.judge(itl);
        error
    }

    #[test]
    fn a_lag_above_one_millisecond_limits_whatever_is_measured() {
        assert!(judged(Some(Span::from_nanos(1_000_001)), None).client_limited);
        assert!(!judged(Some(Span::from_millis(1)), Some(Span::from_millis(100))).client_limited);
    }

    #[test]
    fn a_lag_above_five_percent_of_the_itl_limits() {
        let itl = Some(Span::from_millis(10));
        assert!(!judged(Some(Span::from_micros(500)), itl).client_limited);
        let limited = judged(Some(Span::from_micros(501)), itl);
        assert_eq!(limited.reason.as_deref(), Some("timer lag p99 of 501 µs is above 5 % of the median itl (500 µs)"));
    }

    #[test]
    fn an_unknown_lag_decides_nothing() {
        assert!(!judged(None, Some(Span::from_nanos(1))).client_limited);
    }
}
