//! Inputs and outputs of the engine as plain data, independent of any wire format.
//!
//! Invariant: an emission is complete; nothing has to be looked up in the engine to encode it.

use crate::faults::Faults;
use crate::law::Law;
use crate::words::Words;
use std::sync::Arc;
use tokrate_core::{Channel, FinishReason, Span, Tick, Usage};
use tokrate_engine::Part;

/// A request as the engine sees it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SimRequest {
    /// Prompt tokens.
    pub input_tokens: u32,
    /// Pictures in the prompt.
    pub pictures: u32,
    /// Their pixels.
    pub pixels: u64,
    /// Those of them that the encoder knows.
    pub cached_pixels: u64,
    /// Length of its sound.
    pub sound: Span,
    /// Images are painted in place of text: how long each of its pieces (`content_tokens`) takes alone.
    pub painting: Option<Span>,
    /// What the prompt consists of, from its beginning, for a scheduler's prefix cache; nothing is found of what is left out.
    pub parts: Arc<[Part]>,
    /// Limit of output tokens; the answer has exactly that many, up to the limit of the law.
    pub output_tokens: Option<u32>,
    /// Tokens of an answer whose content is given (a tool call, JSON): it has these behind its reasoning, as far as the limit
    /// allows, and ends by itself.
    pub content_tokens: Option<u32>,
    /// Whether to report usage.
    pub include_usage: bool,
    /// Whether to report the engine's own timings.
    pub include_timings: bool,
    /// Faults of this request, instead of the engine's.
    pub faults: Option<Box<Faults>>,
}

/// What pictures and sound add to the times of a request.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct MediaTimes {
    /// Before the first chunk: they are encoded, or the first piece of an image is painted.
    pub before: Span,
    /// Of each further piece of an image that is painted alone.
    pub piece: Option<Span>,
}

impl SimRequest {
    pub(crate) fn media_times(&self, law: &Law) -> MediaTimes {
        let encoding = law.encoder.time(self.pixels.saturating_sub(self.cached_pixels), self.sound);
        MediaTimes { before: encoding + self.painting.unwrap_or(Span::ZERO), piece: self.painting }
    }

    /// Output tokens of its answer, if nothing goes wrong, and whether the limit cuts it short.
    pub(crate) fn answer_tokens(&self, law: &Law) -> (u32, bool) {
        let most = law.max_output_tokens;
        match self.content_tokens {
            Some(content) => {
                let whole = content.saturating_add(law.reasoning_tokens);
                let tokens = whole.min(self.output_tokens.unwrap_or(u32::MAX)).min(most);
                (tokens, tokens < whole)
            }
            None => {
                let limit = self.output_tokens.unwrap_or(law.default_output_tokens);
                (limit.min(most), self.output_tokens.is_some() || limit > most)
            }
        }
    }
}

/// Number of a request in order of submission, from 0. Refused requests are counted too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);

/// One output of the engine and its due time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Emission {
    /// The request it belongs to.
    pub request: RequestId,
    /// When it has to be written.
    pub due: Tick,
    /// The content.
    pub what: Emitted,
}

/// The kinds of emission.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Emitted {
    /// The opening chunk, which carries no text.
    Role,
    /// Output text; each word is one o200k token.
    Text {
        /// The channel of the text.
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
    /// Timings of the engine.
    Timings(Timings),
    /// The end marker.
    Done,
    /// The stream ends with an error.
    Failed {
        /// The error message.
        message: &'static str,
    },
    /// Always the last emission of a request, unless it was cancelled or has stalled.
    End(Outcome),
}

/// Timings of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timings {
    /// From submission to getting a slot.
    pub queue: Span,
    /// From the slot to the first token.
    pub prefill: Span,
    /// From the first token to the last.
    pub decode: Span,
    /// Prompt tokens.
    pub input_tokens: u32,
    /// Generated tokens, hidden ones included.
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
    /// With the end of the response body.
    Complete,
    /// The connection breaks.
    Disconnected,
}

/// A refused request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The number of the request.
    pub request: RequestId,
    /// HTTP status.
    pub status: u16,
    /// The retry-after time.
    pub retry_after: Option<Span>,
    /// What is said about it.
    pub message: &'static str,
}
