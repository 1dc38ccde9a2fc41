//! How a lane stands, as pages and metrics show it.
//!
//! It refuses to know how it is shown. Invariant: what is unknown is `None`.

use super::lane_state::LaneState;
use crate::breaker::BreakerState;
use crate::lane_model::Expectation;
use tokrate_core::Tick;

/// One lane.
#[derive(Clone, PartialEq, Debug)]
pub struct LaneSnapshot {
    /// Calls in flight.
    pub in_flight: u32,
    /// The most that may be, by configuration and by what refusals taught.
    pub cap: Option<u32>,
    /// The part of it that refusals taught.
    pub learned_cap: Option<f64>,
    /// Its breaker.
    pub breaker: BreakerState,
    /// Peak-EWMA latency of whole calls (seconds); 0 before the first.
    pub peak_ewma_seconds: f64,
    /// Share of calls that failed of late, 0 to 1.
    pub failing: f64,
    /// What a call with a prompt of [`LaneSnapshot::PROMPT_TOKENS`] may expect at loads of 1, 2, 4 and so on.
    pub curve: Vec<SnapshotPoint>,
    /// Attempts that were begun.
    pub started: u64,
    /// Those that ended well.
    pub ended_well: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those that were given up.
    pub cancelled: u64,
}

/// A point of the expected curve.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SnapshotPoint {
    /// Calls in flight, this one included.
    pub in_flight: u32,
    /// What it may expect; `None` if too little is known.
    pub expectation: Option<Expectation>,
}

impl LaneSnapshot {
    /// The prompt that the curve is told for.
    pub const PROMPT_TOKENS: u64 = 1_000;
    /// The loads that the curve is told for.
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
            failing: self.failing(now),
            curve: LaneSnapshot::LOADS.map(point).to_vec(),
            started: self.counts.started,
            ended_well: self.counts.ended_well,
            failed: self.counts.failed,
            cancelled: self.counts.cancelled,
        }
    }
}
