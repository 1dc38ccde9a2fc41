//! What hyper leaves to an HTTP/2 server: idle timeout, eviction, stalled streams.
//!
//! Invariant: a client that opens no flow-control window for a body with pending data counts as stalled, even if the connection moves.

use super::service::RequestService;
use super::{ConnectionTap, HEAD_TIMEOUT, Handler, IDLE_TIMEOUT, RequestBody, run_until_shutdown};
use crate::client::LocalExecutor;
use bytes::Bytes;
use http::Request;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::Instant;
use tokrate_core::Span;

/// Most concurrent streams on one connection.
const MAX_STREAMS: u32 = 256;

/// Time for open streams of an evicted connection.
const DRAIN_TIMEOUT: Span = Span::from_secs(2);

/// Serves a connection until it ends, is idle for too long, or its client stalls.
pub(super) async fn serve<H: Handler>(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    served: RequestService<H>,
    closing: &mut watch::Receiver<bool>,
) {
    let (requests, limit) = (Rc::<OpenRequests>::default(), served.handler.write_timeout());
    let (tracked_requests, tap) = (Rc::clone(&requests), Rc::clone(&served.tap));
    let service = service_fn(move |request: Request<Incoming>| {
        let open = RequestGuard::begin(&tracked_requests, &served.tap);
        // Boxed separately: the connection would otherwise keep its space for as long as each stream lives.
        let answer = open.is_some().then(|| served.call(request.map(RequestBody::http2)));
        let requests = Rc::clone(&tracked_requests);
        async move {
            match (answer, open) {
                (Some(answer), Some(open)) => Ok(answer.await.map(|body| requests.watch(body, open))),
                // The stream is reset; the client retries on another connection.
                _ => Err(io::Error::from(io::ErrorKind::ConnectionAborted)),
            }
        }
    });
    let mut builder = http2::Builder::new(LocalExecutor);
    builder.timer(TokioTimer::new()).max_concurrent_streams(MAX_STREAMS).initial_stream_window_size(1 << 20);
    let connection = Box::pin(builder.serve_connection(TokioIo::new(stream), service));
    let evicted = async {
        tokio::select! {
            () = tap.evicted() => {}
            () = requests.idle() => {}
        }
    };
    tokio::select! {
        biased;
        () = run_until_shutdown(connection, evicted, closing, DRAIN_TIMEOUT, http2::Connection::graceful_shutdown) => {}
        () = requests.stalled(limit) => tap.has_stalled.set(true),
    }
}

/// Since when a body has data that its stream has no window for.
type BlockedSince = Cell<Option<Instant>>;

/// Requests on a connection and their response bodies.
#[derive(Default)]
struct OpenRequests {
    all: RefCell<Vec<Weak<BlockedSince>>>,
    open: Cell<usize>,
    /// Requests started so far.
    begun: Cell<u64>,
}

/// Counts a request until dropped.
struct RequestGuard {
    requests: Rc<OpenRequests>,
    tap: Rc<ConnectionTap>,
}

impl RequestGuard {
    /// Starts a request; `None` if the connection was evicted.
    fn begin(requests: &Rc<OpenRequests>, tap: &Rc<ConnectionTap>) -> Option<RequestGuard> {
        if !tap.start_request() {
            return None;
        }
        requests.open.set(requests.open.get() + 1);
        requests.begun.set(requests.begun.get() + 1);
        Some(RequestGuard { requests: Rc::clone(requests), tap: Rc::clone(tap) })
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.requests.open.set(self.requests.open.get() - 1);
        if self.requests.open.get() == 0 {
            self.tap.mark_idle();
        }
    }
}

impl OpenRequests {
    fn watch<B>(&self, body: B, open: RequestGuard) -> TrackedBody<B> {
        let blocked_since = Rc::new(Cell::new(Some(Instant::now())));
        let mut all = self.all.borrow_mut();
        all.retain(|one| one.strong_count() > 0);
        all.push(Rc::downgrade(&blocked_since));
        TrackedBody { body: Box::pin(body), blocked_since, _open: open }
    }

    /// Ready after the idle timeout without requests; for the first request the head timeout applies.
    async fn idle(&self) {
        tokio::time::sleep(HEAD_TIMEOUT.as_duration()).await;
        while self.begun.get() > 0 {
            let begun = self.begun.get();
            tokio::time::sleep(IDLE_TIMEOUT.as_duration()).await;
            if self.begun.get() == begun && self.open.get() == 0 {
                return;
            }
        }
    }

    /// Ready when a body was blocked for `limit`.
    async fn stalled(&self, limit: Option<Span>) {
        let Some(limit) = limit.map(Span::as_duration) else { return std::future::pending().await };
        loop {
            tokio::time::sleep(limit / 4).await;
            let all = self.all.borrow();
            let waits = all.iter().filter_map(|one| one.upgrade()?.get());
            if waits.min().is_some_and(|since| since.elapsed() >= limit) {
                return;
            }
        }
    }
}

/// A body that records when it is polled: hyper polls it when the stream has window.
struct TrackedBody<B> {
    body: Pin<Box<B>>,
    blocked_since: Rc<BlockedSince>,
    _open: RequestGuard,
}

impl<B: Body<Data = Bytes, Error = io::Error>> Body for TrackedBody<B> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let tracked = self.get_mut();
        let polled = tracked.body.as_mut().poll_frame(context);
        tracked.blocked_since.set(polled.is_ready().then(Instant::now));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
