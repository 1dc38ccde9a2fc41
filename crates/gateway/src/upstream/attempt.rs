//! One attempt at a call: a request to one lane, and what comes back.
//!
//! It refuses to decide whether it should have been begun, and what becomes of it. Invariant: dropping it closes the
//! connection (over HTTP/2, resets the stream) at once.

use crate::state::lane_health::{LaneFailure, Refusal};
use crate::state::plan::Lane;
use crate::upstream::body::{BodyReader, BodySink, UpstreamBody};
use crate::upstream::not_found::classify_not_found;
use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokrate_core::{EventBatch, FailureKind, Oddity, Span, Tick};
use tokrate_meter::{AttemptRole, Ending, LiveNumbers};
use tokrate_net::{Client, ConnectionUse, Exchange, Limits, Outgoing};
use tokrate_probe::{REFUSAL_BYTES_MOST, deliver};
use tokrate_route::Failed;
use tokrate_wire::Dialect;

const NO_ROOM: &str = "the answers of open calls hold as many bytes as the gateway's limit `answers_bytes` allows";

/// What servers say of a path that they do not have.
const NO_SUCH_PATH: [StatusCode; 3] =
    [StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED, StatusCode::NOT_IMPLEMENTED];

/// An attempt, while it runs and after.
pub(crate) struct Attempt {
    pub lane: Arc<Lane>,
    /// Which of the lane's endpoints it goes to.
    pub endpoint: usize,
    pub role: AttemptRole,
    /// When it was begun, and the wall time of that (ms since 1970).
    pub started_at: Tick,
    pub started_unix_ms: u64,
    /// Calls that the lane had open then, this one included.
    pub in_flight: u32,
    /// Bytes of the request's body as sent.
    pub request_bytes: usize,
    pub body: Rc<RefCell<UpstreamBody>>,
    pub connection_new: bool,
    /// Whether its answer, or refusal, came to the end that HTTP gives it.
    is_complete: bool,
    ended_at: Option<Tick>,
    measured: Option<LiveNumbers>,
    running: Option<Pin<Box<dyn Future<Output = Exchange>>>>,
}

/// What an attempt is begun with.
pub(crate) struct AttemptStart {
    pub lane: Arc<Lane>,
    pub endpoint: usize,
    pub role: AttemptRole,
    pub at: Tick,
    pub unix_ms: u64,
    pub in_flight: u32,
}

impl Attempt {
    /// Begins one; nothing is sent before it is polled.
    pub fn begin(
        beginning: AttemptStart,
        client: Rc<Client>,
        outgoing: Outgoing,
        body: UpstreamBody,
        limits: Limits,
    ) -> Attempt {
        let mut attempt = Attempt::unsent(beginning, body);
        attempt.request_bytes = outgoing.body.len();
        let mut receiving = BodySink(Rc::clone(&attempt.body));
        attempt.running = Some(Box::pin(async move { deliver(&client, &outgoing, limits, &mut receiving).await }));
        attempt
    }

    /// One that could not even be sent.
    pub fn unsendable(
        beginning: AttemptStart,
        batch: Rc<RefCell<EventBatch>>,
        kind: FailureKind,
        said: String,
    ) -> Attempt {
        let at = beginning.at;
        let mut attempt = Attempt::unsent(beginning, UpstreamBody::new(BodyReader::Opaque, batch));
        attempt.close(at, Ending::Failed { kind, message: said, retry_after: None });
        attempt
    }

    fn unsent(beginning: AttemptStart, body: UpstreamBody) -> Attempt {
        let AttemptStart { lane, endpoint, role, at, unix_ms, in_flight } = beginning;
        Attempt {
            lane,
            endpoint,
            role,
            started_at: at,
            started_unix_ms: unix_ms,
            in_flight,
            request_bytes: 0,
            body: Rc::new(RefCell::new(body)),
            connection_new: false,
            is_complete: false,
            ended_at: None,
            measured: None,
            running: None,
        }
    }

    /// The same attempt, taken out of its call: what stays behind has ended.
    pub fn detach(&mut self) -> Attempt {
        Attempt {
            lane: Arc::clone(&self.lane),
            body: Rc::clone(&self.body),
            measured: self.measured.take(),
            running: self.running.take(),
            ..*self
        }
    }

    /// The dialect that is spoken with the lane.
    pub fn dialect(&self) -> Dialect {
        self.lane.endpoints[self.endpoint].config.dialect
    }

    /// Whether its exchange goes on.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Goes on with it; true when it ended just now.
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
                self.connection_new = exchange.connection.new;
                self.is_complete = exchange.outcome.is_ok();
                let mut body = self.body.borrow_mut();
                body.end(exchange.ended_at);
                if exchange.outcome.is_ok() {
                    body.report_translation_failure(exchange.ended_at);
                }
                drop(body);
                let mut ending = self.body.borrow().ending_of(exchange.outcome);
                self.reclassify_not_found(&mut ending);
                self.close(exchange.ended_at, ending);
                true
            }
        }
    }

    /// Gives it up: its connection is closed at once. Without effect on one that has ended.
    pub fn give_up(&mut self, now: Tick) {
        if self.running.take().is_some() {
            let given_up =
                || Ending::Failed { kind: FailureKind::Cancelled, message: String::new(), retry_after: None };
            let ending = self.body.borrow().translation_failure().unwrap_or_else(given_up);
            self.close(now, ending);
        }
    }

    /// How it failed, if it did: an answer without text that says why it ended is none.
    pub fn failure(&self) -> Option<Failed> {
        let measured = self.measured.as_ref()?;
        let failure = measured.failure.as_ref()?;
        let says_why = measured.finish.is_some() && self.body.borrow().is_good();
        let is_whole = failure.kind == FailureKind::Empty && says_why;
        (!is_whole).then_some(Failed { kind: failure.kind, retry_after: failure.retry_after })
    }

    /// The kind of its failure as the meter sees it, an answer without text included.
    pub fn measured_failure(&self) -> Option<FailureKind> {
        Some(self.measured.as_ref()?.failure.as_ref()?.kind)
    }

    /// The status with which the lane refused the request as such.
    pub fn refused_status(&self) -> Option<StatusCode> {
        self.body.borrow().answer.head().map(|head| head.status).filter(StatusCode::is_client_error)
    }

    /// Whether something of what came could not be read.
    pub fn is_unreadable_in_part(&self) -> bool {
        self.measured.as_ref().is_some_and(|measured| measured.oddities.count(Oddity::Unreadable) > 0)
    }

    /// What the lane or the transport said of its failure, without any key.
    pub fn error_message(&self) -> String {
        let failure = self.measured.as_ref().and_then(|measured| measured.failure.as_ref());
        failure.map(|failure| failure.message.clone()).unwrap_or_default()
    }

    /// Whether all of a refusal is there to be handed on. One that broke off would be half an error, which no client can read.
    pub fn has_whole_refusal(&self) -> bool {
        self.is_complete && self.body.borrow().answer.refusal_body().len() < REFUSAL_BYTES_MOST
    }

    /// How it failed, to be remembered of its lane.
    pub fn lane_failure(&self, kind: FailureKind) -> LaneFailure {
        let body = self.body.borrow();
        let is_whole = self.has_whole_refusal();
        let refused = body.answer.head().filter(|head| is_whole && head.status.is_client_error());
        let refusal = refused.map(|head| Refusal {
            dialect: self.dialect(),
            content_type: head.headers.get(CONTENT_TYPE).cloned(),
            body: self.refusal_body_redacted(&body),
        });
        LaneFailure { kind, status: body.answer.head().map(|head| head.status), message: self.error_message(), refusal }
    }

    /// The body with which the lane refused, without any key.
    pub fn refusal_body_redacted(&self, body: &UpstreamBody) -> Bytes {
        Bytes::from(self.redacted(String::from_utf8_lossy(body.answer.refusal_body()).into_owned()))
    }

    /// Whether it was for embeddings, and the lane says that it has no such path.
    pub fn lacks_embeddings(&self) -> bool {
        let body = self.body.borrow();
        let status = body.answer.head().map(|head| head.status);
        let is_missing = status.is_some_and(|status| NO_SUCH_PATH.contains(&status));
        is_missing && body.is_opaque() && self.lane.config.embeddings != Some(true)
    }

    /// A text without the lane's keys.
    fn redacted(&self, text: String) -> String {
        self.lane.endpoints[self.endpoint].secrets.redacted(text)
    }

    /// When it ended; `now` while it runs.
    pub fn total(&self, now: Tick) -> Span {
        self.ended_at.unwrap_or(now) - self.started_at
    }

    /// What was measured; only of one that has ended.
    pub fn measured(&self) -> Option<&LiveNumbers> {
        self.measured.as_ref()
    }

    /// What the lane does not find may be what the settings name.
    fn reclassify_not_found(&self, ending: &mut Ending) {
        let Ending::Failed { kind, .. } = ending else { return };
        if self.lacks_embeddings() {
            // Also where it names the model: one that only chats is not found among those that embed.
            return *kind = FailureKind::NotFound;
        }
        let body = self.body.borrow();
        if let Some(head) = body.answer.head() {
            *kind = classify_not_found(*kind, head.status, body.answer.refusal_body(), &self.lane.config.model);
        }
    }

    fn close(&mut self, at: Tick, ending: Ending) {
        let mut body = self.body.borrow_mut();
        let connection = ConnectionUse { new: self.connection_new, ..ConnectionUse::default() };
        let timing = body.answer.timing(self.started_at, at, connection);
        let measured = body.measure(&timing, ending);
        drop(body);
        self.ended_at = Some(at);
        self.measured = Some(measured);
    }
}
