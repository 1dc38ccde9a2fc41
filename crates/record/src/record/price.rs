//! Token prices of a target.
//!
//! Invariant: prices are US dollars per million tokens; a missing price is unknown, never 0.

use serde::{Deserialize, Serialize};

/// Prices of a model at a provider.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Price {
    /// Of a million input tokens (USD).
    pub input_usd_per_million: f64,
    /// Of a million output tokens, reasoning included (USD).
    pub output_usd_per_million: f64,
    /// Of a million input tokens that were in the provider's cache, if they cost less (USD).
    pub cached_input_usd_per_million: Option<f64>,
    /// Where the figures come from.
    pub source: String,
    /// When they were true (YYYY-MM-DD).
    pub date: String,
}

impl Price {
    /// The cost of these tokens (USD). `cached` of the `input` tokens were in the provider's cache.
    pub fn cost_usd(&self, input: u64, cached: u64, output: u64) -> f64 {
        let cached = cached.min(input);
        let cached_price = self.cached_input_usd_per_million.unwrap_or(self.input_usd_per_million);
        ((input - cached) as f64 * self.input_usd_per_million
            + cached as f64 * cached_price
            + output as f64 * self.output_usd_per_million)
            / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_cost_their_own_price_and_never_more_than_were_sent() {
        let mut price = Price {
            input_usd_per_million: 2.0,
            output_usd_per_million: 10.0,
            cached_input_usd_per_million: Some(0.5),
            source: String::new(),
            date: String::new(),
        };
        assert_eq!(price.cost_usd(1_000_000, 0, 500_000), 7.0);
        assert_eq!(price.cost_usd(1_000_000, 400_000, 0), 1.4);
        assert_eq!(price.cost_usd(1_000_000, 9_000_000, 0), 0.5);
        price.cached_input_usd_per_million = None;
        assert_eq!(price.cost_usd(1_000_000, 400_000, 0), 2.0);
    }
}
