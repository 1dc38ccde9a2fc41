//! A transport that fails writes when the peer accepts nothing for too long.
//!
//! Invariant: a peer that accepts a byte within the limit is kept, however slow it is.

use super::ConnectionTap;
use crate::rx_timestamp::{RxTimestamp, TcpSocket};
use crate::stamped::forward_remaining_writes;
use std::any::Any;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use tokrate_core::Span;

/// The transport of a server connection.
pub(super) struct WriteTimeout<T> {
    inner: T,
    limit: Option<Span>,
    /// Runs while the peer accepts nothing.
    timer: Option<Pin<Box<Sleep>>>,
    tap: Rc<ConnectionTap>,
}

impl<T: 'static> WriteTimeout<T> {
    pub fn new(inner: T, limit: Option<Span>, tap: Rc<ConnectionTap>) -> WriteTimeout<T> {
        WriteTimeout { inner, limit, timer: None, tap }
    }

    /// Turns a write of `offered` that was pending for the whole limit into an error.
    fn check_progress(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
        offered: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Some(limit) = self.limit else { return written };
        if written.is_ready() {
            self.timer = None;
            return written;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit.as_duration())));
        ready!(timer.as_mut().poll(context));
        self.timer = None;
        match write_at_once(&self.inner, offered) {
            0 => {
                self.tap.has_stalled.set(true);
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            count => Poll::Ready(Ok(count)),
        }
    }
}

/// Writes without waiting; returns how many bytes were taken. The kernel reports a socket writable only when a third of its buffer is
/// free, which can take a slow peer longer than the limit; any free space shows that it made progress.
fn write_at_once<T: 'static>(inner: &T, bytes: &[u8]) -> usize {
    use rustix::net::{SendFlags, send};
    let Some(socket) = (inner as &dyn Any).downcast_ref::<TcpSocket>() else { return 0 };
    // The next write returns any error again.
    send(socket.stream(), bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).unwrap_or(0)
}

impl<T: 'static> RxTimestamp for WriteTimeout<T> {
    fn rx_timestamp(&self) -> Option<u64> {
        (&self.inner as &dyn Any).downcast_ref::<TcpSocket>()?.rx_timestamp()
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for WriteTimeout<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin + 'static> AsyncWrite for WriteTimeout<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.check_progress(context, written, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        let first = slices.iter().find(|slice| !slice.is_empty()).map_or(&[][..], |slice| slice);
        self.check_progress(context, written, first)
    }

    forward_remaining_writes!();
}
