//! Writes Ollama's answers.
//!
//! Invariant: each piece is one line, except the finish reason, the token counts and the server's times, which wait for
//! the last line; a call is written once all of it is known.

use super::Method;
use crate::calls::{GatheredCalls, push_arguments};
use crate::json_text::push_number;
use crate::json_text::{push_escaped, push_string};
use crate::response::{Answer, Piece, ResponseEncoder};
use tokrate_core::{Channel, FinishReason, ServerTimings, Span, Usage, rfc3339};

/// Writes the lines of one answer.
#[derive(Clone, Debug)]
pub(crate) struct OllamaEncoder {
    method: Method,
    /// A line up to the answer: `{"model":…,"created_at":…,`.
    head: Vec<u8>,
    /// A line up to the place of the text, by channel: reasoning, answer.
    opened: [Vec<u8>; 2],
    calls: GatheredCalls,
    finish: Option<FinishReason>,
    usage: Usage,
    timings: ServerTimings,
}

impl OllamaEncoder {
    /// A writer for an answer of `model`, created at `created` seconds since 1970.
    pub(crate) fn new(method: Method, model: &str, created: u64) -> OllamaEncoder {
        let mut head = b"{\"model\":".to_vec();
        push_string(model, &mut head);
        head.extend_from_slice(b",\"created_at\":\"");
        head.extend_from_slice(rfc3339(created).as_bytes());
        head.extend_from_slice(b"\",");
        let fields: [&[u8]; 2] = match method {
            Method::Chat => [
                br#""message":{"role":"assistant","content":"","thinking":""#,
                br#""message":{"role":"assistant","content":""#,
            ],
            Method::Generate => [br#""response":"","thinking":""#, br#""response":""#],
        };
        let opened = fields.map(|field| [head.as_slice(), field].concat());
        OllamaEncoder {
            method,
            head,
            opened,
            calls: GatheredCalls::default(),
            finish: None,
            usage: Usage::default(),
            timings: ServerTimings::default(),
        }
    }

    fn write_text(&self, channel: Channel, text: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.opened[usize::from(channel != Channel::Reasoning)]);
        push_escaped(text, out);
        out.extend_from_slice(match self.method {
            Method::Chat => b"\"},\"done\":false}\n".as_slice(),
            Method::Generate => b"\",\"done\":false}\n",
        });
    }

    fn write_calls(&mut self, out: &mut Vec<u8>) {
        for call in self.calls.take() {
            out.extend_from_slice(&self.head);
            out.extend_from_slice(match self.method {
                Method::Chat => br#""message":{"role":"assistant","content":"","tool_calls":["#.as_slice(),
                Method::Generate => br#""response":"","tool_calls":["#,
            });
            push_call(&call.id, &call.name, &call.arguments, out);
            out.extend_from_slice(match self.method {
                Method::Chat => b"]},\"done\":false}\n".as_slice(),
                Method::Generate => b"],\"done\":false}\n",
            });
        }
    }
}

impl ResponseEncoder for OllamaEncoder {
    /// Appends the line of a piece, if it has one of its own.
    fn encode_event(&mut self, piece: &Piece<'_>, out: &mut Vec<u8>) {
        match *piece {
            Piece::Text { channel: Channel::Tool, text } => return self.calls.push(text),
            Piece::ToolCall { index, id, name } => return self.calls.open(index, id, name),
            _ => self.write_calls(out),
        }
        match *piece {
            Piece::Text { channel, text } => self.write_text(channel, text, out),
            Piece::Role => self.write_text(Channel::Answer, "", out),
            Piece::Finish(reason) => self.finish = Some(reason),
            Piece::Usage(usage) => self.usage = self.usage.updated_by(usage),
            Piece::Timings(timings) => self.timings = self.timings.updated_by(timings),
            Piece::Done => {
                let (finish, usage, timings) = (self.finish.take(), self.usage, self.timings);
                out.extend_from_slice(&self.head);
                out.extend_from_slice(match self.method {
                    Method::Chat => br#""message":{"role":"assistant","content":""},"#.as_slice(),
                    Method::Generate => br#""response":"","#,
                });
                push_end(finish, usage, timings, out);
                out.push(b'\n');
            }
            Piece::Failed { message } => {
                push_error(message, out);
                out.push(b'\n');
            }
            Piece::ToolCall { .. } => {}
        }
    }

    /// The answer as one JSON body.
    fn encode_whole(&self, answer: &Answer<'_>) -> Vec<u8> {
        let mut out = self.head.clone();
        let chat = self.method == Method::Chat;
        out.extend_from_slice(if chat {
            br#""message":{"role":"assistant","content":"#.as_slice()
        } else {
            br#""response":"#
        });
        push_string(answer.answer, &mut out);
        if !answer.reasoning.is_empty() {
            out.extend_from_slice(b",\"thinking\":");
            push_string(answer.reasoning, &mut out);
        }
        for (index, call) in answer.tools.iter().enumerate() {
            out.extend_from_slice(if index == 0 { b",\"tool_calls\":[" } else { b"," });
            push_call(call.id, call.name, call.arguments, &mut out);
        }
        if !answer.tools.is_empty() {
            out.push(b']');
        }
        out.extend_from_slice(if chat { b"}," } else { b"," });
        push_end(Some(answer.finish), answer.usage.unwrap_or_default(), answer.timings.unwrap_or_default(), &mut out);
        out
    }
}

/// The body of an answer with an error status.
pub(crate) fn error(message: &str) -> Vec<u8> {
    let mut out = Vec::new();
    push_error(message, &mut out);
    out
}

fn push_error(message: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"error\":");
    push_string(message, out);
    out.push(b'}');
}

fn push_call(id: &str, name: &str, arguments: &str, out: &mut Vec<u8>) {
    out.push(b'{');
    if !id.is_empty() {
        out.extend_from_slice(b"\"id\":");
        push_string(id, out);
        out.push(b',');
    }
    out.extend_from_slice(b"\"function\":{\"name\":");
    push_string(name, out);
    if !arguments.is_empty() {
        out.extend_from_slice(b",\"arguments\":");
        push_arguments(arguments, out);
    }
    out.extend_from_slice(b"}}");
}

/// The fields of the last line, and its end.
fn push_end(finish: Option<FinishReason>, usage: Usage, timings: ServerTimings, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"done\":true");
    if let Some(reason) = finish {
        out.extend_from_slice(b",\"done_reason\":");
        push_string(done_reason(reason), out);
    }
    let nanoseconds = |span: Option<Span>| span.map(Span::as_nanos);
    for (name, number) in [
        (",\"total_duration\":", nanoseconds(timings.total)),
        (",\"load_duration\":", nanoseconds(timings.load)),
        (",\"prompt_eval_count\":", usage.input.or(timings.prefill_tokens)),
        (",\"prompt_eval_cached_count\":", usage.cached_input),
        (",\"prompt_eval_duration\":", nanoseconds(timings.prefill)),
        (",\"eval_count\":", usage.output.or(timings.decode_tokens)),
        (",\"eval_duration\":", nanoseconds(timings.decode)),
    ] {
        if let Some(number) = number {
            out.extend_from_slice(name.as_bytes());
            push_number(number, out);
        }
    }
    out.push(b'}');
}

fn done_reason(reason: FinishReason) -> &'static str {
    match reason {
        // The dialect has no finish reason for tool calls: the call itself shows it.
        FinishReason::Stop | FinishReason::ToolCalls => "stop",
        FinishReason::Length | FinishReason::ContentFilter | FinishReason::Other => reason.name(),
    }
}

#[cfg(test)]
mod tests {
    use tokrate_core::rfc3339;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // From `date -u -d @SECONDS +%FT%TZ`.
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_784_300_000, "2026-07-17T14:53:20Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (u64::MAX, ""),
        ] {
            let date_written = rfc3339(seconds);
            assert!(date.is_empty() || date_written == date, "{seconds}: {date_written}");
        }
    }
}
