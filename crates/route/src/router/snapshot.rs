//! The state of a lane for pages and metrics.
//!
//! Invariant: what is unknown is `None`.

use super::lane_state::LaneState;
use crate::breaker::BreakerState;
use crate::lane_model::Expectation;
use tokrate_core::Tick;

/// One lane.
#[derive(Clone, PartialEq, Debug)]
pub struct LaneSnapshot {
    /// Calls in flight.
    pub in_flight: u32,
    /// Limit for calls in flight, configured or learned.
    pub cap: Option<u32>,
    /// The learned limit.
    pub learned_cap: Option<f64>,
    /// State of the breaker.
    pub breaker: BreakerState,
    /// Peak-EWMA latency of whole calls (seconds); 0 before the first.
    pub peak_ewma_seconds: f64,
    /// Recent share of failed calls, 0 to 1.
    pub failure_rate: f64,
    /// What a call with a prompt of [`LaneSnapshot::PROMPT_TOKENS`] can expect at each of [`LaneSnapshot::LOADS`].
    pub curve: Vec<SnapshotPoint>,
    /// Attempts started.
    pub started: u64,
    /// Attempts that succeeded.
    pub succeeded: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Attempts that were cancelled.
    pub cancelled: u64,
}

/// A point of the expected curve.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SnapshotPoint {
    /// Calls in flight, this one included.
    pub in_flight: u32,
    /// What the call can expect; `None` if too little is known.
    pub expectation: Option<Expectation>,
}

impl LaneSnapshot {
    /// Prompt length of the curve.
    pub const PROMPT_TOKENS: u64 = 1_000;
    /// Loads of the curve.
    pub const LOADS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
}

impl LaneState {
    pub(super) fn snapshot(&self, now: Tick) -> LaneSnapshot {
        let point = |in_flight| SnapshotPoint {
            in_flight,
            expectation: self.model.expect(now, LaneSnapshot::PROMPT_TOKENS, in_flight),
        };
        LaneSnapshot {
            in_flight: self.in_flight,
            cap: self.cap(),
            learned_cap: self.learned_cap,
            breaker: self.breaker.state(now),
            peak_ewma_seconds: self.peak.seconds(now),
            failure_rate: self.failure_rate(now),
            curve: LaneSnapshot::LOADS.map(point).to_vec(),
            started: self.counts.started,
            succeeded: self.counts.succeeded,
            failed: self.counts.failed,
            cancelled: self.counts.cancelled,
        }
    }
}
