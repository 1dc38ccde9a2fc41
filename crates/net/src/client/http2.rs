//! HTTP/2 client connections: as many as their streams need, so that no request waits for another; or as many as are asked for, among
//! which requests are spread.
//!
//! Flow-control windows are larger than any answer, so that the client never limits a server. Invariant: an exchange waits only for a
//! connection that is being opened and has room for it, or, where connections are numbered, for a stream to end; the time is told apart
//! ([`StreamUse::wait`]).

use super::failure::{Stage, failure_of, is_unprocessed};
use super::receive::Receiver;
use super::upload::Upload;
use super::{Dialer, READ_BUFFER_BYTES};
use crate::config::Sharing;
use crate::connect::Opened;
use crate::exchange::{ConnectionUse, ExchangeFailure, Sink, StreamUse};
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
use tokrate_core::Span;

/// Streams on one connection before another is opened, where the number of connections is free: half of the 100 that most servers allow.
const STREAMS_PER_CONNECTION: usize = 50;
/// Flow-control windows large enough that the client never limits a server.
const STREAM_WINDOW_BYTES: u32 = 8 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 256 << 20;

#[derive(Default)]
pub(super) struct Http2Pool {
    open: RefCell<Vec<Rc<Http2>>>,
    /// Connections being opened, and exchanges that wait for one of them.
    opening: Cell<usize>,
    waiting: Cell<usize>,
    /// A connection was opened, or a stream has ended.
    room: Rc<Notify>,
    /// Connections that were opened so far.
    numbered: Cell<u32>,
}

struct Http2 {
    sender: SendRequest<Upload>,
    stamps: Rc<Stamps>,
    streams: Cell<usize>,
    /// The server's current SETTINGS_MAX_CONCURRENT_STREAMS.
    max_streams: Rc<Cell<usize>>,
    /// Its place among those of the client, from 1.
    number: u32,
    /// Told when a stream ends.
    room: Rc<Notify>,
}

/// One stream on a connection, released when dropped.
pub(super) struct Stream(Rc<Http2>);

impl Http2Pool {
    /// A stream on an open connection, or on a new one.
    pub(super) async fn take(&self, dialer: &Dialer, used: &mut ConnectionUse) -> Result<Stream, ExchangeFailure> {
        let (stream, wait) = self.take_waiting(dialer, used).await?;
        let connection = &stream.0;
        used.stream = Some(StreamUse {
            wait,
            connection: connection.number,
            sharing: connection.streams.get() as u32,
            // Without a limit of the server's the client has one of its own, which no server would name.
            allowed: u32::try_from(connection.max_streams.get()).ok().filter(|streams| *streams < u32::MAX),
        });
        Ok(stream)
    }

    /// The same, with the time that passed before there was one, but for opening it.
    async fn take_waiting(&self, dialer: &Dialer, used: &mut ConnectionUse) -> Result<(Stream, Span), ExchangeFailure> {
        if !dialer.config.reuse {
            return Ok((Stream::on(&Rc::new(self.open(dialer, used).await?)), Span::ZERO));
        }
        let mut waited = Span::ZERO;
        loop {
            self.open.borrow_mut().retain(|connection| !connection.sender.is_closed());
            if !self.is_to_grow(dialer)
                && let Some(stream) = self.free_stream(&dialer.config.http2)
            {
                return Ok((stream, waited));
            }
            if self.may_open(dialer) {
                let _opening = CountGuard::up(&self.opening);
                // Waiting exchanges check again even if this one fails or is dropped.
                let _notify = NotifyOnDrop(&self.room);
                let connection = Rc::new(self.open(dialer, used).await?);
                self.open.borrow_mut().push(Rc::clone(&connection));
                return Ok((Stream::on(&connection), waited));
            }
            let _waiting = CountGuard::up(&self.waiting);
            let began_at = dialer.clock.now();
            self.room.notified().await;
            waited += dialer.clock.now() - began_at;
        }
    }

    /// Whether a further connection is to be opened although others have room: there are to be more, and all of them are in use.
    fn is_to_grow(&self, dialer: &Dialer) -> bool {
        let Some(most) = dialer.config.http2.connections else { return false };
        let open = self.open.borrow();
        open.len() + self.opening.get() < most && open.iter().all(|connection| connection.streams.get() > 0)
    }

    /// Whether an exchange that finds no stream opens a connection.
    fn may_open(&self, dialer: &Dialer) -> bool {
        match dialer.config.http2.connections {
            Some(most) => self.open.borrow().len() + self.opening.get() < most,
            // The opener takes one stream of its connection; the others are for waiting exchanges.
            None => self.waiting.get() >= self.opening.get() * (streams_of(&dialer.config.http2) - 1),
        }
    }

    /// Opens a connection and waits for the server's SETTINGS, which limit the number of streams.
    async fn open(&self, dialer: &Dialer, used: &mut ConnectionUse) -> Result<Http2, ExchangeFailure> {
        let (sender, stamps, max_streams) = open(dialer, used).await?;
        self.numbered.set(self.numbered.get() + 1);
        let (number, room) = (self.numbered.get(), Rc::clone(&self.room));
        Ok(Http2 { sender, stamps, streams: Cell::new(0), max_streams, number, room })
    }

    /// Whether an open connection has room for another stream.
    pub(super) fn has_room(&self, sharing: &Sharing) -> bool {
        self.free_stream(sharing).is_some()
    }

    /// Streams in use.
    #[cfg(test)]
    pub(in crate::client) fn busy(&self) -> usize {
        self.open.borrow().iter().map(|connection| connection.streams.get()).sum()
    }

    /// A stream on the first connection with room; where connections are numbered, on the one with the fewest streams.
    fn free_stream(&self, sharing: &Sharing) -> Option<Stream> {
        let open = self.open.borrow();
        let most = streams_of(sharing).min(self.fair_share(sharing, &open));
        let mut with_room =
            open.iter().filter(|connection| !connection.sender.is_closed() && connection.has_room(most));
        match sharing.connections {
            None => with_room.next(),
            Some(_) => with_room.min_by_key(|connection| connection.streams.get()),
        }
        .map(Stream::on)
    }

    /// Streams of a connection at most while others of a number of them are being opened: who asks and waits is to be spread over all of
    /// them, and not to crowd on the first.
    fn fair_share(&self, sharing: &Sharing, open: &[Rc<Http2>]) -> usize {
        let opening = self.opening.get();
        if sharing.connections.is_none() || opening == 0 {
            return usize::MAX;
        }
        let in_use: usize = open.iter().map(|connection| connection.streams.get()).sum();
        // Each opener takes a stream, and so does who asks now.
        (in_use + opening + self.waiting.get() + 1).div_ceil(open.len() + opening)
    }
}

/// Streams of a connection at most, as far as the client is concerned.
fn streams_of(sharing: &Sharing) -> usize {
    let free = if sharing.connections.is_some() { usize::MAX } else { STREAMS_PER_CONNECTION };
    sharing.streams.unwrap_or(free).max(1)
}

impl Http2 {
    fn has_room(&self, most: usize) -> bool {
        self.streams.get() < self.max_streams.get().min(most)
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
    pub(super) async fn exchange(
        &self,
        request: http::Request<Upload>,
        receiver: &mut Receiver<'_, impl Sink>,
        used: &mut ConnectionUse,
    ) -> Result<(), ExchangeFailure> {
        let response = self.0.sender.clone().send_request(request).await;
        used.unprocessed = response.as_ref().is_err_and(is_unprocessed);
        let mut body = receiver.begin(response)?;
        poll_fn(|context| {
            loop {
                match ready!(http_body::Body::poll_frame(Pin::new(&mut body), context)) {
                    Some(frame) => receiver.take(frame)?,
                    None => {
                        receiver.ended();
                        return Poll::Ready(Ok(()));
                    }
                }
            }
        })
        .await
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.streams.set(self.0.streams.get() - 1);
        self.0.room.notify_one();
    }
}

/// A connection that was opened, its stamps, and how many streams its server allows.
type Greeted = (SendRequest<Upload>, Rc<Stamps>, Rc<Cell<usize>>);

async fn open(dialer: &Dialer, used: &mut ConnectionUse) -> Result<Greeted, ExchangeFailure> {
    dialer
        .open(used, async |opened: Opened| {
            let stamps = opened.stamps;
            let failed = |error: hyper::Error, stamps: &Stamps| failure_of(&error, Stage::Settings, stamps);
            let (sender, connection) = Builder::new(LocalExecutor)
                .initial_stream_window_size(STREAM_WINDOW_BYTES)
                .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
                .max_frame_size(READ_BUFFER_BYTES as u32)
                // Zero until SETTINGS arrive, which is how their arrival is noticed.
                .initial_max_send_streams(0)
                .handshake(TokioIo::new(opened.transport))
                .await
                .map_err(|error| failed(error, &stamps))?;
            let mut driver = Driver { connection: Box::pin(connection), max_streams: Rc::default() };
            let max_streams = Rc::clone(&driver.max_streams);
            // hyper applies SETTINGS without notice: check after each read.
            poll_fn(|context| match Pin::new(&mut driver).poll(context) {
                Poll::Ready(Err(error)) => Poll::Ready(Err(failed(error, &stamps))),
                Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
                Poll::Pending if max_streams.get() > 0 => Poll::Ready(Ok(())),
                Poll::Pending => {
                    stamps.wake_on_read(context);
                    Poll::Pending
                }
            })
            .await?;
            // Streams see the end of the connection themselves.
            tokio::task::spawn_local(driver);
            Ok((sender, stamps, max_streams))
        })
        .await
}

/// Polls a connection and publishes how many streams its server allows.
struct Driver {
    connection: Pin<Box<Connection<TokioIo<Transport>, Upload, LocalExecutor>>>,
    max_streams: Rc<Cell<usize>>,
}

impl Future for Driver {
    type Output = hyper::Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        let polled = self.connection.as_mut().poll(context);
        self.max_streams.set(self.connection.current_max_send_streams());
        polled
    }
}

/// Increments a counter until dropped.
struct CountGuard<'a>(&'a Cell<usize>);

impl<'a> CountGuard<'a> {
    fn up(cell: &'a Cell<usize>) -> CountGuard<'a> {
        cell.set(cell.get() + 1);
        CountGuard(cell)
    }
}

impl Drop for CountGuard<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Notifies all waiters when dropped.
struct NotifyOnDrop<'a>(&'a Notify);

impl Drop for NotifyOnDrop<'_> {
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
