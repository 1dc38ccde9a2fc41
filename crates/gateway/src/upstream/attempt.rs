//! One attempt at a call: a request to one lane, and what comes back.
//!
//! It refuses to decide whether it should have been begun, and what becomes of it. Invariant: dropping it closes the
//! connection (over HTTP/2, resets the stream) at once.

use crate::state::lane_health::{Refusal, Trouble};
use crate::state::plan::Lane;
use crate::upstream::body::{Inbox, Reader, Receiving};
use crate::upstream::not_found::what_is_missing;
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
    pub began_at: Tick,
    pub began_unix_ms: u64,
    /// Calls that the lane had open then, this one included.
    pub in_flight: u32,
    /// Bytes of the request's body as sent.
    pub request_bytes: usize,
    pub inbox: Rc<RefCell<Inbox>>,
    pub connection_new: bool,
    /// Whether its answer, or refusal, came to the end that HTTP gives it.
    came_whole: bool,
    ended_at: Option<Tick>,
    measured: Option<LiveNumbers>,
    running: Option<Pin<Box<dyn Future<Output = Exchange>>>>,
}

/// What an attempt is begun with.
pub(crate) struct Beginning {
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
        beginning: Beginning,
        client: Rc<Client>,
        outgoing: Outgoing,
        inbox: Inbox,
        limits: Limits,
    ) -> Attempt {
        let mut attempt = Attempt::unsent(beginning, inbox);
        attempt.request_bytes = outgoing.body.len();
        let mut receiving = Receiving(Rc::clone(&attempt.inbox));
        attempt.running = Some(Box::pin(async move { deliver(&client, &outgoing, limits, &mut receiving).await }));
        attempt
    }

    /// One that could not even be sent.
    pub fn stillborn(beginning: Beginning, batch: Rc<RefCell<EventBatch>>, kind: FailureKind, said: String) -> Attempt {
        let at = beginning.at;
        let mut attempt = Attempt::unsent(beginning, Inbox::new(Reader::Opaque, batch));
        attempt.close(at, Ending::Failed { kind, message: said, retry_after: None });
        attempt
    }

    fn unsent(beginning: Beginning, inbox: Inbox) -> Attempt {
        let Beginning { lane, endpoint, role, at, unix_ms, in_flight } = beginning;
        Attempt {
            lane,
            endpoint,
            role,
            began_at: at,
            began_unix_ms: unix_ms,
            in_flight,
            request_bytes: 0,
            inbox: Rc::new(RefCell::new(inbox)),
            connection_new: false,
            came_whole: false,
            ended_at: None,
            measured: None,
            running: None,
        }
    }

    /// The same attempt, taken out of its call: what stays behind has ended.
    pub fn leave(&mut self) -> Attempt {
        Attempt {
            lane: Arc::clone(&self.lane),
            inbox: Rc::clone(&self.inbox),
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
        if self.inbox.borrow().has_no_room {
            self.running = None;
            let at = self.inbox.borrow().answer.last_byte_at().unwrap_or(self.began_at);
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
                self.came_whole = exchange.outcome.is_ok();
                let mut inbox = self.inbox.borrow_mut();
                inbox.end(exchange.ended_at);
                if exchange.outcome.is_ok() {
                    inbox.tell_fault(exchange.ended_at);
                }
                drop(inbox);
                let mut ending = self.inbox.borrow().ending_of(exchange.outcome);
                self.blame_settings(&mut ending);
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
            let ending = self.inbox.borrow().fault().unwrap_or_else(given_up);
            self.close(now, ending);
        }
    }

    /// How it failed, if it did: an answer without text that says why it ended is none.
    pub fn failure(&self) -> Option<Failed> {
        let measured = self.measured.as_ref()?;
        let failure = measured.failure.as_ref()?;
        let says_why = measured.finish.is_some() && self.inbox.borrow().is_good();
        let is_whole = failure.kind == FailureKind::Empty && says_why;
        (!is_whole).then_some(Failed { kind: failure.kind, retry_after: failure.retry_after })
    }

    /// The kind of its failure as the meter sees it, an answer without text included.
    pub fn measured_failure(&self) -> Option<FailureKind> {
        Some(self.measured.as_ref()?.failure.as_ref()?.kind)
    }

    /// The status with which the lane refused the request as such.
    pub fn refused_status(&self) -> Option<StatusCode> {
        self.inbox.borrow().answer.head().map(|head| head.status).filter(StatusCode::is_client_error)
    }

    /// Whether something of what came could not be read.
    pub fn is_unreadable_in_part(&self) -> bool {
        self.measured.as_ref().is_some_and(|measured| measured.oddities.count(Oddity::Unreadable) > 0)
    }

    /// What the lane or the transport said of its failure, without any key.
    pub fn said(&self) -> String {
        let failure = self.measured.as_ref().and_then(|measured| measured.failure.as_ref());
        failure.map(|failure| failure.message.clone()).unwrap_or_default()
    }

    /// Whether all of a refusal is there to be handed on. One that broke off would be half an error, which no client can read.
    pub fn has_whole_refusal(&self) -> bool {
        self.came_whole && self.inbox.borrow().answer.refusal_body().len() < REFUSAL_BYTES_MOST
    }

    /// How it failed, to be remembered of its lane.
    pub fn trouble(&self, kind: FailureKind) -> Trouble {
        let inbox = self.inbox.borrow();
        let is_whole = self.has_whole_refusal();
        let refused = inbox.answer.head().filter(|head| is_whole && head.status.is_client_error());
        let refusal = refused.map(|head| Refusal {
            dialect: self.dialect(),
            content_type: head.headers.get(CONTENT_TYPE).cloned(),
            body: self.refused(&inbox),
        });
        Trouble { kind, status: inbox.answer.head().map(|head| head.status), message: self.said(), refusal }
    }

    /// The body with which the lane refused, without any key.
    pub fn refused(&self, inbox: &Inbox) -> Bytes {
        Bytes::from(self.redacted(String::from_utf8_lossy(inbox.answer.refusal_body()).into_owned()))
    }

    /// Whether it was for embeddings, and the lane says that it has no such path.
    pub fn lacks_embeddings(&self) -> bool {
        let inbox = self.inbox.borrow();
        let status = inbox.answer.head().map(|head| head.status);
        let is_missing = status.is_some_and(|status| NO_SUCH_PATH.contains(&status));
        is_missing && inbox.is_opaque() && self.lane.config.embeddings != Some(true)
    }

    /// A text without the lane's keys.
    fn redacted(&self, text: String) -> String {
        self.lane.endpoints[self.endpoint].secrets.redacted(text)
    }

    /// When it ended; `now` while it runs.
    pub fn total(&self, now: Tick) -> Span {
        self.ended_at.unwrap_or(now) - self.began_at
    }

    /// What was measured; only of one that has ended.
    pub fn measured(&self) -> Option<&LiveNumbers> {
        self.measured.as_ref()
    }

    /// What the lane does not find may be what the settings name.
    fn blame_settings(&self, ending: &mut Ending) {
        let Ending::Failed { kind, .. } = ending else { return };
        if self.lacks_embeddings() {
            // Also where it names the model: one that only chats is not found among those that embed.
            return *kind = FailureKind::NotFound;
        }
        let inbox = self.inbox.borrow();
        if let Some(head) = inbox.answer.head() {
            *kind = what_is_missing(*kind, head.status, inbox.answer.refusal_body(), &self.lane.config.model);
        }
    }

    fn close(&mut self, at: Tick, ending: Ending) {
        let mut inbox = self.inbox.borrow_mut();
        let connection = ConnectionUse { new: self.connection_new, ..ConnectionUse::default() };
        let timing = inbox.answer.timing(self.began_at, at, connection);
        let measured = inbox.measure(&timing, ending);
        drop(inbox);
        self.ended_at = Some(at);
        self.measured = Some(measured);
    }
}
