//! HTTP/2: several connections, each with a bounded number of streams, so that no request waits for another.
//!
//! It refuses to measure its own flow control: windows are larger than any answer, and a connection takes no more streams
//! than its server allows and [`STREAMS_PER_CONNECTION`]. Invariant: an exchange waits only for a connection that is being
//! opened and has room for it.

use super::failure::{Stage, failure_of};
use super::receive::Receiver;
use super::upload::Upload;
use super::{Dialer, READ_BUFFER_BYTES};
use crate::connect::Opened;
use crate::exchange::{ConnectionUse, ExchangeFailure, Sink};
use crate::stamped::Stamps;
use crate::transport::Transport;
use hyper::client::conn::http2::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::sync::Notify;

/// Streams on one connection before another is opened: half of what servers allow as a rule.
const STREAMS_PER_CONNECTION: usize = 50;
/// Flow-control windows, so large that the client never holds a server back.
const STREAM_WINDOW_BYTES: u32 = 8 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 256 << 20;

#[derive(Default)]
pub(super) struct Http2Pool {
    open: RefCell<Vec<Rc<Http2>>>,
    /// Connections being opened, and exchanges that wait for one of them.
    opening: Cell<usize>,
    waiting: Cell<usize>,
    opened: Notify,
}

struct Http2 {
    sender: SendRequest<Upload>,
    stamps: Rc<Stamps>,
    streams: Cell<usize>,
    /// What the server allows at present.
    allowed: Rc<Cell<usize>>,
}

/// Room for one stream on a connection, given back when dropped.
pub(super) struct Stream(Rc<Http2>);

impl Http2Pool {
    /// Room on an open connection, or on a new one.
    pub(super) async fn take(&self, dialer: &Dialer, used: &mut ConnectionUse) -> Result<Stream, ExchangeFailure> {
        if !dialer.config.reuse {
            return Ok(Stream::on(&Rc::new(open(dialer, used).await?)));
        }
        loop {
            if let Some(stream) = self.room() {
                return Ok(stream);
            }
            // Who opens a connection takes a stream of it; the others are for those who wait.
            if self.waiting.get() >= self.opening.get() * (STREAMS_PER_CONNECTION - 1) {
                let _opening = Count::up(&self.opening);
                // Those who wait look again in any case, also when this one is given up.
                let _news = Announce(&self.opened);
                let connection = Rc::new(open(dialer, used).await?);
                self.open.borrow_mut().push(Rc::clone(&connection));
                return Ok(Stream::on(&connection));
            }
            let _waiting = Count::up(&self.waiting);
            self.opened.notified().await;
        }
    }

    /// Streams in use.
    #[cfg(test)]
    pub(in crate::client) fn busy(&self) -> usize {
        self.open.borrow().iter().map(|connection| connection.streams.get()).sum()
    }

    fn room(&self) -> Option<Stream> {
        let mut open = self.open.borrow_mut();
        open.retain(|connection| !connection.sender.is_closed());
        open.iter().find(|connection| connection.has_room()).map(Stream::on)
    }
}

impl Http2 {
    fn has_room(&self) -> bool {
        self.streams.get() < self.allowed.get().min(STREAMS_PER_CONNECTION)
    }
}

impl Stream {
    fn on(connection: &Rc<Http2>) -> Stream {
        connection.streams.set(connection.streams.get() + 1);
        Stream(Rc::clone(connection))
    }

    pub(super) fn stamps(&self) -> Rc<Stamps> {
        Rc::clone(&self.0.stamps)
    }

    /// Sends a request and receives its answer.
    pub(super) async fn carry(
        &self,
        request: http::Request<Upload>,
        receiver: &mut Receiver<'_, impl Sink>,
    ) -> Result<(), ExchangeFailure> {
        let response = self.0.sender.clone().send_request(request).await;
        let mut body = receiver.begin(response)?;
        poll_fn(|context| {
            loop {
                match ready!(http_body::Body::poll_frame(Pin::new(&mut body), context)) {
                    Some(frame) => receiver.take(frame)?,
                    None => return Poll::Ready(Ok(())),
                }
            }
        })
        .await
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.streams.set(self.0.streams.get() - 1);
    }
}

/// Opens a connection and waits for the server's settings, without which the number of streams is a guess.
async fn open(dialer: &Dialer, used: &mut ConnectionUse) -> Result<Http2, ExchangeFailure> {
    dialer
        .open(used, async |opened: Opened| {
            let stamps = opened.stamps;
            let failed = |error: hyper::Error, stamps: &Stamps| failure_of(&error, Stage::Greeting, stamps);
            let (sender, connection) = Builder::new(LocalExecutor)
                .initial_stream_window_size(STREAM_WINDOW_BYTES)
                .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
                .max_frame_size(READ_BUFFER_BYTES as u32)
                // Until the settings came, none: that is how their coming is noticed.
                .initial_max_send_streams(0)
                .handshake(TokioIo::new(opened.transport))
                .await
                .map_err(|error| failed(error, &stamps))?;
            let mut driver = Driver { connection: Box::pin(connection), allowed: Rc::default() };
            let allowed = Rc::clone(&driver.allowed);
            // The settings are taken by a task of the library, which tells nobody: each read is an occasion to look.
            poll_fn(|context| match Pin::new(&mut driver).poll(context) {
                Poll::Ready(Err(error)) => Poll::Ready(Err(failed(error, &stamps))),
                Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
                Poll::Pending if allowed.get() > 0 => Poll::Ready(Ok(())),
                Poll::Pending => {
                    stamps.wake_at_read(context);
                    Poll::Pending
                }
            })
            .await?;
            // Its end is told to every stream on it.
            tokio::task::spawn_local(driver);
            Ok(Http2 { sender, stamps, streams: Cell::new(0), allowed })
        })
        .await
}

/// Drives a connection and publishes how many streams its server allows.
struct Driver {
    connection: Pin<Box<Connection<TokioIo<Transport>, Upload, LocalExecutor>>>,
    allowed: Rc<Cell<usize>>,
}

impl Future for Driver {
    type Output = hyper::Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        let polled = self.connection.as_mut().poll(context);
        self.allowed.set(self.connection.current_max_send_streams());
        polled
    }
}

/// Counts something as long as it lives.
struct Count<'a>(&'a Cell<usize>);

impl<'a> Count<'a> {
    fn up(cell: &'a Cell<usize>) -> Count<'a> {
        cell.set(cell.get() + 1);
        Count(cell)
    }
}

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Wakes all who wait when dropped.
struct Announce<'a>(&'a Notify);

impl Drop for Announce<'_> {
    fn drop(&mut self) {
        self.0.notify_waiters();
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
