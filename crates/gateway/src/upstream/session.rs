//! What was measured of a session on a WebSocket.

use tokrate_core::{AudioTokens, Span, Usage};
use tokrate_meter::StreamNumbers;

/// The figures of one session.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct SessionNumbers {
    /// From asking for a response, or the end of speech, to its first piece: the median of the session's responses.
    pub ttft: Option<Span>,
    /// Responses that began.
    pub responses: u32,
    /// Pieces of answers.
    pub deltas: u64,
    /// Tokens of all responses and transcripts that said theirs.
    pub usage: Usage,
    /// Those of them that were sound.
    pub audio: AudioTokens,
    /// Whether pictures are among the tokens.
    pub has_pictures: bool,
    /// Whether something that is billed did not say what it used.
    pub has_unreported: bool,
    /// The model that the session named.
    pub model: Option<String>,
    pub bytes_from_client: u64,
    pub bytes_to_client: u64,
}

impl SessionNumbers {
    /// Takes its figures over into those of an attempt.
    pub fn fill(&self, numbers: &mut StreamNumbers) {
        numbers.ttft_ns = self.ttft.map(Span::as_nanos);
        numbers.text_events = self.deltas;
        numbers.usage = self.usage;
        numbers.model.clone_from(&self.model);
    }
}
