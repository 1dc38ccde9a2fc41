//! One request as any part keeps it, whatever sent it: a gateway's attempt, a monitor's probe, a bench's request. It holds no text
//! of prompts or answers.
//!
//! Invariant: a sample carries the conditions under which it was measured, and its figures are the meter's, taken over in one
//! place ([`Sample::fill`]); what could not be measured is absent, never 0.

mod conditions;
mod of_request;

pub use conditions::{SampleConditions, SharedConditions};
pub use of_request::RunFrame;

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use tokrate_core::{FailureKind, FinishReason, is_one_line, one_line};
use tokrate_meter::{GapSketch, MAX_TEXT_BYTES, NOT_STREAMED, StreamNumbers, names};

/// Where the cost of a request comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CostBasis {
    /// There is no price.
    #[default]
    Unknown,
    /// Tokens as the provider reported them, times the price.
    Reported,
    /// Tokens as counted here, because the provider reported none (a cancelled stream, as a rule), times the price.
    Estimated,
    /// The provider does not bill such a request.
    Free,
}

/// One request to one model.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sample {
    /// Wall time of its start (ms since 1970).
    pub started_unix_ms: u64,
    /// The provider, or else the host of the endpoint.
    pub provider: String,
    /// The model that was asked for.
    pub model: String,
    /// The model that the answer named.
    pub model_answered: Option<String>,
    // Named in JSON as the column of a gateway's log, which has its client's dialect as well.
    /// Dialect of the request as it was sent.
    #[serde(rename = "dialect_out")]
    pub dialect: Cow<'static, str>,
    /// Whether a stream was requested; of a gateway's lane it may be for a client that wants the answer in one piece.
    pub stream: bool,
    /// Requests in flight at its start, this one included: on the lane of a gateway, in the phase of a bench.
    pub in_flight: u32,
    /// Whether a connection had to be opened for it.
    pub connection_new: bool,
    /// Name resolution for it (ns); absent if no connection was opened.
    #[serde(default)]
    pub dns_ns: Option<u64>,
    /// Opening the connection (ns); absent if none was opened.
    #[serde(default)]
    pub connect_ns: Option<u64>,
    /// TLS handshake (ns); absent if no connection was opened.
    #[serde(default)]
    pub tls_ns: Option<u64>,
    /// Bytes of the request's body as sent.
    pub request_bytes: Option<u64>,
    /// Upper limit of output tokens that was asked for.
    pub output_limit: Option<u32>,

    /// HTTP status of the answer.
    pub status: Option<u16>,
    /// Why the model stopped.
    #[serde(default, with = "names::maybe")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "tokrate_meter::schema::name_or_null::<FinishReason>"))]
    pub finish: Option<FinishReason>,
    /// Why it failed. Of a gateway's attempt that was answered: what was wrong with it although the client got all of it
    /// (`not_json` if an event in it could not be read).
    #[serde(with = "names::maybe")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "tokrate_meter::schema::name_or_null::<FailureKind>"))]
    pub failure: Option<FailureKind>,
    /// Start to sent (ns): waiting for a connection.
    pub wait_ns: Option<u64>,
    /// Sent to first byte of the body (ns).
    pub ttfb_ns: Option<u64>,
    /// Sent to first output text, reasoning and tool calls included (ns).
    pub ttft_ns: Option<u64>,
    /// Why there is no time to first token although text came.
    #[serde(default)]
    pub ttft_missing: Option<Cow<'static, str>>,
    /// Sent to first answer text, reasoning excluded (ns).
    #[serde(default)]
    pub ttfat_ns: Option<u64>,
    /// Sent to the last byte of an answer that came in one piece (ns); of such an answer there is no time to first token.
    #[serde(default)]
    pub answer_ns: Option<u64>,
    /// Start to end (ns).
    pub total_ns: u64,
    /// (tokens - tokens of the first chunk) / (last text - first text), in tokens per second.
    pub output_speed: Option<f64>,
    /// Why there is no output speed.
    #[serde(default)]
    pub output_speed_missing: Option<Cow<'static, str>>,
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
    /// All chunk gaps, to be joined with those of other samples.
    #[serde(default)]
    pub gaps: GapSketch,
    /// Tokens of the request's texts, where they were counted.
    pub input_tokens_std: Option<u64>,
    /// Tokens of the answer's texts.
    pub output_tokens_std: u64,
    /// Input tokens as the provider reports them.
    pub input_tokens: Option<u64>,
    /// Output tokens as the provider reports them.
    pub output_tokens: Option<u64>,
    /// Those of `output_tokens` that were reasoning.
    pub reasoning_tokens: Option<u64>,
    /// Those of `input_tokens` that came from a cache.
    pub cached_tokens: Option<u64>,
    /// Those of `input_tokens` that were written to a cache, where that costs extra.
    #[serde(default)]
    pub cache_write_tokens: Option<u64>,
    /// What it cost (USD).
    pub cost_usd: Option<f64>,
    /// Where that comes from.
    pub cost_basis: CostBasis,

    /// Where, with what and by which rules it was measured.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(with = "SampleConditions"))]
    pub conditions: SharedConditions,
}

impl Sample {
    /// Takes over the stream's figures: times since sent, speed, events, gaps, tokens, usage, model, finish reason and kind of
    /// failure.
    pub fn fill(&mut self, numbers: &StreamNumbers) {
        self.ttfb_ns = numbers.ttfb_ns;
        self.ttft_ns = numbers.ttft_ns;
        self.ttft_missing.clone_from(&numbers.ttft_missing);
        self.ttfat_ns = numbers.ttfat_ns;
        self.output_speed = numbers.output_speed;
        self.output_speed_missing.clone_from(&numbers.output_speed_missing);
        self.text_events = numbers.text_events;
        self.chunks = numbers.chunks;
        self.gap_p50_ns = numbers.gap(0.5);
        self.gap_p99_ns = numbers.gap(0.99);
        self.gap_max_ns = numbers.gap_max_ns;
        self.gaps.clone_from(&numbers.gaps);
        self.output_tokens_std = numbers.tokens_std;
        self.input_tokens = numbers.usage.input;
        self.output_tokens = numbers.usage.output;
        self.reasoning_tokens = numbers.usage.reasoning;
        self.cached_tokens = numbers.usage.cached_input;
        self.cache_write_tokens = numbers.usage.cache_write_input;
        self.finish = numbers.finish;
        self.model_answered.clone_from(&numbers.model);
        self.failure = numbers.failure.as_ref().map(|failure| failure.kind);
    }

    /// Clears the figures that only a stream has: an answer in one piece comes with its first token.
    pub fn clear_streaming_figures(&mut self) {
        if self.ttft_ns.take().is_some() {
            self.ttft_missing = Some(Cow::Borrowed(NOT_STREAMED));
        }
        (self.ttfat_ns, self.output_speed) = (None, None);
        self.output_speed_missing = Some(Cow::Borrowed(NOT_STREAMED));
    }

    /// Time per output token (ms): 1 / output speed.
    pub fn tpot_ms(&self) -> Option<f64> {
        tpot_ms(self.output_speed)
    }

    /// Cuts every text to [`MAX_TEXT_BYTES`], on one line, without control characters.
    pub fn bound_texts(&mut self) {
        bound([&mut self.provider, &mut self.model].into_iter().chain(&mut self.model_answered));
        let names = [&mut self.dialect].into_iter().chain(&mut self.ttft_missing).chain(&mut self.output_speed_missing);
        names.for_each(bound_name);
    }
}

/// Time per output token (ms) at an output speed (tokens per second); `None` unless that is above 0.
pub fn tpot_ms(output_speed: Option<f64>) -> Option<f64> {
    output_speed.filter(|speed| *speed > 0.0).map(|speed| 1e3 / speed)
}

/// Cuts texts to [`MAX_TEXT_BYTES`], on one line, without control characters.
pub(crate) fn bound<'a>(texts: impl IntoIterator<Item = &'a mut String>) {
    for text in texts.into_iter().filter(|text| !is_bounded(text)) {
        *text = one_line(text, MAX_TEXT_BYTES);
    }
}

/// The same of a name.
pub(crate) fn bound_name(name: &mut Cow<'static, str>) {
    if !is_bounded(name) {
        *name = Cow::Owned(one_line(name, MAX_TEXT_BYTES));
    }
}

fn is_bounded(text: &str) -> bool {
    is_one_line(text, MAX_TEXT_BYTES)
}

impl CostBasis {
    /// Every basis.
    pub const ALL: [CostBasis; 4] = [CostBasis::Unknown, CostBasis::Reported, CostBasis::Estimated, CostBasis::Free];

    /// The name used in rows and tables.
    pub const fn name(self) -> &'static str {
        match self {
            CostBasis::Unknown => "unknown",
            CostBasis::Reported => "reported",
            CostBasis::Estimated => "estimated",
            CostBasis::Free => "free",
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
