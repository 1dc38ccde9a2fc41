//! Writes answers of OpenAI's chat completions.
//!
//! Invariant: a piece of text costs two copies and its escaping.

use crate::json_text::push_number;
use crate::json_text::{push_escaped, push_string};
use crate::request_body::push_list;
use crate::response::{Answer, Piece, ResponseEncoder};
use crate::timings::push_engine_timings;
use tokrate_core::Usage;

/// Writes one answer; what all its events share is prepared once.
#[derive(Clone, Debug)]
pub(crate) struct ChatEncoder {
    /// `"id":…,"object":"`
    head: Vec<u8>,
    /// `","created":…,"model":…`
    middle: Vec<u8>,
    /// An event up to the place of the text, by channel.
    opened: [Vec<u8>; 3],
    /// An event up to and including `"choices":[`.
    event: Vec<u8>,
}

const TEXT_FIELDS: [&str; 3] = [
    r#"{"index":0,"delta":{"reasoning_content":""#,
    r#"{"index":0,"delta":{"content":""#,
    r#"{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":""#,
];

const TEXT_ENDS: [&[u8]; 3] = [
    b"\"},\"finish_reason\":null}]}\n\n",
    b"\"},\"finish_reason\":null}]}\n\n",
    b"\"}}]},\"finish_reason\":null}]}\n\n",
];

impl ChatEncoder {
    pub(crate) fn new(id: &str, model: &str, created: u64) -> ChatEncoder {
        let (head, middle) = (push_head(id), push_middle(model, created));
        let event = [b"data: {", head.as_slice(), b"chat.completion.chunk", &middle, b",\"choices\":["].concat();
        let opened = TEXT_FIELDS.map(|field| [event.as_slice(), field.as_bytes()].concat());
        ChatEncoder { head, middle, opened, event }
    }

    /// Begins a call; the text after it belongs to it.
    fn open_call(&mut self, index: u32, id: &str, name: &str, out: &mut Vec<u8>) {
        let mut opened = self.event.clone();
        opened.extend_from_slice(br#"{"index":0,"delta":{"tool_calls":[{"index":"#);
        push_number(u64::from(index), &mut opened);
        out.extend_from_slice(&opened);
        if !id.is_empty() {
            out.extend_from_slice(b",\"id\":");
            push_string(id, out);
            out.extend_from_slice(b",\"type\":\"function\"");
        }
        out.extend_from_slice(b",\"function\":{");
        if !name.is_empty() {
            out.extend_from_slice(b"\"name\":");
            push_string(name, out);
            out.push(b',');
        }
        out.extend_from_slice(b"\"arguments\":\"");
        out.extend_from_slice(TEXT_ENDS[2]);
        opened.extend_from_slice(br#","function":{"arguments":""#);
        self.opened[2] = opened;
    }
}

impl ResponseEncoder for ChatEncoder {
    /// Appends one server-sent event.
    fn encode_event(&mut self, piece: &Piece<'_>, out: &mut Vec<u8>) {
        match *piece {
            Piece::Text { channel, text } => {
                let slot = channel as usize;
                out.extend_from_slice(&self.opened[slot]);
                push_escaped(text, out);
                out.extend_from_slice(TEXT_ENDS[slot]);
            }
            Piece::ToolCall { index, id, name } => self.open_call(index, id, name, out),
            Piece::Role => {
                out.extend_from_slice(&self.event);
                out.extend_from_slice(
                    br#"{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
                );
                out.extend_from_slice(b"\n\n");
            }
            Piece::Finish(reason) => {
                out.extend_from_slice(&self.event);
                out.extend_from_slice(br#"{"index":0,"delta":{},"finish_reason":"#);
                push_string(reason.name(), out);
                out.extend_from_slice(b"}]}\n\n");
            }
            Piece::Usage(usage) => {
                out.extend_from_slice(&self.event);
                out.extend_from_slice(b"],\"usage\":");
                push_usage(usage, out);
                out.extend_from_slice(b"}\n\n");
            }
            Piece::Timings(timings) => {
                out.extend_from_slice(&self.event);
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

    /// The answer as one JSON body.
    fn encode_whole(&self, answer: &Answer<'_>) -> Vec<u8> {
        let mut out = b"{".to_vec();
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b"chat.completion");
        out.extend_from_slice(&self.middle);
        out.extend_from_slice(br#","choices":[{"index":0,"message":{"role":"assistant","#);
        if !answer.reasoning.is_empty() {
            out.extend_from_slice(b"\"reasoning_content\":");
            push_string(answer.reasoning, &mut out);
            out.push(b',');
        }
        out.extend_from_slice(b"\"content\":");
        if answer.answer.is_empty() && !answer.tools.is_empty() {
            out.extend_from_slice(b"null");
        } else {
            push_string(answer.answer, &mut out);
        }
        if !answer.tools.is_empty() {
            out.extend_from_slice(b",\"tool_calls\":");
            push_list(answer.tools, &mut out, |call, out| {
                out.extend_from_slice(b"{\"id\":");
                push_string(call.id, out);
                out.extend_from_slice(b",\"type\":\"function\",\"function\":{\"name\":");
                push_string(call.name, out);
                out.extend_from_slice(b",\"arguments\":");
                push_string(call.arguments, out);
                out.extend_from_slice(b"}}");
            });
        }
        out.extend_from_slice(b"},\"finish_reason\":");
        push_string(answer.finish.name(), &mut out);
        out.extend_from_slice(b"}]");
        push_counts(answer, &mut out);
        out.push(b'}');
        out
    }
}

/// `"id":…,"object":"`
pub(crate) fn push_head(id: &str) -> Vec<u8> {
    let mut head = b"\"id\":".to_vec();
    push_string(id, &mut head);
    head.extend_from_slice(b",\"object\":\"");
    head
}

/// `","created":…,"model":…`
pub(crate) fn push_middle(model: &str, created: u64) -> Vec<u8> {
    let mut middle = b"\",\"created\":".to_vec();
    push_number(created, &mut middle);
    middle.extend_from_slice(b",\"model\":");
    push_string(model, &mut middle);
    middle
}

/// Token counts and times of a whole answer, if there are any.
pub(crate) fn push_counts(answer: &Answer<'_>, out: &mut Vec<u8>) {
    if let Some(usage) = answer.usage {
        out.extend_from_slice(b",\"usage\":");
        push_usage(usage, out);
    }
    if let Some(timings) = answer.timings {
        out.extend_from_slice(b",\"timings\":");
        push_engine_timings(timings, out);
    }
}

/// The body of an answer with an error status.
pub(crate) fn error(status: u16, message: &str) -> Vec<u8> {
    let kind = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    };
    let mut out = Vec::new();
    push_error(message, kind, status, &mut out);
    out
}

/// Writes an error object.
pub(crate) fn push_error(message: &str, kind: &str, code: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"error\":{\"message\":");
    push_string(message, out);
    out.extend_from_slice(b",\"type\":");
    push_string(kind, out);
    // Typed clients read `code` as a text or null, and expect `param`.
    out.extend_from_slice(b",\"param\":null,\"code\":");
    match code {
        401 => push_string("invalid_api_key", out),
        429 => push_string("rate_limit_exceeded", out),
        _ => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b"}}");
}

/// Writes a block of token counts.
pub(crate) fn push_usage(usage: Usage, out: &mut Vec<u8>) {
    let mut separator: &[u8] = b"{";
    let mut field = |name: &str, count: Option<u64>, end: &[u8], out: &mut Vec<u8>| {
        if let Some(count) = count {
            out.extend_from_slice(separator);
            out.extend_from_slice(name.as_bytes());
            push_number(count, out);
            out.extend_from_slice(end);
            separator = b",";
        }
    };
    let total = usage.input.zip(usage.output).map(|(input, output)| input.saturating_add(output));
    field("\"prompt_tokens\":", usage.input, b"", out);
    field("\"completion_tokens\":", usage.output, b"", out);
    field("\"total_tokens\":", total, b"", out);
    field("\"prompt_tokens_details\":{\"cached_tokens\":", usage.cached_input, b"}", out);
    field("\"completion_tokens_details\":{\"reasoning_tokens\":", usage.reasoning, b"}", out);
    if separator == b"{" {
        out.push(b'{');
    }
    out.push(b'}');
}
