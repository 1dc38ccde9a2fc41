//! A request body for hyper that records when it was sent. Invariant: the departure is set by the write that takes the body's last byte.

use crate::exchange::StreamedUpload;
use crate::stamped::{Departure, Stamps};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// Largest piece: one HTTP/2 frame. hyper takes a piece when its window has room for any of it; with pieces of one frame, the
/// last one is taken right before it is written.
const PIECE_BYTES: usize = 16 * 1024;

/// The remaining bytes.
pub(super) struct Upload {
    left: Bytes,
    /// What follows, as it comes.
    rest: Option<StreamedUpload>,
    stamps: Rc<Stamps>,
    sent: Departure,
}

impl Upload {
    /// `sent` is filled when the last byte has been handed to the socket.
    pub(super) fn new(bytes: Bytes, rest: Option<StreamedUpload>, stamps: &Rc<Stamps>, sent: Departure) -> Upload {
        let rest = rest.filter(|rest| rest.length > 0);
        let upload = Upload { left: bytes, rest, stamps: Rc::clone(stamps), sent };
        if upload.is_end() {
            // There is only a head, which the next write takes.
            upload.mark_next_write();
        }
        upload
    }

    fn is_end(&self) -> bool {
        self.left.is_empty() && self.rest.is_none()
    }

    fn mark_next_write(&self) {
        self.stamps.mark_next_write(Rc::clone(&self.sent));
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left.is_empty() {
            let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
            match ready!(take_piece(rest, context)) {
                Ok(piece) => self.left = piece,
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
            self.rest = self.rest.take().filter(|rest| rest.length > 0);
        }
        let piece = self.left.len().min(PIECE_BYTES);
        let piece = self.left.split_to(piece);
        if self.is_end() {
            self.mark_next_write();
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_end()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64 + self.rest.as_ref().map_or(0, |rest| rest.length))
    }
}

/// The next piece of a body that is not held, with its length taken off; an error where it is longer or shorter than was announced.
pub(super) fn take_piece(rest: &mut StreamedUpload, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
    loop {
        let piece = match ready!(rest.source.poll_piece(context)) {
            Some(piece) => piece?,
            None => {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the request body ended early")));
            }
        };
        rest.length = match rest.length.checked_sub(piece.len() as u64) {
            Some(left) => left,
            None => return Poll::Ready(Err(io::Error::other("the request body is longer than its length"))),
        };
        if !piece.is_empty() {
            return Poll::Ready(Ok(piece));
        }
    }
}
