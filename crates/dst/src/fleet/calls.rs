//! Records of calls, their attempts, and the lanes that served them.
//!
//! Invariant: a call ends once, and so does each of its attempts.

use tokrate_core::{FailureKind, Span, Tick};
use tokrate_route::{LaneId, Role};

/// How a call ended for its client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallEnd {
    /// With a complete answer.
    Whole,
    /// With a partial answer and an error.
    Broken(FailureKind),
    /// With an error only.
    Failed(FailureKind),
}

/// One call.
#[derive(Clone, PartialEq, Debug)]
pub struct CallRecord {
    /// When it arrived.
    pub arrived: Tick,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Length of its complete answer.
    pub output_tokens: u32,
    /// Time from arrival to the first token received by the client.
    pub ttft: Option<Span>,
    /// Time from arrival to the end.
    pub completion: Span,
    /// How it ended.
    pub end: CallEnd,
    /// The attempt whose bytes the client saw.
    pub winner: Option<usize>,
    /// Tokens received by the client.
    pub shown_tokens: u32,
    /// Its attempts, in order of their starts.
    pub attempts: Vec<AttemptRecord>,
}

/// One attempt.
#[derive(Clone, PartialEq, Debug)]
pub struct AttemptRecord {
    /// Its lane.
    pub lane: LaneId,
    /// Its role.
    pub role: Role,
    /// When it started.
    pub started: Tick,
    /// From its start to its first token.
    pub ttft: Option<Span>,
    /// From its start to its end.
    pub total: Span,
    /// Calls of the lane in flight at its start.
    pub in_flight: u32,
    /// Tokens received.
    pub tokens: u32,
    /// Its cost as computed by the gateway (USD).
    pub usd: f64,
    /// How it failed, if it did.
    pub failure: Option<FailureKind>,
}

/// Totals of an engine.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LaneLedger {
    /// Requests received.
    pub requests: u64,
    /// Requests refused.
    pub refused: u64,
    /// Prompt tokens of accepted requests.
    pub input_tokens: u64,
    /// Tokens generated, read or not.
    pub output_tokens: u64,
    /// Its charge for both (USD).
    pub usd: f64,
}
