//! The one place that stamps time: a transport that notes when each read and each write returned.
//!
//! It refuses to look at the bytes. Invariant: the stamp of a read is taken when it returned with at least one byte, below
//! TLS and before anything is decoded.

use crate::clock::Clock;
use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokrate_core::Tick;

/// When the transport of one connection last moved bytes.
#[derive(Debug, Default)]
pub struct Stamps {
    read_at: Cell<Tick>,
    wrote_at: Cell<Tick>,
    read_bytes: Cell<u64>,
    wrote_bytes: Cell<u64>,
}

impl Stamps {
    /// When the last read returned bytes.
    pub fn read_at(&self) -> Tick {
        self.read_at.get()
    }

    /// When the last write returned.
    pub fn wrote_at(&self) -> Tick {
        self.wrote_at.get()
    }

    /// Bytes read so far.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.get()
    }

    /// Bytes written so far.
    pub fn wrote_bytes(&self) -> u64 {
        self.wrote_bytes.get()
    }
}

/// Hears of writes just before they are handed to the operating system.
pub(crate) trait WriteWatch {
    /// Bytes are handed to the socket at `at`.
    fn writing(&self, at: Tick);
}

impl WriteWatch for () {
    fn writing(&self, _at: Tick) {}
}

/// A transport whose reads and writes are stamped.
#[derive(Debug)]
pub struct Stamped<T, W = ()> {
    inner: T,
    clock: Clock,
    stamps: Rc<Stamps>,
    watch: W,
}

impl<T, W> Stamped<T, W> {
    pub(crate) fn new(inner: T, clock: Clock, watch: W) -> Stamped<T, W> {
        Stamped { inner, clock, stamps: Rc::default(), watch }
    }

    /// The stamps, which live on when the transport is handed on.
    pub(crate) fn stamps(&self) -> Rc<Stamps> {
        Rc::clone(&self.stamps)
    }
}

impl<T: AsyncRead + Unpin, W: Unpin> AsyncRead for Stamped<T, W> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.inner).poll_read(context, buffer);
        let count = buffer.filled().len() - before;
        if count > 0 {
            self.stamps.read_at.set(self.clock.now());
            self.stamps.read_bytes.set(self.stamps.read_bytes.get() + count as u64);
        }
        result
    }
}

impl<T: Unpin, W: WriteWatch + Unpin> Stamped<T, W> {
    fn write_with(
        &mut self,
        write: impl FnOnce(Pin<&mut T>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let handed_at = self.clock.now();
        let result = write(Pin::new(&mut self.inner));
        if let Poll::Ready(Ok(count)) = &result {
            self.watch.writing(handed_at);
            self.stamps.wrote_at.set(self.clock.now());
            self.stamps.wrote_bytes.set(self.stamps.wrote_bytes.get() + *count as u64);
        }
        result
    }
}

impl<T: AsyncWrite + Unpin, W: WriteWatch + Unpin> AsyncWrite for Stamped<T, W> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.write_with(|inner| inner.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write_with(|inner| inner.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
