//! A response body that is known from the start.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A response body that is known from the start; `None` once it was sent, or if it is empty.
#[derive(Debug)]
pub struct FullBody(Option<Bytes>);

impl FullBody {
    /// The body `bytes`; none if they are empty.
    pub fn new(bytes: Bytes) -> FullBody {
        FullBody(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

impl Body for FullBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
