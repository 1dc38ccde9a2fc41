//! HTTP/1.1 client connections: one exchange at a time, an idle pool in LIFO order without a size limit.
//!
//! Invariant: a connection is polled by the exchange that uses it, so that a piece of a body costs no task switch; each read is
//! passed on with its timestamp before the next one, and an idle connection holds no buffer.

mod head;
mod request_writer;

use super::failure::{self, Stage};
use super::receive::Receiver;
use super::{Dialer, READ_BUFFER_BYTES};
use crate::connect::Opened;
use crate::exchange::{ConnectionUse, ExchangeFailure, Sink};
use crate::http1::MAX_HEAD_BYTES;
use crate::http1::framing::{BodyState, Framing};
use crate::stamped::Stamps;
use crate::transport::{IdleState, Transport, is_unsealed};
use crate::upgraded::{Upgraded, asks_to_upgrade};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

pub(super) use request_writer::RequestWriter;

#[cfg(test)]
mod tests;

/// With more idle connections than this, each release checks whether the oldest was closed.
const MAX_UNCHECKED_IDLE: usize = 8;

#[derive(Default)]
pub(super) struct Http1Pool {
    idle: RefCell<VecDeque<Http1>>,
    /// Buffers shared by all connections; their content is consumed before the next read.
    scratch: RefCell<Scratch>,
}

#[derive(Default)]
struct Scratch {
    read: Vec<u8>,
    /// The pieces of the body that a read brought, if it brought several.
    body: Vec<u8>,
}

pub(super) struct Http1 {
    transport: Transport,
    stamps: Rc<Stamps>,
}

impl Http1Pool {
    /// An open idle connection, or a new one.
    pub(super) async fn take(&self, dialer: &Dialer, used: &mut ConnectionUse) -> Result<Http1, ExchangeFailure> {
        loop {
            let Some(mut connection) = self.idle.borrow_mut().pop_back() else { break };
            match poll_fn(|context| Poll::Ready(connection.transport.idle_state(context))).await {
                IdleState::Open => return Ok(connection),
                IdleState::Unusable => continue,
                IdleState::Unread => {}
            }
            // The unread bytes may be a TLS record (session tickets): let the runtime see them, then try to read.
            tokio::task::yield_now().await;
            if poll_fn(|context| Poll::Ready(connection.transport.is_read_pending(context))).await {
                return Ok(connection);
            }
        }
        Http1::open(dialer, used).await
    }

    /// Whether there is an idle connection that its server is not known to have closed.
    pub(super) fn has_idle(&self) -> bool {
        let mut idle = self.idle.borrow_mut();
        while idle.back_mut().is_some_and(|newest| newest.transport.is_closed()) {
            idle.pop_back();
        }
        !idle.is_empty()
    }

    /// Opens an idle connection, if that is possible.
    pub(super) async fn open_idle(&self, dialer: &Dialer, used: &mut ConnectionUse) {
        if let Ok(connection) = Http1::open(dialer, used).await {
            self.give_back(connection);
        }
    }

    pub(super) fn give_back(&self, connection: Http1) {
        let mut idle = self.idle.borrow_mut();
        idle.push_back(connection);
        // Connections that servers have closed would otherwise keep their descriptors for ever.
        if idle.len() > MAX_UNCHECKED_IDLE
            && let Some(oldest) = idle.front_mut()
            && oldest.transport.is_closed()
        {
            idle.pop_front();
        }
    }
}

/// An exchange in progress on its connection.
struct Exchanging<'a, 'b, S> {
    transport: &'a mut Transport,
    reading: Reading<'a, 'b, S>,
}

/// What is sent and read.
struct Reading<'a, 'b, S> {
    stamps: &'a Rc<Stamps>,
    receiver: &'a mut Receiver<'b, S>,
    method: Method,
    asks_to_upgrade: bool,
    request: Option<RequestWriter>,
    /// Why sending the request failed; the server may still have answered.
    send_error: Option<io::Error>,
    stage: ReadState,
    /// Size of the interim (1xx) heads so far.
    interim_bytes: usize,
}

/// What becomes of a connection behind an answer.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Afterwards {
    Reusable,
    Unusable,
    /// It speaks another protocol; with what was read of that.
    Upgraded(Bytes),
}

/// What is read next on the connection.
enum ReadState {
    /// A head, with what earlier reads brought of it.
    Head(Vec<u8>),
    /// A body, and whether the connection is reusable after it.
    Body(Framing, bool),
    /// Another protocol.
    Upgraded,
}

impl Http1 {
    pub(super) async fn open(dialer: &Dialer, used: &mut ConnectionUse) -> Result<Http1, ExchangeFailure> {
        // Boxed: opening is rare and its future is larger than the rest.
        let opened = Box::pin(dialer.open(used, async |opened: Opened| Ok(opened))).await?;
        let Opened { transport, stamps, .. } = opened;
        Ok(Http1 { transport, stamps })
    }

    pub(super) fn stamps(&self) -> Rc<Stamps> {
        Rc::clone(&self.stamps)
    }

    /// The connection in another protocol, of which `first` was read.
    pub(super) fn upgrade(self, first: Bytes) -> Upgraded {
        Upgraded::new(first, Box::new(self.transport), self.stamps)
    }

    /// Sends a request and receives its answer.
    pub(super) async fn exchange(
        &mut self,
        pool: &Http1Pool,
        request: RequestWriter,
        receiver: &mut Receiver<'_, impl Sink>,
    ) -> Result<Afterwards, ExchangeFailure> {
        let Http1 { transport, stamps } = self;
        let reading = Reading {
            stamps,
            receiver,
            method: request.method().clone(),
            asks_to_upgrade: request.asks_to_upgrade(),
            request: Some(request),
            send_error: None,
            stage: ReadState::Head(Vec::new()),
            interim_bytes: 0,
        };
        let mut exchanging = Exchanging { transport, reading };
        poll_fn(|context| {
            if let Some(broken) = exchanging.send(context) {
                return Poll::Ready(Err(broken));
            }
            // Borrowed for this poll.
            let mut scratch = pool.scratch.take();
            scratch.read.resize(READ_BUFFER_BYTES, 0);
            let polled = exchanging.receive(&mut scratch, context);
            pool.scratch.replace(scratch);
            polled
        })
        .await
    }
}

impl<S: Sink> Exchanging<'_, '_, S> {
    /// Sends what there is; the failure of a request whose body cannot be had to its end.
    fn send(&mut self, context: &mut Context<'_>) -> Option<ExchangeFailure> {
        let reading = &mut self.reading;
        let request = reading.request.as_mut()?;
        match request.poll(self.transport, reading.stamps, context) {
            Poll::Pending => None,
            Poll::Ready(sent) => {
                let broken = request.broken_upload().filter(|_| sent.is_err());
                reading.send_error = sent.err();
                reading.request = None;
                broken
            }
        }
    }

    fn receive(
        &mut self,
        scratch: &mut Scratch,
        context: &mut Context<'_>,
    ) -> Poll<Result<Afterwards, ExchangeFailure>> {
        let Exchanging { transport, reading } = self;
        loop {
            if reading.receiver.is_full() {
                // Backpressure: yield until the sink was drained.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            let received = match ready!(transport.poll_receive(context, &mut scratch.read)) {
                Ok(received) if !received.bytes.is_empty() => received,
                Ok(_) => return Poll::Ready(reading.closed(None)),
                Err(error) => return Poll::Ready(reading.closed(Some(error))),
            };
            let (taken, held) = (reading.take(received.bytes, &mut scratch.body), received.held);
            transport.release(held);
            if let Some(afterwards) = taken? {
                return Poll::Ready(Ok(afterwards));
            }
        }
    }
}

impl<S: Sink> Reading<'_, '_, S> {
    /// Handles a read; at the end of the answer, returns what becomes of the connection.
    fn take(&mut self, bytes: &[u8], scratch: &mut Vec<u8>) -> Result<Option<Afterwards>, ExchangeFailure> {
        match &mut self.stage {
            ReadState::Body(..) | ReadState::Upgraded => self.take_body(bytes, scratch),
            ReadState::Head(partial) if partial.is_empty() => match self.take_heads(bytes)? {
                Some(used) => self.take_body(&bytes[used..], scratch),
                None => Ok(None),
            },
            ReadState::Head(partial) => {
                partial.extend_from_slice(bytes);
                let whole = std::mem::take(partial);
                match self.take_heads(&whole)? {
                    Some(used) => self.take_body(&whole[used..], scratch),
                    None => Ok(None),
                }
            }
        }
    }

    /// Parses the head of the answer and interim heads before it; returns their length. An incomplete head is kept.
    fn take_heads(&mut self, bytes: &[u8]) -> Result<Option<usize>, ExchangeFailure> {
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            let read = head::parse(rest, &self.method);
            let Some(read) = read.map_err(|error| failure::not_http(&error.0, self.stamps))? else {
                if self.interim_bytes + rest.len() > MAX_HEAD_BYTES {
                    return Err(failure::head_too_large(MAX_HEAD_BYTES));
                }
                self.stage = ReadState::Head(rest.to_vec());
                return Ok(None);
            };
            used += read.length;
            if read.head.status == StatusCode::SWITCHING_PROTOCOLS && self.switches_as_asked(&read.head.headers) {
                self.receiver.head(&read.head)?;
                self.stage = ReadState::Upgraded;
                return Ok(Some(used));
            }
            if read.head.status == StatusCode::SWITCHING_PROTOCOLS {
                return Err(failure::not_http("it switches to a protocol that was not requested", self.stamps));
            }
            if read.head.status.is_informational() {
                // Interim responses count as activity, so that only this limit ends an endless series.
                self.interim_bytes += read.length;
                if self.interim_bytes > MAX_HEAD_BYTES {
                    return Err(failure::head_too_large(MAX_HEAD_BYTES));
                }
                continue;
            }
            self.receiver.head(&read.head)?;
            self.stage = ReadState::Body(read.framing, read.keep);
            return Ok(Some(used));
        }
    }

    /// Whether a 101 switches to what was asked for, behind a request that is whole.
    fn switches_as_asked(&self, headers: &HeaderMap) -> bool {
        self.asks_to_upgrade && self.request.is_none() && self.send_error.is_none() && asks_to_upgrade(headers)
    }

    fn take_body(&mut self, bytes: &[u8], scratch: &mut Vec<u8>) -> Result<Option<Afterwards>, ExchangeFailure> {
        if matches!(self.stage, ReadState::Upgraded) {
            return Ok(Some(Afterwards::Upgraded(Bytes::copy_from_slice(bytes))));
        }
        let ReadState::Body(framing, keep) = &mut self.stage else { return Ok(None) };
        if bytes.is_empty() && !framing.is_empty() {
            return Ok(None);
        }
        let mut body: &[u8] = &[];
        scratch.clear();
        let decoded = framing.decode(bytes, |piece| {
            // A single piece stays where it is.
            if body.is_empty() {
                body = piece;
                return;
            }
            if scratch.is_empty() {
                scratch.extend_from_slice(body);
            }
            scratch.extend_from_slice(piece);
        });
        let body = if scratch.is_empty() { body } else { scratch };
        if !body.is_empty() {
            self.receiver.body(body)?;
        }
        match decoded.state {
            BodyState::Open => Ok(None),
            BodyState::Invalid => Err(failure::invalid_framing()),
            // Surplus bytes or an incompletely sent request make the connection unusable.
            BodyState::Ended => {
                self.receiver.ended();
                let is_clean = decoded.consumed == bytes.len() && self.request.is_none() && self.send_error.is_none();
                Ok(Some(if *keep && is_clean { Afterwards::Reusable } else { Afterwards::Unusable }))
            }
        }
    }

    /// The connection was closed or failed.
    fn closed(&mut self, error: Option<io::Error>) -> Result<Afterwards, ExchangeFailure> {
        let stage = match &self.stage {
            ReadState::Body(framing, _) if framing.may_end_by_close() && error.is_none() => {
                return Ok(Afterwards::Unusable);
            }
            ReadState::Body(framing, _) => {
                if framing.may_end_by_close() && error.as_ref().is_some_and(is_unsealed) {
                    self.receiver.unsealed();
                }
                Stage::Body
            }
            ReadState::Upgraded => Stage::Body,
            ReadState::Head(_) => self.receiver.stage(),
        };
        Err(failure::closed(error.or(self.send_error.take()).as_ref(), stage))
    }
}
