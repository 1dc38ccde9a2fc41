//! The body of an answer to a client.
//!
//! It refuses to decide anything: it asks the call what comes next. Invariant: it is polled by the client's own connection, so
//! a piece costs no switch between tasks, and nothing is read from a lane that the client has no room for; when the client
//! goes away it is dropped, and with it the call and its connections.

use crate::call::{Call, Step};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// What is sent to the client.
pub(crate) enum CallBody {
    /// Known from the start.
    Plain(Option<Bytes>),
    /// A whole answer; the call is kept until it has been sent, so that its end is told truly.
    Whole(Option<Bytes>, Box<Call>),
    /// As it comes.
    Stream(Box<Call>),
    /// Over.
    Over,
}

impl CallBody {
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
        let call = match body {
            CallBody::Plain(bytes) => return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            CallBody::Whole(bytes, call) => {
                let bytes = bytes.take();
                if bytes.is_some() {
                    call.hand_over();
                }
                return Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))));
            }
            CallBody::Over => return Poll::Ready(None),
            CallBody::Stream(call) => call,
        };
        let step = ready!(call.poll_step(context));
        let last = match step {
            Step::Bytes(bytes) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Step::Won => unreachable!("a body begins after the win"),
            Step::Finished => {
                call.hand_over();
                None
            }
            Step::Broken { kind, told } => (!told).then(|| call.break_text(kind)),
            Step::Failed { kind, .. } => Some(call.break_text(kind)),
        };
        *body = CallBody::Over;
        Poll::Ready(last.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            CallBody::Plain(bytes) | CallBody::Whole(bytes, _) => bytes.is_none(),
            CallBody::Stream(_) => false,
            CallBody::Over => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            CallBody::Plain(Some(bytes)) | CallBody::Whole(Some(bytes), _) => SizeHint::with_exact(bytes.len() as u64),
            CallBody::Stream(_) => SizeHint::default(),
            CallBody::Plain(None) | CallBody::Whole(None, _) | CallBody::Over => SizeHint::with_exact(0),
        }
    }
}
