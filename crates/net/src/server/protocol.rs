//! Detects HTTP/1.1 or HTTP/2 from the first bytes of a connection. Invariant: the bytes read are passed on, first and in one piece.

use crate::stamped::forward_remaining_writes;
use bytes::{Buf, Bytes};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Connection preface of HTTP/2 clients (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Size of the first read: fits a usual head and a short body.
const FIRST_BYTES: usize = 4096;

/// Versions of HTTP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Version {
    Http1,
    Http2,
}

/// A transport that yields already read bytes first.
#[derive(Debug)]
pub(super) struct PrefixedStream<T> {
    first: Bytes,
    inner: T,
}

/// Reads until the version is clear; returns it with the bytes read, or `None` if the client left.
pub(super) async fn detect<T: AsyncRead + Unpin>(inner: &mut T) -> Option<(Version, Vec<u8>)> {
    let mut first = Vec::with_capacity(FIRST_BYTES);
    loop {
        if inner.read_buf(&mut first).await.ok()? == 0 {
            return None;
        }
        let seen = first.len().min(PREFACE.len());
        let version = match first[..seen] == PREFACE[..seen] {
            true if seen < PREFACE.len() => continue,
            true => Version::Http2,
            false => Version::Http1,
        };
        return Some((version, first));
    }
}

impl<T> PrefixedStream<T> {
    pub fn new(first: Vec<u8>, inner: T) -> PrefixedStream<T> {
        PrefixedStream { first: Bytes::from(first), inner }
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
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    forward_remaining_writes!();
}
