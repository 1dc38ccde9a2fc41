//! A transport of which some bytes were read already. Invariant: they come first, and then the rest.

use crate::stamped::forward_writes;
use bytes::{Buf, Bytes};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A transport that yields already read bytes first.
#[derive(Debug)]
pub(crate) struct PrefixedStream<T> {
    first: Bytes,
    inner: T,
}

impl<T> PrefixedStream<T> {
    /// `first` is read before anything of `inner`.
    pub fn new(first: impl Into<Bytes>, inner: T) -> PrefixedStream<T> {
        PrefixedStream { first: first.into(), inner }
    }

    /// Bytes that were read already and not handed out yet.
    pub fn ahead(&self) -> usize {
        self.first.len()
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for PrefixedStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.inner).poll_read(context, buffer);
        }
        let count = self.first.len().min(buffer.remaining());
        buffer.put_slice(&self.first[..count]);
        self.first.advance(count);
        if self.first.is_empty() {
            // Frees the buffer.
            self.first = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for PrefixedStream<T> {
    forward_writes!();
}
