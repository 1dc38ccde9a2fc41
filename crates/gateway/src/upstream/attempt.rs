//! One attempt of a call: a request to one lane, and the response.
//!
//! Invariant: dropping it closes the connection (over HTTP/2, resets the stream) at once.

use crate::api::Api;
use crate::state::lane_health::{LaneFailure, Refusal};
use crate::state::plan::Lane;
use crate::upstream::body::{BodyReader, BodySink, UpstreamBody};
use crate::upstream::not_found::classify_not_found;
use crate::upstream::session::SessionNumbers;
use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokrate_core::{Anomaly, EventBatch, FailureKind, Span, Tick};
use tokrate_meter::{Ending, Failure, StreamNumbers};
use tokrate_net::{Client, ConnectionUse, Exchange, Limits, Outgoing, StreamedUpload, Upgraded};
use tokrate_probe::{MAX_ERROR_BODY_BYTES, deliver};
use tokrate_record::AttemptRole;
use tokrate_route::AttemptFailure;
use tokrate_wire::Dialect;

const NO_ROOM: &str = "the gateway buffers as many bytes of answers as its limit `answers_bytes` allows";

/// Statuses of servers that do not have a path.
const NO_SUCH_PATH: [StatusCode; 3] =
    [StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED, StatusCode::NOT_IMPLEMENTED];

/// An attempt, while it runs and after.
pub(crate) struct Attempt {
    pub lane: Arc<Lane>,
    /// The row of the table, if it passes byte for byte by it.
    api: Option<&'static Api>,
    /// Index of the lane's endpoint.
    pub endpoint: usize,
    /// Whether its answer was asked for piece by piece.
    pub streamed: bool,
    pub role: AttemptRole,
    /// When it was started, and the wall time of that (ms since 1970).
    pub started_at: Tick,
    pub started_unix_ms: u64,
    /// Attempts that the lane had in flight then, this one included.
    pub in_flight: u32,
    /// Size of the request's body.
    pub request_bytes: usize,
    pub body: Rc<RefCell<UpstreamBody>>,
    /// How its connection was come by; known once it has ended.
    pub connection: ConnectionUse,
    /// Whether the response was complete by the rules of HTTP.
    is_complete: bool,
    ended_at: Option<Tick>,
    measured: Option<StreamNumbers>,
    session: Option<SessionNumbers>,
    /// Why its answer, which ended well, must not reach the client.
    rejected: Option<String>,
    running: Option<Pin<Box<dyn Future<Output = Exchange>>>>,
}

/// What an attempt is started with.
pub(crate) struct AttemptStart {
    pub lane: Arc<Lane>,
    pub endpoint: usize,
    pub streamed: bool,
    pub role: AttemptRole,
    pub at: Tick,
    pub unix_ms: u64,
    pub in_flight: u32,
    pub api: Option<&'static Api>,
}

impl Attempt {
    /// Starts an attempt; nothing is sent before it is polled.
    pub fn start(
        start: AttemptStart,
        client: Rc<Client>,
        (outgoing, rest): (Outgoing, Option<StreamedUpload>),
        body: UpstreamBody,
        limits: Limits,
    ) -> Attempt {
        let mut attempt = Attempt::unsent(start, body);
        let rest_bytes = rest.as_ref().map_or(0, |rest| usize::try_from(rest.length).unwrap_or(usize::MAX));
        attempt.request_bytes = outgoing.body.len().saturating_add(rest_bytes);
        let mut receiving = BodySink(Rc::clone(&attempt.body));
        attempt.running = Some(Box::pin(async move {
            let exchange = match rest {
                Some(rest) => client.exchange_streaming(&outgoing, rest, limits, &mut receiving).await,
                None => deliver(&client, &outgoing, limits, &mut receiving).await,
            };
            let is_open = receiving.0.borrow_mut().has_connection(exchange.connection);
            // A WebSocket goes on until its session ends it.
            if is_open { std::future::pending().await } else { exchange }
        }));
        attempt
    }

    /// An attempt that failed before it could be sent.
    pub fn unsendable(
        start: AttemptStart,
        batch: Rc<RefCell<EventBatch>>,
        kind: FailureKind,
        message: String,
    ) -> Attempt {
        let at = start.at;
        let mut attempt = Attempt::unsent(start, UpstreamBody::new(BodyReader::opaque(), batch));
        attempt.close(at, Ending::Failed { kind, message, retry_after: None });
        attempt
    }

    fn unsent(start: AttemptStart, body: UpstreamBody) -> Attempt {
        let AttemptStart { lane, endpoint, streamed, role, at, unix_ms, in_flight, api } = start;
        Attempt {
            lane,
            api,
            endpoint,
            streamed,
            role,
            started_at: at,
            started_unix_ms: unix_ms,
            in_flight,
            request_bytes: 0,
            body: Rc::new(RefCell::new(body)),
            connection: ConnectionUse::default(),
            is_complete: false,
            ended_at: None,
            measured: None,
            session: None,
            rejected: None,
            running: None,
        }
    }

    /// Takes a running attempt out of its call; what stays behind counts as ended.
    pub fn detach(&mut self) -> Attempt {
        Attempt {
            lane: Arc::clone(&self.lane),
            body: Rc::clone(&self.body),
            measured: self.measured.take(),
            session: self.session.take(),
            rejected: self.rejected.take(),
            running: self.running.take(),
            ..*self
        }
    }

    /// The dialect of the endpoint.
    pub fn dialect(&self) -> Dialect {
        self.lane.endpoints[self.endpoint].config.dialect
    }

    /// Whether the exchange is still running.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Drives the exchange; true if it has just ended.
    pub fn poll(&mut self, context: &mut Context<'_>) -> bool {
        let Some(running) = &mut self.running else { return false };
        let polled = running.as_mut().poll(context);
        if self.body.borrow().is_over_budget {
            self.running = None;
            let at = self.body.borrow().answer.last_byte_at().unwrap_or(self.started_at);
            self.close(
                at,
                Ending::Failed { kind: FailureKind::TooLarge, message: NO_ROOM.to_owned(), retry_after: None },
            );
            return true;
        }
        match polled {
            Poll::Pending => false,
            Poll::Ready(exchange) => {
                self.running = None;
                self.connection = exchange.connection;
                self.is_complete = exchange.outcome.is_ok();
                let mut body = self.body.borrow_mut();
                body.end(exchange.ended_at);
                if exchange.outcome.is_ok() || body.answer.is_unsealed() {
                    body.report_translation_failure(exchange.ended_at);
                }
                drop(body);
                let unopened = self.body.borrow().unopened().filter(|_| exchange.outcome.is_ok());
                let mut ending = unopened.unwrap_or_else(|| self.body.borrow().ending_of(exchange.outcome));
                self.reclassify_not_found(&mut ending);
                self.close(exchange.ended_at, ending);
                true
            }
        }
    }

    /// Takes the WebSocket that it has opened.
    pub fn take_connection(&mut self) -> Option<Upgraded> {
        let (connection, used) = self.body.borrow_mut().take_connection()?;
        self.connection = used;
        Some(connection)
    }

    /// The session on its WebSocket has ended so.
    pub fn close_session(&mut self, at: Tick, numbers: SessionNumbers, failure: Option<Failure>) {
        self.running = None;
        self.close(at, Ending::Complete);
        self.request_bytes = usize::try_from(numbers.bytes_from_client).unwrap_or(usize::MAX);
        if let Some(measured) = &mut self.measured {
            numbers.fill(measured);
            measured.failure = failure;
        }
        self.session = Some(numbers);
    }

    /// What was measured of its session.
    pub fn session(&self) -> Option<&SessionNumbers> {
        self.session.as_ref()
    }

    /// Cancels the exchange and closes its connection. No effect on one that has ended.
    pub fn cancel(&mut self, now: Tick) {
        if self.running.take().is_some() {
            let cancelled =
                || Ending::Failed { kind: FailureKind::Cancelled, message: String::new(), retry_after: None };
            let ending = self.body.borrow().translation_failure().unwrap_or_else(cancelled);
            self.close(now, ending);
        }
    }

    /// How it failed. An answer without text that gives a finish reason is no failure.
    pub fn failure(&self) -> Option<AttemptFailure> {
        if self.rejected.is_some() {
            return Some(AttemptFailure { kind: FailureKind::EditRefused, retry_after: None });
        }
        let measured = self.measured.as_ref()?;
        let failure = measured.failure.as_ref()?;
        let has_reason = measured.finish.is_some() && self.body.borrow().is_good();
        let is_empty_answer = failure.kind == FailureKind::Empty && has_reason;
        (!is_empty_answer).then_some(AttemptFailure { kind: failure.kind, retry_after: failure.retry_after })
    }

    /// Makes an answer that ended well a failure: it must not reach the client.
    pub fn reject(&mut self, why: String) {
        self.rejected = Some(why);
    }

    /// The failure as measured; an answer without text counts as one.
    pub fn measured_failure(&self) -> Option<FailureKind> {
        Some(self.measured.as_ref()?.failure.as_ref()?.kind)
    }

    /// The status with which the lane refused the request.
    pub fn refused_status(&self) -> Option<StatusCode> {
        self.body.borrow().answer.head().map(|head| head.status).filter(StatusCode::is_client_error)
    }

    /// Whether a part of the response could not be decoded.
    pub fn has_unreadable_parts(&self) -> bool {
        self.measured.as_ref().is_some_and(|measured| measured.anomalies.count(Anomaly::Unreadable) > 0)
    }

    /// The error message of the lane or the transport, without any key.
    pub fn error_message(&self) -> String {
        let failure = self.measured.as_ref().and_then(|measured| measured.failure.as_ref());
        let message = || failure.map(|failure| failure.message.clone()).unwrap_or_default();
        self.rejected.clone().unwrap_or_else(message)
    }

    /// Whether the response was complete by the rules of HTTP.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Whether a refusal is complete and can be passed on. Half of an error document cannot be parsed by any client.
    pub fn has_whole_refusal(&self) -> bool {
        self.is_complete && self.body.borrow().answer.error_body().len() < MAX_ERROR_BODY_BYTES
    }

    /// The failure, to be remembered with the lane.
    pub fn lane_failure(&self, kind: FailureKind) -> LaneFailure {
        let body = self.body.borrow();
        let is_whole = self.has_whole_refusal();
        let refused = body.answer.head().filter(|head| is_whole && head.status.is_client_error());
        let refusal = refused.map(|head| Refusal {
            dialect: self.dialect(),
            content_type: head.headers.get(CONTENT_TYPE).cloned(),
            body: self.redacted_refusal(&body),
        });
        LaneFailure { kind, status: body.answer.head().map(|head| head.status), message: self.error_message(), refusal }
    }

    /// The body of the lane's refusal, without any key.
    pub fn redacted_refusal(&self, body: &UpstreamBody) -> Bytes {
        Bytes::from(self.redacted(String::from_utf8_lossy(body.answer.error_body()).into_owned()))
    }

    /// Whether the lane refused the request because of a field that asks for a stream: some models are streamed to some
    /// customers only, and some servers do not know `stream_options`.
    pub fn refused_to_stream(&self) -> bool {
        let body = self.body.borrow();
        let status = body.answer.head().map(|head| head.status);
        let is_refusal = matches!(status, Some(StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY));
        let text = || String::from_utf8_lossy(body.answer.error_body()).to_ascii_lowercase();
        self.streamed && is_refusal && text().contains("stream")
    }

    /// Whether its answer came piece by piece, so that it has a first token.
    pub fn has_streamed(&self) -> bool {
        self.streamed && !self.body.borrow().is_whole()
    }

    /// Sent to the last byte of an answer that came in one piece.
    pub fn whole_answer_time(&self) -> Option<Span> {
        let is_whole =
            !self.has_streamed() && self.measured.as_ref().is_some_and(|measured| measured.failure.is_none());
        let body = self.body.borrow();
        let answer = &body.answer;
        answer.last_byte_at().zip(answer.sent_at()).filter(|_| is_whole).map(|(last, sent)| last - sent)
    }

    /// The service of which the lane answered with the status of an unknown path, although its settings do not say that it has it.
    /// Where a path names an object, it is that which is unknown.
    pub fn missing_service(&self) -> Option<&'static str> {
        let api = self.api.filter(|api| !api.names_object())?;
        let status = self.body.borrow().answer.head().map(|head| head.status);
        let is_missing = status.is_some_and(|status| NO_SUCH_PATH.contains(&status));
        let is_said = self.lane.config.services.says(api.service) == Some(true);
        (is_missing && !is_said).then_some(api.service)
    }

    /// A text without the lane's keys.
    fn redacted(&self, text: String) -> String {
        self.lane.endpoints[self.endpoint].secrets.redacted(text)
    }

    /// From its start to its end, or to `now` while it runs.
    pub fn total(&self, now: Tick) -> Span {
        self.ended_at.unwrap_or(now) - self.started_at
    }

    /// When it ended, if it has.
    pub fn ended_at(&self) -> Option<Tick> {
        self.ended_at
    }

    /// The measurements of an attempt that has ended.
    pub fn measured(&self) -> Option<&StreamNumbers> {
        self.measured.as_ref()
    }

    /// A 404 may be about the model or the path in the settings rather than about the client's request.
    fn reclassify_not_found(&self, ending: &mut Ending) {
        let Ending::Failed { kind, .. } = ending else { return };
        if self.missing_service().is_some() {
            // Even if the error names the model: a chat model is not found among embedding models.
            return *kind = FailureKind::NotFound;
        }
        let body = self.body.borrow();
        if let Some(head) = body.answer.head() {
            *kind = classify_not_found(*kind, head.status, body.answer.error_body(), &self.lane.config.model);
        }
    }

    fn close(&mut self, at: Tick, ending: Ending) {
        let mut body = self.body.borrow_mut();
        let timing = body.answer.timing(self.started_at, at, self.connection);
        let measured = body.measure(&timing, ending);
        drop(body);
        self.ended_at = Some(at);
        self.measured = Some(measured);
    }
}
