//! Writes answers of llama.cpp's native completion.
//!
//! Invariant: the finish reason, the counts and the times are held back for the last event.

use crate::dialects::openai_chat::push_error;
use crate::json_text::push_number;
use crate::json_text::{push_escaped, push_string};
use crate::response::{Answer, Piece, ResponseEncoder};
use crate::timings::push_engine_timings;
use tokrate_core::{FinishReason, ServerTimings, Usage};

/// Writes one answer.
#[derive(Clone, Debug)]
pub(crate) struct LlamaEncoder {
    model: String,
    finish: Option<FinishReason>,
    usage: Usage,
    timings: Option<ServerTimings>,
}

const TEXT: &[u8] = br#"{"index":0,"content":""#;

impl LlamaEncoder {
    pub(crate) fn new(model: &str) -> LlamaEncoder {
        LlamaEncoder { model: model.to_owned(), finish: None, usage: Usage::default(), timings: None }
    }

    fn push_end(
        &self,
        texts: &[&str],
        finish: FinishReason,
        usage: Usage,
        timings: Option<ServerTimings>,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(TEXT);
        texts.iter().for_each(|text| push_escaped(text, out));
        out.extend_from_slice(b"\",\"tokens\":[],\"id_slot\":0,\"stop\":true,\"model\":");
        push_string(&self.model, out);
        for (name, count) in [("tokens_predicted", usage.output), ("tokens_evaluated", usage.input)] {
            if let Some(count) = count {
                out.push(b',');
                push_string(name, out);
                out.push(b':');
                push_number(count, out);
            }
        }
        out.extend_from_slice(b",\"stop_type\":");
        push_string(stop_type(finish), out);
        if let Some(timings) = timings {
            out.extend_from_slice(b",\"timings\":");
            push_engine_timings(timings, out);
        }
        out.push(b'}');
    }
}

impl ResponseEncoder for LlamaEncoder {
    /// Appends the event of a piece, if it has one of its own. The dialect has one channel and no tools: their names and
    /// arguments are text.
    fn encode_event(&mut self, piece: &Piece<'_>, out: &mut Vec<u8>) {
        match *piece {
            Piece::Text { text, .. } | Piece::ToolCall { name: text, .. } => {
                out.extend_from_slice(b"data: ");
                out.extend_from_slice(TEXT);
                push_escaped(text, out);
                out.extend_from_slice(b"\",\"tokens\":[],\"stop\":false,\"id_slot\":0}\n\n");
            }
            Piece::Role => {}
            Piece::Finish(reason) => self.finish = Some(reason),
            Piece::Usage(usage) => self.usage = self.usage.updated_by(usage),
            Piece::Timings(timings) => self.timings = Some(timings),
            Piece::Done => {
                out.extend_from_slice(b"data: ");
                self.push_end(&[""], self.finish.unwrap_or(FinishReason::Other), self.usage, self.timings, out);
                out.extend_from_slice(b"\n\n");
            }
            Piece::Failed { message } => {
                out.extend_from_slice(b"error: ");
                push_error(message, "server_error", 500, out);
                out.extend_from_slice(b"\n\n");
            }
        }
    }

    /// The answer as one JSON body: all its texts, one after the other.
    fn encode_whole(&self, answer: &Answer<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        let calls = answer.tools.iter().flat_map(|call| [call.name, call.arguments]);
        let texts: Vec<&str> = [answer.reasoning, answer.answer].into_iter().chain(calls).collect();
        self.push_end(&texts, answer.finish, answer.usage.unwrap_or_default(), answer.timings, &mut out);
        out
    }
}

fn stop_type(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::Stop => "eos",
        FinishReason::Length => "limit",
        FinishReason::ToolCalls | FinishReason::ContentFilter | FinishReason::Other => "none",
    }
}
