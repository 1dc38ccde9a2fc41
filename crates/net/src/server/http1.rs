//! HTTP/1.1 server connections: one request after the other.
//!
//! Invariant: a connection holds memory only for what it could not pass on: reads go to the request at once, pending output goes out in
//! one write, and an idle connection has no buffer.

mod request;
mod response;
mod write_buffer;

#[cfg(test)]
mod tests;

use super::body::{BodyBuffer, BodyError, RequestBody};
use super::service::{PendingResponse, RequestService, ResponseBody};
use super::{HEAD_TIMEOUT, Handler, IDLE_TIMEOUT, UpgradeHandler};
use crate::http1::MAX_HEAD_BYTES;
use crate::http1::framing::{BodyState, Framing};
use crate::upgraded::Upgraded;
use bytes::Bytes;
use http::{Method, StatusCode, Version};
use response::{Progress, RequestInfo, ResponseWriter};
use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};
use tokrate_core::Span;
use write_buffer::WriteBuffer;

/// How long input of a rejected client is read and dropped. Closing with unread input makes the kernel send a reset, which can
/// destroy the response before the client has read it.
const LINGER_TIMEOUT: Span = Span::from_secs(2);
/// Largest read, and most bytes buffered of pipelined requests.
const MAX_READ_BYTES: usize = 64 * 1024;

/// One connection.
pub(super) struct Connection<H: Handler, T> {
    transport: T,
    service: RequestService<H>,
    state: ConnectionState<H>,
    /// Unparsed input: the beginning of a head, or pipelined requests.
    unread: Vec<u8>,
    /// How much of it was scanned without finding the end of a head.
    scanned: usize,
    output: WriteBuffer,
    /// The body of the request until it is complete.
    receiving: Option<Receiving>,
    info: RequestInfo,
    keep: bool,
    is_closing: bool,
    /// Runs while waiting for the client.
    timer: Option<Pin<Box<Sleep>>>,
    is_timed: bool,
}

/// What the connection is doing.
enum ConnectionState<H: Handler> {
    /// Reading the next head.
    ReadingHead,
    Handling(PendingResponse<H::Body>),
    Responding(ResponseWriter<ResponseBody<H::Body>>, Progress),
    /// The last response was sent; if `lingers`, further input is read and dropped for a while.
    Closing {
        lingers: bool,
    },
    /// The head of a 101 is being written, behind which the connection is this handler's.
    Upgrading(UpgradeHandler),
    /// That head was written.
    Upgraded(UpgradeHandler),
    Closed,
}

struct Receiving {
    framing: Framing,
    buffer: Rc<BodyBuffer>,
    /// Whether the client waits for `100 Continue`.
    expects_continue: bool,
}

impl Receiving {
    /// Handles a read; returns how many bytes belonged to the body, and whether it ended.
    fn take(&mut self, bytes: &[u8]) -> (usize, bool) {
        let decoded = self.framing.decode(bytes, |piece| self.buffer.push(piece));
        match decoded.state {
            BodyState::Open => return (decoded.consumed, false),
            BodyState::Ended => self.buffer.end(Ok(())),
            BodyState::Invalid => self.buffer.end(Err(BodyError::Broken)),
        }
        (decoded.consumed, true)
    }
}

thread_local! {
    /// Read buffer, used by the connection that is being polled.
    static READ: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The connection ends without a further response.
struct Disconnected;

impl<H: Handler, T: AsyncRead + AsyncWrite + Unpin + 'static> Connection<H, T> {
    /// A connection of which `first` was already read.
    pub fn new(transport: T, first: Vec<u8>, service: RequestService<H>) -> Connection<H, T> {
        let info = RequestInfo { is_head: false, version: Version::HTTP_11 };
        Connection {
            transport,
            service,
            state: ConnectionState::ReadingHead,
            unread: first,
            scanned: 0,
            output: WriteBuffer::default(),
            receiving: None,
            info,
            keep: true,
            is_closing: false,
            timer: None,
            is_timed: false,
        }
    }

    /// Accepts no further requests.
    pub fn shut_down(mut self: Pin<&mut Self>) {
        self.is_closing = true;
    }

    fn step(&mut self, context: &mut Context<'_>, read: &mut [u8]) -> Poll<Result<(), Disconnected>> {
        match &self.state {
            ConnectionState::ReadingHead => self.poll_head(context, read),
            ConnectionState::Handling(_) => self.poll_handler(context, read),
            ConnectionState::Responding(..) => self.poll_response(context, read),
            ConnectionState::Closing { .. } => self.poll_close(context, read),
            ConnectionState::Upgrading(_) => self.poll_upgrade(context),
            ConnectionState::Upgraded(_) | ConnectionState::Closed => Poll::Ready(Err(Disconnected)),
        }
    }

    /// Reads until a request begins.
    fn poll_head(&mut self, context: &mut Context<'_>, read: &mut [u8]) -> Poll<Result<(), Disconnected>> {
        loop {
            if self.may_be_complete() {
                let mut held = std::mem::take(&mut self.unread);
                if self.begin(&mut held) {
                    return Poll::Ready(Ok(()));
                }
                self.unread = held;
            }
            if self.is_closing && self.unread.is_empty() {
                return Poll::Ready(Err(Disconnected));
            }
            let count = match self.poll_read(context, read) {
                Poll::Ready(count) => count?,
                Poll::Pending => {
                    let limit = if self.unread.is_empty() { IDLE_TIMEOUT } else { HEAD_TIMEOUT };
                    ready!(self.poll_timer(limit, context));
                    return Poll::Ready(Err(Disconnected));
                }
            };
            if self.unread.is_empty() {
                // As a rule a head comes in one read.
                if self.begin(&mut read[..count]) {
                    return Poll::Ready(Ok(()));
                }
                self.is_timed = false;
                self.scanned = count;
            }
            self.unread.extend_from_slice(&read[..count]);
        }
    }

    /// Whether the unscanned input may complete a head.
    fn may_be_complete(&mut self) -> bool {
        let (scanned, all) = (std::mem::replace(&mut self.scanned, self.unread.len()), self.unread.len());
        scanned < all && (scanned == 0 || all > MAX_HEAD_BYTES || request::may_end(&self.unread, scanned))
    }

    /// Starts to handle the request in `bytes`, if its head is complete.
    fn begin(&mut self, bytes: &mut [u8]) -> bool {
        let info = match request::parse(bytes) {
            Ok(Some(info)) => info,
            Ok(None) if bytes.len() <= MAX_HEAD_BYTES => return false,
            Ok(None) => return self.refuse(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
            Err(status) => return self.refuse(status),
        };
        if !self.service.tap.start_request() {
            // Evicted; the client can retry on a new connection.
            self.state = ConnectionState::Closed;
            return true;
        }
        (self.scanned, self.is_timed) = (0, false);
        self.keep = info.keep;
        self.info = RequestInfo { is_head: *info.request.method() == Method::HEAD, version: info.request.version() };
        let mut rest = &mut bytes[info.length..];
        let body = if info.framing.is_empty() {
            RequestBody::empty()
        } else {
            let announced = info.framing.length();
            let buffer = Rc::new(BodyBuffer::new(announced));
            let mut receiving = Receiving {
                framing: info.framing,
                buffer: Rc::clone(&buffer),
                expects_continue: info.expects_continue,
            };
            let (used, ended) = receiving.take(rest);
            rest = &mut rest[used..];
            self.receiving = Some(receiving).filter(|_| !ended);
            self.keep &= !ended || buffer.is_whole();
            RequestBody::http1(buffer)
        };
        self.unread.extend_from_slice(rest);
        let request = info.request.map(|()| body);
        self.state = ConnectionState::Handling(self.service.call(request));
        true
    }

    /// Responds to an invalid request and closes.
    fn refuse(&mut self, status: StatusCode) -> bool {
        response::write_error(status, self.output.buffer());
        self.state = ConnectionState::Closing { lingers: true };
        self.is_timed = false;
        true
    }

    fn poll_handler(&mut self, context: &mut Context<'_>, read: &mut [u8]) -> Poll<Result<(), Disconnected>> {
        loop {
            self.watch(context, read);
            let ConnectionState::Handling(handling) = &mut self.state else { return Poll::Ready(Ok(())) };
            if let Poll::Ready(response) = Pin::new(handling).poll(context) {
                let upgrade = self.service.tap.upgrade.take();
                if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                    // Without a handler, or amid a body, nobody could go on.
                    let Some(upgrade) = upgrade.filter(|_| self.receiving.is_none()) else {
                        self.refuse(StatusCode::INTERNAL_SERVER_ERROR);
                        return Poll::Ready(Ok(()));
                    };
                    response::write_upgrade(&response, self.output.buffer());
                    self.state = ConnectionState::Upgrading(upgrade);
                    return Poll::Ready(Ok(()));
                }
                // A client that is still sending learns of it by `connection: close`.
                self.keep &= self.receiving.is_none() && !self.is_closing;
                let writer = ResponseWriter::begin(response, self.info, &mut self.keep, self.output.buffer());
                self.state = ConnectionState::Responding(writer, Progress::BufferFull);
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_input(context, read))?;
        }
    }

    fn poll_response(&mut self, context: &mut Context<'_>, read: &mut [u8]) -> Poll<Result<(), Disconnected>> {
        loop {
            self.watch(context, read);
            let ConnectionState::Responding(writer, progress) = &mut self.state else { return Poll::Ready(Ok(())) };
            if matches!(progress, Progress::Pending | Progress::BufferFull) {
                *progress = writer.fill(&mut self.output, context);
            }
            let progress = *progress;
            match self.poll_write(context) {
                Poll::Ready(written) => written?,
                Poll::Pending => {
                    ready!(self.poll_input(context, read))?;
                    continue;
                }
            }
            match progress {
                Progress::BufferFull => {}
                Progress::Pending => ready!(self.poll_input(context, read))?,
                Progress::Failed => return Poll::Ready(Err(Disconnected)),
                Progress::Complete => {
                    self.end();
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }

    /// Writes the head of a 101; the connection ends here with its last byte.
    fn poll_upgrade(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Disconnected>> {
        ready!(self.poll_write(context))?;
        self.state = match std::mem::replace(&mut self.state, ConnectionState::Closed) {
            ConnectionState::Upgrading(upgrade) => ConnectionState::Upgraded(upgrade),
            state => state,
        };
        Poll::Ready(Ok(()))
    }

    /// The handler of an upgraded connection, and the connection.
    pub fn into_upgraded(self) -> Option<(UpgradeHandler, Upgraded)> {
        let ConnectionState::Upgraded(upgrade) = self.state else { return None };
        let stamps = Rc::clone(&self.service.tap.stamps.borrow());
        // What came behind the head of the request is already of the other protocol.
        let first = Bytes::from(self.unread);
        Some((upgrade, Upgraded::new(first, Box::new(self.transport), stamps)))
    }

    /// A response was written completely.
    fn end(&mut self) {
        self.is_timed = false;
        self.state = if self.keep && self.receiving.is_none() && !self.is_closing {
            self.service.tap.mark_idle();
            ConnectionState::ReadingHead
        } else {
            ConnectionState::Closing { lingers: self.receiving.is_some() || !self.unread.is_empty() }
        };
    }

    fn poll_close(&mut self, context: &mut Context<'_>, read: &mut [u8]) -> Poll<Result<(), Disconnected>> {
        let ConnectionState::Closing { lingers } = self.state else { return Poll::Ready(Ok(())) };
        if self.poll_timer(LINGER_TIMEOUT, context).is_ready() {
            return Poll::Ready(Err(Disconnected));
        }
        ready!(self.poll_write(context))?;
        if ready!(Pin::new(&mut self.transport).poll_shutdown(context)).is_err() || !lingers {
            return Poll::Ready(Err(Disconnected));
        }
        loop {
            ready!(self.poll_read(context, read))?;
        }
    }

    /// Notes a client that has left before the handler is polled. A response that is ready is written all the same: a client may close
    /// its side once it has asked.
    fn watch(&mut self, context: &mut Context<'_>, read: &mut [u8]) {
        if self.receiving.is_none() && matches!(self.poll_input(context, read), Poll::Ready(Err(Disconnected))) {
            self.service.tap.has_left.set(true);
        }
    }

    /// Reads the request's body if the handler wants it, else watches for a disconnect. Ready when the body made progress.
    fn poll_input(&mut self, context: &mut Context<'_>, read: &mut [u8]) -> Poll<Result<(), Disconnected>> {
        let Some(receiving) = &mut self.receiving else {
            if self.service.tap.has_left() {
                return Poll::Ready(Err(Disconnected));
            }
            while self.unread.len() < MAX_READ_BYTES {
                let count = ready!(self.poll_read(context, read))?;
                self.unread.extend_from_slice(&read[..count]);
            }
            return Poll::Pending;
        };
        if !receiving.buffer.wants_more(context) {
            return Poll::Pending;
        }
        if std::mem::take(&mut receiving.expects_continue) && matches!(self.state, ConnectionState::Handling(_)) {
            self.output.buffer().extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        if matches!(self.state, ConnectionState::Handling(_)) && !self.output.is_empty() {
            ready!(self.poll_write(context))?;
        }
        let read_result = ready!(self.poll_read(context, read));
        let Some(receiving) = &mut self.receiving else { return Poll::Ready(Ok(())) };
        let Ok(count) = read_result else {
            receiving.buffer.end(Err(BodyError::Broken));
            self.receiving = None;
            self.keep = false;
            return Poll::Ready(Ok(()));
        };
        let (used, ended) = receiving.take(&read[..count]);
        if ended {
            self.keep &= receiving.buffer.is_whole();
            self.receiving = None;
            self.unread.extend_from_slice(&read[used..count]);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_read(&mut self, context: &mut Context<'_>, read: &mut [u8]) -> Poll<Result<usize, Disconnected>> {
        let mut buffer = ReadBuf::new(read);
        let result = ready!(Pin::new(&mut self.transport).poll_read(context, &mut buffer));
        let count = buffer.filled().len();
        Poll::Ready(if result.is_ok() && count > 0 { Ok(count) } else { Err(Disconnected) })
    }

    /// Writes until the transport has decoded everything.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Disconnected>> {
        if ready!(self.output.poll_write(Pin::new(&mut self.transport), context)).is_err() {
            return Poll::Ready(Err(Disconnected));
        }
        Pin::new(&mut self.transport).poll_flush(context).map_err(|_: io::Error| Disconnected)
    }

    /// Ready after `limit`.
    fn poll_timer(&mut self, limit: Span, context: &mut Context<'_>) -> Poll<()> {
        if !std::mem::replace(&mut self.is_timed, true) {
            let until = Instant::now() + limit.as_duration();
            match &mut self.timer {
                Some(timer) => timer.as_mut().reset(until),
                None => self.timer = Some(Box::pin(tokio::time::sleep_until(until))),
            }
        }
        self.timer.as_mut().map_or(Poll::Pending, |timer| timer.as_mut().poll(context))
    }
}

impl<H: Handler, T: AsyncRead + AsyncWrite + Unpin + 'static> Future for Connection<H, T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut read = READ.take();
        read.resize(MAX_READ_BYTES, 0);
        let polled = loop {
            match self.step(context, &mut read) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(Disconnected)) => {
                    if !matches!(self.state, ConnectionState::Upgraded(_)) {
                        self.state = ConnectionState::Closed;
                    }
                    break Poll::Ready(());
                }
                Poll::Pending => break Poll::Pending,
            }
        };
        READ.set(read);
        polled
    }
}
