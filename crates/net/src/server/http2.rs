//! HTTP/2: what the HTTP library leaves to the server.
//!
//! It refuses to know frames. Invariant: a client that opens no window for a body that has something for it is known to have
//! stalled, however well the connection itself moves.

use super::{ConnectionTap, Handler, RequestBody, until_closing};
use crate::client::LocalExecutor;
use bytes::Bytes;
use http::Request;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
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

/// Serves a connection to its end, or until a client takes nothing of an answer for as long as the handler allows.
pub(super) async fn serve<H: Handler>(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    handler: Rc<H>,
    tap: Rc<ConnectionTap>,
    closing: &mut watch::Receiver<bool>,
) {
    let (bodies, limit) = (Rc::<Bodies>::default(), handler.send_limit());
    let (held, tapped) = (Rc::clone(&bodies), Rc::clone(&tap));
    let service = service_fn(move |request: Request<Incoming>| {
        // In a box of its own: a connection keeps room for it as long as it lives, and a stream outlives it by far.
        let request = request.map(RequestBody::http2);
        let answer = Box::pin(Rc::clone(&handler).handle(request, Rc::clone(&tapped)));
        let bodies = Rc::clone(&held);
        async move { Ok::<_, Infallible>(answer.await.map(|body| bodies.watch(body))) }
    });
    let mut builder = http2::Builder::new(LocalExecutor);
    builder.timer(TokioTimer::new()).max_concurrent_streams(STREAMS_MOST).initial_stream_window_size(1 << 20);
    let connection = Box::pin(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        biased;
        () = until_closing(connection, closing, http2::Connection::graceful_shutdown) => {}
        () = bodies.stalled(limit) => tap.has_stalled.set(true),
    }
}

/// Since when a body has something that its stream has no room for.
type Waiting = Cell<Option<Instant>>;

/// The answers on a connection.
#[derive(Default)]
struct Bodies(RefCell<Vec<Weak<Waiting>>>);

impl Bodies {
    fn watch<B>(&self, body: B) -> Watched<B> {
        let waiting = Rc::new(Cell::new(Some(Instant::now())));
        let mut all = self.0.borrow_mut();
        all.retain(|one| one.strong_count() > 0);
        all.push(Rc::downgrade(&waiting));
        Watched { body: Box::pin(body), waiting }
    }

    /// Ready when a body has waited for as long as `limit`.
    async fn stalled(&self, limit: Option<Span>) {
        let Some(limit) = limit.map(Span::as_duration) else { return std::future::pending().await };
        loop {
            tokio::time::sleep(limit / 4).await;
            let all = self.0.borrow();
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
