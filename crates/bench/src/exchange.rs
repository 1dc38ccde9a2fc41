//! One request from start to trace: the body that is sent, the sink that decodes and meters what comes back.
//!
//! It refuses to know plans and statistics. Invariant: whatever happens to the exchange, what was measured before is
//! kept in the trace, with the failure named.

use crate::config::RequestOptions;
use crate::drive::Job;
use crate::plan::Start;
use crate::prompts::Prompts;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Notify;
use tokrate_core::{ChatRequest, EventBatch, FailureKind, Message, Span, Tick, What, one_line};
use tokrate_meter::{Ending, RequestMeter, RequestTrace, TEXT_BYTES_MOST, Timing};
use tokrate_net::{Client, Exchange, Head, Outgoing, Redactor, Sink};
use tokrate_wire::{Decoder, Dialect, Shape, encode_request, refusal};

/// Largest part of an error answer that is kept to be understood.
const ERROR_BODY_BYTES_MOST: usize = 64 * 1024;
/// Longest message that is kept (bytes): what a server says has 500 at most, and its status stands before it.
const MESSAGE_BYTES_MOST: usize = 600;
/// More kept connections than this are not tried for one request.
const STALE_CONNECTIONS_MOST: u32 = 64;
/// How long after the end of the answer the end of the body is waited for, before the connection is given up.
const GRACE_AFTER_DONE: Span = Span::from_secs(1);

/// Makes the bodies of a phase's requests.
#[derive(Debug)]
pub struct Bodies {
    /// Wire dialect.
    pub dialect: Dialect,
    /// Model as the endpoint knows it.
    pub model: String,
    /// What is asked for.
    pub options: RequestOptions,
    /// Where prompts come from.
    pub prompts: Prompts,
}

impl Bodies {
    /// Output tokens that the prompt of that number asks for.
    pub fn output_tokens(&self, number: u64) -> u64 {
        u64::from(self.prompts.output_tokens(number).unwrap_or(self.options.output_tokens))
    }

    /// The body of a request with the prompt of that number in the run, after what was said before it.
    pub fn encode(&self, number: u64, history: &[Message]) -> Bytes {
        let options = &self.options;
        let prompt = self.prompts.prompt(number);
        let request = ChatRequest {
            model: self.model.clone(),
            messages: history.iter().cloned().chain(prompt.messages).collect(),
            stream: options.stream,
            include_usage: options.stream && options.include_usage,
            max_output_tokens: Some(prompt.output_tokens.unwrap_or(options.output_tokens)),
            legacy_max_tokens: options.legacy_max_tokens,
            ignore_eos: options.ignore_eos,
            temperature: options.temperature,
            extra: options.extra.clone(),
            ..ChatRequest::default()
        };
        Bytes::from(encode_request(self.dialect, &request))
    }
}

/// What all requests of a worker share.
pub(crate) struct Lane {
    pub job: Arc<Job>,
    pub client: Client,
    /// One arena for all decoders of a worker: a batch is emptied before the next read is decoded.
    pub batch: RefCell<EventBatch>,
}

/// A request that has ended.
#[derive(Debug)]
pub struct Finished {
    /// What the plan said.
    pub start: Start,
    /// Everything that was measured.
    pub trace: RequestTrace,
}

impl Lane {
    /// Sends one request and measures its answer until it ends, fails, or `cancelled` completes.
    pub async fn carry_out(
        &self,
        index: u64,
        due_at: Tick,
        body: Bytes,
        cancelled: impl Future<Output = ()>,
    ) -> RequestTrace {
        let job = &self.job;
        let mut headers = job.headers.clone();
        // Some servers take no body that does not say what it is.
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
        let mut cancelled = std::pin::pin!(cancelled);
        loop {
            let done = Rc::clone(&sink.done);
            let exchange = tokio::select! {
                biased;
                exchange = self.client.exchange(&outgoing, limits, &mut sink) => Some(exchange),
                () = &mut cancelled => None,
                () = overdue(done) => None,
            };
            match exchange {
                Some(exchange) if sink.found_stale(&exchange) => sink.begin_anew(),
                exchange => return sink.finish(due_at, self.job.clock.now(), exchange),
            }
        }
    }
}

/// Completes when the answer has ended and its body still has not, a while later.
async fn overdue(done: Rc<Notify>) {
    done.notified().await;
    tokio::time::sleep(GRACE_AFTER_DONE.as_duration()).await;
}

/// Decodes and meters one answer.
struct AnswerSink<'a> {
    lane: &'a Lane,
    decoder: Decoder,
    /// Through it goes every byte of an answer before anything else is done with it.
    redactor: Redactor,
    meter: RequestMeter,
    sent_at: Option<Tick>,
    first_byte_at: Option<Tick>,
    last_byte_at: Option<Tick>,
    head_seen: bool,
    stale_connections: u32,
    refused: Option<Refused>,
    done: Rc<Notify>,
}

/// An answer with an error status, kept to be understood at its end.
struct Refused {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl<'a> AnswerSink<'a> {
    fn new(lane: &'a Lane, shape: Shape) -> AnswerSink<'a> {
        let bodies = &lane.job.bodies;
        let decoder = Decoder::new(bodies.dialect, shape);
        AnswerSink {
            lane,
            decoder: if bodies.options.keep_unknown { decoder.with_unknown_fields() } else { decoder },
            redactor: Redactor::new(lane.job.secrets.clone(), Bytes::new()),
            meter: RequestMeter::new(),
            sent_at: None,
            first_byte_at: None,
            last_byte_at: None,
            head_seen: false,
            stale_connections: 0,
            refused: None,
            done: Rc::new(Notify::new()),
        }
    }

    /// Whether a kept connection ended before any byte of an answer, which is how a server shows that it had closed it at
    /// the end of an answer without saying so. A server that read the request and broke looks the same, so a request may
    /// reach it twice; that is why each one sent again is counted, and timed anew.
    fn found_stale(&self, exchange: &Exchange) -> bool {
        let lost = exchange.outcome.as_ref().is_err_and(|failure| failure.kind == FailureKind::Closed);
        lost && !exchange.connection.new && !self.head_seen && self.stale_connections < STALE_CONNECTIONS_MOST
    }

    fn begin_anew(&mut self) {
        self.sent_at = None;
        self.stale_connections += 1;
    }

    /// Hands what the decoder said to the meter.
    fn meter_batch(&mut self, batch: &mut EventBatch) {
        let was_done = self.meter.is_done();
        self.meter.on(batch);
        if !was_done && self.meter.is_done() {
            self.done.notify_one();
        }
        let text: usize = batch
            .events()
            .iter()
            .map(|event| match event.what {
                What::Text { text, .. } => text.len(),
                _ => 0,
            })
            .sum();
        self.lane.job.progress.text(text);
        batch.clear();
    }

    fn finish(mut self, due_at: Tick, now: Tick, exchange: Option<Exchange>) -> RequestTrace {
        let ended_at = exchange.as_ref().map_or(now, |exchange| exchange.ended_at);
        let held = self.redactor.end();
        if !held.is_empty() {
            self.take(self.last_byte_at.unwrap_or(ended_at), &held);
        }
        let complete = exchange.as_ref().is_some_and(|exchange| exchange.outcome.is_ok());
        if self.refused.is_none() && (complete || self.first_byte_at.is_some()) {
            let mut batch = self.lane.batch.borrow_mut();
            // Whatever is left in the decoder arrived with the last read, not later.
            self.decoder.end(self.last_byte_at.unwrap_or(ended_at), &mut batch);
            self.meter_batch(&mut batch);
        }
        let connection = exchange.as_ref().map(|exchange| exchange.connection).unwrap_or_default();
        let timing = Timing {
            due_at,
            sent_at: self.sent_at,
            first_byte_at: self.first_byte_at,
            ended_at,
            connection_new: connection.new,
            stale_connections: self.stale_connections,
            dns: connection.dns,
            connect: connection.connect,
            tls: connection.tls,
        };
        let ending = self.ending(exchange);
        let secrets = &self.lane.job.secrets;
        let mut trace = self.meter.finish(timing, ending);
        // Some servers echo the key; what transports and proxies say has not gone through the redactor.
        if let Some(failure) = &mut trace.failure {
            let said = std::mem::take(&mut failure.message);
            failure.message = one_line(&secrets.redacted(said), MESSAGE_BYTES_MOST);
        }
        trace.model = trace.model.take().map(|model| one_line(&secrets.redacted(model), TEXT_BYTES_MOST));
        trace
    }

    fn ending(&mut self, exchange: Option<Exchange>) -> Ending {
        let failed = |kind, message| Ending::Failed { kind, message, retry_after: None };
        match (self.refused.take(), exchange.map(|exchange| exchange.outcome)) {
            (Some(refused), _) => {
                let headers: Vec<(&str, &str)> =
                    refused.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                let refusal = refusal(refused.status, &headers, &refused.body);
                Ending::Failed {
                    kind: refusal.kind,
                    message: format!("HTTP {}: {}", refused.status, refusal.message),
                    retry_after: refusal.retry_after,
                }
            }
            (None, Some(Ok(()))) => Ending::Complete,
            (None, Some(Err(failure))) => failed(failure.kind, failure.detail),
            (None, None) if self.meter.is_done() => Ending::Complete,
            (None, None) => failed(FailureKind::Cancelled, "the run ended before the answer did".to_owned()),
        }
    }
}

impl Sink for AnswerSink<'_> {
    fn sent(&mut self, at: Tick) {
        self.sent_at = Some(at);
    }

    fn head(&mut self, _at: Tick, head: &Head) {
        self.head_seen = true;
        if !head.status.is_success() {
            let text = |value: &HeaderValue| value.to_str().ok().map(str::to_owned);
            self.refused = Some(Refused {
                status: head.status.as_u16(),
                headers: head
                    .headers
                    .iter()
                    .filter_map(|(name, value)| Some((name.as_str().to_owned(), text(value)?)))
                    .collect(),
                body: Vec::new(),
            });
        }
    }

    fn body(&mut self, at: Tick, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.first_byte_at.get_or_insert(at);
        self.last_byte_at = Some(at);
        let clean = self.redactor.push(bytes);
        self.take(at, &clean);
    }
}

impl AnswerSink<'_> {
    /// Takes bytes without any key.
    fn take(&mut self, at: Tick, bytes: &[u8]) {
        if let Some(refused) = &mut self.refused {
            let room = ERROR_BODY_BYTES_MOST.saturating_sub(refused.body.len());
            refused.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
            return;
        }
        let mut batch = self.lane.batch.borrow_mut();
        self.decoder.push(at, bytes, &mut batch);
        self.meter_batch(&mut batch);
    }
}
