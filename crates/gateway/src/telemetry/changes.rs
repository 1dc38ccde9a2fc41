//! Changes that were found in the traffic of lanes, as whoever watches the log reports them.
//!
//! Invariant: the newest are kept, a bounded number.

use crate::state::lock::locked;
use std::collections::VecDeque;
use std::sync::Mutex;

/// Most changes that are kept: a month of a few dozen lanes.
const MAX_CHANGES: usize = 200;

/// A change of a lane.
#[derive(Clone, PartialEq, Debug)]
pub struct LaneChange {
    /// When the request began after which it was found (ms since 1970).
    pub at_unix_ms: u64,
    /// The first request after the change (ms since 1970).
    pub since_unix_ms: u64,
    /// The lane; `*` where many moved together, which is this machine's or its network's fault.
    pub lane: String,
    /// What clients asked for as `model`.
    pub alias: String,
    /// Which number: `ttft_ms`, `output_speed`, `errors`.
    pub metric: &'static str,
    /// What kind: `regression`, `improvement`, `spread`, `cycle`, `errors`, `quarantine`.
    pub kind: &'static str,
    /// Value after over value before at like load, less 1; of errors the difference of the shares.
    pub change: f64,
    /// Lower end of the 95 % interval of `change`.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Samples since the change: quarters of an hour.
    pub n: u64,
}

/// What was reported.
#[derive(Default)]
pub(crate) struct Changes(Mutex<Option<VecDeque<LaneChange>>>);

impl Changes {
    /// Keeps changes; from the first call on, lanes are watched.
    pub fn add(&self, found: Vec<LaneChange>) {
        let mut kept = locked(&self.0);
        let kept = kept.get_or_insert_default();
        for change in found {
            if kept.len() == MAX_CHANGES {
                kept.pop_front();
            }
            kept.push_back(change);
        }
    }

    /// The newest first; `None` while nobody watches.
    pub fn newest_first(&self) -> Option<Vec<LaneChange>> {
        locked(&self.0).as_ref().map(|kept| kept.iter().rev().cloned().collect())
    }
}
