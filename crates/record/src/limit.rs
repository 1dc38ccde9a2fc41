//! What limited a level: a row that `judge` works out and the record keeps.

use serde::{Deserialize, Serialize};

/// What limits. The list is closed; docs/reading-a-result.md has the rule of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// The measuring client.
    Client,
    /// The provider's limit of rate.
    RateLimit,
    /// The engine's key-value cache.
    KvCache,
    /// The engine's limit of requests that run at once.
    Batch,
    /// Either of the two: the engine publishes no cache use.
    BatchOrCache,
    /// The power that the processors may draw.
    Power,
}

/// What limits a level, with its evidence.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LevelLimit {
    /// What limits.
    pub by: LimitedBy,
    /// The evidence and the conclusion, as a sentence without its last stop.
    pub sentence: String,
}
