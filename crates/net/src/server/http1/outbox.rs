//! What is to be written, and how much of it has gone.
//!
//! It refuses to know what it holds. Invariant: bytes go in the order in which they were put in; once all have gone, it holds no
//! buffer.

use bytes::{Buf, Bytes};
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;

/// With so much in it, it is to be written first (bytes).
const GATHERED_BYTES_MOST: usize = 16 * 1024;
/// Pieces from here on are not copied (bytes).
const LARGE_BYTES: usize = 8 * 1024;
/// Room for what is gathered, the piece that fills it, and how it is marked off.
const BUFFER_BYTES: usize = GATHERED_BYTES_MOST + LARGE_BYTES + 64;
/// Buffers that a thread keeps for the connections that write next.
const SPARES_MOST: usize = 16;

thread_local! {
    static SPARES: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Bytes on their way out.
#[derive(Default)]
pub(super) struct Outbox {
    /// What was gathered, and how much of it has gone.
    text: Vec<u8>,
    gone: usize,
    /// A piece that comes after it, as it is, and what follows that.
    piece: Bytes,
    after: &'static [u8],
}

impl Outbox {
    pub fn is_empty(&self) -> bool {
        self.text.len() == self.gone && self.is_open()
    }

    /// Whether something is to be written before more is put in.
    pub fn is_full(&self) -> bool {
        !self.is_open() || self.text.len() >= GATHERED_BYTES_MOST
    }

    fn is_open(&self) -> bool {
        self.piece.is_empty() && self.after.is_empty()
    }

    /// Where text is added; not to be asked for while it is full.
    pub fn text(&mut self) -> &mut Vec<u8> {
        debug_assert!(self.is_open(), "it would go too early");
        if self.text.capacity() == 0 {
            let spare = SPARES.with_borrow_mut(Vec::pop);
            self.text = spare.unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES));
        }
        &mut self.text
    }

    /// Adds a piece and what follows it; not to be called while it is full.
    pub fn put(&mut self, piece: Bytes, after: &'static [u8]) {
        if piece.len() >= LARGE_BYTES {
            (self.piece, self.after) = (piece, after);
        } else {
            let text = self.text();
            text.extend_from_slice(&piece);
            text.extend_from_slice(after);
        }
    }

    /// Writes until the transport has taken everything.
    pub fn poll_write(
        &mut self,
        mut transport: Pin<&mut impl AsyncWrite>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.is_empty() {
            let taken = if self.is_open() {
                transport.as_mut().poll_write(context, &self.text[self.gone..])
            } else {
                let slices = [&self.text[self.gone..], &self.piece, self.after].map(IoSlice::new);
                transport.as_mut().poll_write_vectored(context, &slices)
            };
            match ready!(taken)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.advance(count),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, count: usize) {
        let of_text = count.min(self.text.len() - self.gone);
        self.gone += of_text;
        let of_piece = (count - of_text).min(self.piece.len());
        self.piece.advance(of_piece);
        self.after = &self.after[count - of_text - of_piece..];
        if self.gone == self.text.len() {
            self.gone = 0;
            give_back(std::mem::take(&mut self.text));
        }
        if self.piece.is_empty() {
            // What it was a part of goes, too.
            self.piece = Bytes::new();
        }
    }
}

/// Keeps a buffer for the next connection, unless it is none or has grown.
fn give_back(mut buffer: Vec<u8>) {
    SPARES.with_borrow_mut(|spares| {
        if spares.len() < SPARES_MOST && (1..=BUFFER_BYTES).contains(&buffer.capacity()) {
            buffer.clear();
            spares.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Takes as many bytes at a time as it is told.
    struct Narrow(Vec<u8>, Vec<usize>);

    impl AsyncWrite for Narrow {
        fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.poll_write_vectored(context, &[IoSlice::new(bytes)])
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            slices: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let Some(room) = self.1.pop() else { return Poll::Pending };
            let offered: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
            let count = room.clamp(1, offered.len());
            self.0.extend_from_slice(&offered[..count]);
            Poll::Ready(Ok(count))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

        #[test]
        fn all_goes_in_order_however_little_is_taken_at_a_time(
            pieces in prop::collection::vec((0usize..20_000, prop::bool::ANY), 0..6),
            room in prop::collection::vec(1usize..9_000, 0..9),
        ) {
            let (mut outbox, mut expected) = (Outbox::default(), Vec::new());
            let mut narrow = Narrow(Vec::new(), room);
            let mut context = Context::from_waker(std::task::Waker::noop());
            for (number, (length, marked)) in pieces.iter().enumerate() {
                let piece = vec![number as u8; *length];
                let after: &[u8] = if *marked { b"\r\n" } else { b"" };
                expected.extend(piece.iter().chain(after));
                outbox.put(piece.into(), after);
                let polled = outbox.poll_write(Pin::new(&mut narrow), &mut context);
                if outbox.is_full() {
                    prop_assert!(polled.is_pending());
                    narrow.1.extend([usize::MAX; 2]);
                    prop_assert!(outbox.poll_write(Pin::new(&mut narrow), &mut context).is_ready());
                    narrow.1.clear();
                }
            }
            narrow.1.extend([usize::MAX; 2]);
            prop_assert!(outbox.poll_write(Pin::new(&mut narrow), &mut context).is_ready());
            prop_assert_eq!((narrow.0, outbox.text.capacity()), (expected, 0));
        }
    }
}
