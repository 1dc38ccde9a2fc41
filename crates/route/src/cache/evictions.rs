//! What it costs to place new tokens in a cache that is full: each puts one out, and some of these are asked for again.
//!
//! Invariant: a lane that was never seen to have lost anything costs what its tokens take, and no lane more than five times that.

/// What a report leaves of the weight of those before it.
const KEPT: f64 = 0.97;
/// Most of what is put out that is taken to come again: where nearly all does the estimate is of a moment.
const MOST_SHARE: f64 = 0.8;

/// What the providers' reports say of one lane.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evictions {
    /// Fading sums of tokens that were sent before and were gone, and of tokens that were placed.
    lost: f64,
    placed: f64,
}

impl Evictions {
    /// A prompt had so many tokens that were sent before and were gone, and so many in all that were not in the cache.
    pub fn observe(&mut self, lost: f64, placed: f64) {
        self.lost = self.lost * KEPT + lost;
        self.placed = self.placed * KEPT + placed;
    }

    /// How many times as much as being computed once a new token costs: it puts one out, which comes again with the share of those that did,
    /// and puts out one in turn.
    pub fn cost(&self) -> f64 {
        1.0 / (1.0 - (self.lost / self.placed.max(1.0)).min(MOST_SHARE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_token_costs_the_more_the_more_of_what_is_put_out_is_asked_for_again() {
        let cost = |lost: f64, placed: f64| {
            let mut evictions = Evictions::default();
            (0..100).for_each(|_| evictions.observe(lost, placed));
            evictions.cost()
        };
        assert_eq!(Evictions::default().cost(), 1.0);
        assert_eq!(cost(0.0, 1_000.0), 1.0);
        assert!((cost(500.0, 1_000.0) - 2.0).abs() < 1e-9);
        assert!((cost(1_000.0, 1_000.0) - 5.0).abs() < 1e-9);
    }
}
