//! An in-memory connection: two byte streams between two ends, each of which can be closed, dropped or reset at any byte.
//!
//! Invariant: bytes arrive once and in order until the connection is reset; unread ones are lost then, as with TCP.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Properties of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PipeLaw {
    /// Buffer size of each direction.
    pub capacity: usize,
    /// Largest read.
    pub max_read: usize,
}

/// One end of a connection. Dropping it closes the connection in both directions.
#[derive(Debug)]
pub struct End {
    pipe: Rc<RefCell<Pipe>>,
    side: usize,
}

/// Observes a connection from outside.
#[derive(Clone, Debug)]
pub struct PipeObserver(Rc<RefCell<Pipe>>);

#[derive(Debug)]
struct Pipe {
    law: PipeLaw,
    /// Bytes written by each side.
    directions: [Direction; 2],
    /// Whether each end is still open.
    open: [bool; 2],
    reset: bool,
}

#[derive(Debug, Default)]
struct Direction {
    bytes: VecDeque<u8>,
    closed: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// Creates a connection: both ends and an observer.
pub fn pipe(law: PipeLaw) -> (End, End, PipeObserver) {
    let pipe = Pipe { law, directions: Default::default(), open: [true; 2], reset: false };
    let pipe = Rc::new(RefCell::new(pipe));
    let end = |side| End { pipe: Rc::clone(&pipe), side };
    (end(0), end(1), PipeObserver(Rc::clone(&pipe)))
}

impl End {
    /// Resets the connection: both ends see an error, unread bytes are lost.
    pub fn reset(self) {
        let mut pipe = self.pipe.borrow_mut();
        pipe.reset = true;
        for direction in &mut pipe.directions {
            direction.bytes.clear();
            direction.wake();
        }
    }

    /// Completes when the other end is dropped or the connection is reset.
    pub async fn peer_closed(&mut self) {
        poll_fn(|context| {
            let mut pipe = self.pipe.borrow_mut();
            if pipe.reset || !pipe.open[1 - self.side] {
                return Poll::Ready(());
            }
            // Dropping an end wakes the writer of the other.
            pipe.directions[self.side].writer = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl PipeObserver {
    /// Whether the first end is open.
    pub fn first_is_open(&self) -> bool {
        self.0.borrow().open[0]
    }

    /// Whether the second end is open.
    pub fn second_is_open(&self) -> bool {
        self.0.borrow().open[1]
    }
}

impl Direction {
    fn wake(&mut self) {
        [self.reader.take(), self.writer.take()].into_iter().flatten().for_each(Waker::wake);
    }
}

impl AsyncRead for End {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut pipe = self.pipe.borrow_mut();
        if pipe.reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let max_read = pipe.law.max_read;
        let direction = &mut pipe.directions[1 - self.side];
        if direction.bytes.is_empty() {
            if direction.closed {
                return Poll::Ready(Ok(()));
            }
            direction.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let count = max_read.min(buffer.remaining()).min(direction.bytes.len());
        let (front, back) = direction.bytes.as_slices();
        buffer.put_slice(&front[..count.min(front.len())]);
        buffer.put_slice(&back[..count.saturating_sub(front.len())]);
        direction.bytes.drain(..count);
        if let Some(writer) = direction.writer.take() {
            writer.wake();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for End {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut pipe = self.pipe.borrow_mut();
        if pipe.reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let (capacity, peer_is_open) = (pipe.law.capacity, pipe.open[1 - self.side]);
        let direction = &mut pipe.directions[self.side];
        if !peer_is_open || direction.closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let count = bytes.len().min(capacity - direction.bytes.len());
        if count == 0 && !bytes.is_empty() {
            direction.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        direction.bytes.extend(&bytes[..count]);
        if let Some(reader) = direction.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut pipe = self.pipe.borrow_mut();
        let direction = &mut pipe.directions[self.side];
        direction.closed = true;
        direction.wake();
        Poll::Ready(Ok(()))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let mut pipe = self.pipe.borrow_mut();
        pipe.open[self.side] = false;
        pipe.directions[self.side].closed = true;
        // Bytes on their way to a dropped end are lost.
        pipe.directions[1 - self.side].bytes.clear();
        pipe.directions.iter_mut().for_each(Direction::wake);
    }
}
