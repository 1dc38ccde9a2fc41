//! A transport that gives up a peer which takes nothing of what lies ready for it.
//!
//! It refuses to know what is written. Invariant: a peer that takes a byte within the limit is left alone, however slow it is.

use super::ConnectionTap;
use crate::rx_timestamp::{RxTimestamp, TcpSocket};
use crate::stamped::goes_through;
use std::any::Any;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use tokrate_core::Span;

/// The transport below a connection of the server.
pub(super) struct Patient<T> {
    inner: T,
    limit: Option<Span>,
    /// Runs while the peer takes nothing.
    timer: Option<Pin<Box<Sleep>>>,
    tap: Rc<ConnectionTap>,
}

impl<T: 'static> Patient<T> {
    pub fn new(inner: T, limit: Option<Span>, tap: Rc<ConnectionTap>) -> Patient<T> {
        Patient { inner, limit, timer: None, tap }
    }

    /// Looks at what came of a write of `offered`: nothing for as long as the limit is an error.
    fn judge(
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

/// Writes what there is room for, and says how much that was. A socket tells of room when a third of its buffer is free, which
/// a slow peer may need longer for than the limit; any room at all means that it has taken something.
fn write_at_once<T: 'static>(inner: &T, bytes: &[u8]) -> usize {
    use rustix::net::{SendFlags, send};
    let Some(socket) = (inner as &dyn Any).downcast_ref::<TcpSocket>() else { return 0 };
    // An error is found again, and told, by the next write.
    send(socket.stream(), bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).unwrap_or(0)
}

impl<T: 'static> RxTimestamp for Patient<T> {
    fn rx_timestamp(&self) -> Option<u64> {
        (&self.inner as &dyn Any).downcast_ref::<TcpSocket>()?.rx_timestamp()
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Patient<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin + 'static> AsyncWrite for Patient<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.judge(context, written, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        let first = slices.iter().find(|slice| !slice.is_empty()).map_or(&[][..], |slice| slice);
        self.judge(context, written, first)
    }

    goes_through!();
}
