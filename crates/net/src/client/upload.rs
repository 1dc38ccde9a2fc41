//! A request's body that knows when it has left.
//!
//! It refuses to know connections. Invariant: the mark is filled by the write that takes the body's last byte.

use crate::exchange::Departure;
use crate::stamped::Stamps;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Largest piece that is handed to the connection at once. HTTP/2 takes a piece when its window has room for some of it;
/// with pieces of one frame each, the last one is taken when it goes out next.
const PIECE_BYTES: usize = 16 * 1024;

/// The bytes that are left to be handed out.
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
            // The head is all there is: the next write takes it.
            upload.expect_departure();
        }
        upload
    }

    fn expect_departure(&self) {
        self.stamps.expect_departure(Rc::clone(&self.sent));
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
            self.expect_departure();
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
