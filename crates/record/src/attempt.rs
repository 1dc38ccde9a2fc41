//! One upstream attempt of a gateway call: a row of the throughput log. It holds no text of prompts or answers.
//!
//! Invariant: every attempt becomes exactly one row, however it ended; what could not be measured is absent, never 0.

use serde::{Deserialize, Serialize};
use tokrate_core::{FailureKind, FinishReason, is_one_line, one_line};
use tokrate_meter::MAX_TEXT_BYTES;
use tokrate_meter::names;
use tokrate_meter::{GapSketch, LiveNumbers};

/// Why an attempt was started.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AttemptRole {
    /// The call's first.
    #[default]
    First,
    /// An earlier one failed.
    Failover,
    /// An earlier one was slow.
    Hedge,
    /// Started together with the first.
    Race,
    /// Of no client's call: the gateway asked whether a lane that had failed is back.
    Probe,
}

/// How an attempt ended, as the gateway's client saw it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnd {
    /// Its whole answer was forwarded to the client.
    #[default]
    Answered,
    /// It failed; `failure` says how. If `won`, part of its answer had reached the client.
    Failed,
    /// Another attempt of the call won; this one was cancelled or drained in the background.
    Lost,
    /// The client disconnected first.
    Abandoned,
}

/// Where the cost of an attempt comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CostBasis {
    /// There is no price for the lane.
    #[default]
    Unknown,
    /// Tokens as the provider reported them, times the price.
    Reported,
    /// Tokens as counted here, because the provider reported none (a cancelled stream, as a rule), times the price.
    Estimated,
    /// The provider does not bill such an attempt.
    Free,
}

/// One attempt of one call.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Attempt {
    /// The call, the same for all its attempts; unique in a log.
    pub call: String,
    /// Place among the call's attempts, from 0.
    pub attempt: u32,
    /// Why it was started.
    pub role: AttemptRole,
    /// How it ended.
    pub end: AttemptEnd,
    /// Whether its bytes were forwarded to the client.
    pub won: bool,
    /// Wall time of its start (ms since 1970).
    pub started_unix_ms: u64,

    /// Name of the client's virtual key; absent if none is needed.
    pub key: Option<String>,
    /// What the client asked for as `model`.
    pub alias: String,
    /// The lane's name.
    pub lane: String,
    /// The lane's provider.
    pub provider: String,
    /// The model that the lane was asked for.
    pub model: String,
    /// The model that the answer named.
    pub model_answered: Option<String>,
    /// Dialect of the client.
    pub dialect_in: String,
    /// Dialect of the lane.
    pub dialect_out: String,
    /// Whether the lane was asked for a stream, which it may be for a client that wants the answer in one piece.
    pub stream: bool,
    /// Calls in flight on the lane at its start, this one included.
    pub in_flight: u32,
    /// Whether a connection had to be opened for it.
    pub connection_new: bool,
    /// Bytes of the request's body as sent.
    pub request_bytes: u64,
    /// Upper limit of output tokens that was asked for.
    pub output_limit: Option<u32>,
    /// Version of tokrate.
    pub version: String,

    /// HTTP status of the answer.
    pub status: Option<u16>,
    /// Why the model stopped.
    #[serde(default, with = "names::maybe")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "tokrate_meter::schema::name_or_null::<FinishReason>"))]
    pub finish: Option<FinishReason>,
    /// Why it failed. Of one that was answered: what was wrong with it although the client got all of it (`not_json` if an
    /// event in it could not be read).
    #[serde(with = "names::maybe")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "tokrate_meter::schema::name_or_null::<FailureKind>"))]
    pub failure: Option<FailureKind>,
    /// Start to sent (ns): waiting for a connection.
    pub wait_ns: Option<u64>,
    /// Sent to first byte of the body (ns).
    pub ttfb_ns: Option<u64>,
    /// Sent to first output text, reasoning and tool calls included (ns).
    pub ttft_ns: Option<u64>,
    /// Sent to the last byte of an answer that was asked for in one piece (ns); of such an answer there is no TTFT.
    #[serde(default)]
    pub answer_ns: Option<u64>,
    /// Start to end (ns).
    pub total_ns: u64,
    /// Time that the gateway itself took: the call's arrival to this attempt's being sent on a connection that was open, plus
    /// the end of the answer to its being forwarded (ns).
    pub overhead_ns: Option<u64>,
    /// (tokens - tokens of the first chunk) / (last text - first text), in tokens per second.
    pub output_speed: Option<f64>,
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
    /// All chunk gaps, to be joined with those of other attempts.
    #[serde(default)]
    pub gaps: GapSketch,
    /// o200k_base tokens of the request's texts, where they were counted.
    pub input_tokens_std: Option<u64>,
    /// o200k_base tokens of the answer's texts.
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
}

impl Attempt {
    /// Cuts every text to [`MAX_TEXT_BYTES`], on one line, without control characters.
    pub fn bound_texts(&mut self) {
        let names = [
            &mut self.call,
            &mut self.alias,
            &mut self.lane,
            &mut self.provider,
            &mut self.model,
            &mut self.dialect_in,
            &mut self.dialect_out,
            &mut self.version,
        ];
        let texts = names.into_iter().chain(&mut self.key).chain(&mut self.model_answered);
        for text in texts.filter(|text| !is_one_line(text, MAX_TEXT_BYTES)) {
            *text = one_line(text, MAX_TEXT_BYTES);
        }
    }
}

impl AttemptRole {
    /// Every role.
    pub const ALL: [AttemptRole; 5] =
        [AttemptRole::First, AttemptRole::Failover, AttemptRole::Hedge, AttemptRole::Race, AttemptRole::Probe];

    /// The name used in rows and tables.
    pub const fn name(self) -> &'static str {
        match self {
            AttemptRole::First => "first",
            AttemptRole::Failover => "failover",
            AttemptRole::Hedge => "hedge",
            AttemptRole::Race => "race",
            AttemptRole::Probe => "probe",
        }
    }
}

impl AttemptEnd {
    /// Every end.
    pub const ALL: [AttemptEnd; 4] =
        [AttemptEnd::Answered, AttemptEnd::Failed, AttemptEnd::Lost, AttemptEnd::Abandoned];

    /// The name used in rows and tables.
    pub const fn name(self) -> &'static str {
        match self {
            AttemptEnd::Answered => "answered",
            AttemptEnd::Failed => "failed",
            AttemptEnd::Lost => "lost",
            AttemptEnd::Abandoned => "abandoned",
        }
    }
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

impl Attempt {
    /// Takes over the stream's figures: times since sent, speed, events, gaps, tokens,
    /// usage, model, finish reason and kind of failure.
    pub fn fill(&mut self, numbers: LiveNumbers) {
        self.ttfb_ns = numbers.ttfb_ns;
        self.ttft_ns = numbers.ttft_ns;
        self.output_speed = numbers.output_speed;
        self.text_events = numbers.text_events;
        self.chunks = numbers.chunks;
        self.gap_p50_ns = numbers.gap_p50_ns;
        self.gap_p99_ns = numbers.gap_p99_ns;
        self.gap_max_ns = numbers.gap_max_ns;
        self.gaps = numbers.gaps;
        self.output_tokens_std = numbers.tokens_std;
        self.input_tokens = numbers.usage.input;
        self.output_tokens = numbers.usage.output;
        self.reasoning_tokens = numbers.usage.reasoning;
        self.cached_tokens = numbers.usage.cached_input;
        self.cache_write_tokens = numbers.usage.cache_write_input;
        self.finish = numbers.finish;
        self.model_answered = numbers.model;
        self.failure = numbers.failure.map(|failure| failure.kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_core::{Channel, EventBatch, EventKind, Tick, Usage};
    use tokrate_meter::{Ending, LiveMeter, Timing};

    #[test]
    fn names_are_those_of_json() {
        let json = |value: serde_json::Value| value.as_str().expect("a name").to_owned();
        for role in AttemptRole::ALL {
            assert_eq!(json(serde_json::to_value(role).expect("plain data")), role.name());
        }
        for end in AttemptEnd::ALL {
            assert_eq!(json(serde_json::to_value(end).expect("plain data")), end.name());
        }
        for basis in CostBasis::ALL {
            assert_eq!(json(serde_json::to_value(basis).expect("plain data")), basis.name());
        }
    }

    #[test]
    fn every_text_of_a_row_is_bounded() {
        let long = "\u{1b}[2J".to_owned() + &"x".repeat(1 << 20);
        let written = serde_json::to_value(Attempt::default()).expect("plain data");
        let fields: Vec<String> = written.as_object().expect("a row").keys().cloned().collect();
        let mut texts = 0;
        for field in fields {
            let mut written = written.clone();
            written[&field] = long.clone().into();
            // Of numbers and of names from a list that is refused.
            let Ok(mut row) = serde_json::from_value::<Attempt>(written) else { continue };
            row.bound_texts();
            let written = serde_json::to_value(&row).expect("plain data");
            let bounded = written[&field].as_str().expect("a text");
            assert!(bounded.len() <= MAX_TEXT_BYTES && !bounded.contains('\u{1b}'), "{field}");
            texts += 1;
        }
        assert_eq!(texts, 10);
    }

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let row = Attempt {
            call: "c".to_owned(),
            failure: Some(FailureKind::RateLimited),
            finish: Some(FinishReason::Length),
            gaps: [1_000_000, 2_000_000].into_iter().collect(),
            cost_usd: Some(0.1 + 0.2),
            ..Attempt::default()
        };
        let written = serde_json::to_string(&row).expect("plain data");
        assert_eq!(serde_json::from_str::<Attempt>(&written).expect("what was written"), row);
    }

    #[test]
    fn a_row_is_filled_from_the_stream() {
        let mut meter = LiveMeter::new();
        let mut batch = EventBatch::new();
        let name = batch.store("large-2");
        batch.push(Tick::from_nanos(10), EventKind::Model(name));
        batch.push_text(Tick::from_nanos(10), Channel::Answer, "hello world");
        batch.push(
            Tick::from_nanos(20),
            EventKind::Usage(Usage { output: Some(5), input: Some(3), ..Usage::default() }),
        );
        meter.on(&batch);
        assert_eq!(meter.usage().and_then(|usage| usage.output), Some(5));
        let timing = Timing { sent_at: Some(Tick::from_nanos(4)), ..Timing::default() };
        let mut row = Attempt { lane: "north".to_owned(), ..Attempt::default() };
        row.fill(meter.finish(&timing, Ending::Complete));
        let expected = Attempt {
            lane: "north".to_owned(),
            model_answered: Some("large-2".to_owned()),
            failure: Some(FailureKind::Truncated),
            ttft_ns: Some(6),
            text_events: 1,
            chunks: 1,
            output_tokens_std: 2,
            output_tokens: Some(5),
            input_tokens: Some(3),
            ..Attempt::default()
        };
        assert_eq!(row, expected);
    }
}
