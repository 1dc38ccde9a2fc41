//! What a server's pages say at one moment of a run.
//!
//! Invariant: what a page does not say is missing, never 0.

use super::{GpuReading, MetricsSnapshot, Quantity};
use tokrate_core::Tick;

/// An engine at one moment.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct EngineSample {
    /// When it was so.
    pub at: Tick,
    /// Requests being worked on.
    pub running: Option<f64>,
    /// Requests waiting.
    pub waiting: Option<f64>,
    /// Share of the key-value cache in use, the mean of its ranks.
    pub cache_use: Option<f64>,
    /// Requests that have lost their place so far.
    pub preemptions: Option<f64>,
    /// Prompt tokens looked up in the prefix cache so far.
    pub cache_queries: Option<f64>,
    /// Those of them that were there.
    pub cache_hits: Option<f64>,
    /// Tokens proposed by a draft so far.
    pub draft_tokens: Option<f64>,
    /// Those of them that were accepted.
    pub accepted_tokens: Option<f64>,
    /// Tokens written so far.
    pub output_tokens: Option<f64>,
}

impl EngineSample {
    /// What a page says.
    pub fn of(at: Tick, page: &MetricsSnapshot<'_>) -> EngineSample {
        EngineSample {
            at,
            running: page.number(Quantity::Running),
            waiting: page.number(Quantity::Waiting),
            cache_use: page.share(Quantity::CacheUse),
            preemptions: page.number(Quantity::Preemptions),
            cache_queries: page.number(Quantity::CacheQueries),
            cache_hits: page.number(Quantity::CacheHits),
            draft_tokens: page.number(Quantity::DraftTokens),
            accepted_tokens: page.number(Quantity::AcceptedTokens),
            output_tokens: page.number(Quantity::OutputTokens),
        }
    }
}

/// Graphics processors at one moment, all that one source knows.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct GpuSample {
    /// When it was so.
    pub at: Tick,
    /// Each of them, in the order of their names.
    pub gpus: Vec<GpuReading>,
}
