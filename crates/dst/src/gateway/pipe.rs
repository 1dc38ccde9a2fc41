//! A connection in memory: two byte streams between two ends, each of which can be closed, left or broken at any byte.
//!
//! It knows no HTTP and no time. Invariant: bytes come out in the order in which they went in, each once, until the connection is
//! reset; then what was not read is gone, as with TCP.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How a connection behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PipeLaw {
    /// Bytes that find room on the way, in each direction.
    pub room: usize,
    /// Bytes that one read brings at most.
    pub read_most: usize,
}

/// One end of a connection. Dropping it closes the connection in both directions.
#[derive(Debug)]
pub struct End {
    pipe: Rc<RefCell<Pipe>>,
    side: usize,
}

/// A look at a connection from outside.
#[derive(Clone, Debug)]
pub struct Watched(Rc<RefCell<Pipe>>);

#[derive(Debug)]
struct Pipe {
    law: PipeLaw,
    /// What each side has written.
    ways: [Way; 2],
    /// Whether each end is still held.
    held: [bool; 2],
    reset: bool,
}

#[derive(Debug, Default)]
struct Way {
    bytes: VecDeque<u8>,
    closed: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// A connection: its ends, and a look at it.
pub fn pipe(law: PipeLaw) -> (End, End, Watched) {
    let pipe = Pipe { law, ways: Default::default(), held: [true; 2], reset: false };
    let pipe = Rc::new(RefCell::new(pipe));
    let end = |side| End { pipe: Rc::clone(&pipe), side };
    (end(0), end(1), Watched(Rc::clone(&pipe)))
}

impl End {
    /// Breaks the connection: both ends see an error, and what was not read is gone.
    pub fn reset(self) {
        let mut pipe = self.pipe.borrow_mut();
        pipe.reset = true;
        for way in &mut pipe.ways {
            way.bytes.clear();
            way.wake();
        }
    }

    /// Completes when the other end has been left or the connection was reset.
    pub async fn left(&mut self) {
        poll_fn(|context| {
            let mut pipe = self.pipe.borrow_mut();
            if pipe.reset || !pipe.held[1 - self.side] {
                return Poll::Ready(());
            }
            // Leaving wakes who waits for room.
            pipe.ways[self.side].writer = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Watched {
    /// Whether the end that was made first is still held.
    pub fn first_is_held(&self) -> bool {
        self.0.borrow().held[0]
    }

    /// Whether the end that was made second is still held.
    pub fn second_is_held(&self) -> bool {
        self.0.borrow().held[1]
    }
}

impl Way {
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
        let most = pipe.law.read_most;
        let way = &mut pipe.ways[1 - self.side];
        if way.bytes.is_empty() {
            if way.closed {
                return Poll::Ready(Ok(()));
            }
            way.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let count = most.min(buffer.remaining()).min(way.bytes.len());
        let (front, back) = way.bytes.as_slices();
        buffer.put_slice(&front[..count.min(front.len())]);
        buffer.put_slice(&back[..count.saturating_sub(front.len())]);
        way.bytes.drain(..count);
        if let Some(writer) = way.writer.take() {
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
        let (room, peer_is_held) = (pipe.law.room, pipe.held[1 - self.side]);
        let way = &mut pipe.ways[self.side];
        if !peer_is_held || way.closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let count = bytes.len().min(room - way.bytes.len());
        if count == 0 && !bytes.is_empty() {
            way.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        way.bytes.extend(&bytes[..count]);
        if let Some(reader) = way.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut pipe = self.pipe.borrow_mut();
        let way = &mut pipe.ways[self.side];
        way.closed = true;
        way.wake();
        Poll::Ready(Ok(()))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let mut pipe = self.pipe.borrow_mut();
        pipe.held[self.side] = false;
        pipe.ways[self.side].closed = true;
        // Nobody reads what is still on its way here.
        pipe.ways[1 - self.side].bytes.clear();
        pipe.ways.iter_mut().for_each(Way::wake);
    }
}
