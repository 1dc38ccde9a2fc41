//! An answer to be written, event by event or whole, and the trait of what writes it in a dialect.
//!
//! Invariant: a decoder gives back the pieces that were encoded, as far as the dialect has a place for them.

use std::fmt::Debug;
use tokrate_core::{Channel, FinishReason, ServerTimings, Usage};

/// One event of an answer to be written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Piece<'a> {
    /// The opening event, which names the role and carries no text.
    Role,
    /// Some text of one channel. Tool text is written as arguments of the latest call, or of a first one without a name.
    Text {
        /// Which of the answer's texts it belongs to.
        channel: Channel,
        /// The text.
        text: &'a str,
    },
    /// A tool call begins.
    ToolCall {
        /// Which call of the answer, from 0.
        index: u32,
        /// Its identifier.
        id: &'a str,
        /// The tool's name.
        name: &'a str,
    },
    /// The model stopped.
    Finish(FinishReason),
    /// Token counts.
    Usage(Usage),
    /// Times that the server took.
    Timings(ServerTimings),
    /// The end mark.
    Done,
    /// The stream breaks off with an error.
    Failed {
        /// The error message.
        message: &'a str,
    },
}

/// A whole answer to be written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Answer<'a> {
    /// The reasoning; may be empty.
    pub reasoning: &'a str,
    /// The answer's text; may be empty.
    pub answer: &'a str,
    /// The tools that are called.
    pub tools: &'a [ToolCall<'a>],
    /// Why the model stopped.
    pub finish: FinishReason,
    /// Token counts.
    pub usage: Option<Usage>,
    /// Times that the server took.
    pub timings: Option<ServerTimings>,
}

/// A tool call of a whole answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ToolCall<'a> {
    /// Its identifier.
    pub id: &'a str,
    /// The tool's name.
    pub name: &'a str,
    /// The arguments, as JSON text.
    pub arguments: &'a str,
}

/// Writes one answer in a dialect; what all its events share is prepared once.
pub(crate) trait ResponseEncoder: Debug + Send + Sync {
    /// Appends the bytes of one piece, framing included; nothing where the dialect has no place for it.
    fn encode_event(&mut self, piece: &Piece<'_>, out: &mut Vec<u8>);

    /// The answer as one JSON body.
    fn encode_whole(&self, answer: &Answer<'_>) -> Vec<u8>;

    /// Number of the next event, in a dialect that counts them.
    fn next_sequence(&self) -> u64 {
        0
    }
}
