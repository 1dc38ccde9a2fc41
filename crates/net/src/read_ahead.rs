//! Reads ahead below TLS: rustls asks for some 4 KiB at a time, and every read of a socket costs a system call and its stamp.
//!
//! Invariant: the socket is read again only when all that an earlier read brought was handed on, so that the stamp of the last read is that of
//! every byte handed on since.

use crate::stamped::forward_writes;
use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Four TLS records of full size.
const READ_BYTES: usize = 64 * 1024;

thread_local! {
    /// The buffer of whoever reads next. One is enough for all connections of a thread as long as each takes at once what it has read.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A transport that is read in large pieces, if that is wanted.
#[derive(Debug)]
pub(crate) struct ReadAhead<T> {
    inner: T,
    is_wanted: bool,
    /// What the last read brought; without memory of its own once all of it was handed on.
    ahead: Vec<u8>,
    /// How much of it was handed on, and where it ends.
    taken: usize,
    end: usize,
}

impl<T> ReadAhead<T> {
    /// Not for streams whose reader may pause: what was read ahead would be held for so long, each a buffer, where the kernel holds it else.
    pub(crate) fn new(inner: T, is_wanted: bool) -> ReadAhead<T> {
        ReadAhead { inner, is_wanted, ahead: Vec::new(), taken: 0, end: 0 }
    }

    /// The transport below.
    pub(crate) fn inner_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// Whether nothing was read that was not handed on.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == self.end
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for ReadAhead<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.is_wanted {
            return Pin::new(&mut this.inner).poll_read(context, buffer);
        }
        if this.is_empty() {
            let mut spare = SPARE.take();
            spare.resize(READ_BYTES, 0);
            let mut read = ReadBuf::new(&mut spare);
            let polled = Pin::new(&mut this.inner).poll_read(context, &mut read);
            let end = read.filled().len();
            if end == 0 {
                SPARE.set(spare);
                return polled;
            }
            ready!(polled)?;
            (this.ahead, this.taken, this.end) = (spare, 0, end);
        }
        let count = buffer.remaining().min(this.end - this.taken);
        buffer.put_slice(&this.ahead[this.taken..this.taken + count]);
        this.taken += count;
        if this.is_empty() {
            SPARE.set(std::mem::take(&mut this.ahead));
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for ReadAhead<T> {
    forward_writes!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[test]
    fn the_bytes_are_those_of_the_transport_up_to_its_end_whatever_is_asked_for() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let sent: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
            for (is_wanted, asked) in [(false, 1_000), (true, 1), (true, 4_096), (true, 70_000)] {
                let (mut far, near) = tokio::io::duplex(30_000);
                let mut near = ReadAhead::new(near, is_wanted);
                let reading = async {
                    let (mut received, mut room) = (Vec::new(), vec![0; asked]);
                    loop {
                        match near.read(&mut room).await.expect("the peer is there") {
                            0 => return received,
                            count => received.extend_from_slice(&room[..count]),
                        }
                    }
                };
                let sending = async {
                    far.write_all(&sent).await.expect("the peer reads");
                    drop(far);
                };
                let (received, ()) = tokio::join!(reading, sending);
                assert!(received == sent, "{} bytes by {asked}", received.len());
                assert!(near.is_empty() && near.ahead.capacity() == 0, "its buffer is the next reader's");
            }
        });
    }
}
