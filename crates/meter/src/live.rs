//! Measures one stream in bounded memory while it is forwarded.
//!
//! Invariant: the results equal those of [`crate::RequestMeter`] and [`crate::RequestNumbers`]; quantiles of gaps have a
//! stated error.

mod gaps;
mod token_counter;

pub use gaps::GapSketch;

use crate::request::{Anomalies, Ending, Failure, NoSpeedReason, SpeedInput, StreamMetadata, Timing};
use gaps::GapCounts;
use token_counter::{TokenCount, TokenCounter};
use tokrate_core::{Channel, EventBatch, FinishReason, Span, Tick, Usage};
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
}

/// The figures of one stream, named as in [`crate::RequestNumbers`].
#[derive(Clone, PartialEq, Debug)]
pub struct LiveNumbers {
    /// Sent to first response body byte (ns).
    pub ttfb_ns: Option<u64>,
    /// Sent to first output text, reasoning and tool calls included (ns).
    pub ttft_ns: Option<u64>,
    /// Sent to first answer text, reasoning excluded (ns).
    pub ttfat_ns: Option<u64>,
    /// (tokens - tokens of the first chunk) / (last text - first text), in tokens per second.
    pub output_speed: Option<f64>,
    /// Why there is no output speed.
    pub output_speed_missing: Option<String>,
    /// Text events of the answer.
    pub text_events: u64,
    /// Arrivals of text; text of one read is one arrival.
    pub chunks: u64,
    /// Median of the chunk gaps (ns), within [`GapSketch::RELATIVE_ERROR`].
    pub gap_p50_ns: Option<u64>,
    /// 99th percentile of the chunk gaps (ns), within [`GapSketch::RELATIVE_ERROR`].
    pub gap_p99_ns: Option<u64>,
    /// The longest chunk gap (ns).
    pub gap_max_ns: Option<u64>,
    /// All chunk gaps.
    pub gaps: GapSketch,
    /// Output tokens counted over the text, all channels; 0 if none were to be counted.
    pub tokens_std: u64,
    /// Those of `tokens_std` that the first chunk completed.
    pub tokens_first_chunk: u64,
    /// False if a text of 16 KiB without a word break or sign had to be cut, so that `tokens_std` may be a few off.
    pub tokens_exact: bool,
    /// Token counts as the provider reports them.
    pub usage: Usage,
    /// Why the model stopped.
    pub finish: Option<FinishReason>,
    /// The first model that the answer named.
    pub model: Option<String>,
    /// How often it named another one after that.
    pub model_changes: u32,
    /// Deviations from the dialect.
    pub anomalies: Anomalies,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
}

impl LiveMeter {
    /// A meter that has seen nothing; it counts o200k_base tokens.
    pub fn new() -> LiveMeter {
        LiveMeter { token_counter: Some(TokenCounter::new(Encoding::O200kBase)), ..LiveMeter::without_tokens() }
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
    pub fn finish(mut self, timing: &Timing, ending: Ending) -> LiveNumbers {
        self.metadata.close(ending, self.first_text_at.is_some());
        let since_sent = |tick: Option<Tick>| tick.zip(timing.sent_at).map(|(tick, sent)| (tick - sent).as_nanos());
        let counts = self.token_counter.is_some();
        let nothing = TokenCount { tokens: 0, of_first_chunk: 0, exact: true };
        let tallied = self.token_counter.map_or(nothing, TokenCounter::finish);
        let window = self.first_text_at.map_or(Span::ZERO, |first| self.last_text_at - first);
        let seen = SpeedInput {
            tokens: tallied.tokens,
            tokens_first_chunk: tallied.of_first_chunk,
            chunks: self.chunks,
            events: self.text_events,
            window,
        };
        let speed = if counts { seen.speed() } else { Err(NoSpeedReason::NotCounted) };
        let gaps = self.gaps.sketch();
        let longest = self.longest_gap.as_nanos();
        let gap = |share: f64| gaps.quantile(share).map(|gap| gap.min(longest));
        LiveNumbers {
            ttfb_ns: since_sent(timing.first_byte_at),
            ttft_ns: since_sent(self.first_text_at),
            ttfat_ns: since_sent(self.first_answer_at),
            output_speed: speed.as_ref().ok().copied(),
            output_speed_missing: speed.err().map(|why| why.reason().to_owned()),
            text_events: self.text_events,
            chunks: self.chunks,
            gap_p50_ns: gap(0.5),
            gap_p99_ns: gap(0.99),
            gap_max_ns: (!gaps.is_empty()).then_some(longest),
            gaps,
            tokens_std: tallied.tokens,
            tokens_first_chunk: tallied.of_first_chunk,
            tokens_exact: tallied.exact,
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
                self.chunks += 1;
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
