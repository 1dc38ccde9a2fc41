//! Answers as an engine or a gateway writes them.
//!
//! It refuses to know when a piece is written. Invariant: a decoder gives back the pieces that were encoded.

use crate::dialect::Dialect;
use crate::json_text::{push_escaped, push_string};
use tokrate_core::{Channel, FinishReason, Usage};

/// One event of an answer to be written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Piece<'a> {
    /// The opening event, which names the role and carries no text.
    Role,
    /// Some text of one channel. Tool text is written as arguments of the first call.
    Text {
        /// Which of the answer's texts it belongs to.
        channel: Channel,
        /// The text.
        text: &'a str,
    },
    /// The model stopped.
    Finish(FinishReason),
    /// Token counts.
    Usage(Usage),
    /// The end mark.
    Done,
    /// The stream breaks off with an error.
    Failed {
        /// What is said about it.
        message: &'a str,
    },
}

/// Writes one answer; what all its events share is prepared once.
#[derive(Clone, Debug)]
pub struct Encoder {
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

impl Encoder {
    /// An encoder for the answer `id` of `model`, created at `created` seconds since 1970.
    pub fn new(dialect: Dialect, id: &str, model: &str, created: u64) -> Encoder {
        let Dialect::OpenAiChat = dialect;
        let mut head = b"\"id\":".to_vec();
        push_string(id, &mut head);
        head.extend_from_slice(b",\"object\":\"");
        let mut middle = b"\",\"created\":".to_vec();
        push_number(created, &mut middle);
        middle.extend_from_slice(b",\"model\":");
        push_string(model, &mut middle);
        let event = [b"data: {", head.as_slice(), b"chat.completion.chunk", &middle, b",\"choices\":["].concat();
        let opened = TEXT_FIELDS.map(|field| [event.as_slice(), field.as_bytes()].concat());
        Encoder { head, middle, opened, event }
    }

    /// Appends one server-sent event.
    pub fn encode_event(&mut self, piece: &Piece<'_>, out: &mut Vec<u8>) {
        match *piece {
            Piece::Text { channel, text } => {
                let slot = channel as usize;
                out.extend_from_slice(&self.opened[slot]);
                push_escaped(text, out);
                out.extend_from_slice(TEXT_ENDS[slot]);
            }
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
            Piece::Done => out.extend_from_slice(b"data: [DONE]\n\n"),
            Piece::Failed { message } => {
                out.extend_from_slice(b"data: ");
                push_error(message, "server_error", 500, out);
                out.extend_from_slice(b"\n\n");
            }
        }
    }

    /// The answer as one JSON body.
    pub fn encode_whole(&self, reasoning: &str, answer: &str, finish: FinishReason, usage: Option<Usage>) -> Vec<u8> {
        let mut out = b"{".to_vec();
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b"chat.completion");
        out.extend_from_slice(&self.middle);
        out.extend_from_slice(br#","choices":[{"index":0,"message":{"role":"assistant","#);
        if !reasoning.is_empty() {
            out.extend_from_slice(b"\"reasoning_content\":");
            push_string(reasoning, &mut out);
            out.push(b',');
        }
        out.extend_from_slice(b"\"content\":");
        push_string(answer, &mut out);
        out.extend_from_slice(b"},\"finish_reason\":");
        push_string(finish.name(), &mut out);
        out.extend_from_slice(b"}]");
        if let Some(usage) = usage {
            out.extend_from_slice(b",\"usage\":");
            push_usage(usage, &mut out);
        }
        out.push(b'}');
        out
    }
}

/// The body of an answer with an error status.
pub fn encode_refusal(dialect: Dialect, status: u16, message: &str) -> Vec<u8> {
    let Dialect::OpenAiChat = dialect;
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

fn push_error(message: &str, kind: &str, code: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"error\":{\"message\":");
    push_string(message, out);
    out.extend_from_slice(b",\"type\":");
    push_string(kind, out);
    out.extend_from_slice(b",\"code\":");
    push_number(u64::from(code), out);
    out.extend_from_slice(b"}}");
}

fn push_usage(usage: Usage, out: &mut Vec<u8>) {
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

fn push_number(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(number.to_string().as_bytes());
}
