//! Result of a search for the highest load that meets the objectives.
//!
//! Invariant: a level counts as met or missed only if its interval says so.

use crate::goodput::ShareVerdict;
use serde::{Deserialize, Serialize};
use tokrate_stats::Interval;

/// The outcome of `--search`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchResult {
    /// `concurrency` or `rate` (requests per second).
    pub axis: String,
    /// The share of requests that has to keep every objective.
    pub share: f64,
    /// The highest load that was shown to keep them; absent if none was.
    pub highest_met: Option<f64>,
    /// The lowest load that was shown to miss them; absent if none was.
    pub lowest_missed: Option<f64>,
    /// Whether the search came to its end.
    pub status: SearchStatus,
    /// The levels, in rising order, all rounds of one together.
    pub levels: Vec<SearchLevel>,
    /// All of it in a sentence.
    pub sentence: String,
}

/// How a search ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SearchStatus {
    /// The highest load that meets the objectives lies between two measured levels.
    Found,
    /// Even the lowest load misses them.
    NoneMet,
    /// Even the highest allowed load meets them.
    AllMet,
    /// One level has too few requests to decide.
    NeedsMoreRequests,
    /// At one level the answers lack a metric of an objective; more requests would not help.
    LacksMetric,
    /// It is not over.
    Unfinished,
}

/// One level of a search.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchLevel {
    /// The load.
    pub load: f64,
    /// Requests that met every objective.
    pub met: u64,
    /// Requests judged.
    pub of: u64,
    /// Those of `of` that are undecided, because they lack a metric.
    #[serde(default)]
    pub undecided: u64,
    /// 95 % interval of the share (Wilson), whatever the undecided ones were.
    pub interval: Option<Interval>,
    /// The verdict on it.
    pub verdict: ShareVerdict,
}
