//! Writes answers of the Responses API.
//!
//! Invariant: whatever the order of the pieces, each item is added, filled and completed in turn, sequence numbers
//! count the events, and the last event holds the whole response.

use crate::json_text::push_number;
use crate::json_text::{push_escaped, push_string};
use crate::response::{Answer, Piece, ResponseEncoder};
use crate::timings::push_engine_timings;
use tokrate_core::{Channel, FinishReason, ServerTimings, Usage};

/// Writes the events of one response.
#[derive(Clone, Debug)]
pub(crate) struct ResponsesEncoder {
    id: String,
    /// `"id":…,"object":"response","created_at":…,"model":…` and what else is the same in every state.
    head: Vec<u8>,
    /// Number of the next event.
    sequence: u64,
    items: Vec<Item>,
    /// The item that is not complete yet.
    open: Option<usize>,
    /// The start of an event that carries text of the open item, up to its sequence number, and on to the text.
    delta: [Vec<u8>; 2],
    finish: Option<FinishReason>,
    usage: Option<Usage>,
    timings: Option<ServerTimings>,
    /// Whether an error was written, which is the end.
    failed: bool,
}

#[derive(Clone, Debug)]
struct Item {
    channel: Channel,
    /// Of a call.
    call: u32,
    /// Its identifier as a JSON string.
    id: Vec<u8>,
    /// `"call_id":…,"name":…,` of a call.
    named: Vec<u8>,
    /// Its text so far, as the inside of a JSON string.
    text: Vec<u8>,
}

impl ResponsesEncoder {
    pub(crate) fn new(id: &str, model: &str, created: u64) -> ResponsesEncoder {
        let mut head = b"\"id\":".to_vec();
        push_string(id, &mut head);
        head.extend_from_slice(br#","object":"response","created_at":"#);
        push_number(created, &mut head);
        head.extend_from_slice(b",\"model\":");
        push_string(model, &mut head);
        head.extend_from_slice(br#","parallel_tool_calls":true,"tool_choice":"auto","tools":[]"#);
        ResponsesEncoder {
            id: id.to_owned(),
            head,
            sequence: 0,
            items: Vec::new(),
            open: None,
            delta: [Vec::new(), Vec::new()],
            finish: None,
            usage: None,
            timings: None,
            failed: false,
        }
    }

    fn write_text(&mut self, channel: Channel, text: &str, out: &mut Vec<u8>) {
        if self.open.is_none_or(|open| self.items[open].channel != channel) {
            match channel {
                // Of the latest call, or of a first one without a name.
                Channel::Tool => {
                    let latest = self.items.iter().rev().find(|item| item.channel == Channel::Tool);
                    self.open_call(latest.map_or(0, |item| item.call), "", "", out);
                }
                _ => self.start(channel, 0, Vec::new(), out),
            }
        }
        let open = self.open.expect("an item of the channel was opened");
        let [before, after] = &self.delta;
        out.extend_from_slice(before);
        push_number(self.sequence, out);
        self.sequence += 1;
        out.extend_from_slice(after);
        let start = out.len();
        push_escaped(text, out);
        self.items[open].text.extend_from_slice(&out[start..]);
        let end: &[u8] = if channel == Channel::Answer { b"\",\"logprobs\":[]}\n\n" } else { b"\"}\n\n" };
        out.extend_from_slice(end);
    }

    fn open_call(&mut self, call: u32, id: &str, name: &str, out: &mut Vec<u8>) {
        let known = self.items.iter().position(|item| item.channel == Channel::Tool && item.call == call);
        match known {
            Some(known) if self.open == Some(known) => {}
            // Back to a call that was opened earlier.
            Some(known) => {
                self.complete(out);
                self.open = Some(known);
                self.prepare_delta(known);
            }
            None => self.start(Channel::Tool, call, named(id, name), out),
        }
    }

    /// Starts the response, if that has not been done.
    fn begin(&mut self, out: &mut Vec<u8>) {
        if self.sequence > 0 {
            return;
        }
        for kind in ["response.created", "response.in_progress"] {
            self.write_head(kind, out);
            out.extend_from_slice(b",\"response\":");
            self.push_response("in_progress", out);
            out.extend_from_slice(b"}\n\n");
        }
    }

    fn add(&mut self, channel: Channel, call: u32, named: Vec<u8>) {
        let prefix = ["rs", "msg", "fc"][channel as usize];
        let mut id = Vec::new();
        push_string(&format!("{prefix}_{}_{}", self.id, self.items.len()), &mut id);
        self.items.push(Item { channel, call, id, named, text: Vec::new() });
    }

    fn start(&mut self, channel: Channel, call: u32, named: Vec<u8>, out: &mut Vec<u8>) {
        self.begin(out);
        self.complete(out);
        let index = self.items.len();
        self.add(channel, call, named);
        self.open = Some(index);
        self.write_head("response.output_item.added", out);
        self.push_place(index, false, out);
        out.extend_from_slice(b",\"item\":");
        push_item(&self.items[index], false, out);
        out.extend_from_slice(b"}\n\n");
        if channel == Channel::Answer {
            self.write_head("response.content_part.added", out);
            self.push_place(index, true, out);
            out.extend_from_slice(br#","content_index":0,"part":"#);
            push_part(b"", out);
            out.extend_from_slice(b"}\n\n");
        }
        self.prepare_delta(index);
    }

    fn prepare_delta(&mut self, index: usize) {
        let kind = TEXTS[self.items[index].channel as usize].0;
        let [mut before, mut after] = std::mem::take(&mut self.delta);
        before.clear();
        before.extend_from_slice(format!("event: {kind}.delta\ndata: {{\"type\":\"{kind}.delta\"").as_bytes());
        before.extend_from_slice(b",\"sequence_number\":");
        after.clear();
        self.push_place(index, true, &mut after);
        if self.items[index].channel != Channel::Tool {
            after.extend_from_slice(b",\"content_index\":0");
        }
        after.extend_from_slice(b",\"delta\":\"");
        self.delta = [before, after];
    }

    /// Completes the item that is open, if one is.
    fn complete(&mut self, out: &mut Vec<u8>) {
        let Some(index) = self.open.take() else { return };
        let channel = self.items[index].channel;
        let (kind, field) = TEXTS[channel as usize];
        self.write_head(&format!("{kind}.done"), out);
        self.push_place(index, true, out);
        if channel != Channel::Tool {
            out.extend_from_slice(b",\"content_index\":0");
        }
        if channel == Channel::Answer {
            out.extend_from_slice(b",\"logprobs\":[]");
        }
        out.extend_from_slice(field.as_bytes());
        out.extend_from_slice(&self.items[index].text);
        out.extend_from_slice(b"\"}\n\n");
        if channel == Channel::Answer {
            self.write_head("response.content_part.done", out);
            self.push_place(index, true, out);
            out.extend_from_slice(br#","content_index":0,"part":"#);
            push_part(&self.items[index].text, out);
            out.extend_from_slice(b"}\n\n");
        }
        self.write_head("response.output_item.done", out);
        self.push_place(index, false, out);
        out.extend_from_slice(b",\"item\":");
        push_item(&self.items[index], true, out);
        out.extend_from_slice(b"}\n\n");
    }

    fn write_end(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        self.complete(out);
        let status = self.status();
        self.write_head(if status == "completed" { "response.completed" } else { "response.incomplete" }, out);
        out.extend_from_slice(b",\"response\":");
        self.push_response(status, out);
        if let Some(timings) = self.timings {
            out.extend_from_slice(b",\"timings\":");
            push_engine_timings(timings, out);
        }
        out.extend_from_slice(b"}\n\n");
    }

    fn status(&self) -> &'static str {
        match self.finish {
            None | Some(FinishReason::Stop | FinishReason::ToolCalls) => "completed",
            Some(FinishReason::Length | FinishReason::ContentFilter | FinishReason::Other) => "incomplete",
        }
    }

    /// Writes an event up to and including its sequence number.
    fn write_head(&mut self, kind: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(b"\ndata: {\"type\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(b"\",\"sequence_number\":");
        push_number(self.sequence, out);
        self.sequence += 1;
    }

    fn push_place(&self, index: usize, with_id: bool, out: &mut Vec<u8>) {
        if with_id {
            out.extend_from_slice(b",\"item_id\":");
            out.extend_from_slice(&self.items[index].id);
        }
        out.extend_from_slice(b",\"output_index\":");
        push_number(index as u64, out);
    }

    /// The response in a state; its output is shown at its end only.
    fn push_response(&self, status: &str, out: &mut Vec<u8>) {
        out.push(b'{');
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b",\"status\":\"");
        out.extend_from_slice(status.as_bytes());
        out.extend_from_slice(b"\",\"error\":null,\"incomplete_details\":");
        out.extend_from_slice(match self.finish {
            _ if status != "incomplete" => b"null".as_slice(),
            Some(FinishReason::Length) => br#"{"reason":"max_output_tokens"}"#,
            Some(FinishReason::ContentFilter) => br#"{"reason":"content_filter"}"#,
            _ => br#"{"reason":"other"}"#,
        });
        out.extend_from_slice(b",\"output\":[");
        if status != "in_progress" {
            for (index, item) in self.items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                push_item(item, true, out);
            }
        }
        out.extend_from_slice(b"],\"usage\":");
        match self.usage.filter(|_| status != "in_progress") {
            Some(usage) => push_usage(usage, out),
            None => out.extend_from_slice(b"null"),
        }
        out.push(b'}');
    }
}

impl ResponseEncoder for ResponsesEncoder {
    /// Appends the events of a piece. Why the model stopped, the token counts and the times stand in the last event.
    fn encode_event(&mut self, piece: &Piece<'_>, out: &mut Vec<u8>) {
        match *piece {
            Piece::Text { channel, text } => self.write_text(channel, text, out),
            Piece::ToolCall { index, id, name } => self.open_call(index, id, name, out),
            Piece::Role => self.begin(out),
            Piece::Finish(reason) => {
                self.begin(out);
                self.complete(out);
                self.finish = Some(reason);
            }
            Piece::Usage(usage) => self.usage = Some(self.usage.unwrap_or_default().updated_by(usage)),
            Piece::Timings(timings) => self.timings = Some(self.timings.unwrap_or_default().updated_by(timings)),
            // The last event marks the response as complete, which one that failed is not.
            Piece::Done if self.failed => {}
            Piece::Done => self.write_end(out),
            Piece::Failed { message } => {
                self.failed = true;
                self.write_head("error", out);
                out.extend_from_slice(br#","code":"server_error","message":"#);
                push_string(message, out);
                out.extend_from_slice(b",\"param\":null}\n\n");
            }
        }
    }

    /// The response as one JSON body.
    fn encode_whole(&self, answer: &Answer<'_>) -> Vec<u8> {
        let mut writer = self.clone();
        let mut add = |channel: Channel, call: u32, named: Vec<u8>, text: &str| {
            let mut escaped = Vec::with_capacity(text.len());
            push_escaped(text, &mut escaped);
            writer.add(channel, call, named);
            writer.items.last_mut().expect("one was added").text = escaped;
        };
        if !answer.reasoning.is_empty() {
            add(Channel::Reasoning, 0, Vec::new(), answer.reasoning);
        }
        if !answer.answer.is_empty() {
            add(Channel::Answer, 0, Vec::new(), answer.answer);
        }
        for (call, tool) in (0..).zip(answer.tools) {
            add(Channel::Tool, call, named(tool.id, tool.name), tool.arguments);
        }
        writer.finish = Some(answer.finish);
        writer.usage = answer.usage;
        let mut out = Vec::new();
        writer.push_response(writer.status(), &mut out);
        if let Some(timings) = answer.timings {
            out.pop();
            out.extend_from_slice(b",\"timings\":");
            push_engine_timings(timings, &mut out);
            out.push(b'}');
        }
        out
    }

    /// Number of the next event.
    fn next_sequence(&self) -> u64 {
        self.sequence
    }
}

/// The events of each channel's text, and the field that holds it whole.
const TEXTS: [(&str, &str); 3] = [
    ("response.reasoning_text", ",\"text\":\""),
    ("response.output_text", ",\"text\":\""),
    ("response.function_call_arguments", ",\"arguments\":\""),
];

/// Appends the event that ends a failed stream.
pub(super) fn push_error_event(status: u16, message: &str, sequence: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"event: error\ndata: {\"type\":\"error\",\"sequence_number\":");
    push_number(sequence, out);
    out.extend_from_slice(b",\"code\":");
    push_string(error_code(status), out);
    out.extend_from_slice(b",\"message\":");
    push_string(message, out);
    out.extend_from_slice(b",\"param\":null}\n\n");
}

/// The code of an error event.
fn error_code(status: u16) -> &'static str {
    match status {
        429 => "rate_limit_exceeded",
        400..=499 => "invalid_request_error",
        503 => "server_is_overloaded",
        _ => "server_error",
    }
}

fn named(id: &str, name: &str) -> Vec<u8> {
    let mut named = b"\"call_id\":".to_vec();
    push_string(id, &mut named);
    named.extend_from_slice(b",\"name\":");
    push_string(name, &mut named);
    named.push(b',');
    named
}

fn push_item(item: &Item, complete: bool, out: &mut Vec<u8>) {
    let text: &[u8] = if complete { &item.text } else { b"" };
    out.extend_from_slice(b"{\"id\":");
    out.extend_from_slice(&item.id);
    let status: &[u8] = if complete { b"completed" } else { b"in_progress" };
    out.extend_from_slice(b",\"status\":\"");
    out.extend_from_slice(status);
    match item.channel {
        Channel::Reasoning => {
            out.extend_from_slice(br#"","type":"reasoning","summary":[],"content":["#);
            if complete {
                out.extend_from_slice(br#"{"type":"reasoning_text","text":""#);
                out.extend_from_slice(text);
                out.extend_from_slice(b"\"}");
            }
            out.extend_from_slice(b"]}");
        }
        Channel::Answer => {
            out.extend_from_slice(br#"","type":"message","role":"assistant","content":["#);
            if complete {
                push_part(text, out);
            }
            out.extend_from_slice(b"]}");
        }
        Channel::Tool => {
            out.extend_from_slice(br#"","type":"function_call","#);
            out.extend_from_slice(&item.named);
            out.extend_from_slice(b"\"arguments\":\"");
            out.extend_from_slice(text);
            out.extend_from_slice(b"\"}");
        }
    }
}

/// `text` is the inside of a JSON string.
fn push_part(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"type":"output_text","annotations":[],"logprobs":[],"text":""#);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\"}");
}

fn push_usage(usage: Usage, out: &mut Vec<u8>) {
    out.push(b'{');
    let total = usage.input.zip(usage.output).map(|(input, output)| input.saturating_add(output));
    push_count("input_tokens", usage.input, out);
    push_details(
        "input_tokens_details",
        &[("cached_tokens", usage.cached_input), ("cache_write_tokens", usage.cache_write_input)],
        out,
    );
    push_count("output_tokens", usage.output, out);
    push_details("output_tokens_details", &[("reasoning_tokens", usage.reasoning)], out);
    push_count("total_tokens", total, out);
    out.push(b'}');
}

fn push_details(name: &str, counts: &[(&str, Option<u64>)], out: &mut Vec<u8>) {
    if counts.iter().any(|(_, count)| count.is_some()) {
        push_name(name, out);
        out.push(b'{');
        for (name, count) in counts {
            push_count(name, *count, out);
        }
        out.push(b'}');
    }
}

fn push_count(name: &str, count: Option<u64>, out: &mut Vec<u8>) {
    if let Some(count) = count {
        push_name(name, out);
        push_number(count, out);
    }
}

fn push_name(name: &str, out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    push_string(name, out);
    out.push(b':');
}
