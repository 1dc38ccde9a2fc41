//! The only place that takes timestamps: a transport that records when the bytes of each read arrived and when each write was handed over.
//!
//! A read's timestamp is the kernel's receive timestamp of its last byte if there is one, else the time at which the read returned;
//! taken below TLS and before any decoding. Invariant: read timestamps never go back, and none is later than the return of its read.

use crate::clock::Clock;
use crate::rx_timestamp::RxTimestamp;
use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokrate_core::{Span, Tick};

/// If wall and monotonic time drift apart by more than this between two reads (ns), the wall clock was set. Being preempted between
/// reading the two clocks usually costs less.
const MAX_WALL_DRIFT_NANOS: u64 = 20_000_000;

/// Set to the tick at which a request's last byte was handed to the socket.
pub type Departure = Rc<Cell<Option<Tick>>>;

/// Timestamps and counters of one connection.
#[derive(Debug, Default)]
pub struct Stamps {
    read_at: Cell<Tick>,
    wrote_at: Cell<Tick>,
    read_bytes: Cell<u64>,
    wrote_bytes: Cell<u64>,
    first_byte: Cell<Option<u8>>,
    departures: RefCell<Vec<Departure>>,
    reader: RefCell<Option<Waker>>,
    /// Wall time minus monotonic time at the last read that had a receive timestamp (ns).
    wall_offset: Cell<Option<u64>>,
}

impl Stamps {
    /// When the last byte of the last read arrived.
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

    /// Forgets the first byte: what was read so far belongs to the proxy or the TLS handshake.
    pub(crate) fn reset_first_byte(&self) {
        self.first_byte.set(None);
    }

    /// Sets `departure` at the next write that takes everything it was offered. Call it when the bytes in question are in the
    /// buffer that is written next.
    pub(crate) fn mark_next_write(&self, departure: Departure) {
        self.departures.borrow_mut().push(departure);
    }

    /// Wakes the caller when the next bytes are read.
    pub(crate) fn wake_on_read(&self, context: &Context<'_>) {
        *self.reader.borrow_mut() = Some(context.waker().clone());
    }

    /// Converts a kernel timestamp to the monotonic clock. `wall_now` was read right before `now`.
    fn arrival(&self, rx_timestamp: u64, wall_now: u64, now: Tick) -> Tick {
        let offset = wall_now.wrapping_sub(now.as_nanos());
        let before = self.wall_offset.replace(Some(offset)).unwrap_or(offset);
        let moved = (offset.wrapping_sub(before) as i64).unsigned_abs();
        let waited = Span::from_nanos(wall_now.saturating_sub(rx_timestamp));
        if moved > MAX_WALL_DRIFT_NANOS { now } else { (now - waited).max(self.read_at.get()) }
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

/// Observes writes that took everything they were offered.
pub(crate) trait WriteWatch {
    /// Everything that was offered up to now was handed to the socket by a call that began at `at`.
    fn written(&self, at: Tick);
}

impl WriteWatch for () {
    fn written(&self, _at: Tick) {}
}

/// Forwards the methods of [`AsyncWrite`] other than the writes to `inner`.
/// The writes of a wrapper that changes reads alone.
macro_rules! forward_writes {
    () => {
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

        crate::stamped::forward_remaining_writes!();
    };
}
pub(crate) use forward_writes;

macro_rules! forward_remaining_writes {
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
pub(crate) use forward_remaining_writes;

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

    /// The inner transport; direct use of it is not timestamped.
    pub(crate) fn inner_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// The timestamps, which outlive the transport.
    pub(crate) fn stamps(&self) -> Rc<Stamps> {
        Rc::clone(&self.stamps)
    }
}

impl<T: AsyncRead + RxTimestamp + Unpin, W: Unpin> AsyncRead for Stamped<T, W> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.inner).poll_read(context, buffer);
        let bytes = &buffer.filled()[before..];
        if !bytes.is_empty() {
            let timestamp = self.inner.rx_timestamp().filter(|_| self.clock.is_monotonic());
            let timestamp = timestamp.map(|timestamp| (timestamp, self.clock.wall_nanos()));
            let now = self.clock.now();
            let at = timestamp.map_or(now, |(timestamp, wall_now)| self.stamps.arrival(timestamp, wall_now, now));
            self.stamps.read(at, bytes);
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
            // The time before the call: what the kernel does in it, such as waking the receiver, counts as the server's time and
            // must be part of a TTFT.
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

    forward_remaining_writes!();
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    /// Wall time minus monotonic time.
    const OFFSET: u64 = 1_790_000_000_000 * MS;

    fn at(ms: u64) -> Tick {
        Tick::from_nanos(ms * MS)
    }

    #[test]
    fn an_arrival_lies_as_far_back_as_the_bytes_have_waited_but_never_before_the_last() {
        let stamps = Stamps::default();
        assert_eq!(stamps.arrival(OFFSET + 97 * MS, OFFSET + 100 * MS, at(100)), at(97));
        stamps.read(at(97), b"x");
        assert_eq!(stamps.arrival(OFFSET + 90 * MS, OFFSET + 110 * MS, at(110)), at(97));
        // A timestamp in the future, and a thread preempted between the two clocks.
        assert_eq!(stamps.arrival(OFFSET + 130 * MS, OFFSET + 120 * MS, at(120)), at(120));
        assert_eq!(stamps.arrival(OFFSET + 119 * MS, OFFSET + 120 * MS, at(125)), at(124));
    }

    #[test]
    fn a_wall_clock_that_was_set_is_not_believed_for_one_read() {
        let stamps = Stamps::default();
        stamps.arrival(OFFSET + 10 * MS, OFFSET + 10 * MS, at(10));
        let set = OFFSET + 3_600_000 * MS;
        assert_eq!(stamps.arrival(OFFSET + 19 * MS, set + 20 * MS, at(20)), at(20), "it was set in between");
        assert_eq!(stamps.arrival(set + 29 * MS, set + 30 * MS, at(30)), at(29));
        assert_eq!(stamps.arrival(set + 39 * MS, OFFSET + 40 * MS, at(40)), at(40), "and back");
    }
}
