//! The body of an answer to a client.
//!
//! It refuses to decide anything: it asks the call what comes next. Invariant: it is polled by the client's own connection, so
//! a piece costs no switch between tasks, and nothing is read from a lane that the client has no room for; when the client
//! goes away it is dropped, and with it the call and its connections.

use crate::dispatch::call::{Call, Step};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

/// What is sent to the client.
pub(crate) enum CallBody {
    /// Known from the start.
    Plain(Option<Bytes>),
    /// A whole answer.
    Whole(Bytes, Box<Call>),
    /// As it comes, and the end of what went out so far.
    Stream(Box<Call>, Tail),
    /// Over.
    Over,
}

/// The last few bytes of what went out.
#[derive(Default)]
pub(crate) struct Tail {
    bytes: [u8; TAIL_BYTES],
    length: usize,
}

/// An event ends with four bytes at most.
const TAIL_BYTES: usize = 4;

impl Tail {
    fn follow(&mut self, bytes: &[u8]) {
        match bytes.last_chunk::<TAIL_BYTES>() {
            Some(last) => (self.bytes, self.length) = (*last, TAIL_BYTES),
            None => {
                for &byte in bytes {
                    self.bytes.rotate_left(1);
                    self.bytes[TAIL_BYTES - 1] = byte;
                    self.length = (self.length + 1).min(TAIL_BYTES);
                }
            }
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[TAIL_BYTES - self.length..]
    }
}

impl CallBody {
    /// As it comes.
    pub fn stream(call: Box<Call>) -> CallBody {
        CallBody::Stream(call, Tail::default())
    }

    /// A whole answer.
    pub fn whole(bytes: Bytes, mut call: Box<Call>) -> CallBody {
        if bytes.is_empty() {
            // Nobody asks for what is not there.
            call.complete();
            return CallBody::Over;
        }
        CallBody::Whole(bytes, call)
    }

    /// A body that is known from the start.
    pub fn plain(bytes: Bytes) -> CallBody {
        CallBody::Plain(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

impl Body for CallBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let body = self.get_mut();
        // What goes on is put back.
        let (mut call, mut tail) = match std::mem::replace(body, CallBody::Over) {
            CallBody::Plain(bytes) => return Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes)))),
            CallBody::Whole(bytes, call) => {
                call.complete_when_written(bytes.len());
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            CallBody::Over => return Poll::Ready(None),
            CallBody::Stream(call, tail) => (call, tail),
        };
        let last = match call.poll_step(context) {
            Poll::Pending => {
                *body = CallBody::Stream(call, tail);
                return Poll::Pending;
            }
            Poll::Ready(Step::Bytes(bytes)) => {
                tail.follow(&bytes);
                *body = CallBody::Stream(call, tail);
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            Poll::Ready(Step::Won) => unreachable!("a body begins after the win"),
            Poll::Ready(Step::Finished) => {
                call.complete();
                None
            }
            Poll::Ready(Step::Broken { kind, told }) => (!told).then(|| call.error_event_bytes(kind, tail.bytes())),
            Poll::Ready(Step::Failed { kind, .. }) => Some(call.error_event_bytes(kind, tail.bytes())),
        };
        Poll::Ready(last.filter(|bytes| !bytes.is_empty()).map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            CallBody::Plain(bytes) => bytes.is_none(),
            CallBody::Whole(..) | CallBody::Stream(..) => false,
            CallBody::Over => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            CallBody::Plain(Some(bytes)) | CallBody::Whole(bytes, _) => SizeHint::with_exact(bytes.len() as u64),
            CallBody::Stream(..) => SizeHint::default(),
            CallBody::Plain(None) | CallBody::Over => SizeHint::with_exact(0),
        }
    }
}
