//! A lane: one provider, model and key that a call can go to.
//!
//! It refuses to know what provider, model and key are. Invariant: a lane's number is its place in the list that the router
//! was made with.

use tokrate_core::Tick;

/// A lane's place in the router's list, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LaneId(pub u32);

impl LaneId {
    /// The same as an index.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// What is known of a lane before it has answered anything.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LaneConfig {
    /// Price of a million prompt tokens in USD; `None` if it is not known, which is not the same as free.
    pub price_input_usd_per_million: Option<f64>,
    /// Price of a million output tokens in USD; `None` if it is not known.
    pub price_output_usd_per_million: Option<f64>,
    /// The most calls that may be in flight; `None` for no limit but the one that is learned.
    pub max_in_flight: Option<u32>,
}

impl LaneConfig {
    /// What so many tokens cost here (USD); `None` without a price.
    pub fn cost_usd(&self, prompt_tokens: u64, output_tokens: u64) -> Option<f64> {
        let input = self.price_input_usd_per_million? * prompt_tokens as f64;
        let output = self.price_output_usd_per_million? * output_tokens as f64;
        Some((input + output) / 1e6)
    }
}

/// An attempt that the router counts as in flight, to be handed back when it ends. It is not `Copy`, so that it cannot be
/// handed back twice.
#[derive(PartialEq, Debug)]
#[must_use = "a start that is never finished counts as in flight for ever"]
pub struct Started {
    /// The lane it goes to.
    pub lane: LaneId,
    /// When it was begun.
    pub at: Tick,
    /// Calls of the lane in flight at that moment, this one included.
    pub in_flight: u32,
    /// Calls in flight times nanoseconds, summed over the lane's life up to that moment.
    pub(crate) load_before: f64,
    pub(crate) first_token_at: Option<Tick>,
}
