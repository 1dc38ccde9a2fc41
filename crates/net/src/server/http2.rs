//! HTTP/2: what the HTTP library leaves to the server.
//!
//! It refuses to know frames. Invariant: a client that opens no window for a body that has something for it is known to have
//! stalled, however well the connection itself moves.

use super::answered::Served;
use super::{ConnectionTap, HEAD_TIMEOUT, Handler, IDLE_TIMEOUT, RequestBody, until_closing};
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

/// Streams on one connection.
const STREAMS_MOST: u32 = 256;

/// Time for what is on its way on a connection that ends.
const FAREWELL: Span = Span::from_secs(2);

/// Serves a connection to its end, or until a client takes nothing of an answer for as long as the handler allows, or asks nothing.
pub(super) async fn serve<H: Handler>(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    served: Served<H>,
    closing: &mut watch::Receiver<bool>,
) {
    let (bodies, limit) = (Rc::<Bodies>::default(), served.handler.send_limit());
    let (held, tap) = (Rc::clone(&bodies), Rc::clone(&served.tap));
    let service = service_fn(move |request: Request<Incoming>| {
        let open = Open::begin(&held, &served.tap);
        // In a box of its own: a connection keeps room for it as long as it lives, and a stream outlives it by far.
        let answer = open.is_some().then(|| served.answer(request.map(RequestBody::http2)));
        let bodies = Rc::clone(&held);
        async move {
            match (answer, open) {
                (Some(answer), Some(open)) => Ok(answer.await.map(|body| bodies.watch(body, open))),
                // The stream is refused; the client asks again on another connection.
                _ => Err(io::Error::from(io::ErrorKind::ConnectionAborted)),
            }
        }
    });
    let mut builder = http2::Builder::new(LocalExecutor);
    builder.timer(TokioTimer::new()).max_concurrent_streams(STREAMS_MOST).initial_stream_window_size(1 << 20);
    let connection = Box::pin(builder.serve_connection(TokioIo::new(stream), service));
    let given_up = async {
        tokio::select! {
            () = tap.given_up() => {}
            () = bodies.idle() => {}
        }
    };
    tokio::select! {
        biased;
        () = until_closing(connection, given_up, closing, FAREWELL, http2::Connection::graceful_shutdown) => {}
        () = bodies.stalled(limit) => tap.has_stalled.set(true),
    }
}

/// Since when a body has something that its stream has no room for.
type Waiting = Cell<Option<Instant>>;

/// The requests on a connection, and their answers.
#[derive(Default)]
struct Bodies {
    all: RefCell<Vec<Weak<Waiting>>>,
    open: Cell<usize>,
    /// How many there have been.
    begun: Cell<u64>,
}

/// A request, as long as it lives.
struct Open {
    bodies: Rc<Bodies>,
    tap: Rc<ConnectionTap>,
}

impl Open {
    /// One more; none if the connection has to go for another one.
    fn begin(bodies: &Rc<Bodies>, tap: &Rc<ConnectionTap>) -> Option<Open> {
        if !tap.begins() {
            return None;
        }
        bodies.open.set(bodies.open.get() + 1);
        bodies.begun.set(bodies.begun.get() + 1);
        Some(Open { bodies: Rc::clone(bodies), tap: Rc::clone(tap) })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.bodies.open.set(self.bodies.open.get() - 1);
        if self.bodies.open.get() == 0 {
            self.tap.waits();
        }
    }
}

impl Bodies {
    fn watch<B>(&self, body: B, open: Open) -> Watched<B> {
        let waiting = Rc::new(Cell::new(Some(Instant::now())));
        let mut all = self.all.borrow_mut();
        all.retain(|one| one.strong_count() > 0);
        all.push(Rc::downgrade(&waiting));
        Watched { body: Box::pin(body), waiting, _open: open }
    }

    /// Ready when nothing was asked for as long as a connection may wait: for its first request as long as for a head.
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

    /// Ready when a body has waited for as long as `limit`.
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

/// A body that notes when it is asked: the HTTP library asks when the stream has room.
struct Watched<B> {
    body: Pin<Box<B>>,
    waiting: Rc<Waiting>,
    _open: Open,
}

impl<B: Body<Data = Bytes, Error = io::Error>> Body for Watched<B> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let watched = self.get_mut();
        let polled = watched.body.as_mut().poll_frame(context);
        watched.waiting.set(polled.is_ready().then(Instant::now));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
