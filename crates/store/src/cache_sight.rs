//! What a lane's cache was expected to hold of prompts, beside what its provider read from it.
//!
//! Invariant: only attempts count of which both are known, so that the two shares are of the same prompts.

use crate::StoreError;
use crate::row::Reader;
use serde_json::{Value, json};

/// The columns that [`CacheSight::of`] reads, in this order.
pub(crate) const CACHE_COLUMNS: [&str; 2] = ["expected_cached_tokens", "cached_tokens"];

/// Whether the objective `cache` sees truly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheSight {
    /// Attempts of which it is known.
    pub attempts: u64,
    /// Tokens of their prompts, as reported.
    pub input_tokens: u64,
    /// Those that were expected to be cached.
    pub expected_tokens: u64,
    /// Those that were read from a cache, as reported.
    pub cached_tokens: u64,
}

impl CacheSight {
    /// Share of the tokens that was expected to be cached; `None` if nothing is known.
    pub fn expected_share(&self) -> Option<f64> {
        self.share(self.expected_tokens)
    }

    /// Share of the tokens that was read from a cache; `None` if nothing is known.
    pub fn cached_share(&self) -> Option<f64> {
        self.share(self.cached_tokens)
    }

    fn share(&self, tokens: u64) -> Option<f64> {
        (self.input_tokens > 0).then(|| tokens as f64 / self.input_tokens as f64)
    }

    /// Of a row whose prompt had so many tokens as reported, from its next columns.
    pub(crate) fn of(input: Option<u64>, row: &mut Reader<'_>) -> Result<CacheSight, StoreError> {
        let (expected, cached) = (row.opt_count()?, row.opt_count()?);
        let (Some(input_tokens), Some(expected_tokens), Some(cached_tokens)) = (input, expected, cached) else {
            return Ok(CacheSight::default());
        };
        Ok(CacheSight { attempts: 1, input_tokens, expected_tokens, cached_tokens })
    }

    /// Takes another one in.
    pub(crate) fn add(&mut self, other: CacheSight) {
        self.attempts += other.attempts;
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.expected_tokens = self.expected_tokens.saturating_add(other.expected_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
    }

    /// As JSON, under the names of its fields; null if nothing is known.
    pub(crate) fn json(&self) -> Value {
        if self.attempts == 0 {
            return Value::Null;
        }
        json!({
            "attempts": self.attempts,
            "input_tokens": self.input_tokens,
            "expected_tokens": self.expected_tokens,
            "cached_tokens": self.cached_tokens,
            "expected_share": self.expected_share(),
            "cached_share": self.cached_share(),
        })
    }
}
