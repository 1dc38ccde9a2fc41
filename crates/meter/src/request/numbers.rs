//! The figures of one request.
//!
//! Invariant: ticks and gaps stay whole nanoseconds, floats appear only in quotients; what could not be measured is `None`
//! with a reason, never 0.

use super::chunks::{ChannelTokens, arrival_tokens, join};
use super::fingerprint::TextFingerprint;
use super::speed::{NOT_STREAMED, NoSpeedReason, StreamTimes, TIMESTAMP_ERROR};
use super::{AudioNumbers, BatchNumbers, Chunk, Media, Opening, RequestTrace, StreamUse};
use crate::names;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tokrate_core::{Channel, FailureKind, FinishReason, ServerTimings, Span, Tick};
use tokrate_tokens::Encoding;

/// Shortest text, in tokens, that is checked for single-burst delivery or equality with another.
pub const LONG_TEXT_TOKENS: u64 = 32;

/// Where a token count comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// Reported by the provider.
    Usage,
    /// Counted over the output text with the record's tokenizer.
    #[default]
    Counted,
    /// Assumed to be one per text event, which is wrong for most servers.
    Chunks,
}

/// State of the connection when a request was sent on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ConnectionState {
    /// It had to be opened, and its opening precedes `sent_at`.
    #[default]
    New,
    /// It was open already.
    Reused,
}

/// A failure as a row shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureRow {
    /// What went wrong.
    #[serde(with = "names::one")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::schema::name::<FailureKind>"))]
    pub kind: FailureKind,
    /// Message of the server or the transport; may be empty.
    pub message: String,
    /// `Retry-After`, if given (ns).
    pub retry_after_ns: Option<u64>,
}

/// One request's numbers: a row of `--jsonl`. Ticks are nanoseconds on the monotonic clock of the measuring machine.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestNumbers {
    /// Place in the plan, counted from 0; set by the caller.
    pub index: u64,
    /// Whether it belongs to the warm-up, which is in no distribution; set by the caller.
    pub warmup: bool,
    /// Number of its session, from 0, if it is a turn of one; set by the caller.
    pub session: Option<u64>,
    /// Number of its turn, from 0; set by the caller.
    pub turn: Option<u32>,
    /// The model that it asked for, where requests ask for several; set by the caller.
    #[serde(default)]
    pub adapter: Option<String>,
    /// Its role in a session of agents; set by the caller.
    #[serde(default)]
    pub role: Option<String>,
    /// The step of its session whose end let it start; set by the caller.
    #[serde(default)]
    pub released_by: Option<u32>,
    /// Of a step: time of tools and of the agent between that end (or the session's beginning) and `due_at` (ns); set by the caller.
    #[serde(default)]
    pub wait_ns: Option<u64>,
    /// Steps that its session of agents has; set by the caller.
    #[serde(default)]
    pub session_steps: Option<u32>,
    /// When the plan wanted it.
    pub due_at_ns: u64,
    /// When its last byte was handed to the socket.
    pub sent_at_ns: Option<u64>,
    /// When the first byte of the response body arrived.
    pub first_byte_at_ns: Option<u64>,
    /// When the first output text arrived, reasoning included.
    pub first_text_at_ns: Option<u64>,
    /// When the last output text arrived.
    pub last_text_at_ns: Option<u64>,
    /// When the answer was complete: the dialect's end mark, else the end of the exchange.
    pub finished_at_ns: u64,
    /// When the exchange was over and the slot free again.
    pub ended_at_ns: u64,
    /// Whether the connection was opened for it.
    pub connection: ConnectionState,
    /// Kept connections that turned out to have been closed by the server; the request was then sent on another, and
    /// everything is timed from there.
    pub stale_connections: u32,
    /// Name resolution for it (ns).
    pub dns_ns: u64,
    /// Opening the connection (ns).
    pub connect_ns: u64,
    /// TLS handshake (ns).
    pub tls_ns: u64,
    /// The steps of a request where every request opens its connection.
    #[serde(default)]
    pub opening: Option<Opening>,
    /// Sent to the read that completed the response's head (ns).
    #[serde(default)]
    pub head_ns: Option<u64>,
    /// The stream that it had, over HTTP/2.
    #[serde(default)]
    pub stream: Option<StreamUse>,
    /// Sent to first response body byte (ns).
    pub ttfb_ns: Option<u64>,
    /// Sent to first output text, reasoning included (ns); only of a streamed answer.
    pub ttft_ns: Option<u64>,
    /// Why there is no time to first token although text came.
    #[serde(default)]
    pub ttft_missing: Option<String>,
    /// Sent to first answer text, reasoning excluded (ns); only of a streamed answer.
    pub ttfat_ns: Option<u64>,
    /// Sent to the first byte of the arguments of a tool call (ns); only of a streamed answer.
    #[serde(default)]
    pub first_argument_ns: Option<u64>,
    /// Calls of tools in the answer, if there were any.
    #[serde(default)]
    pub tool_calls: Option<u64>,
    /// Sent to the last text of an answer that is what was asked for: a call of a tool, or JSON, that is valid by its schema (ns). Set
    /// by the caller.
    #[serde(default)]
    pub valid_ns: Option<u64>,
    /// Why an answer is not what was asked for: set by the caller where it asks for calls or JSON.
    #[serde(default)]
    pub invalid: Option<String>,
    /// Sent to finish (ns); only of an answered request.
    pub e2e_ns: Option<u64>,
    /// Due to finish (ns); only of an answered request.
    pub e2e_from_due_ns: Option<u64>,
    /// (tokens - tokens of the first chunk) / (last text - first text), in tokens per second.
    pub output_speed: Option<f64>,
    /// Why there is no output speed.
    pub output_speed_missing: Option<String>,
    /// 1 / output speed: mean time per token after the first chunk (ms).
    pub tpot_ms: Option<f64>,
    /// tokens / e2e, in tokens per second.
    pub e2e_speed: Option<f64>,
    /// Output tokens counted over the text, all channels.
    pub tokens_std: u64,
    /// Those of `tokens_std` in reasoning text.
    pub tokens_std_reasoning: u64,
    /// Those of `tokens_std` in answer text.
    pub tokens_std_answer: u64,
    /// Those of `tokens_std` in tool calls.
    pub tokens_std_tool: u64,
    /// Tokens of `tokens_std` that the first chunk completed.
    pub tokens_first_chunk: u64,
    /// Output tokens as the provider reports them, hidden reasoning included.
    pub tokens_reported: Option<u64>,
    /// Reasoning tokens as the provider reports them.
    pub reasoning_reported: Option<u64>,
    /// Whether reasoning was reported that was never streamed; it enters no speed.
    pub reasoning_hidden: bool,
    /// Texts that were sent for a vector or a score each; set by the caller.
    #[serde(default)]
    pub items_asked: Option<u64>,
    /// Vectors or scores that came.
    #[serde(default)]
    pub items: Option<u64>,
    /// Sent to the first image of an answer, done or not (ns).
    #[serde(default)]
    pub first_image_ns: Option<u64>,
    /// Pictures and sound that were sent with the prompt, which the caller sets; else the images that were made.
    #[serde(default)]
    pub media: Option<Media>,
    /// What became of a batch of requests, if it was one.
    #[serde(default)]
    pub batch: Option<Box<BatchNumbers>>,
    /// Sound that was sent or that came, if there was some.
    #[serde(default)]
    pub audio: Option<Box<AudioNumbers>>,
    /// Output tokens that the plan asked for, where that differs from request to request; set by the caller.
    #[serde(default)]
    pub output_asked: Option<u64>,
    /// Input tokens that the plan asked for; set by the caller.
    pub input_asked: Option<u64>,
    /// Bytes of the request's body as sent; set by the caller.
    #[serde(default)]
    pub request_bytes: Option<u64>,
    /// Input tokens as the provider reports them.
    pub input_reported: Option<u64>,
    /// Input tokens that came from a cache, as the provider reports them.
    pub cached_input_reported: Option<u64>,
    /// Which token count the speeds use.
    pub speed_tokens: Provenance,
    /// Text events that the server sent.
    pub text_events: u64,
    /// Chunks as seen: text that arrived at one tick is one chunk.
    pub chunks: u64,
    /// Chunks that joined several text events.
    pub bursts: u64,
    /// Share of text events that arrived together with another one.
    pub burst_share: Option<f64>,
    /// Whether a text of at least 32 tokens arrived at one single tick.
    pub one_burst: bool,
    /// Share of the tokens that the largest chunk carries; absent without tokens.
    #[serde(default)]
    pub largest_chunk_share: Option<f64>,
    /// The longest chunk gap (ns).
    pub largest_gap_ns: Option<u64>,
    /// The largest `itl` sample: the longest wait for a token after the first chunk (ns).
    #[serde(default)]
    pub largest_itl_ns: Option<u64>,
    /// Why it failed, if it did.
    pub failure: Option<FailureRow>,
    /// Why the model stopped.
    #[serde(with = "names::maybe")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::schema::name_or_null::<FinishReason>"))]
    pub finish: Option<FinishReason>,
    /// Deviations from the dialect, with their counts.
    #[serde(rename = "oddities")]
    pub anomalies: BTreeMap<String, u32>,
    /// How the first event began that could not be read; absent where all could.
    #[serde(default)]
    pub unreadable: Option<String>,
    /// The first model that the answer named.
    pub model: Option<String>,
    /// How often it named another one after that.
    pub model_changes: u32,
    /// Hash of the output text (FNV-1a, 16 hexadecimal digits): equal texts have equal ones.
    #[serde(default)]
    pub text_hash: Option<String>,
    /// Hash of the first 256 bytes of the output text, if it is that long.
    #[serde(default)]
    pub text_prefix_hash: Option<String>,
    /// Share of the 32-byte windows of the output text that occurred in it before; absent below 512 bytes.
    #[serde(default)]
    pub repetition: Option<f64>,
    /// Hash of the prompt, where prompts may recur; absent if every prompt of the run is unique. Set by the caller.
    #[serde(default)]
    pub prompt_hash: Option<String>,
    /// Queueing time reported by the server (ns).
    #[serde(default)]
    pub server_queue_ns: Option<u64>,
    /// Model load time reported by the server (ns).
    #[serde(default)]
    pub server_load_ns: Option<u64>,
    /// Prefill time reported by the server (ns).
    #[serde(default)]
    pub server_prefill_ns: Option<u64>,
    /// Decode time reported by the server (ns).
    #[serde(default)]
    pub server_decode_ns: Option<u64>,
    /// Total time reported by the server (ns).
    #[serde(default)]
    pub server_total_ns: Option<u64>,
    /// Prompt tokens that the server read in `server_prefill_ns`.
    #[serde(default)]
    pub server_prefill_tokens: Option<u64>,
    /// Tokens that the server wrote in `server_decode_ns`.
    #[serde(default)]
    pub server_decode_tokens: Option<u64>,
    /// Top-level fields outside the dialect, the last value of each, if they were asked for.
    #[serde(default)]
    pub unknown: BTreeMap<String, serde_json::Value>,
    /// Every chunk with its tick and tokens, for the distributions of a phase; not part of the row.
    #[serde(skip)]
    pub chunk_list: Vec<Chunk>,
}

impl RequestNumbers {
    /// Counts tokens in `encoding` and computes every figure of one request. A failed request keeps what was measured
    /// before it failed.
    pub fn measure(trace: &RequestTrace, encoding: Encoding) -> RequestNumbers {
        RequestNumbers::with_arrival_tokens(trace, encoding).0
    }

    /// The same, with the tokens that end in each arrival of the trace.
    pub fn with_arrival_tokens(trace: &RequestTrace, encoding: Encoding) -> (RequestNumbers, Vec<u32>) {
        let (of_arrivals, tokens) = arrival_tokens(trace, encoding);
        let chunks = join(&trace.arrivals, &of_arrivals);
        let mut numbers = RequestNumbers::without_text(trace);
        numbers.count_tokens(trace, tokens);
        numbers.time_text(trace, &chunks);
        numbers.chunk_list = chunks;
        numbers.fingerprint_text(&trace.text);
        numbers.largest_itl_ns = numbers.itl_samples().map(|(value, _)| value).max();
        if trace.in_one_piece {
            numbers.clear_streaming_figures();
        }
        (numbers, of_arrivals)
    }

    /// True when the answer is complete and counts in the distributions (unless it is warm-up).
    pub fn is_answered(&self) -> bool {
        self.failure.is_none()
    }

    /// The kind of failure, if there is one.
    pub fn failure_kind(&self) -> Option<FailureKind> {
        self.failure.as_ref().map(|failure| failure.kind)
    }

    /// The least and the most that the time per token can be (ms) of an answer that could not be timed: both ends of its time
    /// may be off, and text that was held back may have been done at once, with one token less between its reads. `None` of any other;
    /// infinity where nothing is known of the most.
    pub fn tpot_bounds_ms(&self) -> Option<(f64, f64)> {
        let reason = self.output_speed_missing.as_deref()?;
        let why = NoSpeedReason::ALL.into_iter().find(|why| why.depends_on_speed() && why.reason() == reason)?;
        let window = self.last_text_at_ns?.checked_sub(self.first_text_at_ns?)? as f64 / 1e6;
        let error = 2.0 * TIMESTAMP_ERROR.as_millis_f64();
        match (self.tokens_std.saturating_sub(self.tokens_first_chunk), why) {
            (0, _) | (1, NoSpeedReason::FewReads) => Some((0.0, f64::INFINITY)),
            (later, NoSpeedReason::FewReads) => {
                // Rows that were read from a file have no chunks.
                let last_gap = self
                    .chunk_list
                    .windows(2)
                    .next_back()
                    .map_or(window, |pair| (pair[1].at - pair[0].at).as_millis_f64());
                let least = (window - last_gap - error).max(0.0) / (later + 1) as f64;
                Some((least, (window + error) / (later - 1) as f64))
            }
            (later, _) => Some(((window - error).max(0.0) / later as f64, (window + error) / later as f64)),
        }
    }

    /// The gaps between chunks with the tokens of the later one, in order (ns, tokens).
    pub fn gaps(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.chunk_list.windows(2).map(|pair| ((pair[1].at - pair[0].at).as_nanos(), pair[1].tokens))
    }

    /// The samples of `itl` as value and count (ns): a gap shared among the k tokens of the later chunk. A chunk in which no
    /// token ends hands its gap on to the next one. Whole nanoseconds: of k shares, the remainder's worth are 1 ns longer, so
    /// the samples sum to the gaps exactly.
    pub fn itl_samples(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        let mut carried = 0_u64;
        self.gaps()
            .flat_map(move |(gap, tokens)| {
                carried += gap;
                if tokens == 0 {
                    return [(0, 0), (0, 0)];
                }
                let (share, longer) = (carried / u64::from(tokens), (carried % u64::from(tokens)) as u32);
                carried = 0;
                [(share, tokens - longer), (share + 1, longer)]
            })
            .filter(|(_, count)| *count > 0)
    }

    /// Text events that arrived together with another one.
    pub fn events_in_bursts(&self) -> u64 {
        events_in_bursts(&self.chunk_list)
    }

    /// Clears the figures that only a stream has: a whole answer comes with its first token, so its TTFT would be `e2e` by
    /// another name.
    pub fn clear_streaming_figures(&mut self) {
        if self.ttft_ns.take().is_some() {
            self.ttft_missing = Some(NOT_STREAMED.to_owned());
        }
        (self.ttfat_ns, self.first_argument_ns, self.output_speed, self.tpot_ms) = (None, None, None, None);
        self.opening = self.opening.map(|opening| opening.with_first_text(None));
        (self.largest_gap_ns, self.largest_itl_ns) = (None, None);
        self.output_speed_missing = Some(NOT_STREAMED.to_owned());
    }

    /// The same request by the server's own clock: when it was received, when each chunk was written, and when the answer was
    /// complete. Tokens and events of the chunks are the server's too.
    pub fn with_server_times(&self, received_at: Tick, chunks: Vec<Chunk>, ended_at: Tick) -> RequestNumbers {
        let since = |tick: Tick| (tick - received_at).as_nanos();
        let mut logged = RequestNumbers {
            index: self.index,
            warmup: self.warmup,
            due_at_ns: self.due_at_ns,
            sent_at_ns: Some(received_at.as_nanos()),
            finished_at_ns: ended_at.as_nanos(),
            ended_at_ns: ended_at.as_nanos(),
            e2e_ns: self.e2e_ns.map(|_| since(ended_at)),
            tokens_std: chunks.iter().map(|chunk| u64::from(chunk.tokens)).sum(),
            failure: self.failure.clone(),
            ..RequestNumbers::default()
        };
        logged.time_chunks(Some(received_at), None, &chunks);
        logged.chunk_list = chunks;
        logged
    }

    /// Everything that does not depend on the text.
    fn without_text(trace: &RequestTrace) -> RequestNumbers {
        let timing = &trace.timing;
        let finished_at = trace.finished_at();
        let answered = trace.failure.is_none();
        let server = |of: fn(&ServerTimings) -> Option<Span>| trace.timings.as_ref().and_then(of).map(Span::as_nanos);
        let since_sent = |tick: Tick| timing.sent_at.map(|sent_at| (tick - sent_at).as_nanos());
        RequestNumbers {
            due_at_ns: timing.due_at.as_nanos(),
            sent_at_ns: timing.sent_at.map(Tick::as_nanos),
            first_byte_at_ns: timing.first_byte_at.map(Tick::as_nanos),
            finished_at_ns: finished_at.as_nanos(),
            ended_at_ns: timing.ended_at.as_nanos(),
            connection: if timing.connection_new { ConnectionState::New } else { ConnectionState::Reused },
            stale_connections: timing.stale_connections,
            dns_ns: timing.dns.as_nanos(),
            connect_ns: timing.connect.as_nanos(),
            tls_ns: timing.tls.as_nanos(),
            opening: Opening::of(timing),
            stream: timing.stream,
            head_ns: timing.head_at.and_then(since_sent),
            ttfb_ns: timing.first_byte_at.and_then(since_sent),
            e2e_ns: if answered { since_sent(finished_at) } else { None },
            e2e_from_due_ns: answered.then(|| (finished_at - timing.due_at).as_nanos()),
            tokens_reported: trace.usage.and_then(|usage| usage.output),
            reasoning_reported: trace.usage.and_then(|usage| usage.reasoning),
            input_reported: trace.usage.and_then(|usage| usage.input),
            cached_input_reported: trace.usage.and_then(|usage| usage.cached_input),
            items: trace.items.map(u64::from),
            first_image_ns: trace.images.and_then(|images| Some(images.first_at.since(timing.sent_at?).as_nanos())),
            media: trace.images.map(|images| images.media()),
            batch: trace.batch.clone(),
            audio: trace.sound.as_ref().map(|sound| Box::new(sound.numbers(timing.sent_at))),
            failure: trace.failure.as_ref().map(|failure| FailureRow {
                kind: failure.kind,
                message: failure.message.clone(),
                retry_after_ns: failure.retry_after.map(Span::as_nanos),
            }),
            finish: trace.finish,
            anomalies: trace.anomalies.seen().map(|(anomaly, count)| (anomaly.name().to_owned(), count)).collect(),
            unreadable: trace.unreadable.clone(),
            model: trace.model.clone(),
            model_changes: trace.model_changes,
            server_queue_ns: server(|timings| timings.queue),
            server_load_ns: server(|timings| timings.load),
            server_prefill_ns: server(|timings| timings.prefill),
            server_decode_ns: server(|timings| timings.decode),
            server_total_ns: server(|timings| timings.total),
            server_prefill_tokens: trace.timings.and_then(|timings| timings.prefill_tokens),
            server_decode_tokens: trace.timings.and_then(|timings| timings.decode_tokens),
            unknown: unknown_of(trace),
            ..RequestNumbers::default()
        }
    }

    fn fingerprint_text(&mut self, text: &str) {
        let fingerprint = TextFingerprint::of(text);
        self.text_hash = fingerprint.hash;
        self.text_prefix_hash = fingerprint.prefix_hash;
        self.repetition = fingerprint.repetition;
        let largest = self.chunk_list.iter().map(|chunk| chunk.tokens).max().unwrap_or(0);
        self.largest_chunk_share = (self.tokens_std > 0).then(|| f64::from(largest) / self.tokens_std as f64);
    }

    fn count_tokens(&mut self, trace: &RequestTrace, tokens: ChannelTokens) {
        self.tokens_std = tokens.total();
        self.tokens_std_reasoning = tokens.reasoning;
        self.tokens_std_answer = tokens.answer;
        self.tokens_std_tool = tokens.tool;
        let streamed = trace.arrivals.iter().any(|arrival| arrival.channel == Channel::Reasoning);
        self.reasoning_hidden = self.reasoning_reported.is_some_and(|tokens| tokens > 0) && !streamed;
    }

    fn time_text(&mut self, trace: &RequestTrace, chunks: &[Chunk]) {
        let answer = trace.arrivals.iter().find(|arrival| arrival.channel != Channel::Reasoning);
        self.time_chunks(trace.timing.sent_at, answer.map(|arrival| arrival.at), chunks);
        let first_argument = trace.timing.sent_at.zip(trace.first_argument_at());
        self.first_argument_ns = first_argument.map(|(sent_at, at)| (at - sent_at).as_nanos());
        let calls: std::collections::BTreeSet<u32> = trace.calls.iter().map(|mark| mark.index).collect();
        self.tool_calls = (!calls.is_empty()).then_some(calls.len() as u64);
    }

    /// Everything that follows from when the chunks came and from the tokens in them.
    fn time_chunks(&mut self, sent_at: Option<Tick>, first_answer_at: Option<Tick>, chunks: &[Chunk]) {
        let (first, last) = (chunks.first(), chunks.last());
        let times = StreamTimes {
            sent_at,
            first_text_at: first.map(|chunk| chunk.at),
            first_answer_at,
            last_text_at: last.map(|chunk| chunk.at),
            text_events: chunks.iter().map(|chunk| u64::from(chunk.events)).sum(),
            chunks: chunks.len() as u64,
            tokens: Some(self.tokens_std),
            tokens_first_chunk: first.map_or(0, |chunk| u64::from(chunk.tokens)),
            tokens_last_chunk: last.map_or(0, |chunk| u64::from(chunk.tokens)),
            last_gap: chunks.windows(2).next_back().map_or(Span::ZERO, |pair| pair[1].at - pair[0].at),
        };
        self.ttft_ns = times.since_sent(times.first_text_at);
        self.opening = self.opening.map(|opening| opening.with_first_text(times.first_text_at));
        self.ttfat_ns = times.since_sent(times.first_answer_at);
        self.first_text_at_ns = times.first_text_at.map(Tick::as_nanos);
        self.last_text_at_ns = times.last_text_at.map(Tick::as_nanos);
        self.tokens_first_chunk = times.tokens_first_chunk;
        self.chunks = times.chunks;
        self.text_events = times.text_events;
        self.bursts = chunks.iter().filter(|chunk| chunk.events > 1).count() as u64;
        let together = events_in_bursts(chunks);
        self.burst_share = (self.text_events > 0).then(|| together as f64 / self.text_events as f64);
        self.one_burst = chunks.len() == 1 && self.tokens_std >= LONG_TEXT_TOKENS;
        self.largest_gap_ns = chunks.windows(2).map(|pair| (pair[1].at - pair[0].at).as_nanos()).max();
        match times.speed() {
            Ok(speed) => {
                self.output_speed = Some(speed);
                let later = self.tokens_std - times.tokens_first_chunk;
                self.tpot_ms = Some(times.window().as_millis_f64() / later as f64);
            }
            Err(why) => self.output_speed_missing = Some(why.reason().to_owned()),
        }
        self.e2e_speed =
            self.e2e_ns.filter(|&e2e| e2e > 0).map(|e2e| self.tokens_std as f64 / Span::from_nanos(e2e).as_secs_f64());
    }
}

/// Fields outside the dialect; text that is not JSON is kept as a string.
fn unknown_of(trace: &RequestTrace) -> BTreeMap<String, serde_json::Value> {
    let value = |json: &str| serde_json::from_str(json).unwrap_or_else(|_| serde_json::Value::from(json));
    trace.unknown.iter().map(|(name, json)| (name.clone(), value(json))).collect()
}

fn events_in_bursts(chunks: &[Chunk]) -> u64 {
    chunks.iter().filter(|chunk| chunk.events > 1).map(|chunk| u64::from(chunk.events)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_in_one_piece_has_no_first_token_though_a_stream_was_asked_for() {
        let text = "one two three four";
        let mut trace = crate::fixtures::RequestBuilder::sent(0, 0).answer(200, text).done(200, 200);
        let streamed = RequestNumbers::measure(&trace, Encoding::O200kBase);
        assert_eq!(streamed.ttft_ns, Some(200_000_000));
        trace.in_one_piece = true;
        let whole = RequestNumbers::measure(&trace, Encoding::O200kBase);
        assert_eq!((whole.ttft_ns, whole.ttft_missing.as_deref()), (None, Some(NOT_STREAMED)));
        assert_eq!((whole.e2e_ns, whole.tokens_std), (streamed.e2e_ns, streamed.tokens_std));
    }

    #[test]
    fn an_answer_that_could_not_be_timed_has_bounds() {
        let answer = |reason: NoSpeedReason, first_chunk| RequestNumbers {
            first_text_at_ns: Some(1_000_000),
            last_text_at_ns: Some(9_000_000),
            tokens_std: 21,
            tokens_first_chunk: first_chunk,
            output_speed_missing: Some(reason.reason().to_owned()),
            ..RequestNumbers::default()
        };
        // 20 tokens in 7.8 to 8.2 ms.
        let bounds = answer(NoSpeedReason::ShortWindow, 1).tpot_bounds_ms().expect("it was timed");
        assert!((bounds.0 - 0.39).abs() < 1e-12 && (bounds.1 - 0.41).abs() < 1e-12, "{bounds:?}");
        assert_eq!(answer(NoSpeedReason::FewReads, 21).tpot_bounds_ms(), Some((0.0, f64::INFINITY)));
        // Held back: 19 tokens and more in at most 8.2 ms.
        let held = answer(NoSpeedReason::FewReads, 1).tpot_bounds_ms().expect("it was timed");
        assert!(held.0 == 0.0 && (held.1 - 8.2 / 19.0).abs() < 1e-12, "{held:?}");
        assert_eq!(answer(NoSpeedReason::FewTokens, 1).tpot_bounds_ms(), None, "short answers may be slow");
        assert_eq!(RequestNumbers::default().tpot_bounds_ms(), None);
    }
}
