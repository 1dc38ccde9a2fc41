//! An upstream's answer, translated into the client's dialect while it comes.
//!
//! Invariant: the bytes written depend on the upstream's bytes alone, not on how they were cut. The finish reason is written
//! once, at the end, and so are the token counts; an answer that breaks off ends with an error and without the mark of a
//! complete one.

use super::call_order::{CallOrder, Step};
use super::collected::{Collected, MAX_WHOLE_BYTES};
use super::error_event::status_of;
use crate::codec::{ResponseFeatures, Shape, StreamPosition, UsageInStream};
use crate::decoder::Decoder;
use crate::dialect::Dialect;
use crate::encoder::{Encoder, encode_error_response};
use crate::response::{Answer, Piece, ToolCall};
use tokrate_core::{Anomaly, Channel, EventBatch, EventKind, FailureKind, FinishReason, Tick, Usage};

/// How far an answer has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// More is to come.
    Open,
    /// All of it was written, end mark included.
    Complete,
    /// It failed in that way, and the client got the error.
    Failed(FailureKind),
}

/// Translates one answer.
#[derive(Debug)]
pub struct AnswerTranslator {
    to: Dialect,
    shape: Shape,
    decoder: Decoder,
    encoder: Encoder,
    include_usage: bool,
    /// What the identifiers of calls begin with, for servers that give none.
    call_id_prefix: String,
    calls: CallOrder,
    /// Texts that wait: for the end of a whole answer, or for a call in the middle of its arguments.
    waiting: Vec<(Channel, String)>,
    collected: Collected,
    /// Bytes held in memory.
    held: usize,
    begun: bool,
    finish: Option<FinishReason>,
    usage: Option<Usage>,
    /// The body ended within an event.
    cut: bool,
    progress: Progress,
    /// Why it failed, if it did.
    failure: String,
    /// Whether anything was read that could not be understood.
    is_odd: bool,
    steps: Vec<Step>,
}

impl AnswerTranslator {
    /// A translator at the start of an answer in `from`, for a client of `to` that asked for it in `shape`. To the
    /// client it is the answer `id` of `model`, created at `created` seconds since 1970. `include_usage` says whether the
    /// client asked for token counts in a stream; it matters in OpenAI's older dialects only, the others always send them.
    pub fn new(
        from: Dialect,
        to: Dialect,
        shape: Shape,
        id: &str,
        model: &str,
        created: u64,
        include_usage: bool,
    ) -> AnswerTranslator {
        let asked = if shape == Shape::Whole { Shape::Whole } else { Shape::Stream };
        let letters: Vec<char> = id.chars().filter(char::is_ascii_alphanumeric).collect();
        let suffix: String = letters[letters.len().saturating_sub(24)..].iter().collect();
        AnswerTranslator {
            to,
            shape,
            decoder: Decoder::new(from, asked).with_max_event_bytes(MAX_WHOLE_BYTES),
            encoder: Encoder::new(to, shape, id, model, created),
            include_usage,
            call_id_prefix: format!("call_{suffix}"),
            calls: CallOrder::new(!to.descriptor().response.interleaved_tool_calls),
            waiting: Vec::new(),
            collected: Collected::default(),
            held: 0,
            begun: false,
            finish: None,
            usage: None,
            cut: false,
            progress: Progress::Open,
            failure: String::new(),
            is_odd: false,
            steps: Vec::new(),
        }
    }

    /// The upstream was asked for a stream, although the client wants the answer in one piece. To be called before the first
    /// push.
    pub fn with_streamed_upstream(mut self) -> AnswerTranslator {
        self.decoder = Decoder::new(self.decoder.dialect(), Shape::Stream).with_max_event_bytes(MAX_WHOLE_BYTES);
        self
    }

    /// Bytes of the answer that are held in memory until they can be written.
    pub fn held_bytes(&self) -> usize {
        self.held + self.decoder.held_bytes()
    }

    /// Whether the upstream's answer came in one piece, whatever it was asked for in.
    pub fn is_whole(&self) -> bool {
        self.decoder.is_whole()
    }

    /// How far the answer has come.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// The kind of failure and its message, if the answer failed.
    pub fn failure(&self) -> Option<(FailureKind, &str)> {
        match self.progress {
            Progress::Failed(kind) => Some((kind, &self.failure)),
            Progress::Open | Progress::Complete => None,
        }
    }

    /// Takes the next bytes of the upstream's body, which arrived at `at`; adds the events in them to `events`, and what the
    /// client is to get for them to `out`. Nothing is written any more once the answer is complete or has failed.
    pub fn push(&mut self, at: Tick, bytes: &[u8], out: &mut Vec<u8>, events: &mut EventBatch) {
        let before = events.events().len();
        self.decoder.push(at, bytes, events);
        self.take(before, events, out);
    }

    /// The upstream's body ended as HTTP prescribes. If the answer is not complete then, it has failed, and
    /// [`AnswerTranslator::progress`] shows it. For a client that wants it whole, `out` gets the answer or, with the status
    /// that [`status_of`] gives, the error.
    pub fn end(&mut self, at: Tick, out: &mut Vec<u8>, events: &mut EventBatch) -> Progress {
        let before = events.events().len();
        self.decoder.end(at, events);
        self.take(before, events, out);
        if self.progress == Progress::Open {
            // Not every dialect has an end mark, and not every server sends it.
            if self.finish.is_some() && !self.cut {
                self.complete(out);
            } else {
                self.fail(FailureKind::Truncated, "the upstream's answer broke off before it was complete", out);
            }
        }
        self.progress
    }

    /// Ends the answer with an error of the gateway's own: the connection broke, a time limit was reached. Nothing is
    /// written if it is complete or has failed already.
    pub fn break_off(&mut self, kind: FailureKind, message: &str, out: &mut Vec<u8>) {
        if self.progress == Progress::Open {
            self.fail(kind, message, out);
        }
    }

    /// What an answer in the client's dialect may carry.
    fn features(&self) -> &'static ResponseFeatures {
        &self.to.descriptor().response
    }

    fn take(&mut self, from: usize, events: &EventBatch, out: &mut Vec<u8>) {
        for event in &events.events()[from..] {
            if self.progress != Progress::Open {
                return;
            }
            self.take_one(event.kind, events, out);
            if self.held > MAX_WHOLE_BYTES {
                self.fail(FailureKind::TooLarge, "the upstream's answer is larger than 32 MiB", out);
            }
        }
    }

    fn take_one(&mut self, what: EventKind, events: &EventBatch, out: &mut Vec<u8>) {
        match what {
            EventKind::Text { channel: Channel::Tool, .. } if self.calls.calls.is_empty() => {
                // Code that the provider runs itself; to the client it would be a call of a tool that it does not have.
                let message =
                    format!("the answer calls a tool of the provider's own, which {} cannot say", self.to.name());
                self.fail(FailureKind::Untranslatable, &message, out);
            }
            EventKind::Text { channel: Channel::Tool, text } => {
                let text = events.text(text);
                self.held += text.len();
                self.calls.text(text, &mut self.steps);
                self.write_calls(out);
            }
            EventKind::Text { channel, text } => self.text(channel, events.text(text), out),
            EventKind::ToolCall { .. } if !self.features().tool_calls => {
                let message = format!("the answer calls a tool, which {} cannot say", self.to.name());
                self.fail(FailureKind::Untranslatable, &message, out);
            }
            EventKind::ToolCall { index, id, name } => {
                let (id, name) = (events.text(id), events.text(name));
                self.held += id.len() + name.len();
                self.calls.open(index, id, name, &mut self.steps);
                self.write_calls(out);
            }
            // No dialect has vectors among its answers.
            EventKind::Opaque
            | EventKind::Items(_)
            | EventKind::Image { .. }
            | EventKind::Sound(_)
            | EventKind::Silence => {
                let message =
                    format!("the answer holds a picture, sound or the like, which {} cannot say", self.to.name());
                self.fail(FailureKind::Untranslatable, &message, out);
            }
            EventKind::Finish(reason) => self.finish = Some(reason),
            EventKind::Usage(usage) => self.usage = Some(self.usage.unwrap_or_default().updated_by(usage)),
            EventKind::Done => self.complete(out),
            EventKind::Failed { kind, message, .. } => {
                let message = events.text(message);
                self.fail(kind, if message.is_empty() { "the upstream's answer failed" } else { message }, out);
            }
            EventKind::Anomaly(Anomaly::EventTooLarge) => {
                self.fail(FailureKind::TooLarge, "an event of the upstream's answer is larger than 32 MiB", out);
            }
            // It may have held any part of the answer: without it the rest may be incomplete.
            EventKind::Anomaly(Anomaly::Unreadable) => {
                self.fail(FailureKind::NotJson, "an event of the upstream's answer cannot be read", out);
            }
            EventKind::Anomaly(Anomaly::UnfinishedEvent) => self.cut = true,
            EventKind::Anomaly(Anomaly::Malformed) => self.is_odd = true,
            EventKind::Anomaly(_)
            | EventKind::Empty
            | EventKind::Model(_)
            | EventKind::Timings(_)
            | EventKind::Unknown { .. } => {}
        }
    }

    fn text(&mut self, channel: Channel, text: &str, out: &mut Vec<u8>) {
        if channel == Channel::Reasoning && !self.features().reasoning {
            // Reasoning is not part of the text that was asked for.
            return;
        }
        if self.shape == Shape::Whole {
            self.held += text.len();
            return self.collected.push(channel, text);
        }
        if self.calls.blocks() {
            self.held += text.len();
            return self.waiting.push((channel, text.to_owned()));
        }
        self.write_text(channel, text, out);
    }

    fn write_text(&mut self, channel: Channel, text: &str, out: &mut Vec<u8>) {
        self.calls.close();
        self.begin(out);
        self.encoder.encode_event(&Piece::Text { channel, text }, out);
    }

    /// Writes what is known of the calls by now, and then the texts that waited for that.
    fn write_calls(&mut self, out: &mut Vec<u8>) {
        let steps = std::mem::take(&mut self.steps);
        if self.calls.overran() {
            return self.fail(FailureKind::Protocol, "the arguments of a tool call went on behind their end", out);
        }
        if self.shape != Shape::Whole {
            for step in &steps {
                self.begin(out);
                self.write_step(step, out);
            }
        }
        self.steps = steps;
        self.steps.clear();
        if !self.waiting.is_empty() && !self.calls.blocks() {
            for (channel, text) in std::mem::take(&mut self.waiting) {
                self.write_text(channel, &text, out);
            }
        }
    }

    fn write_step(&mut self, step: &Step, out: &mut Vec<u8>) {
        let (Step::Open(index) | Step::Return(index) | Step::Text(index, _)) = *step;
        let call = &self.calls.calls[index];
        let ordinal = u32::try_from(index).unwrap_or(u32::MAX);
        let generated = if call.id.is_empty() { format!("{}_{index}", self.call_id_prefix) } else { String::new() };
        let piece = match step {
            Step::Open(_) => {
                let id = if call.id.is_empty() { &generated } else { &call.id };
                Piece::ToolCall { index: ordinal, id, name: &call.name }
            }
            Step::Return(_) => Piece::ToolCall { index: ordinal, id: "", name: "" },
            Step::Text(_, range) => Piece::Text { channel: Channel::Tool, text: &call.arguments[range.clone()] },
        };
        self.encoder.encode_event(&piece, out);
    }

    /// Writes the opening event, unless that was done. Token counts that are known by now stand in it, where it has a place
    /// for them.
    fn begin(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        if let Some(usage) = self.usage.filter(|_| self.features().usage == UsageInStream::OpeningAndEnd) {
            self.encoder.encode_event(&Piece::Usage(Usage { output: None, ..usage }), out);
        }
        self.encoder.encode_event(&Piece::Role, out);
    }

    fn complete(&mut self, out: &mut Vec<u8>) {
        self.calls.flush(&mut self.steps);
        self.write_calls(out);
        if self.progress != Progress::Open {
            return;
        }
        let is_empty = !self.begun && self.calls.calls.is_empty() && self.collected.is_empty();
        if is_empty && self.finish.is_none() {
            // An end mark alone is no answer.
            let kind = if self.is_odd { FailureKind::NotJson } else { FailureKind::Empty };
            return self.fail(kind, "the upstream's answer ended without any content", out);
        }
        let finish = self.finish_reason();
        if self.shape == Shape::Whole {
            self.write_whole(finish, out);
        } else {
            self.begin(out);
            self.write_end(finish, out);
        }
        self.progress = Progress::Complete;
    }

    fn write_end(&mut self, finish: FinishReason, out: &mut Vec<u8>) {
        let usage = self.usage_to_write().map(Piece::Usage);
        let finish = Some(Piece::Finish(finish));
        // Where one event holds both, the counts must be known by then; elsewhere they come last.
        let together = self.features().usage == UsageInStream::OpeningAndEnd;
        let pieces = if together { [usage, finish] } else { [finish, usage] };
        for piece in pieces.into_iter().flatten() {
            self.encoder.encode_event(&piece, out);
        }
        self.encoder.encode_event(&Piece::Done, out);
    }

    fn write_whole(&mut self, finish: FinishReason, out: &mut Vec<u8>) {
        let ids: Vec<String> =
            (0..self.calls.calls.len()).map(|index| format!("{}_{index}", self.call_id_prefix)).collect();
        let tools: Vec<ToolCall<'_>> = self
            .calls
            .calls
            .iter()
            .zip(&ids)
            .map(|(call, generated)| ToolCall {
                id: if call.id.is_empty() { generated } else { &call.id },
                name: &call.name,
                arguments: &call.arguments,
            })
            .collect();
        out.extend_from_slice(&self.encoder.encode_whole(&Answer {
            reasoning: &self.collected.reasoning,
            answer: &self.collected.answer,
            tools: &tools,
            finish,
            usage: self.usage_to_write(),
            timings: None,
        }));
    }

    /// The token counts, if the client is to get them.
    fn usage_to_write(&self) -> Option<Usage> {
        let reported = self.features().usage;
        if reported == UsageInStream::OnRequest && self.shape != Shape::Whole && !self.include_usage {
            return None;
        }
        // Clients read both counts without looking whether they are there.
        let needed = (reported == UsageInStream::OpeningAndEnd).then(Usage::default);
        let usage = self.usage.or(needed)?;
        Some(match needed {
            Some(_) => Usage { input: usage.input.or(Some(0)), output: usage.output.or(Some(0)), ..usage },
            None => usage,
        })
    }

    /// The finish reason in the client's dialect.
    fn finish_reason(&self) -> FinishReason {
        let called = !self.calls.calls.is_empty();
        match self.finish {
            // Not every server calls that a reason of its own.
            None | Some(FinishReason::Stop) if called => FinishReason::ToolCalls,
            None => FinishReason::Stop,
            // The others have no name for it, and their clients fail on names that they do not know.
            Some(FinishReason::Other) if !self.features().other_finish_reason => FinishReason::Stop,
            Some(reason) => reason,
        }
    }

    fn fail(&mut self, kind: FailureKind, message: &str, out: &mut Vec<u8>) {
        if self.shape == Shape::Whole {
            out.extend_from_slice(&encode_error_response(self.to, status_of(kind), message));
        } else {
            let position = StreamPosition { begun: self.begun, sequence: self.encoder.next_sequence() };
            (self.to.codec().push_error_event)(self.shape, status_of(kind), message, position, out);
        }
        self.progress = Progress::Failed(kind);
        self.failure = message.to_owned();
    }
}
