//! One request while it runs: collects text arrivals and stream metadata with ticks. Tokens are counted afterwards
//! ([`RequestNumbers`]).
//!
//! Invariant: text of one tick and channel is one [`Arrival`] of 16 bytes without an allocation of its own; gaps are never
//! invented.

mod audio;
mod batch;
mod calls;
mod chunks;
mod fingerprint;
mod media;
mod metadata;
mod numbers;
mod opening;
mod speed;

pub use audio::{AudioNumbers, SoundTrace};
pub use batch::{BatchNumbers, GivenUpBatch, GivenUpEnd};
pub use calls::{CallMark, Called};
pub use chunks::Chunk;
pub use media::{ImageTrace, Media};
pub(crate) use metadata::StreamMetadata;
pub use numbers::{ConnectionState, FailureRow, LONG_TEXT_TOKENS, Provenance, RequestNumbers};
pub use opening::{Opening, StreamUse};
pub(crate) use speed::StreamTimes;
pub use speed::{MIN_SPEED_TOKENS, NOT_STREAMED, NoSpeedReason, TIMESTAMP_ERROR};

use std::collections::BTreeMap;
use tokrate_core::{
    Anomaly, Channel, EventBatch, EventKind, FailureKind, FinishReason, ServerTimings, Span, StreamEvent, Tick, Usage,
};

/// Longest text of a row (bytes): names of models and lanes have fewer than a hundred, and provider texts are untrusted.
pub const MAX_TEXT_BYTES: usize = 256;

/// Transport timing of a request, as reported by `net`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timing {
    /// When the plan wanted the request.
    pub due_at: Tick,
    /// When the client began with it, before its connection was looked for, where every request opens one.
    pub began_at: Option<Tick>,
    /// When its last byte was handed to the socket; `None` if that never happened.
    pub sent_at: Option<Tick>,
    /// When the read returned that completed the response's head.
    pub head_at: Option<Tick>,
    /// When the first byte of the response body arrived.
    pub first_byte_at: Option<Tick>,
    /// When the exchange ended.
    pub ended_at: Tick,
    /// Whether a connection had to be opened for it.
    pub connection_new: bool,
    /// Kept connections that turned out to have been closed by the server, before the request went through on another.
    pub stale_connections: u32,
    /// Time spent on name resolution for it.
    pub dns: Span,
    /// Time spent on opening the connection.
    pub connect: Span,
    /// Time spent on the TLS handshake.
    pub tls: Span,
    /// Whether the handshake went on from an earlier session.
    pub tls_resumed: bool,
    /// The stream that it had, over HTTP/2.
    pub stream: Option<StreamUse>,
}

/// How the exchange ended, as reported by `net`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    /// A good status, and the body ended as HTTP prescribes.
    Complete,
    /// Anything else, refusals by status included.
    Failed {
        /// What went wrong.
        kind: FailureKind,
        /// Message of the server or the transport, bounded.
        message: String,
        /// `Retry-After`, if given.
        retry_after: Option<Span>,
    },
    /// A good status and a body that ends with its connection, but TLS did not say that this is the end: as [`Ending::Complete`] where the
    /// answer says itself that it is whole, else cut off.
    Unsealed {
        /// Message of the transport.
        message: String,
    },
}

/// Why a request does not count as answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What went wrong.
    pub kind: FailureKind,
    /// Message of the server or the transport; may be empty.
    pub message: String,
    /// `Retry-After`, if given.
    pub retry_after: Option<Span>,
}

/// Text that arrived at one tick on one channel: one text event, or several that came in one read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// When the read returned that completed it.
    pub at: Tick,
    /// One past its last byte in [`RequestTrace::text`]; it begins where the arrival before it ends.
    pub text_end: u32,
    /// How many text events it joins; above 65,535 a further arrival with the same tick begins.
    pub events: u16,
    /// Channel of the text.
    pub channel: Channel,
}

/// How often each anomaly was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Anomalies([u32; Anomaly::ALL.len()]);

impl Anomalies {
    /// How often one of them was seen.
    pub fn count(&self, anomaly: Anomaly) -> u32 {
        self.0[anomaly as usize]
    }

    /// Counts one more.
    pub fn add(&mut self, anomaly: Anomaly) {
        let count = &mut self.0[anomaly as usize];
        *count = count.saturating_add(1);
    }

    /// Those that were seen, with their counts.
    pub fn seen(&self) -> impl Iterator<Item = (Anomaly, u32)> + '_ {
        Anomaly::ALL.into_iter().zip(self.0).filter(|(_, count)| *count > 0)
    }
}

impl FromIterator<(Anomaly, u32)> for Anomalies {
    fn from_iter<I: IntoIterator<Item = (Anomaly, u32)>>(counts: I) -> Anomalies {
        let mut all = Anomalies::default();
        counts.into_iter().for_each(|(anomaly, count)| all.0[anomaly as usize] = count);
        all
    }
}

/// Gathers one request's events. [`RequestMeter::on`] is the hot path: it appends, and decides nothing.
#[derive(Clone, Debug, Default)]
pub struct RequestMeter {
    metadata: StreamMetadata,
    arrivals: Vec<Arrival>,
    text: String,
    calls: Vec<CallMark>,
    sound: Option<Box<SoundTrace>>,
    unknown: BTreeMap<String, String>,
}

/// The trace of one request with ticks; input of [`RequestNumbers`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RequestTrace {
    /// Transport timing.
    pub timing: Timing,
    /// Arrivals of text, in order; ticks never fall.
    pub arrivals: Vec<Arrival>,
    /// All output text in order of arrival, channels mixed as they came.
    pub text: String,
    /// Where calls of tools begin in the text, or are gone on with, in order.
    pub calls: Vec<CallMark>,
    /// Results that are no text, such as vectors, if there were any.
    pub items: Option<u32>,
    /// Images, if there were any.
    pub images: Option<ImageTrace>,
    /// What became of a batch, if it was one; set by the caller.
    pub batch: Option<Box<BatchNumbers>>,
    /// Sound, if there was some.
    pub sound: Option<Box<SoundTrace>>,
    /// Of a session that was opened for it: from the beginning of the handshake to the server's word that it is open; set by whoever did.
    pub opened: Option<Span>,
    /// The last token counts that the provider reported.
    pub usage: Option<Usage>,
    /// The times reported by the server.
    pub timings: Option<ServerTimings>,
    /// Top-level fields outside the dialect, the last JSON value of each, if the decoder was asked for them.
    pub unknown: BTreeMap<String, String>,
    /// The finish reason, if reported.
    pub finish: Option<FinishReason>,
    /// When the dialect's end mark arrived.
    pub done_at: Option<Tick>,
    /// Whether it came in one piece although it was asked for as a stream; set by whoever read it.
    pub in_one_piece: bool,
    /// The first model that the answer named.
    pub model: Option<String>,
    /// How often the answer named another model after that.
    pub model_changes: u32,
    /// Deviations from the dialect.
    pub anomalies: Anomalies,
    /// How the first event began that could not be read, if one could not; set by whoever read it.
    pub unreadable: Option<String>,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
}

impl RequestMeter {
    /// An empty meter.
    pub fn new() -> RequestMeter {
        RequestMeter::default()
    }

    /// Processes the events of one read. Costs no allocation beyond the growth of the trace.
    pub fn on(&mut self, batch: &EventBatch) {
        let mut next = 0;
        while let Some(event) = batch.events().get(next) {
            if let Some(run) = batch.text_run(next) {
                self.metadata.on_text();
                self.on_text(run.at, run.channel, batch.text(run.text), run.events);
                next += usize::from(run.events);
            } else {
                self.on_event(event, batch);
                next += 1;
            }
        }
    }

    /// True once the dialect's end mark was seen.
    pub fn is_done(&self) -> bool {
        self.metadata.done_at.is_some()
    }

    /// Closes the trace and derives the outcome.
    ///
    /// The first failure counts. After the end mark an answer is complete, whatever the transport does.
    /// A body that ended well is `truncated` if it held text but neither finish reason nor end mark, `not_json` if nothing
    /// in it was understood, and `empty` if it held no text. One that TLS did not end is `truncated` unless it is whole by itself.
    pub fn finish(mut self, timing: Timing, ending: Ending) -> RequestTrace {
        self.metadata.close(ending, !self.arrivals.is_empty());
        // Traces are kept until the end of the run; growth may have left half of their capacity unused.
        self.arrivals.shrink_to_fit();
        self.text.shrink_to_fit();
        RequestTrace {
            timing,
            arrivals: self.arrivals,
            text: self.text,
            calls: self.calls,
            items: self.metadata.results.as_ref().and_then(|results| results.items),
            images: self.metadata.results.and_then(|results| results.images),
            batch: None,
            sound: self.sound,
            opened: None,
            usage: self.metadata.usage,
            timings: self.metadata.timings,
            unknown: self.unknown,
            finish: self.metadata.finish,
            done_at: self.metadata.done_at,
            in_one_piece: false,
            model: self.metadata.model,
            model_changes: self.metadata.model_changes,
            anomalies: self.metadata.anomalies,
            unreadable: None,
            failure: self.metadata.failure,
        }
    }

    fn on_event(&mut self, event: &StreamEvent, batch: &EventBatch) {
        if let EventKind::ToolCall { index, name, .. } = event.kind {
            let start = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
            self.calls.push(CallMark { index, start, arguments: start.saturating_add(name.len() as u32) });
        }
        if let EventKind::Sound(piece) = event.kind {
            SoundTrace::add(&mut self.sound, event.at, piece);
        }
        if let Some((channel, text)) = self.metadata.on(event, batch, !self.arrivals.is_empty()) {
            self.on_text(event.at, channel, text, 1);
        } else if let EventKind::Unknown { name, json } = event.kind {
            self.unknown.insert(batch.text(name).to_owned(), batch.text(json).to_owned());
        }
    }

    /// Takes so many text events.
    fn on_text(&mut self, at: Tick, channel: Channel, text: &str, events: u16) {
        if text.is_empty() {
            return;
        }
        let Ok(text_end) = u32::try_from(self.text.len() + text.len()) else {
            self.metadata.fail_too_large();
            return;
        };
        self.text.push_str(text);
        match self.arrivals.last_mut() {
            // If the clock runs backwards, no gap is recorded.
            Some(last) if at <= last.at && channel == last.channel && events <= u16::MAX - last.events => {
                last.text_end = text_end;
                last.events += events;
            }
            last => {
                let at = last.map_or(at, |last| at.max(last.at));
                self.arrivals.push(Arrival { at, text_end, events, channel });
            }
        }
    }
}

impl RequestTrace {
    /// When the answer was complete: the tick of the end mark if there was one, else the end of the exchange.
    pub fn finished_at(&self) -> Tick {
        self.done_at.unwrap_or(self.timing.ended_at)
    }
}

#[cfg(test)]
mod tests;
