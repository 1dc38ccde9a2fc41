//! Measures one stream in bounded memory while it is forwarded.
//!
//! Invariant: the results equal those of [`crate::RequestMeter`] and [`crate::RequestNumbers`]; quantiles of gaps have a
//! stated error.

mod token_counter;

use crate::gaps::GapCounts;
use crate::request::{Ending, Failure, StreamMetadata, StreamTimes, Timing};
use crate::stream::StreamNumbers;
use std::borrow::Cow;
use token_counter::{TokenCount, TokenCounter};
use tokrate_core::{Channel, EventBatch, Span, Tick, Usage};
use tokrate_tokens::Encoding;

/// Measures one stream while it is forwarded. Takes at most 2 KiB however long the answer is, as long as there is a word
/// break or a sign now and then; a stretch of text without one adds its own length, up to 16 KiB.
#[derive(Clone, Debug)]
pub struct LiveMeter {
    metadata: StreamMetadata,
    token_counter: Option<TokenCounter>,
    first_text_at: Option<Tick>,
    first_answer_at: Option<Tick>,
    last_text_at: Tick,
    text_bytes: u64,
    text_events: u64,
    chunks: u64,
    gaps: GapCounts,
    longest_gap: Span,
    last_gap: Span,
}

impl LiveMeter {
    /// The tokenizer of its counts.
    pub const ENCODING: Encoding = Encoding::O200kBase;

    /// A meter that has seen nothing; it counts o200k_base tokens.
    pub fn new() -> LiveMeter {
        LiveMeter { token_counter: Some(TokenCounter::new(LiveMeter::ENCODING)), ..LiveMeter::without_tokens() }
    }

    /// The same without counting tokens, so that there is no output speed either.
    pub fn without_tokens() -> LiveMeter {
        LiveMeter {
            metadata: StreamMetadata::default(),
            token_counter: None,
            first_text_at: None,
            first_answer_at: None,
            last_text_at: Tick::ZERO,
            text_bytes: 0,
            text_events: 0,
            chunks: 0,
            gaps: GapCounts::EMPTY,
            longest_gap: Span::ZERO,
            last_gap: Span::ZERO,
        }
    }

    /// Processes the events of one read.
    #[inline]
    pub fn on(&mut self, batch: &EventBatch) {
        for event in batch.events() {
            let has_text = self.first_text_at.is_some();
            if let Some((channel, text)) = self.metadata.on(event, batch, has_text)
                && !text.is_empty()
            {
                self.on_text(event.at, channel, text);
            }
        }
    }

    /// When the first text arrived.
    pub fn first_text_at(&self) -> Option<Tick> {
        self.first_text_at
    }

    /// When the last text arrived.
    pub fn last_text_at(&self) -> Option<Tick> {
        self.first_text_at.map(|_| self.last_text_at)
    }

    /// True once the dialect's end mark was seen.
    pub fn is_done(&self) -> bool {
        self.metadata.done_at.is_some()
    }

    /// Token counts as far as the provider has reported them.
    pub fn usage(&self) -> Option<Usage> {
        self.metadata.usage
    }

    /// The failure that the stream itself has reported so far.
    pub fn failure(&self) -> Option<&Failure> {
        self.metadata.failure.as_ref()
    }

    /// Derives the outcome, as [`crate::RequestMeter::finish`] does, and computes the figures.
    pub fn finish(mut self, timing: &Timing, ending: Ending) -> StreamNumbers {
        self.metadata.close(ending, self.first_text_at.is_some());
        let last_text_at = self.last_text_at();
        let counted = self.token_counter.map(TokenCounter::finish);
        let uncounted = TokenCount { tokens: 0, of_first_chunk: 0, of_last_chunk: 0, exact: true };
        let TokenCount { tokens, of_first_chunk, of_last_chunk, exact } = counted.unwrap_or(uncounted);
        let times = StreamTimes {
            sent_at: timing.sent_at,
            first_text_at: self.first_text_at,
            first_answer_at: self.first_answer_at,
            last_text_at,
            text_events: self.text_events,
            chunks: self.chunks,
            tokens: counted.map(|_| tokens),
            tokens_first_chunk: of_first_chunk,
            tokens_last_chunk: of_last_chunk,
            last_gap: self.last_gap,
        };
        let speed = times.speed();
        let gaps = self.gaps.sketch();
        StreamNumbers {
            ttfb_ns: times.since_sent(timing.first_byte_at),
            ttft_ns: times.since_sent(times.first_text_at),
            ttft_missing: None,
            ttfat_ns: times.since_sent(times.first_answer_at),
            output_speed: speed.ok(),
            output_speed_missing: speed.err().map(|why| Cow::Borrowed(why.reason())),
            text_events: self.text_events,
            chunks: self.chunks,
            gap_max_ns: (!gaps.is_empty()).then_some(self.longest_gap.as_nanos()),
            gaps,
            tokens_std: tokens,
            tokens_first_chunk: of_first_chunk,
            tokens_exact: exact,
            usage: self.metadata.usage.unwrap_or_default(),
            finish: self.metadata.finish,
            model: self.metadata.model,
            model_changes: self.metadata.model_changes,
            anomalies: self.metadata.anomalies,
            failure: self.metadata.failure,
        }
    }

    #[inline]
    fn on_text(&mut self, at: Tick, channel: Channel, text: &str) {
        // The bound of RequestMeter, so that both agree.
        let text_bytes = self.text_bytes + text.len() as u64;
        if text_bytes > u64::from(u32::MAX) {
            self.metadata.fail_too_large();
            return;
        }
        self.text_bytes = text_bytes;
        self.text_events += 1;
        // If the clock runs backwards, no gap is recorded.
        let at = at.max(self.last_text_at);
        let first = match self.first_text_at {
            None => {
                self.first_text_at = Some(at);
                self.chunks = 1;
                true
            }
            Some(_) if at > self.last_text_at => {
                let gap = at - self.last_text_at;
                self.gaps.record(gap.as_nanos());
                self.longest_gap = self.longest_gap.max(gap);
                self.last_gap = gap;
                self.chunks += 1;
                if let Some(token_counter) = &mut self.token_counter {
                    token_counter.begin_chunk();
                }
                false
            }
            Some(_) => self.chunks == 1,
        };
        self.last_text_at = at;
        if channel != Channel::Reasoning {
            self.first_answer_at.get_or_insert(at);
        }
        if let Some(token_counter) = &mut self.token_counter {
            token_counter.push(channel, text, first);
        }
    }
}

impl Default for LiveMeter {
    fn default() -> LiveMeter {
        LiveMeter::new()
    }
}

#[cfg(test)]
mod tests;
