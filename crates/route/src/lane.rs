//! A lane: one provider, model and key that a call can go to.
//!
//! Invariant: the number of a lane is its index in the list that the router was created with.

use crate::cache::SentPrompt;
use tokrate_core::{Price, Tick};

/// Index of a lane in the router's list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LaneId(pub u32);

impl LaneId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Static settings of a lane.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LaneConfig {
    /// What it charges; `None` if it is not known, which is not the same as free.
    pub price: Option<Price>,
    /// Limit for calls in flight; `None` for only the learned one.
    pub max_in_flight: Option<u32>,
}

/// An attempt that the router counts as in flight, to be returned when it ends. Not `Clone`, so that it cannot be
/// returned twice.
#[derive(PartialEq, Debug)]
#[must_use = "an attempt that is never finished counts as in flight forever"]
pub struct InFlightAttempt {
    /// The lane it goes to.
    pub lane: LaneId,
    /// When it was started.
    pub at: Tick,
    /// Calls in flight on the lane at that moment, this one included.
    pub in_flight: u32,
    /// Integral of calls in flight over time (nanoseconds) up to that moment.
    pub(crate) load_before: f64,
    pub(crate) first_token_at: Option<Tick>,
    /// Whether the breaker was open: it counts among the lane's last resorts until it is finished.
    pub(crate) is_last_resort: bool,
    /// Its prompt, if the lane's cache is kept account of.
    pub(crate) prompt: Option<Box<SentPrompt>>,
}

impl InFlightAttempt {
    /// Tokens of its prompt that were expected to be in the lane's cache; `None` if no account is kept.
    pub fn expected_cached_tokens(&self) -> Option<u64> {
        self.prompt.as_ref().map(|prompt| prompt.cached as u64)
    }
}
