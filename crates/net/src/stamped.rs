//! The one place that stamps time: a transport that notes when each read returned and when each write was handed over.
//!
//! It refuses to look at the bytes. Invariant: the stamp of a read is taken when it returned with at least one byte, below
//! TLS and before anything is decoded.

use crate::clock::Clock;
use crate::exchange::Departure;
use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokrate_core::Tick;

/// When the transport of one connection last moved bytes.
#[derive(Debug, Default)]
pub struct Stamps {
    read_at: Cell<Tick>,
    wrote_at: Cell<Tick>,
    read_bytes: Cell<u64>,
    wrote_bytes: Cell<u64>,
    first_byte: Cell<Option<u8>>,
    departures: RefCell<Vec<Departure>>,
    reader: RefCell<Option<Waker>>,
}

impl Stamps {
    /// When the last read returned bytes.
    pub fn read_at(&self) -> Tick {
        self.read_at.get()
    }

    /// When the last write was handed to the operating system.
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

    /// The first byte of what the server sent.
    pub(crate) fn first_byte(&self) -> Option<u8> {
        self.first_byte.get()
    }

    /// What was read so far was said while the connection was opened, by a proxy or by TLS, and not by the server.
    pub(crate) fn is_opened(&self) {
        self.first_byte.set(None);
    }

    /// Fills `departure` when the next write has taken everything that it was offered: to be called when the bytes in
    /// question lie in the buffer that is written next.
    pub(crate) fn expect_departure(&self, departure: Departure) {
        self.departures.borrow_mut().push(departure);
    }

    /// Wakes the caller when the next bytes are read.
    pub(crate) fn wake_at_read(&self, context: &Context<'_>) {
        *self.reader.borrow_mut() = Some(context.waker().clone());
    }

    fn read(&self, at: Tick, bytes: &[u8]) {
        if self.first_byte.get().is_none() {
            self.first_byte.set(bytes.first().copied());
        }
        self.read_at.set(at);
        self.read_bytes.set(self.read_bytes.get() + bytes.len() as u64);
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }

    fn wrote(&self, at: Tick, count: usize, all: bool) {
        self.wrote_at.set(at);
        self.wrote_bytes.set(self.wrote_bytes.get() + count as u64);
        if all {
            for departure in self.departures.borrow_mut().drain(..) {
                departure.set(Some(at));
            }
        }
    }
}

/// Hears of writes that took everything they were offered.
pub(crate) trait WriteWatch {
    /// Everything that was offered up to now was handed to the socket by a call that began at `at`.
    fn written(&self, at: Tick);
}

impl WriteWatch for () {
    fn written(&self, _at: Tick) {}
}

/// What a transport does to the one below it without looking at it: the rest of [`AsyncWrite`] beside the writes.
macro_rules! goes_through {
    () => {
        fn is_write_vectored(&self) -> bool {
            self.inner.is_write_vectored()
        }

        fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.inner).poll_flush(context)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.inner).poll_shutdown(context)
        }
    };
}
pub(crate) use goes_through;

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

    /// The transport below: what is done to it directly is not stamped.
    pub(crate) fn inner_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// The stamps, which live on when the transport is handed on.
    pub(crate) fn stamps(&self) -> Rc<Stamps> {
        Rc::clone(&self.stamps)
    }
}

impl<T: AsyncRead + Unpin, W: Unpin> AsyncRead for Stamped<T, W> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.inner).poll_read(context, buffer);
        let bytes = &buffer.filled()[before..];
        if !bytes.is_empty() {
            self.stamps.read(self.clock.now(), bytes);
        }
        result
    }
}

impl<T: Unpin, W: WriteWatch + Unpin> Stamped<T, W> {
    fn write_with(
        &mut self,
        offered: usize,
        write: impl FnOnce(Pin<&mut T>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let handed_at = self.clock.now();
        let result = write(Pin::new(&mut self.inner));
        if let Poll::Ready(Ok(count)) = &result {
            // The tick before the call: what the kernel does within it, waking the receiver included, is the server's
            // time and must not be lost from a TTFT.
            self.stamps.wrote(handed_at, *count, *count == offered);
            if *count == offered {
                self.watch.written(handed_at);
            }
        }
        result
    }
}

impl<T: AsyncWrite + Unpin, W: WriteWatch + Unpin> AsyncWrite for Stamped<T, W> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.write_with(bytes.len(), |inner| inner.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered = slices.iter().map(|slice| slice.len()).sum();
        self.write_with(offered, |inner| inner.poll_write_vectored(context, slices))
    }

    goes_through!();
}
