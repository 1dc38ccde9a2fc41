//! What happened to calls, to their attempts, and to the lanes that answered them.
//!
//! It refuses to know how. Invariant: a call has one end, and each of its attempts one.

use tokrate_core::{FailureKind, Span, Tick};
use tokrate_route::{LaneId, Role};

/// How a call ended for its client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallEnd {
    /// With a whole answer.
    Whole,
    /// With a beginning and an error after it.
    Broken(FailureKind),
    /// With an error and nothing else.
    Failed(FailureKind),
}

/// One call.
#[derive(Clone, PartialEq, Debug)]
pub struct CallRecord {
    /// When it came.
    pub arrived: Tick,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Tokens of the answer that it is owed.
    pub output_tokens: u32,
    /// From its arrival to the first token that its client saw.
    pub ttft: Option<Span>,
    /// From its arrival to its end.
    pub completion: Span,
    /// How it ended.
    pub end: CallEnd,
    /// The attempt whose bytes the client saw.
    pub winner: Option<usize>,
    /// Tokens that the client saw.
    pub shown_tokens: u32,
    /// Its attempts, in order of their starts.
    pub attempts: Vec<AttemptRecord>,
}

/// One attempt.
#[derive(Clone, PartialEq, Debug)]
pub struct AttemptRecord {
    /// Where it went.
    pub lane: LaneId,
    /// Why.
    pub role: Role,
    /// When.
    pub started: Tick,
    /// From its start to its first token.
    pub ttft: Option<Span>,
    /// From its start to its end.
    pub total: Span,
    /// Calls of the lane in flight at its start.
    pub in_flight: u32,
    /// Tokens that came.
    pub tokens: u32,
    /// What it cost, as the gateway reckons (USD).
    pub usd: f64,
    /// How it failed, if it did.
    pub failure: Option<FailureKind>,
}

/// What an engine gave out, by its own account.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LaneLedger {
    /// Requests that were sent to it.
    pub requests: u64,
    /// Those that it refused.
    pub refused: u64,
    /// Prompt tokens of those that it took.
    pub input_tokens: u64,
    /// Tokens that it made, whoever read them.
    pub output_tokens: u64,
    /// What it charges for both (USD).
    pub usd: f64,
}
