//! The figures of one stream, whoever read it: a meter that forwards it ([`crate::LiveMeter`]) or one that keeps it
//! ([`RequestNumbers`]).
//!
//! Invariant: both give the same figures for the same events, but for what gaps lose in the buckets of a sketch.

use crate::gaps::GapSketch;
use crate::request::{Anomalies, Failure, RequestNumbers};
use std::borrow::Cow;
use tokrate_core::{Anomaly, FinishReason, Span, Usage};

/// The figures of one stream, named as in [`RequestNumbers`].
#[derive(Clone, PartialEq, Debug)]
pub struct StreamNumbers {
    /// Sent to first response body byte (ns).
    pub ttfb_ns: Option<u64>,
    /// Sent to first output text, reasoning and tool calls included (ns).
    pub ttft_ns: Option<u64>,
    /// Why there is no time to first token although text came.
    pub ttft_missing: Option<Cow<'static, str>>,
    /// Sent to first answer text, reasoning excluded (ns).
    pub ttfat_ns: Option<u64>,
    /// (tokens - tokens of the first chunk) / (last text - first text), in tokens per second.
    pub output_speed: Option<f64>,
    /// Why there is no output speed.
    pub output_speed_missing: Option<Cow<'static, str>>,
    /// Text events of the answer.
    pub text_events: u64,
    /// Arrivals of text; text of one read is one arrival.
    pub chunks: u64,
    /// The longest chunk gap (ns).
    pub gap_max_ns: Option<u64>,
    /// All chunk gaps; none if they were not kept.
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

impl StreamNumbers {
    /// The chunk gap at quantile `share` (nearest rank, ns), within [`GapSketch::RELATIVE_ERROR`] and at most the longest;
    /// `None` without gaps.
    pub fn gap(&self, share: f64) -> Option<u64> {
        let gap = self.gaps.quantile(share)?;
        Some(self.gap_max_ns.map_or(gap, |longest| gap.min(longest)))
    }
}

impl From<&RequestNumbers> for StreamNumbers {
    /// Gaps are those of the row's chunks, which a row that was read from a file does not have.
    fn from(row: &RequestNumbers) -> StreamNumbers {
        StreamNumbers {
            ttfb_ns: row.ttfb_ns,
            ttft_ns: row.ttft_ns,
            ttft_missing: row.ttft_missing.clone().map(Cow::Owned),
            ttfat_ns: row.ttfat_ns,
            output_speed: row.output_speed,
            output_speed_missing: row.output_speed_missing.clone().map(Cow::Owned),
            text_events: row.text_events,
            chunks: row.chunks,
            gap_max_ns: row.largest_gap_ns,
            gaps: row.gaps().map(|(gap, _)| gap).collect(),
            tokens_std: row.tokens_std,
            tokens_first_chunk: row.tokens_first_chunk,
            tokens_exact: true,
            usage: Usage {
                input: row.input_reported,
                output: row.tokens_reported,
                reasoning: row.reasoning_reported,
                cached_input: row.cached_input_reported,
                ..Usage::default()
            },
            finish: row.finish,
            model: row.model.clone(),
            model_changes: row.model_changes,
            anomalies: Anomaly::ALL
                .into_iter()
                .map(|one| (one, row.anomalies.get(one.name()).copied().unwrap_or(0)))
                .collect(),
            failure: row.failure.as_ref().map(|failure| Failure {
                kind: failure.kind,
                message: failure.message.clone(),
                retry_after: failure.retry_after_ns.map(Span::from_nanos),
            }),
        }
    }
}
