//! HTTP/1.1: one exchange at a time on a connection, idle connections kept, the latest used taken first.
//!
//! It refuses to limit how many there are. Invariant: a connection is driven by the exchange that uses it, so that a piece of
//! a body costs no switch between tasks; what one read brought is handed over before the next one, with that read's stamp, and
//! a connection holds no buffer of its own while it waits.

mod head;
mod sending;

use super::failure::{self, Stage};
use super::receive::Receiver;
use super::{Dialer, READ_BUFFER_BYTES};
use crate::connect::Opened;
use crate::exchange::{ConnectionUse, ExchangeFailure, Sink};
use crate::http1::HEAD_BYTES_MOST;
use crate::http1::framing::{Framing, State};
use crate::stamped::Stamps;
use crate::transport::{Quiet, Transport};
use http::{Method, StatusCode};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

pub(super) use sending::Sending;

#[cfg(test)]
mod tests;

/// With more idle connections than this, each one that comes back has the oldest looked at.
const IDLE_UNWATCHED_MOST: usize = 8;

#[derive(Default)]
pub(super) struct Http1Pool {
    idle: RefCell<VecDeque<Http1>>,
    /// What a read is made into; handed on before the next one, whoever makes it.
    scratch: RefCell<Vec<u8>>,
}

pub(super) struct Http1 {
    transport: Transport,
    stamps: Rc<Stamps>,
}

impl Http1Pool {
    /// An idle connection that is still open, or a new one.
    pub(super) async fn take(&self, dialer: &Dialer, used: &mut ConnectionUse) -> Result<Http1, ExchangeFailure> {
        loop {
            let Some(mut connection) = self.idle.borrow_mut().pop_back() else { break };
            match poll_fn(|context| Poll::Ready(connection.transport.quiet(context))).await {
                Quiet::Yes => return Ok(connection),
                Quiet::No => continue,
                Quiet::Unread => {}
            }
            // What lies in the kernel may be TLS's own: after this the runtime has seen it, and it can be read.
            tokio::task::yield_now().await;
            if poll_fn(|context| Poll::Ready(connection.transport.is_silent(context))).await {
                return Ok(connection);
            }
        }
        // In a box: opening is rare, and takes more room than all the rest.
        let opened = Box::pin(dialer.open(used, async |opened: Opened| Ok(opened))).await?;
        let Opened { transport, stamps, .. } = opened;
        Ok(Http1 { transport, stamps })
    }

    pub(super) fn give_back(&self, connection: Http1) {
        let mut idle = self.idle.borrow_mut();
        idle.push_back(connection);
        // Those that servers have closed meanwhile would otherwise hold their descriptors for ever.
        if idle.len() > IDLE_UNWATCHED_MOST
            && let Some(oldest) = idle.front_mut()
            && oldest.transport.is_closed()
        {
            idle.pop_front();
        }
    }
}

/// One exchange on its connection.
struct Carrying<'a, 'b, S> {
    connection: &'a mut Http1,
    receiver: &'a mut Receiver<'b, S>,
    method: Method,
    sending: Option<Sending>,
    /// Why the request could not be sent whole; the server may have answered all the same.
    unsent: Option<io::Error>,
    stage: Reading,
    /// Of interim heads so far.
    interim_bytes: usize,
}

/// What is read next.
enum Reading {
    /// A head, of which so much came in earlier reads.
    Head(Vec<u8>),
    /// A body, and whether the connection can be used again after it.
    Body(Framing, bool),
}

impl Http1 {
    pub(super) fn stamps(&self) -> Rc<Stamps> {
        Rc::clone(&self.stamps)
    }

    /// Sends a request and receives its answer. Tells whether the connection can be used again.
    pub(super) async fn carry(
        &mut self,
        pool: &Http1Pool,
        request: Sending,
        receiver: &mut Receiver<'_, impl Sink>,
    ) -> Result<bool, ExchangeFailure> {
        let mut carrying = Carrying {
            connection: self,
            receiver,
            method: request.method().clone(),
            sending: Some(request),
            unsent: None,
            stage: Reading::Head(Vec::new()),
            interim_bytes: 0,
        };
        poll_fn(|context| {
            carrying.send(context);
            // Lent for the time of this poll.
            let mut scratch = pool.scratch.take();
            scratch.resize(READ_BUFFER_BYTES, 0);
            let polled = carrying.receive(&mut scratch, context);
            pool.scratch.replace(scratch);
            polled
        })
        .await
    }
}

impl<S: Sink> Carrying<'_, '_, S> {
    fn send(&mut self, context: &mut Context<'_>) {
        let Some(sending) = &mut self.sending else { return };
        let Http1 { transport, stamps } = &mut *self.connection;
        match sending.poll(transport, stamps, context) {
            Poll::Pending => {}
            Poll::Ready(sent) => {
                self.unsent = sent.err();
                self.sending = None;
            }
        }
    }

    fn receive(&mut self, scratch: &mut [u8], context: &mut Context<'_>) -> Poll<Result<bool, ExchangeFailure>> {
        loop {
            if self.receiver.is_full() {
                // Somebody has to take what was heard; then it goes on.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            let mut buffer = ReadBuf::new(scratch);
            let read = ready!(Pin::new(&mut self.connection.transport).poll_read(context, &mut buffer));
            let count = buffer.filled().len();
            match read {
                Ok(()) if count > 0 => {}
                Ok(()) => return Poll::Ready(self.closed(None)),
                Err(error) => return Poll::Ready(self.closed(Some(error))),
            }
            if let Some(keep) = self.take(&mut scratch[..count])? {
                return Poll::Ready(Ok(keep));
            }
        }
    }

    /// Takes what a read brought; tells whether the connection can be used again if that was the answer's end.
    fn take(&mut self, bytes: &mut [u8]) -> Result<Option<bool>, ExchangeFailure> {
        match &mut self.stage {
            Reading::Body(..) => self.take_body(bytes),
            Reading::Head(partial) if partial.is_empty() => match self.take_heads(bytes)? {
                Some(used) => self.take_body(&mut bytes[used..]),
                None => Ok(None),
            },
            Reading::Head(partial) => {
                partial.extend_from_slice(bytes);
                let mut whole = std::mem::take(partial);
                match self.take_heads(&whole)? {
                    Some(used) => self.take_body(&mut whole[used..]),
                    None => Ok(None),
                }
            }
        }
    }

    /// Takes the answer's head and the interim ones before it; tells how many bytes they took. What is not whole is kept.
    fn take_heads(&mut self, bytes: &[u8]) -> Result<Option<usize>, ExchangeFailure> {
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            let read = head::read(rest, &self.method);
            let Some(read) = read.map_err(|error| failure::not_http(&error.0, &self.connection.stamps))? else {
                if self.interim_bytes + rest.len() > HEAD_BYTES_MOST {
                    return Err(failure::head_too_large(HEAD_BYTES_MOST));
                }
                self.stage = Reading::Head(rest.to_vec());
                return Ok(None);
            };
            used += read.length;
            if read.head.status == StatusCode::SWITCHING_PROTOCOLS {
                return Err(failure::not_http(
                    "it changes to a protocol that nobody asked for",
                    &self.connection.stamps,
                ));
            }
            if read.head.status.is_informational() {
                // They take the time of whoever reads them, and no limit but this one ends them.
                self.interim_bytes += read.length;
                if self.interim_bytes > HEAD_BYTES_MOST {
                    return Err(failure::head_too_large(HEAD_BYTES_MOST));
                }
                continue;
            }
            self.receiver.head(&read.head)?;
            self.stage = Reading::Body(read.framing, read.keep);
            return Ok(Some(used));
        }
    }

    fn take_body(&mut self, bytes: &mut [u8]) -> Result<Option<bool>, ExchangeFailure> {
        let Reading::Body(framing, keep) = &mut self.stage else { return Ok(None) };
        if bytes.is_empty() && !framing.is_empty() {
            return Ok(None);
        }
        let taken = framing.take(bytes);
        if taken.body > 0 {
            self.receiver.body(&bytes[..taken.body])?;
        }
        match taken.state {
            State::Open => Ok(None),
            State::Garbled => Err(failure::garbled()),
            // Bytes that nobody asked for spoil a connection, and so does a request that is not whole.
            State::Ended => {
                Ok(Some(*keep && taken.used == bytes.len() && self.sending.is_none() && self.unsent.is_none()))
            }
        }
    }

    /// The server has closed the connection, or it broke.
    fn closed(&mut self, error: Option<io::Error>) -> Result<bool, ExchangeFailure> {
        let stage = match &self.stage {
            Reading::Body(framing, _) if framing.may_end_by_close() && error.is_none() => return Ok(false),
            Reading::Body(..) => Stage::Body,
            Reading::Head(_) => self.receiver.stage(),
        };
        Err(failure::closed(error.or(self.unsent.take()).as_ref(), stage))
    }
}
