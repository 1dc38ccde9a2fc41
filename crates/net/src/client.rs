//! The client of one runtime: sends requests along a route, keeps connections, stamps what comes.
//!
//! It refuses to retry, to follow redirects and to decompress: each would change what is measured without saying so.
//! Invariant: a piece of a body carries the stamp of the read that completed it. On HTTP/1.1 this is exact, because hyper
//! reads on only when the piece was taken; on HTTP/2 it is the latest read of the connection, which may have completed
//! pieces of other streams as well.

use crate::clock::Clock;
use crate::config::{ClientConfig, HttpVersion};
use crate::connect::{Connector, Opened, Transport};
use crate::error::NetError;
use crate::exchange::{ConnectionUse, Exchange, ExchangeFailure, Head, Limits, Outgoing, Sink};
use crate::route::Route;
use crate::stamped::Stamps;
use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use tokrate_core::{FailureKind, Span, Tick};

/// Largest read: 64 events of 300 bytes fit in one, and 500 connections stay small.
const READ_BUFFER_BYTES: usize = 64 * 1024;
/// Streams on one HTTP/2 connection before another is opened, so that servers' usual limit of 100 never queues requests.
const STREAMS_PER_CONNECTION: u32 = 50;
/// Flow-control windows of HTTP/2: so large that the client never holds a server back.
const STREAM_WINDOW_BYTES: u32 = 8 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 256 << 20;

/// Sends requests to one target. Belongs to one current-thread runtime with a `LocalSet`.
pub struct Client {
    config: ClientConfig,
    connector: Connector,
    clock: Clock,
    /// Idle HTTP/1.1 connections, the latest used last.
    idle: RefCell<Vec<Http1>>,
    multiplexed: RefCell<Vec<Rc<Http2>>>,
    dns_told: Cell<bool>,
}

struct Http1 {
    sender: http1::SendRequest<Full<Bytes>>,
    connection: Pin<Box<http1::Connection<TokioIo<Transport>, Full<Bytes>>>>,
    stamps: Rc<Stamps>,
}

struct Http2 {
    sender: http2::SendRequest<Full<Bytes>>,
    stamps: Rc<Stamps>,
    in_flight: Cell<u32>,
}

impl Client {
    /// A client without connections.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new(config: ClientConfig, route: Route, clock: Clock) -> Result<Client, NetError> {
        let connector = Connector::new(&config, route, clock)?;
        Ok(Client {
            config,
            connector,
            clock,
            idle: RefCell::default(),
            multiplexed: RefCell::default(),
            dns_told: Cell::new(false),
        })
    }

    /// Sends a request and hands its answer to `sink` as it comes. Dropping the future closes the connection.
    pub async fn exchange(&self, outgoing: Outgoing, limits: Limits, sink: &mut impl Sink) -> Exchange {
        let watch = Watch { clock: self.clock, started_at: self.clock.now(), stamps: RefCell::default() };
        let mut used = ConnectionUse::default();
        let outcome = tokio::select! {
            biased;
            outcome = self.attempt(outgoing, limits.max_body_bytes, sink, &watch, &mut used) => outcome,
            failure = watch.expiry(limits) => Err(failure),
        };
        Exchange { ended_at: self.clock.now(), outcome, connection: used }
    }

    async fn attempt(
        &self,
        outgoing: Outgoing,
        max_body_bytes: u64,
        sink: &mut impl Sink,
        watch: &Watch,
        used: &mut ConnectionUse,
    ) -> Result<(), ExchangeFailure> {
        let body_bytes = outgoing.body.len() as u64;
        let request = self.request(outgoing)?;
        match self.config.http {
            HttpVersion::Http1 => {
                let mut connection = self.http1(used).await?;
                let stamps = Rc::clone(&connection.stamps);
                watch.follow(&stamps);
                let mut receiver = Receiver::new(sink, &stamps, body_bytes, max_body_bytes);
                let keep = connection.carry(request, &mut receiver).await?;
                if keep && self.config.reuse {
                    self.idle.borrow_mut().push(connection);
                }
                Ok(())
            }
            HttpVersion::Http2 => {
                let connection = self.http2(used).await?;
                watch.follow(&connection.stamps);
                let mut receiver = Receiver::new(sink, &connection.stamps, body_bytes, max_body_bytes);
                connection.carry(request, &mut receiver).await
            }
        }
    }

    fn request(&self, outgoing: Outgoing) -> Result<http::Request<Full<Bytes>>, ExchangeFailure> {
        let target = &self.connector.route().target;
        let whole = self.connector.absolute_form() || self.config.http == HttpVersion::Http2;
        let uri = if whole {
            let scheme = if target.is_tls() { "https" } else { "http" };
            format!("{scheme}://{}{}", target.authority(), outgoing.path)
        } else {
            outgoing.path
        };
        let mut request = http::Request::new(Full::new(outgoing.body));
        let wrong = |detail: String| ExchangeFailure { kind: FailureKind::BadRequest, detail };
        *request.uri_mut() = uri.parse().map_err(|_| wrong(format!("`{uri}` is no path of a URL")))?;
        *request.method_mut() = outgoing.method;
        *request.headers_mut() = outgoing.headers;
        let headers = request.headers_mut();
        if self.config.http == HttpVersion::Http1 {
            let host = http::HeaderValue::from_str(&target.authority());
            headers.insert(http::header::HOST, host.map_err(|_| wrong("the host cannot be sent in a header".to_owned()))?);
        }
        if let Some(value) = self.connector.proxy_authorization() {
            headers.insert(http::header::PROXY_AUTHORIZATION, value.clone());
        }
        Ok(request)
    }

    /// An idle connection that is still open, or a new one.
    async fn http1(&self, used: &mut ConnectionUse) -> Result<Http1, ExchangeFailure> {
        loop {
            let Some(mut connection) = self.idle.borrow_mut().pop() else { break };
            if poll_fn(|context| Poll::Ready(connection.is_open(context))).await {
                return Ok(connection);
            }
        }
        let opened = self.open(used).await?;
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(READ_BUFFER_BYTES)
            .handshake(TokioIo::new(opened.transport))
            .await
            .map_err(|error| failure_of(&error, false))?;
        Ok(Http1 { sender, connection: Box::pin(connection), stamps: opened.stamps })
    }

    /// A connection with room for another stream, or a new one.
    async fn http2(&self, used: &mut ConnectionUse) -> Result<Rc<Http2>, ExchangeFailure> {
        if self.config.reuse {
            let mut connections = self.multiplexed.borrow_mut();
            connections.retain(|connection| !connection.sender.is_closed());
            let free = connections.iter().find(|connection| connection.in_flight.get() < STREAMS_PER_CONNECTION);
            if let Some(connection) = free {
                return Ok(Rc::clone(connection));
            }
        }
        let opened = self.open(used).await?;
        let (sender, connection) = http2::Builder::new(LocalExecutor)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_frame_size(READ_BUFFER_BYTES as u32)
            .handshake(TokioIo::new(opened.transport))
            .await
            .map_err(|error| failure_of(&error, false))?;
        // Its end is told to every stream on it.
        tokio::task::spawn_local(async move { drop(connection.await) });
        let connection = Rc::new(Http2 { sender, stamps: opened.stamps, in_flight: Cell::new(0) });
        if self.config.reuse {
            self.multiplexed.borrow_mut().push(Rc::clone(&connection));
        }
        Ok(connection)
    }

    async fn open(&self, used: &mut ConnectionUse) -> Result<Opened, ExchangeFailure> {
        let limit = self.config.connect_timeout;
        let opened = tokio::time::timeout(limit.as_duration(), self.connector.open()).await.map_err(|_| {
            let detail = format!("no connection to {} within {limit}", self.connector.route().target.authority());
            ExchangeFailure { kind: FailureKind::ConnectTimeout, detail }
        })??;
        *used = opened.used;
        if !self.dns_told.replace(true) {
            used.dns = self.connector.route().resolved_in();
        }
        Ok(opened)
    }
}

impl Http1 {
    /// Whether another request can be sent at once.
    fn is_open(&mut self, context: &mut Context<'_>) -> bool {
        self.connection.as_mut().poll(context).is_pending() && self.sender.is_ready()
    }

    /// Sends a request and receives its answer. The connection is driven from here and not from a task of its own, so that
    /// a piece of the body costs no switch between tasks. Tells whether the connection can be used again.
    async fn carry(
        &mut self,
        request: http::Request<Full<Bytes>>,
        receiver: &mut Receiver<'_, impl Sink>,
    ) -> Result<bool, ExchangeFailure> {
        let Http1 { sender, connection, .. } = self;
        let mut response = pin!(sender.send_request(request));
        let mut open = true;
        let response = poll_fn(|context| {
            open = open && connection.as_mut().poll(context).is_pending();
            response.as_mut().poll(context)
        })
        .await;
        let mut body = receiver.begin(response)?;
        loop {
            let frame = poll_fn(|context| {
                if let Poll::Ready(frame) = Pin::new(&mut body).poll_frame(context) {
                    return Poll::Ready(frame);
                }
                open = open && connection.as_mut().poll(context).is_pending();
                Pin::new(&mut body).poll_frame(context)
            })
            .await;
            if !receiver.take(frame)? {
                return Ok(open);
            }
        }
    }
}

impl Http2 {
    async fn carry(
        &self,
        request: http::Request<Full<Bytes>>,
        receiver: &mut Receiver<'_, impl Sink>,
    ) -> Result<(), ExchangeFailure> {
        let _stream = Counted::new(&self.in_flight);
        let response = self.sender.clone().send_request(request).await;
        let mut body = receiver.begin(response)?;
        loop {
            let frame = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
            if !receiver.take(frame)? {
                return Ok(());
            }
        }
    }
}

/// Hands what comes to the sink, with its stamps.
struct Receiver<'a, S> {
    sink: &'a mut S,
    stamps: &'a Stamps,
    /// Bytes written on the connection once the request's body is out, at least.
    sent_above: u64,
    room: u64,
    max_body_bytes: u64,
}

impl<'a, S: Sink> Receiver<'a, S> {
    fn new(sink: &'a mut S, stamps: &'a Stamps, body_bytes: u64, max_body_bytes: u64) -> Receiver<'a, S> {
        let sent_above = stamps.wrote_bytes() + body_bytes;
        Receiver { sink, stamps, sent_above, room: max_body_bytes, max_body_bytes }
    }

    fn begin(&mut self, response: hyper::Result<http::Response<Incoming>>) -> Result<Incoming, ExchangeFailure> {
        if self.stamps.wrote_bytes() > self.sent_above {
            self.sink.sent(self.stamps.wrote_at());
        }
        let (parts, body) = response.map_err(|error| failure_of(&error, false))?.into_parts();
        let head = Head { status: parts.status, headers: parts.headers, version: parts.version };
        self.sink.head(self.stamps.read_at(), &head);
        Ok(body)
    }

    /// Takes the next frame; false at the end.
    fn take(&mut self, frame: Option<hyper::Result<Frame<Bytes>>>) -> Result<bool, ExchangeFailure> {
        let at = self.stamps.read_at();
        let Some(frame) = frame else { return Ok(false) };
        let frame = frame.map_err(|error| failure_of(&error, true))?;
        if let Some(bytes) = frame.data_ref() {
            let Some(room) = self.room.checked_sub(bytes.len() as u64) else {
                let detail = format!("the answer is larger than {} bytes", self.max_body_bytes);
                return Err(ExchangeFailure { kind: FailureKind::TooLarge, detail });
            };
            self.room = room;
            self.sink.body(at, bytes);
        }
        Ok(true)
    }
}

/// Notices when an exchange takes too long. Costs nothing per piece: it looks at the stamps when a limit could be over.
struct Watch {
    clock: Clock,
    started_at: Tick,
    stamps: RefCell<Option<Rc<Stamps>>>,
}

impl Watch {
    fn follow(&self, stamps: &Rc<Stamps>) {
        *self.stamps.borrow_mut() = Some(Rc::clone(stamps));
    }

    fn last_activity(&self) -> Tick {
        let stamps = self.stamps.borrow();
        stamps.as_ref().map_or(self.started_at, |stamps| {
            self.started_at.max(stamps.read_at()).max(stamps.wrote_at())
        })
    }

    /// Completes when a limit is over.
    async fn expiry(&self, limits: Limits) -> ExchangeFailure {
        let over_at = self.started_at + limits.total;
        loop {
            let (now, stalled_at) = (self.clock.now(), self.last_activity() + limits.idle);
            if now >= over_at {
                let detail = format!("the request took longer than {}", limits.total);
                return ExchangeFailure { kind: FailureKind::TimedOut, detail };
            }
            // While a connection is being opened, the connect limit holds and not this one.
            let connected = self.stamps.borrow().is_some();
            if connected && now >= stalled_at {
                let detail = format!("no byte came for {}", limits.idle);
                return ExchangeFailure { kind: FailureKind::Stalled, detail };
            }
            let next = if connected { over_at.min(stalled_at) } else { over_at.min(now + limits.idle) };
            tokio::time::sleep((next - now).max(Span::from_millis(1)).as_duration()).await;
        }
    }
}

/// Counts a stream as long as it lives.
struct Counted<'a>(&'a Cell<u32>);

impl<'a> Counted<'a> {
    fn new(count: &'a Cell<u32>) -> Counted<'a> {
        count.set(count.get() + 1);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Spawns on the caller's `LocalSet`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalExecutor;

impl<F: Future + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(async move { drop(future.await) });
    }
}

/// What kind of failure an error of hyper is.
fn failure_of(error: &hyper::Error, head_seen: bool) -> ExchangeFailure {
    let (kind, what) = if error.is_parse() {
        (FailureKind::Protocol, "the answer is not HTTP as it should be")
    } else if head_seen {
        (FailureKind::Truncated, "the answer broke off")
    } else {
        (FailureKind::Protocol, "the connection ended without an answer")
    };
    let mut detail = format!("{what}: {error}");
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        detail.push_str(&format!(": {inner}"));
        source = inner.source();
    }
    ExchangeFailure { kind, detail }
}
