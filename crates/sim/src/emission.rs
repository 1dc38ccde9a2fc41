//! What goes into an engine and what comes out of it, as data.
//!
//! It refuses to know how an emission is spelled on a wire. Invariant: an emission is complete; nothing has to be looked
//! up in the engine to write it.

use crate::faults::Faults;
use crate::words::Words;
use tokrate_core::{Channel, FinishReason, Span, Tick, Usage};

/// A request as the engine sees it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SimRequest {
    /// Prompt tokens.
    pub input_tokens: u32,
    /// Limit of output tokens; the answer has exactly so many, up to the law's own limit.
    pub output_tokens: Option<u32>,
    /// Whether usage is to be reported.
    pub include_usage: bool,
    /// Whether the engine's own times are to be reported.
    pub include_timings: bool,
    /// Faults of this request in place of the engine's.
    pub faults: Option<Box<Faults>>,
}

/// Number of a request, in the order of submission, from 0. Requests that were refused have one too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);

/// One thing that the engine says, and when.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Emission {
    /// Whose answer it belongs to.
    pub request: RequestId,
    /// When it is to be written.
    pub due: Tick,
    /// What is said.
    pub what: Emitted,
}

/// The kinds of emission.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Emitted {
    /// The opening chunk, which carries no text.
    Role,
    /// Output text: so many words are so many o200k tokens.
    Text {
        /// Which of the answer's texts it belongs to.
        channel: Channel,
        /// The words, each with the space before it.
        words: Words,
    },
    /// An event that is not JSON.
    Malformed,
    /// The model stopped.
    Finish(FinishReason),
    /// Token counts.
    Usage(Usage),
    /// The times that it took, as the engine knows them.
    Timings(Timings),
    /// The end mark.
    Done,
    /// The stream breaks off with an error.
    Failed {
        /// What is said about it.
        message: &'static str,
    },
    /// Nothing comes any more; always the last emission of a request that was not cancelled and has not stalled.
    End(Outcome),
}

/// Where the time of an answer went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timings {
    /// From submission to a slot.
    pub queue: Span,
    /// From the slot to the first token.
    pub prefill: Span,
    /// From the first token to the last.
    pub decode: Span,
    /// Prompt tokens.
    pub input_tokens: u32,
    /// Tokens that were made, hidden ones included.
    pub output_tokens: u32,
}

impl Timings {
    /// From submission to the last token.
    pub fn total(self) -> Span {
        self.queue + self.prefill + self.decode
    }
}

/// How an answer ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// As the protocol wants it.
    Complete,
    /// The connection breaks.
    Disconnected,
}

/// A request that was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The number that the request had got.
    pub request: RequestId,
    /// HTTP status.
    pub status: u16,
    /// How long the client is asked to wait.
    pub retry_after: Option<Span>,
    /// What is said about it.
    pub message: &'static str,
}
