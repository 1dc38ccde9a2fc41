//! One attempt of one call through a gateway: a row of the throughput log, numbers with their conditions.
//!
//! It refuses to know prompts and answers: no text of either is in it. Invariant: every attempt that was begun becomes
//! exactly one of these, however it ended; what could not be measured is absent, never 0.

use crate::names;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokrate_core::FailureKind;

/// Why an attempt was begun.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttemptRole {
    /// The call's first.
    #[default]
    First,
    /// One before it had failed.
    Failover,
    /// One before it was slow.
    Hedge,
    /// Begun together with the first.
    Race,
}

/// How an attempt ended, as the gateway's client saw it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnd {
    /// Its answer was given to the client, whole.
    #[default]
    Answered,
    /// It failed; `failure` says how. If `won`, the client had seen its beginning.
    Failed,
    /// Another attempt of the call won; this one was given up or read to its end in the background.
    Lost,
    /// The client went away first.
    Abandoned,
}

/// Where the cost of an attempt comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CostBasis {
    /// There is no price for the lane.
    #[default]
    Unknown,
    /// Tokens as the provider reported them, times the price.
    Reported,
    /// Tokens as counted here, because the provider reported none (a cancelled stream, as a rule), times the price.
    Estimated,
    /// The provider does not bill such an attempt.
    Free,
}

/// One attempt of one call.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// The call, the same for all its attempts; unique in a log.
    pub call: String,
    /// Place among the call's attempts, from 0.
    pub attempt: u32,
    /// Why it was begun.
    pub role: AttemptRole,
    /// How it ended.
    pub end: AttemptEnd,
    /// Whether its bytes were given to the client.
    pub won: bool,
    /// Wall time at which it was begun (ms since 1970).
    pub started_unix_ms: u64,

    /// Name of the virtual key that was shown; absent if none is needed.
    pub key: Option<String>,
    /// What the client asked for as `model`.
    pub alias: String,
    /// The lane's name.
    pub lane: String,
    /// The lane's provider.
    pub provider: String,
    /// The model that the lane was asked for.
    pub model: String,
    /// The model that the answer named.
    pub model_answered: Option<String>,
    /// Dialect of the client.
    pub dialect_in: String,
    /// Dialect of the lane.
    pub dialect_out: String,
    /// Whether the answer was asked for piece by piece.
    pub stream: bool,
    /// Calls that the lane had open when this one was begun, this one included.
    pub in_flight: u32,
    /// Whether a connection had to be opened for it.
    pub connection_new: bool,
    /// Bytes of the request's body as sent.
    pub request_bytes: u64,
    /// Upper limit of output tokens that was asked for.
    pub output_limit: Option<u32>,
    /// Version of tokrate.
    pub version: String,

    /// HTTP status of the answer.
    pub status: Option<u16>,
    /// Why it failed.
    #[serde(with = "names::maybe")]
    #[schemars(schema_with = "names::schema_maybe::<FailureKind>")]
    pub failure: Option<FailureKind>,
    /// Begun to sent (ns): waiting for a connection.
    pub wait_ns: Option<u64>,
    /// Sent to first byte of the body (ns).
    pub ttfb_ns: Option<u64>,
    /// Sent to first output text, reasoning and tool calls included (ns).
    pub ttft_ns: Option<u64>,
    /// Begun to its end (ns).
    pub total_ns: u64,
    /// Time that the gateway itself took: the call's arrival to this attempt's being sent on a connection that was open, plus
    /// the end of the answer to its being handed on (ns).
    pub overhead_ns: Option<u64>,
    /// (tokens - tokens of the first chunk) / (last text - first text), in tokens per second.
    pub output_speed: Option<f64>,
    /// Text events of the answer.
    pub text_events: u64,
    /// Arrivals of text: what came in one read is one.
    pub chunks: u64,
    /// Median of the chunk gaps (ns).
    pub gap_p50_ns: Option<u64>,
    /// 99th percentile of the chunk gaps (ns).
    pub gap_p99_ns: Option<u64>,
    /// The longest chunk gap (ns).
    pub gap_max_ns: Option<u64>,
    /// o200k_base tokens of the request's texts, where they were counted.
    pub input_tokens_std: Option<u64>,
    /// o200k_base tokens of the answer's texts.
    pub output_tokens_std: u64,
    /// Input tokens as the provider reports them.
    pub input_tokens: Option<u64>,
    /// Output tokens as the provider reports them.
    pub output_tokens: Option<u64>,
    /// Those of `output_tokens` that were reasoning.
    pub reasoning_tokens: Option<u64>,
    /// Those of `input_tokens` that came from a cache.
    pub cached_tokens: Option<u64>,
    /// What it cost (USD).
    pub cost_usd: Option<f64>,
    /// Where that comes from.
    pub cost_basis: CostBasis,
}
