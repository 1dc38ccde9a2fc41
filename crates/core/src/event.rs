//! What a stream says, one event at a time, with the tick at which its bytes arrived.
//!
//! It refuses to know how a dialect spells these events on the wire.
//! Invariant: events of one read share one tick; text is stored once, in the batch's arena, in order of arrival.

use crate::{BilledTokens, FailureKind, Span, Tick};

/// One thing that an answer said, stamped with the read that completed it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StreamEvent {
    /// When the read that completed this event returned.
    pub at: Tick,
    /// What was said.
    pub what: What,
}

/// The kinds of event that a decoder can report.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum What {
    /// A chunk that carries no text: a role, an empty delta, a keep-alive. Never counts as first text.
    Empty,
    /// Non-empty output text on one channel; the bytes lie in the batch.
    Text {
        /// Which of the answer's texts it belongs to.
        channel: Channel,
        /// Where its bytes lie in [`EventBatch::text`].
        text: TextRange,
    },
    /// Output that is no text and whose tokens nobody can count: a picture, sound, a call of a kind that only the dialect has.
    Opaque,
    /// A tool call begins, or the stream goes back to one that began earlier. The tool text that follows belongs to it.
    ToolCall {
        /// Which call of the answer, from 0.
        index: u32,
        /// The call's identifier, if the event carries it.
        id: TextRange,
        /// The tool's name, if the event carries it. It is output text as well ([`Channel::Tool`]), and not said twice.
        name: TextRange,
    },
    /// The model that the answer names.
    Model(TextRange),
    /// Token counts as the provider reports them; of each count the last one seen wins.
    Usage(Usage),
    /// Times that the server itself took, to be found with [`EventBatch::timings`].
    Timings(u32),
    /// A top-level field that the dialect does not prescribe; said only by decoders that are asked to.
    Unknown {
        /// Its name.
        name: TextRange,
        /// Its value as JSON.
        json: TextRange,
    },
    /// The model stopped, and says why.
    Finish(FinishReason),
    /// The dialect's own end mark (`data: [DONE]`), or a complete whole answer.
    Done,
    /// The stream itself reported an error; the message lies in the batch.
    Failed {
        /// What kind of failure it is.
        kind: FailureKind,
        /// Where its message lies in [`EventBatch::text`].
        message: TextRange,
        /// How long the provider asks to wait, if it says so.
        retry_after: Option<Span>,
    },
    /// Something that does not fit the dialect, survived and counted.
    Odd(Oddity),
}

/// The texts of an answer. All of them are output tokens; they are kept apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Channel {
    /// Thinking text shown before or between the answer.
    Reasoning,
    /// The answer itself (refusals included).
    Answer,
    /// Arguments of tool calls; their names stand in [`What::ToolCall`].
    Tool,
}

/// A span of bytes in a batch's text arena.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TextRange {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl TextRange {
    /// Length in bytes.
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// True when the range holds no byte.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// Times that a server measured itself and sent along with an answer. What it does not say is `None`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ServerTimings {
    /// Waiting before the prompt was read.
    pub queue: Option<Span>,
    /// Loading the model.
    pub load: Option<Span>,
    /// Reading the prompt.
    pub prefill: Option<Span>,
    /// Writing the answer.
    pub decode: Option<Span>,
    /// All of it.
    pub total: Option<Span>,
    /// Prompt tokens that were read during `prefill` (those from a cache left out, where the server leaves them out).
    pub prefill_tokens: Option<u64>,
    /// Tokens that were written during `decode`.
    pub decode_tokens: Option<u64>,
}

/// Token counts as a provider reports them, brought to one meaning whatever the dialect counts together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Usage {
    /// Prompt tokens, those from a cache and those written to one included.
    pub input: Option<u64>,
    /// Output tokens, reasoning included.
    pub output: Option<u64>,
    /// Those of `output` that were reasoning.
    pub reasoning: Option<u64>,
    /// Those of `input` that came from a cache.
    pub cached_input: Option<u64>,
    /// Those of `input` that were written to a cache, where that costs extra.
    pub cache_write_input: Option<u64>,
}

/// More tokens than this are no count of one answer's: ten times the longest context that is sold (10 million, Llama 4 Scout).
const TOKENS_MOST: u64 = 100_000_000;

impl Usage {
    /// The same without counts that no answer can have: money is reckoned by them.
    pub fn possible(self) -> Usage {
        let possible = |count: Option<u64>| count.filter(|&count| count <= TOKENS_MOST);
        // No part of a prompt is longer than the prompt.
        let part = |count: Option<u64>| possible(count).filter(|&count| self.input.is_none_or(|input| count <= input));
        Usage {
            input: possible(self.input),
            output: possible(self.output),
            reasoning: possible(self.reasoning),
            cached_input: part(self.cached_input),
            cache_write_input: part(self.cache_write_input),
        }
    }

    /// What is billed; `None` unless prompt and answer are both counted.
    pub fn billed(&self) -> Option<BilledTokens> {
        let (cached_input, cache_write) = (self.cached_input.unwrap_or(0), self.cache_write_input.unwrap_or(0));
        Some(BilledTokens { input: self.input?, output: self.output?, cached_input, cache_write })
    }

    /// The counts of `later`, and those of `self` where `later` says nothing.
    pub fn updated_by(self, later: Usage) -> Usage {
        Usage {
            input: later.input.or(self.input),
            output: later.output.or(self.output),
            reasoning: later.reasoning.or(self.reasoning),
            cached_input: later.cached_input.or(self.cached_input),
            cache_write_input: later.cache_write_input.or(self.cache_write_input),
        }
    }
}

impl ServerTimings {
    /// The times of `later`, and those of `self` where `later` says nothing.
    pub fn updated_by(self, later: ServerTimings) -> ServerTimings {
        ServerTimings {
            queue: later.queue.or(self.queue),
            load: later.load.or(self.load),
            prefill: later.prefill.or(self.prefill),
            decode: later.decode.or(self.decode),
            total: later.total.or(self.total),
            prefill_tokens: later.prefill_tokens.or(self.prefill_tokens),
            decode_tokens: later.decode_tokens.or(self.decode_tokens),
        }
    }
}

/// Why the model stopped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FinishReason {
    /// It was done.
    Stop,
    /// The output limit was reached.
    Length,
    /// It calls tools.
    ToolCalls,
    /// A content filter cut it off.
    ContentFilter,
    /// A reason outside this list.
    Other,
}

/// Deviations from the dialect that do not end the stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Oddity {
    /// An event of an unknown shape, or with a field of a wrong type, which is left out.
    Malformed,
    /// An event over the size limit; its bytes were skipped.
    EventTooLarge,
    /// Bytes that are not UTF-8, replaced by U+FFFD.
    InvalidUtf8,
    /// Text after the finish reason or after the end mark.
    AfterFinish,
    /// A second choice (`index` other than 0); its text is not measured.
    ExtraChoice,
    /// The body ended inside an event; the part was decoded as if it had been ended.
    UnfinishedEvent,
    /// The stream ended without the dialect's end mark, but after a finish reason.
    MissingDone,
    /// A usage block whose numbers do not fit together.
    ImplausibleUsage,
    /// An event, or a whole body, that is no JSON or no object: what it was to say is lost.
    Unreadable,
}

impl Oddity {
    /// Every oddity, in the order of its index.
    pub const ALL: [Oddity; 9] = [
        Oddity::Malformed,
        Oddity::EventTooLarge,
        Oddity::InvalidUtf8,
        Oddity::AfterFinish,
        Oddity::ExtraChoice,
        Oddity::UnfinishedEvent,
        Oddity::MissingDone,
        Oddity::ImplausibleUsage,
        Oddity::Unreadable,
    ];

    /// The name used in records and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Oddity::Malformed => "malformed_event",
            Oddity::EventTooLarge => "event_too_large",
            Oddity::InvalidUtf8 => "invalid_utf8",
            Oddity::AfterFinish => "text_after_finish",
            Oddity::ExtraChoice => "extra_choice",
            Oddity::UnfinishedEvent => "unfinished_event",
            Oddity::MissingDone => "missing_done",
            Oddity::ImplausibleUsage => "implausible_usage",
            Oddity::Unreadable => "unreadable_event",
        }
    }
}

impl FinishReason {
    /// The name used in records and tables.
    pub const fn name(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::ToolCalls => "tool_calls",
            FinishReason::ContentFilter => "content_filter",
            FinishReason::Other => "other",
        }
    }
}

/// Events of one or more reads with the text they refer to. Reused from read to read, so that a delta costs no
/// allocation.
#[derive(Clone, Debug, Default)]
pub struct EventBatch {
    events: Vec<StreamEvent>,
    text: String,
    /// Rare and large, so that they do not make every event larger.
    timings: Vec<ServerTimings>,
}

impl EventBatch {
    /// An empty batch.
    pub fn new() -> EventBatch {
        EventBatch::default()
    }

    /// Forgets all events and text, keeping the allocations.
    pub fn clear(&mut self) {
        self.events.clear();
        self.text.clear();
        self.timings.clear();
    }

    /// Adds an event that carries no text.
    pub fn push(&mut self, at: Tick, what: What) {
        self.events.push(StreamEvent { at, what });
    }

    /// Adds output text; nothing is added for the empty text.
    pub fn push_text(&mut self, at: Tick, channel: Channel, text: &str) {
        if !text.is_empty() {
            let text = self.store(text);
            self.push(at, What::Text { channel, text });
        }
    }

    /// Adds the server's own times.
    pub fn push_timings(&mut self, at: Tick, timings: ServerTimings) {
        let index = u32::try_from(self.timings.len()).expect("a batch is cleared between reads");
        self.timings.push(timings);
        self.push(at, What::Timings(index));
    }

    /// The times that a [`What::Timings`] refers to.
    pub fn timings(&self, index: u32) -> ServerTimings {
        self.timings[index as usize]
    }

    /// Copies text into the arena and says where it lies.
    pub fn store(&mut self, text: &str) -> TextRange {
        let start = self.text.len();
        self.text.push_str(text);
        let bound = |offset: usize| u32::try_from(offset).expect("a batch is cleared between reads, far below 4 GiB");
        TextRange { start: bound(start), end: bound(self.text.len()) }
    }

    /// The arena, for decoders that unescape text straight into it; see [`EventBatch::push_stored`].
    pub fn arena(&mut self) -> &mut String {
        &mut self.text
    }

    /// Adds output text that was just appended to the arena, from byte `start` on.
    pub fn push_stored(&mut self, at: Tick, channel: Channel, start: usize) {
        let bound = |offset: usize| u32::try_from(offset).expect("a batch is cleared between reads, far below 4 GiB");
        let text = TextRange { start: bound(start), end: bound(self.text.len()) };
        if !text.is_empty() {
            self.push(at, What::Text { channel, text });
        }
    }

    /// All events, in order.
    pub fn events(&self) -> &[StreamEvent] {
        &self.events
    }

    /// The text that a range refers to.
    pub fn text(&self, range: TextRange) -> &str {
        &self.text[range.start as usize..range.end as usize]
    }

    /// True when there is no event.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
}
