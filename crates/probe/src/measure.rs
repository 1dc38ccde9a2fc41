//! One request from start to trace: sends the body, decodes and meters the response.
//!
//! Invariant: whatever ends the exchange, the trace keeps what was measured before, and names the failure.

use crate::answer::Answer;
use crate::deliver::{Recipient, deliver};
use crate::foreign::Beginning;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::cell::RefCell;
use std::rc::Rc;
use tokio::sync::Notify;
use tokrate_core::{EventBatch, FailureKind, Span, Tick, one_line};
use tokrate_meter::{Ending, Failure, RequestMeter, RequestTrace, Timing};
use tokrate_net::{Client, Clock, Departure, Exchange, Head, Limits, Outgoing, Redactor, Secrets, Sink};
use tokrate_wire::speech::SpeechDecoder;
use tokrate_wire::transcription::TranscriptionDecoder;
use tokrate_wire::{Decoder, Dialect, ItemDecoder, ItemForm, Shape};

/// Longest address of a redirection that is repeated.
const MAX_LOCATION_BYTES: usize = 200;
/// How long after the end of the answer the end of the body is waited for, before the connection is given up.
const GRACE_AFTER_DONE: Span = Span::from_secs(1);

/// A request that is to be measured.
pub struct Call<'a> {
    /// Who sends it.
    pub client: &'a Client,
    /// Path of the request.
    pub path: String,
    /// Headers of the endpoint; the content type and `id` are added.
    pub headers: HeaderMap,
    /// The request's `x-request-id`.
    pub id: String,
    /// The request's body.
    pub body: Bytes,
    /// What is spoken.
    pub dialect: Dialect,
    /// What is asked for.
    pub shape: Shape,
    /// What is asked for instead of text, and for how many texts.
    pub items: Option<(ItemForm, u32)>,
    /// What reads the answer, where it is sound or is made of sound.
    pub audio: Option<AudioDecoder>,
    /// Keep fields of the answer that the dialect does not prescribe.
    pub keep_unknown: bool,
    /// What is masked in everything that the server sends.
    pub secrets: Secrets,
    /// Time limits and the largest body.
    pub limits: Limits,
    /// When it was wanted.
    pub due_at: Tick,
    /// The clock of all times.
    pub clock: Clock,
}

/// Reads an answer that is sound, or is made of sound.
#[derive(Clone, Debug)]
pub enum AudioDecoder {
    /// Sound.
    Speech(SpeechDecoder),
    /// A transcript.
    Transcription(TranscriptionDecoder),
}

impl AudioDecoder {
    fn set_content_type(&mut self, content_type: &str) {
        match self {
            AudioDecoder::Speech(speech) => speech.set_content_type(content_type),
            AudioDecoder::Transcription(transcript) => transcript.set_content_type(content_type),
        }
    }

    fn push(&mut self, at: Tick, bytes: &[u8], out: &mut EventBatch) {
        match self {
            AudioDecoder::Speech(speech) => speech.push(at, bytes, out),
            AudioDecoder::Transcription(transcript) => transcript.push(at, bytes, out),
        }
    }

    fn end(&mut self, at: Tick, ended_at: Tick, is_complete: bool, out: &mut EventBatch) {
        match self {
            AudioDecoder::Speech(speech) => speech.end(at, ended_at, is_complete, out),
            AudioDecoder::Transcription(transcript) => transcript.end(at, is_complete, out),
        }
    }

    /// Whether text came in one piece.
    fn is_whole(&self) -> bool {
        matches!(self, AudioDecoder::Transcription(transcript) if transcript.is_whole())
    }
}

/// What came of it.
#[derive(Debug)]
pub struct Measured {
    /// Everything that was measured.
    pub trace: RequestTrace,
    /// The head of the answer, if one came.
    pub head: Option<Head>,
}

impl Call<'_> {
    /// Sends the request and measures its answer until it ends, fails, or `cancelled` completes. `batch` is an event arena: empty
    /// before and after. `on_events` gets what each read says, and when the
    /// request was sent.
    pub async fn measure(
        self,
        batch: &RefCell<EventBatch>,
        cancelled: impl Future<Output = ()>,
        on_events: &dyn Fn(&EventBatch, Option<Tick>),
    ) -> Measured {
        let mut headers = self.headers;
        // Some servers reject a body without a content type.
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        if let Ok(value) = HeaderValue::from_str(&self.id) {
            headers.insert(HeaderName::from_static("x-request-id"), value);
        }
        let outgoing = Outgoing { method: http::Method::POST, path: self.path, headers, body: self.body };
        let decoder = Decoder::new(self.dialect, self.shape);
        let mut sink = AnswerSink {
            decoder: if self.keep_unknown { decoder.with_unknown_fields() } else { decoder },
            items: self.items.map(|(form, asked)| ItemDecoder::new(form, asked)),
            audio: self.audio,
            asked_whole: self.shape == Shape::Whole,
            beginning: Beginning::new(self.dialect, self.shape),
            body_ended_at: None,
            clock: self.clock,
            answer: Answer::new(Redactor::new(self.secrets, Bytes::new())),
            meter: RequestMeter::new(),
            done: Rc::new(Notify::new()),
            batch,
            on_events,
        };
        let done = Rc::clone(&sink.done);
        let exchange = tokio::select! {
            biased;
            exchange = deliver(self.client, &outgoing, self.limits, &mut sink) => Some(exchange),
            () = cancelled => None,
            () = overdue(done) => None,
        };
        sink.finish(self.due_at, self.clock.now(), exchange)
    }
}

/// Completes some time after the end of the answer, if the body has not ended by then.
async fn overdue(done: Rc<Notify>) {
    done.notified().await;
    tokio::time::sleep(GRACE_AFTER_DONE.as_duration()).await;
}

/// Decodes and meters one answer.
struct AnswerSink<'a> {
    answer: Answer,
    decoder: Decoder,
    /// In place of the decoder, where no text is asked for.
    items: Option<ItemDecoder>,
    audio: Option<AudioDecoder>,
    /// Whether the answer was asked for in one piece.
    asked_whole: bool,
    beginning: Beginning,
    body_ended_at: Option<Tick>,
    clock: Clock,
    meter: RequestMeter,
    done: Rc<Notify>,
    batch: &'a RefCell<EventBatch>,
    on_events: &'a dyn Fn(&EventBatch, Option<Tick>),
}

impl AnswerSink<'_> {
    /// Passes the decoded events to the meter.
    fn meter_batch(&mut self, batch: &mut EventBatch) {
        let was_done = self.meter.is_done();
        self.meter.on(batch);
        self.beginning.on(batch);
        if !was_done && self.meter.is_done() {
            self.done.notify_one();
        }
        (self.on_events)(batch, self.answer.sent_at());
        batch.clear();
    }

    fn finish(mut self, due_at: Tick, now: Tick, exchange: Option<Exchange>) -> Measured {
        let ended_at = exchange.as_ref().map_or(now, |exchange| exchange.ended_at);
        // Whatever was held back arrived with the last read, not later.
        let last_read = self.answer.last_byte_at().unwrap_or(ended_at);
        let held = self.answer.end();
        self.decode(last_read, &held);
        let complete = exchange.as_ref().is_some_and(|exchange| exchange.outcome.is_ok());
        if self.answer.error_response().is_none() && (complete || self.answer.first_byte_at().is_some()) {
            let mut batch = self.batch.borrow_mut();
            match (&mut self.items, &mut self.audio) {
                (Some(items), _) => items.end(last_read, &mut batch),
                (None, Some(audio)) => {
                    // A document shows itself whether it is whole, sound does not.
                    let is_whole = complete || (self.answer.is_unsealed() && audio.is_whole());
                    audio.end(last_read, self.body_ended_at.unwrap_or(ended_at), is_whole, &mut batch)
                }
                (None, None) => self.decoder.end(last_read, &mut batch),
            }
            self.meter_batch(&mut batch);
        }
        let connection = exchange.as_ref().map(|exchange| exchange.connection).unwrap_or_default();
        let began_at = exchange.as_ref().and_then(|exchange| exchange.began_at);
        let timing = Timing { began_at, ..self.answer.timing(due_at, ended_at, connection) };
        let ending = self.ending(exchange);
        let mut trace = self.meter.finish(timing, ending);
        let is_whole = self.audio.as_ref().map_or_else(|| self.decoder.is_whole(), AudioDecoder::is_whole);
        trace.in_one_piece = !self.asked_whole && is_whole;
        trace.unreadable = self.decoder.unreadable().map(str::to_owned);
        let encoding = self.answer.head().and_then(|head| head.headers.get(CONTENT_ENCODING)?.to_str().ok());
        if self.items.is_none() && self.audio.is_none() {
            name_foreign(&self.beginning, encoding, trace.failure.as_mut());
        }
        self.answer.clean(trace.failure.as_mut(), &mut trace.model);
        Measured { trace, head: self.answer.head_mut().cloned() }
    }

    fn ending(&self, exchange: Option<Exchange>) -> Ending {
        if let Some((refusal, head)) = self.answer.error_response().zip(self.answer.head()) {
            let location = head.headers.get(LOCATION).filter(|_| head.status.is_redirection());
            let location = location
                .map(|to| format!(", to {}", one_line(&String::from_utf8_lossy(to.as_bytes()), MAX_LOCATION_BYTES)));
            let words = if refusal.message.is_empty() { String::new() } else { format!(": {}", refusal.message) };
            return Ending::Failed {
                kind: refusal.kind,
                message: format!("HTTP {}{}{words}", head.status.as_u16(), location.unwrap_or_default()),
                retry_after: refusal.retry_after,
            };
        }
        match exchange {
            Some(exchange) => self.answer.ending(exchange.outcome),
            None if self.meter.is_done() => Ending::Complete,
            None => Ending::Failed {
                kind: FailureKind::Cancelled,
                message: "the run ended before the answer did".to_owned(),
                retry_after: None,
            },
        }
    }

    fn decode(&mut self, at: Tick, bytes: &[u8]) {
        if let Some(items) = &mut self.items {
            let mut batch = self.batch.borrow_mut();
            items.push(at, bytes, &mut batch);
            if !batch.events().is_empty() {
                self.meter_batch(&mut batch);
            }
        } else if let Some(audio) = self.audio.as_mut().filter(|_| !bytes.is_empty()) {
            let mut batch = self.batch.borrow_mut();
            audio.push(at, bytes, &mut batch);
            self.meter_batch(&mut batch);
        } else if !bytes.is_empty() {
            let mut batch = self.batch.borrow_mut();
            self.beginning.push(bytes);
            self.decoder.push(at, bytes, &mut batch);
            self.meter_batch(&mut batch);
        }
    }
}

/// An answer that held no text because it is none of the dialect says what it is.
fn name_foreign(beginning: &Beginning, encoding: Option<&str>, failure: Option<&mut Failure>) {
    let unread = |failure: &&mut Failure| {
        matches!(failure.kind, FailureKind::Empty | FailureKind::NotJson | FailureKind::Truncated)
    };
    let Some(failure) = failure.filter(unread) else { return };
    if let Some(complaint) = beginning.complaint(failure.kind == FailureKind::Truncated, encoding) {
        (failure.kind, failure.message) = (FailureKind::NotJson, complaint);
    }
}

impl Sink for AnswerSink<'_> {
    fn begin(&mut self, departure: &Departure) {
        self.answer.begin(departure);
    }

    fn authorized(&mut self, secrets: &Secrets) {
        self.answer.authorized(secrets);
    }

    fn sent(&mut self, _: Tick) {}

    fn head(&mut self, at: Tick, head: &Head) {
        let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if let (Some(audio), Some(content_type)) = (&mut self.audio, content_type) {
            audio.set_content_type(content_type);
        }
        self.answer.set_head(head.clone());
        self.answer.set_head_at(at);
        self.answer.set_wall_seconds(self.clock.wall_seconds());
    }

    fn body(&mut self, at: Tick, bytes: &[u8]) {
        let clean = self.answer.push(at, bytes);
        self.decode(at, &clean);
    }

    fn unsealed(&mut self) {
        self.answer.set_unsealed();
    }

    fn ended(&mut self, at: Tick) {
        self.body_ended_at = Some(at);
    }
}

impl Recipient for AnswerSink<'_> {
    fn last_sent_at(&self) -> Option<Tick> {
        self.answer.last_sent_at()
    }

    fn has_head(&self) -> bool {
        self.answer.head().is_some()
    }

    fn sent_into_closed_connection(&mut self) {
        self.answer.begin_again();
    }
}
