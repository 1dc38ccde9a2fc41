//! The events of a response stream, with the tick at which their bytes arrived, independent of the wire dialect.
//!
//! Invariant: events of one read share one tick; text is stored once, in the arena of the batch, in order of arrival.

use crate::{BilledTokens, FailureKind, Span, Tick};

/// One event of an answer, stamped with the read that completed it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StreamEvent {
    /// When the read that completed this event returned.
    pub at: Tick,
    /// The content.
    pub kind: EventKind,
}

/// The kinds of event that a decoder can report.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum EventKind {
    /// A chunk that carries no text: a role, an empty delta, a keep-alive. Never counts as first text.
    Empty,
    /// Non-empty output text on one channel; the bytes lie in the batch.
    Text {
        /// The channel of the text.
        channel: Channel,
        /// Where its bytes lie in [`EventBatch::text`].
        text: TextRange,
    },
    /// Output other than text, whose tokens cannot be counted: an image, audio, or a call type specific to the dialect.
    Opaque,
    /// So many results that are no text: vectors of texts, or their scores.
    Items(u32),
    /// An image.
    Image {
        /// Its pixels; 0 where its size is not known.
        pixels: u64,
        /// Whether it is not yet done.
        is_partial: bool,
    },
    /// Sound that can be played.
    Sound(SoundPiece),
    /// The answer may be whole although it holds no text: the transcript of silence.
    Silence,
    /// A tool call begins, or the stream returns to an earlier one. The tool text that follows belongs to it.
    ToolCall {
        /// Which call of the answer, from 0.
        index: u32,
        /// The call's identifier, if the event carries it.
        id: TextRange,
        /// The tool's name, if the event carries it. It is output text too ([`Channel::Tool`]), but not emitted twice.
        name: TextRange,
    },
    /// The model named by the answer.
    Model(TextRange),
    /// Token counts reported by the provider; the last value of each count wins.
    Usage(Usage),
    /// Timings reported by the server, to be looked up with [`EventBatch::timings`].
    Timings(u32),
    /// A top-level field that the dialect does not define; only emitted by decoders that are configured to.
    Unknown {
        /// Its name.
        name: TextRange,
        /// Its value as JSON.
        json: TextRange,
    },
    /// The model stopped, with its reason.
    Finish(FinishReason),
    /// The end marker of the dialect (`data: [DONE]`), or a complete non-streamed answer.
    Done,
    /// The stream itself reported an error; the message lies in the batch.
    Failed {
        /// What kind of failure it is.
        kind: FailureKind,
        /// Where its message lies in [`EventBatch::text`].
        message: TextRange,
        /// The retry-after time, if given.
        retry_after: Option<Span>,
    },
    /// A tolerated deviation from the dialect, which is counted.
    Anomaly(Anomaly),
}

/// Sound of one read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SoundPiece {
    /// How it is written, as its bytes show it.
    pub format: SoundFormat,
    /// Bytes of sound, heads of files left out.
    pub bytes: u32,
    /// How long everything plays that came up to now, this piece included; `None` if the bytes do not say.
    pub plays: Option<Span>,
}

/// How sound is written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SoundFormat {
    /// Samples of 16 bits on one channel, without a head.
    Pcm,
    /// RIFF WAVE.
    Wav,
    /// MPEG audio, layers II and III.
    Mp3,
    /// Opus in Ogg.
    Opus,
    /// FLAC.
    Flac,
    /// AAC with ADTS heads.
    Aac,
    /// None of these.
    Other,
}

/// The channels of an answer. All of them are output tokens, counted separately.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Channel {
    /// Reasoning shown before or within the answer.
    Reasoning,
    /// The answer itself (refusals included).
    Answer,
    /// Arguments of tool calls; their names are in [`EventKind::ToolCall`].
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

/// Texts of one tick and channel that follow each other in a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextRun {
    /// When they arrived.
    pub at: Tick,
    /// Their channel.
    pub channel: Channel,
    /// Where they lie, one behind the other.
    pub text: TextRange,
    /// How many events they are.
    pub events: u16,
}

/// Timings measured and reported by the server. Missing ones are `None`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ServerTimings {
    /// Queueing before prefill.
    pub queue: Option<Span>,
    /// Loading the model.
    pub load: Option<Span>,
    /// Prefill.
    pub prefill: Option<Span>,
    /// Decoding.
    pub decode: Option<Span>,
    /// Total.
    pub total: Option<Span>,
    /// Prompt tokens processed during `prefill` (without cached ones, if the server excludes them).
    pub prefill_tokens: Option<u64>,
    /// Tokens generated during `decode`.
    pub decode_tokens: Option<u64>,
}

/// Token counts reported by a provider, normalised across dialects.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Usage {
    /// Prompt tokens, including those read from or written to a cache.
    pub input: Option<u64>,
    /// Output tokens, reasoning included.
    pub output: Option<u64>,
    /// Reasoning tokens, part of `output`.
    pub reasoning: Option<u64>,
    /// Cached tokens, part of `input`.
    pub cached_input: Option<u64>,
    /// Tokens written to a cache, part of `input`, where they cost extra.
    pub cache_write_input: Option<u64>,
}

/// Higher counts cannot belong to one answer: ten times the longest context on offer (10 million, Llama 4 Scout).
const MAX_PLAUSIBLE_TOKENS: u64 = 100_000_000;

impl SoundFormat {
    /// The formats that can be asked for.
    pub const ALL: [SoundFormat; 6] =
        [SoundFormat::Pcm, SoundFormat::Wav, SoundFormat::Mp3, SoundFormat::Opus, SoundFormat::Flac, SoundFormat::Aac];

    /// The name that requests use.
    pub const fn name(self) -> &'static str {
        match self {
            SoundFormat::Pcm => "pcm",
            SoundFormat::Wav => "wav",
            SoundFormat::Mp3 => "mp3",
            SoundFormat::Opus => "opus",
            SoundFormat::Flac => "flac",
            SoundFormat::Aac => "aac",
            SoundFormat::Other => "other",
        }
    }

    /// What it is, in words.
    pub const fn words(self) -> &'static str {
        match self {
            SoundFormat::Pcm => "Samples of 16 bits on one channel",
            SoundFormat::Wav => "RIFF WAVE",
            SoundFormat::Mp3 => "MPEG audio",
            SoundFormat::Opus => "Opus in Ogg",
            SoundFormat::Flac => "FLAC",
            SoundFormat::Aac => "AAC with ADTS heads",
            SoundFormat::Other => "Something else",
        }
    }
}

impl Usage {
    /// Drops implausible counts, because money is computed from them.
    pub fn plausible(self) -> Usage {
        let plausible = |count: Option<u64>| count.filter(|&count| count <= MAX_PLAUSIBLE_TOKENS);
        // No part of a prompt is longer than the prompt.
        let part = |count: Option<u64>| plausible(count).filter(|&count| self.input.is_none_or(|input| count <= input));
        Usage {
            input: plausible(self.input),
            output: plausible(self.output),
            reasoning: plausible(self.reasoning),
            cached_input: part(self.cached_input),
            cache_write_input: part(self.cache_write_input),
        }
    }

    /// The billed tokens; `None` unless both prompt and answer are counted.
    pub fn billed(&self) -> Option<BilledTokens> {
        let (cached_input, cache_write) = (self.cached_input.unwrap_or(0), self.cache_write_input.unwrap_or(0));
        Some(BilledTokens { input: self.input?, output: self.output?, cached_input, cache_write })
    }

    /// The counts of `later`, falling back to those of `self`.
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
    /// The timings of `later`, falling back to those of `self`.
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
    /// The answer is complete.
    Stop,
    /// The output limit was reached.
    Length,
    /// It calls tools.
    ToolCalls,
    /// A content filter cut it off.
    ContentFilter,
    /// Any other reason.
    Other,
}

/// Deviations from the dialect that do not end the stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Anomaly {
    /// An event of unknown shape or with a field of a wrong type, which is skipped.
    Malformed,
    /// An event over the size limit; its bytes were skipped.
    EventTooLarge,
    /// Bytes that are not UTF-8, replaced by U+FFFD.
    InvalidUtf8,
    /// Text after the finish reason or after the end mark.
    AfterFinish,
    /// A second choice (`index` other than 0); its text is not measured.
    ExtraChoice,
    /// The body ended inside an event; the partial event was decoded as if complete.
    UnfinishedEvent,
    /// The stream ended without the end marker of the dialect, but after a finish reason.
    MissingDone,
    /// A usage block with inconsistent numbers.
    ImplausibleUsage,
    /// An event or body that is no JSON object; its content is lost.
    Unreadable,
}

impl Anomaly {
    /// Every anomaly, in the order of its index.
    pub const ALL: [Anomaly; 9] = [
        Anomaly::Malformed,
        Anomaly::EventTooLarge,
        Anomaly::InvalidUtf8,
        Anomaly::AfterFinish,
        Anomaly::ExtraChoice,
        Anomaly::UnfinishedEvent,
        Anomaly::MissingDone,
        Anomaly::ImplausibleUsage,
        Anomaly::Unreadable,
    ];

    /// The name used in records and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Anomaly::Malformed => "malformed_event",
            Anomaly::EventTooLarge => "event_too_large",
            Anomaly::InvalidUtf8 => "invalid_utf8",
            Anomaly::AfterFinish => "text_after_finish",
            Anomaly::ExtraChoice => "extra_choice",
            Anomaly::UnfinishedEvent => "unfinished_event",
            Anomaly::MissingDone => "missing_done",
            Anomaly::ImplausibleUsage => "implausible_usage",
            Anomaly::Unreadable => "unreadable_event",
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

/// Events of one or more reads and the text they refer to. Reused from read to read, so that an event costs no
/// allocation.
#[derive(Clone, Debug, Default)]
pub struct EventBatch {
    events: Vec<StreamEvent>,
    text: String,
    /// Stored apart because they are rare and large.
    timings: Vec<ServerTimings>,
}

impl EventBatch {
    /// An empty batch.
    pub fn new() -> EventBatch {
        EventBatch::default()
    }

    /// Removes all events and text but keeps the allocations.
    pub fn clear(&mut self) {
        self.events.clear();
        self.text.clear();
        self.timings.clear();
    }

    /// Adds an event that carries no text.
    pub fn push(&mut self, at: Tick, kind: EventKind) {
        self.events.push(StreamEvent { at, kind });
    }

    /// Adds output text; empty text is ignored.
    pub fn push_text(&mut self, at: Tick, channel: Channel, text: &str) {
        if !text.is_empty() {
            let text = self.store(text);
            self.push(at, EventKind::Text { channel, text });
        }
    }

    /// Adds timings reported by the server.
    pub fn push_timings(&mut self, at: Tick, timings: ServerTimings) {
        let index = u32::try_from(self.timings.len()).expect("a batch is cleared between reads");
        self.timings.push(timings);
        self.push(at, EventKind::Timings(index));
    }

    /// The timings that a [`EventKind::Timings`] refers to.
    pub fn timings(&self, index: u32) -> ServerTimings {
        self.timings[index as usize]
    }

    /// Copies text into the arena and returns its range.
    pub fn store(&mut self, text: &str) -> TextRange {
        let start = self.text.len();
        self.text.push_str(text);
        let bound = |offset: usize| u32::try_from(offset).expect("a batch is cleared between reads, far below 4 GiB");
        TextRange { start: bound(start), end: bound(self.text.len()) }
    }

    /// The arena, for decoders that unescape directly into it; see [`EventBatch::push_stored`].
    pub fn arena(&mut self) -> &mut String {
        &mut self.text
    }

    /// Adds output text that was just appended to the arena, from byte `start` on.
    pub fn push_stored(&mut self, at: Tick, channel: Channel, start: usize) {
        let bound = |offset: usize| u32::try_from(offset).expect("a batch is cleared between reads, far below 4 GiB");
        let text = TextRange { start: bound(start), end: bound(self.text.len()) };
        if !text.is_empty() {
            self.push(at, EventKind::Text { channel, text });
        }
    }

    /// The texts from the event with number `first` on that lie one behind the other on one channel at one tick; `None` if that is no text.
    /// Whoever keeps texts takes those of a read at once.
    #[inline]
    pub fn text_run(&self, first: usize) -> Option<TextRun> {
        let events = self.events.get(first..)?;
        let &StreamEvent { at, kind: EventKind::Text { channel, text } } = events.first()? else { return None };
        let mut run = TextRun { at, channel, text, events: 1 };
        for event in &events[1..] {
            let EventKind::Text { channel, text } = event.kind else { break };
            let is_next = text.start == run.text.end && channel == run.channel && event.at == at;
            if !is_next || text.is_empty() || run.events == u16::MAX {
                break;
            }
            run.text.end = text.end;
            run.events += 1;
        }
        Some(run)
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
