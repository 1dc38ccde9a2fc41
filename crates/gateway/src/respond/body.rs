//! The response body of a call, which polls the call for what comes next.
//!
//! Invariant: the client's own connection polls it, so that forwarding needs no task switch and nothing is read from a
//! lane that the client has no room for; when the client disconnects it is dropped, and with it the call and its
//! connections.

use crate::dispatch::call::{Call, Step};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A response body.
pub(crate) enum CallBody {
    /// Known from the start.
    Plain(Option<Bytes>),
    /// A whole answer.
    Whole(Bytes, Box<Call>),
    /// A stream, and the end of what was sent so far.
    Stream(Box<Call>, Tail),
    /// All of it was sent.
    Over,
}

/// The last bytes that were sent, which tell whether an event was left unfinished.
#[derive(Default)]
pub(crate) struct Tail {
    bytes: [u8; TAIL_BYTES],
    length: usize,
}

/// The longest end of an event is `\r\n\r\n`.
const TAIL_BYTES: usize = 4;

impl Tail {
    fn update(&mut self, bytes: &[u8]) {
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
    /// A stream.
    pub fn stream(call: Box<Call>) -> CallBody {
        CallBody::Stream(call, Tail::default())
    }

    /// A whole answer.
    pub fn whole(bytes: Bytes, mut call: Box<Call>) -> CallBody {
        if bytes.is_empty() {
            // An empty body is never polled.
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
        // Put back below if there is more to come.
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
                tail.update(&bytes);
                call.account.note_job(&bytes);
                *body = CallBody::Stream(call, tail);
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            Poll::Ready(Step::Won) => unreachable!("a body begins after the win"),
            Poll::Ready(Step::Finished) => {
                call.complete();
                None
            }
            // An event of ours would be taken for sound or data: what has no end is cut.
            Poll::Ready(Step::Broken { .. } | Step::Failed { .. }) if call.account.request.api().is_some() => {
                return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
            }
            // It would be taken for the rest of a binary message that broke off.
            Poll::Ready(Step::Broken { reported: false, .. } | Step::Failed { .. })
                if call.passes_binary_messages() =>
            {
                return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
            }
            Poll::Ready(Step::Broken { kind, reported, .. }) => {
                (!reported).then(|| call.error_event_bytes(kind, tail.bytes()))
            }
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
