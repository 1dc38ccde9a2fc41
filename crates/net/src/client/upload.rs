//! A request body for hyper that records when it was sent. Invariant: the departure is set by the write that takes the body's last byte.

use crate::stamped::{Departure, Stamps};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Largest piece: one HTTP/2 frame. hyper takes a piece when its window has room for any of it; with pieces of one frame, the
/// last one is taken right before it is written.
const PIECE_BYTES: usize = 16 * 1024;

/// The remaining bytes.
pub(super) struct Upload {
    left: Bytes,
    stamps: Rc<Stamps>,
    sent: Departure,
}

impl Upload {
    /// `sent` is filled when the last byte has been handed to the socket.
    pub(super) fn new(bytes: Bytes, stamps: &Rc<Stamps>, sent: Departure) -> Upload {
        let upload = Upload { left: bytes, stamps: Rc::clone(stamps), sent };
        if upload.left.is_empty() {
            // There is only a head, which the next write takes.
            upload.mark_next_write();
        }
        upload
    }

    fn mark_next_write(&self) {
        self.stamps.mark_next_write(Rc::clone(&self.sent));
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let piece = self.left.len().min(PIECE_BYTES);
        let piece = self.left.split_to(piece);
        if self.left.is_empty() {
            self.mark_next_write();
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}
