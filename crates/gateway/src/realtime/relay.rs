//! One direction of a session: bytes from one connection to the other.
//!
//! Invariant: bytes pass in order, once and unchanged; what the other side does not take holds back reading, so that a direction holds one
//! read at most.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokrate_net::Upgraded;

/// Largest read (bytes).
const READ_BYTES: usize = 64 * 1024;

thread_local! {
    /// Read buffer of the direction that is being polled, so that an idle session has none.
    static READ: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// How a direction ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// Its source has closed, and everything was passed on.
    Source,
    /// Nothing can be passed on any more.
    Sink,
}

/// The state of one direction.
#[derive(Debug, Default)]
pub(super) struct Direction {
    /// What was read and not taken.
    held: Vec<u8>,
    written: usize,
    /// What was read and is passed on with the next read.
    kept: Vec<u8>,
    /// Whether something was written and not flushed.
    is_unflushed: bool,
    has_source_ended: bool,
    bytes: u64,
    end: Option<End>,
}

/// Hears of a direction.
pub(super) trait Observer {
    /// Bytes were read from its source, of which the first `known` were read before and kept; how many at their end are to be kept until the
    /// next read. The others are passed on next, as they are then.
    fn read(&mut self, from: &Upgraded, bytes: &mut [u8], known: usize) -> usize;
    /// All that was read has been handed to its sink.
    fn flushed(&mut self, to: &Upgraded);
}

impl Direction {
    /// A direction on which these bytes are passed on first, made of `read` bytes of its source.
    pub fn beginning_with(bytes: Vec<u8>, read: u64) -> Direction {
        Direction { held: bytes, bytes: read, ..Direction::default() }
    }

    /// Bytes that were read from its source.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether all that was read was passed on.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Passes on what there is.
    pub fn poll(
        &mut self,
        context: &mut Context<'_>,
        from: &mut Upgraded,
        to: &mut Upgraded,
        observer: &mut impl Observer,
    ) -> Poll<End> {
        if let Some(end) = self.end {
            return Poll::Ready(end);
        }
        let mut read = READ.take();
        read.resize(READ_BYTES, 0);
        let polled = self.pass_on(context, &mut read, from, to, observer);
        READ.set(read);
        let end = ready!(polled).unwrap_or(End::Sink);
        self.end = Some(end);
        self.held = Vec::new();
        Poll::Ready(end)
    }

    fn pass_on(
        &mut self,
        context: &mut Context<'_>,
        read: &mut [u8],
        from: &mut Upgraded,
        to: &mut Upgraded,
        observer: &mut impl Observer,
    ) -> Poll<io::Result<End>> {
        loop {
            while self.written < self.held.len() {
                let taken = ready!(Pin::new(&mut *to).poll_write(context, &self.held[self.written..]))?;
                self.note_written(taken)?;
            }
            (self.held, self.written) = (Vec::new(), 0);
            if self.is_unflushed {
                ready!(Pin::new(&mut *to).poll_flush(context))?;
                self.is_unflushed = false;
                observer.flushed(to);
            }
            if self.has_source_ended {
                // A side that cannot be told any more has closed as well.
                let _ = ready!(Pin::new(&mut *to).poll_shutdown(context));
                return Poll::Ready(Ok(End::Source));
            }
            let known = self.kept.len();
            let mut buffer = ReadBuf::new(&mut read[known..]);
            let result = ready!(Pin::new(&mut *from).poll_read(context, &mut buffer));
            let count = buffer.filled().len();
            // A reset is an end like another: what came before it was passed on.
            self.has_source_ended = result.is_err() || count == 0;
            if count == 0 {
                self.held = std::mem::take(&mut self.kept);
                continue;
            }
            self.bytes += count as u64;
            read[..known].copy_from_slice(&self.kept);
            let kept = observer.read(from, &mut read[..known + count], known);
            let count = known + count - kept;
            self.kept = read[count..count + kept].to_vec();
            let mut taken = 0;
            while taken < count {
                match Pin::new(&mut *to).poll_write(context, &read[taken..count]) {
                    Poll::Ready(result) => {
                        let more = result?;
                        self.note_written(more)?;
                        taken += more;
                    }
                    Poll::Pending => {
                        self.held = read[taken..count].to_vec();
                        self.written = 0;
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    fn note_written(&mut self, count: usize) -> io::Result<()> {
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.written = (self.written + count).min(self.held.len());
        self.is_unflushed = true;
        Ok(())
    }
}
