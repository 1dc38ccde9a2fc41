//! One request from start to trace: sends the body, decodes and meters the response.
//!
//! Invariant: whatever ends the exchange, the trace keeps what was measured before, and names the failure.

use crate::job::Job;
use crate::plan::Start;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Notify;
use tokrate_core::{EventBatch, EventKind, FailureKind, Span, Tick};
use tokrate_meter::{Ending, RequestMeter, RequestTrace};
use tokrate_net::{Client, Departure, Exchange, Head, Outgoing, Redactor, Sink};
use tokrate_probe::{Answer, Recipient, deliver};
use tokrate_wire::{Decoder, Shape};

/// How long after the end of the answer the end of the body is waited for, before the connection is given up.
const GRACE_AFTER_DONE: Span = Span::from_secs(1);

/// What all requests of a worker share.
pub(crate) struct WorkerContext {
    pub job: Arc<Job>,
    pub client: Client,
    /// One event arena per worker: a batch is consumed before the next read is decoded.
    pub batch: RefCell<EventBatch>,
}

/// A request that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The plan's entry.
    pub start: Start,
    /// Size of the request's body.
    pub request_bytes: u64,
    /// Everything that was measured.
    pub trace: RequestTrace,
}

impl WorkerContext {
    /// Sends one request and measures its answer until it ends, fails, or `cancelled` completes.
    pub async fn execute(
        &self,
        index: u64,
        due_at: Tick,
        body: Bytes,
        cancelled: impl Future<Output = ()>,
    ) -> RequestTrace {
        let job = &self.job;
        let mut headers = job.headers.clone();
        // Some servers reject a body without a content type.
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        let id = format!("{}-{index}", job.id_prefix);
        if let Ok(value) = HeaderValue::from_str(&id) {
            headers.insert(HeaderName::from_static("x-request-id"), value);
        }
        let outgoing = Outgoing { method: http::Method::POST, path: job.path.clone(), headers, body };
        let shape = if job.bodies.options.stream { Shape::Stream } else { Shape::Whole };
        let mut sink = AnswerSink::new(self, shape);
        let limits = tokrate_net::Limits {
            idle: job.limits.idle,
            total: job.limits.total,
            max_body_bytes: job.limits.max_body_bytes,
        };
        let done = Rc::clone(&sink.done);
        let exchange = tokio::select! {
            biased;
            exchange = deliver(&self.client, &outgoing, limits, &mut sink) => Some(exchange),
            () = cancelled => None,
            () = overdue(done) => None,
        };
        sink.finish(due_at, self.job.clock.now(), exchange)
    }
}

/// Completes some time after the end of the answer, if the body has not ended by then.
async fn overdue(done: Rc<Notify>) {
    done.notified().await;
    tokio::time::sleep(GRACE_AFTER_DONE.as_duration()).await;
}

/// Decodes and meters one answer.
struct AnswerSink<'a> {
    context: &'a WorkerContext,
    answer: Answer,
    decoder: Decoder,
    meter: RequestMeter,
    done: Rc<Notify>,
}

impl<'a> AnswerSink<'a> {
    fn new(context: &'a WorkerContext, shape: Shape) -> AnswerSink<'a> {
        let bodies = &context.job.bodies;
        let decoder = Decoder::new(bodies.dialect, shape);
        AnswerSink {
            context,
            decoder: if bodies.options.keep_unknown { decoder.with_unknown_fields() } else { decoder },
            answer: Answer::new(Redactor::new(context.job.secrets.clone(), Bytes::new())),
            meter: RequestMeter::new(),
            done: Rc::new(Notify::new()),
        }
    }

    /// Passes the decoded events to the meter.
    fn meter_batch(&mut self, batch: &mut EventBatch) {
        let was_done = self.meter.is_done();
        self.meter.on(batch);
        if !was_done && self.meter.is_done() {
            self.done.notify_one();
        }
        let text: usize = batch
            .events()
            .iter()
            .map(|event| match event.kind {
                EventKind::Text { text, .. } => text.len(),
                _ => 0,
            })
            .sum();
        self.context.job.progress.text(text);
        batch.clear();
    }

    fn finish(mut self, due_at: Tick, now: Tick, exchange: Option<Exchange>) -> RequestTrace {
        let ended_at = exchange.as_ref().map_or(now, |exchange| exchange.ended_at);
        // Whatever was held back arrived with the last read, not later.
        let last_read = self.answer.last_byte_at().unwrap_or(ended_at);
        let held = self.answer.end();
        self.decode(last_read, &held);
        let complete = exchange.as_ref().is_some_and(|exchange| exchange.outcome.is_ok());
        if self.answer.error_response().is_none() && (complete || self.answer.first_byte_at().is_some()) {
            let mut batch = self.context.batch.borrow_mut();
            self.decoder.end(last_read, &mut batch);
            self.meter_batch(&mut batch);
        }
        let connection = exchange.as_ref().map(|exchange| exchange.connection).unwrap_or_default();
        let timing = self.answer.timing(due_at, ended_at, connection);
        let ending = self.ending(exchange);
        let mut trace = self.meter.finish(timing, ending);
        self.answer.clean(trace.failure.as_mut(), &mut trace.model);
        trace
    }

    fn ending(&self, exchange: Option<Exchange>) -> Ending {
        if let Some((refusal, head)) = self.answer.error_response().zip(self.answer.head()) {
            return Ending::Failed {
                kind: refusal.kind,
                message: format!("HTTP {}: {}", head.status.as_u16(), refusal.message),
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
        if !bytes.is_empty() {
            let mut batch = self.context.batch.borrow_mut();
            self.decoder.push(at, bytes, &mut batch);
            self.meter_batch(&mut batch);
        }
    }
}

impl Sink for AnswerSink<'_> {
    fn begin(&mut self, departure: &Departure) {
        self.answer.begin(departure);
    }

    fn sent(&mut self, _: Tick) {}

    fn head(&mut self, _: Tick, head: &Head) {
        self.answer.set_head(head.clone());
    }

    fn body(&mut self, at: Tick, bytes: &[u8]) {
        let clean = self.answer.push(at, bytes);
        self.decode(at, &clean);
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
