//! Writes answers of OpenAI's text completions.
//!
//! Invariant: all channels are written as text; the dialect has one.

use crate::dialects::openai_chat::{push_counts, push_error, push_head, push_middle, push_usage};
use crate::json_text::{push_escaped, push_string};
use crate::response::{Answer, Piece, ResponseEncoder};
use crate::timings::push_engine_timings;

/// Writes one answer; what all its events share is prepared once.
#[derive(Clone, Debug)]
pub(crate) struct CompletionsEncoder {
    /// `"id":…,"object":"text_completion","created":…,"model":…,"choices":[`
    head: Vec<u8>,
    /// An event up to the place of the text.
    opened: Vec<u8>,
}

const TEXT: &[u8] = br#"{"index":0,"text":""#;

impl CompletionsEncoder {
    pub(crate) fn new(id: &str, model: &str, created: u64) -> CompletionsEncoder {
        let head =
            [push_head(id).as_slice(), b"text_completion", &push_middle(model, created), b",\"choices\":["].concat();
        let opened = [b"data: {", head.as_slice(), TEXT].concat();
        CompletionsEncoder { head, opened }
    }

    fn begin_bare(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"data: {");
        out.extend_from_slice(&self.head);
    }
}

impl ResponseEncoder for CompletionsEncoder {
    /// Appends one server-sent event; nothing for a role, which the dialect does not have.
    fn encode_event(&mut self, piece: &Piece<'_>, out: &mut Vec<u8>) {
        match *piece {
            Piece::Text { text, .. } | Piece::ToolCall { name: text, .. } => {
                out.extend_from_slice(&self.opened);
                push_escaped(text, out);
                out.extend_from_slice(b"\",\"finish_reason\":null}]}\n\n");
            }
            Piece::Role => {}
            Piece::Finish(reason) => {
                out.extend_from_slice(&self.opened);
                out.extend_from_slice(b"\",\"finish_reason\":");
                push_string(reason.name(), out);
                out.extend_from_slice(b"}]}\n\n");
            }
            Piece::Usage(usage) => {
                self.begin_bare(out);
                out.extend_from_slice(b"],\"usage\":");
                push_usage(usage, out);
                out.extend_from_slice(b"}\n\n");
            }
            Piece::Timings(timings) => {
                self.begin_bare(out);
                out.extend_from_slice(b"],\"timings\":");
                push_engine_timings(timings, out);
                out.extend_from_slice(b"}\n\n");
            }
            Piece::Done => out.extend_from_slice(b"data: [DONE]\n\n"),
            Piece::Failed { message } => {
                out.extend_from_slice(b"data: ");
                push_error(message, "server_error", 500, out);
                out.extend_from_slice(b"\n\n");
            }
        }
    }

    /// The answer as one JSON body: all its texts, one after the other.
    fn encode_whole(&self, answer: &Answer<'_>) -> Vec<u8> {
        let mut out = b"{".to_vec();
        out.extend_from_slice(&self.head);
        out.extend_from_slice(TEXT);
        push_escaped(answer.reasoning, &mut out);
        push_escaped(answer.answer, &mut out);
        for call in answer.tools {
            push_escaped(call.name, &mut out);
            push_escaped(call.arguments, &mut out);
        }
        out.extend_from_slice(b"\",\"finish_reason\":");
        push_string(answer.finish.name(), &mut out);
        out.extend_from_slice(b"}]");
        push_counts(answer, &mut out);
        out.push(b'}');
        out
    }
}
