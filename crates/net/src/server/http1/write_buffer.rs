//! Pending output of a connection.
//!
//! Invariant: bytes go out in the order in which they were added; once all are written, it holds no buffer.

use bytes::{Buf, Bytes};
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;

/// From this size on it is written before more is added (bytes): one TLS record.
const MAX_BUFFERED_BYTES: usize = 16 * 1024;
/// Pieces from this size on are written without a copy (bytes).
const LARGE_BYTES: usize = 8 * 1024;
/// Capacity for buffered output, the piece that fills it, and its framing.
const BUFFER_BYTES: usize = MAX_BUFFERED_BYTES + LARGE_BYTES + 64;
/// Most buffers that a thread keeps for reuse.
const MAX_SPARE_BUFFERS: usize = 16;

thread_local! {
    static SPARES: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Bytes to write.
#[derive(Default)]
pub(super) struct WriteBuffer {
    /// Buffered bytes, and how many of them were written.
    buffered: Vec<u8>,
    written: usize,
    /// A large piece after them, not copied, and its suffix.
    tail: Bytes,
    suffix: &'static [u8],
}

impl WriteBuffer {
    pub fn is_empty(&self) -> bool {
        self.buffered.len() == self.written && self.is_open()
    }

    /// Whether it must be written before more is added.
    pub fn is_full(&self) -> bool {
        !self.is_open() || self.buffered.len() >= MAX_BUFFERED_BYTES
    }

    fn is_open(&self) -> bool {
        self.tail.is_empty() && self.suffix.is_empty()
    }

    /// The buffer to append to; not to be called while it is full.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        debug_assert!(self.is_open(), "it would go too early");
        if self.buffered.capacity() == 0 {
            let spare = SPARES.with_borrow_mut(Vec::pop);
            self.buffered = spare.unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES));
        }
        &mut self.buffered
    }

    /// Adds a piece and its suffix; not to be called while it is full.
    pub fn push(&mut self, tail: Bytes, suffix: &'static [u8]) {
        if tail.len() >= LARGE_BYTES {
            (self.tail, self.suffix) = (tail, suffix);
        } else {
            let buffered = self.buffer();
            buffered.extend_from_slice(&tail);
            buffered.extend_from_slice(suffix);
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
                transport.as_mut().poll_write(context, &self.buffered[self.written..])
            } else {
                let slices = [&self.buffered[self.written..], &self.tail, self.suffix].map(IoSlice::new);
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
        let of_text = count.min(self.buffered.len() - self.written);
        self.written += of_text;
        let of_piece = (count - of_text).min(self.tail.len());
        self.tail.advance(of_piece);
        self.suffix = &self.suffix[count - of_text - of_piece..];
        if self.written == self.buffered.len() {
            self.written = 0;
            give_back(std::mem::take(&mut self.buffered));
        }
        if self.tail.is_empty() {
            // Frees the allocation that it was a part of.
            self.tail = Bytes::new();
        }
    }
}

/// Keeps a buffer for reuse, unless it is empty or has grown.
fn give_back(mut buffer: Vec<u8>) {
    SPARES.with_borrow_mut(|spares| {
        if spares.len() < MAX_SPARE_BUFFERS && (1..=BUFFER_BYTES).contains(&buffer.capacity()) {
            buffer.clear();
            spares.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A writer that takes the given number of bytes at a time.
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
            tails in prop::collection::vec((0usize..20_000, prop::bool::ANY), 0..6),
            room in prop::collection::vec(1usize..9_000, 0..9),
        ) {
            let (mut buffer, mut expected) = (WriteBuffer::default(), Vec::new());
            let mut narrow = Narrow(Vec::new(), room);
            let mut context = Context::from_waker(std::task::Waker::noop());
            for (number, (length, marked)) in tails.iter().enumerate() {
                let tail = vec![number as u8; *length];
                let suffix: &[u8] = if *marked { b"\r\n" } else { b"" };
                expected.extend(tail.iter().chain(suffix));
                buffer.push(tail.into(), suffix);
                let polled = buffer.poll_write(Pin::new(&mut narrow), &mut context);
                if buffer.is_full() {
                    prop_assert!(polled.is_pending());
                    narrow.1.extend([usize::MAX; 2]);
                    prop_assert!(buffer.poll_write(Pin::new(&mut narrow), &mut context).is_ready());
                    narrow.1.clear();
                }
            }
            narrow.1.extend([usize::MAX; 2]);
            prop_assert!(buffer.poll_write(Pin::new(&mut narrow), &mut context).is_ready());
            prop_assert_eq!((narrow.0, buffer.buffered.capacity()), (expected, 0));
        }
    }
}
