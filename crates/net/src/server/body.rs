//! Reads the body of a request for its handler.
//!
//! Invariant: it holds no more than the limit of the handler and one read, what it holds is counted against the budget of all bodies,
//! and nothing is read before the handler asks for it.

use super::budget::{ByteBudget, ByteShare};
use bytes::Bytes;
use http_body::Body;
use hyper::body::Incoming;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

/// Most bytes allocated up front on the word of Content-Length.
const MAX_PREALLOCATED_BYTES: usize = 64 * 1024;
/// A piece of a body that is handed out as it comes; with this much waiting, nothing more is read.
const MAX_PIECE_BYTES: usize = 64 * 1024;
/// A body that brings fewer bytes than this in any window fails: 26 kbit/s are enough.
const RATE_WINDOW: Duration = Duration::from_secs(5);
const MIN_BYTES_PER_WINDOW: usize = 16 * 1024;

/// An incoming request body; see [`read_body`].
#[derive(Debug)]
pub struct RequestBody(Source);

#[derive(Debug)]
enum Source {
    Empty,
    Http1(Rc<BodyBuffer>),
    Http2(Incoming),
}

/// A request's body as it comes, piece by piece; at most two reads of it are held. Dropping it stops reading.
#[derive(Debug)]
pub struct BodyPieces(Source);

/// Why a request's body could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyError {
    /// It is larger than the limit.
    TooLarge,
    /// The connection ended within it, or its framing is invalid.
    Broken,
    /// It arrived too slowly.
    TooSlow,
    /// The memory budget of all bodies is used up.
    OverBudget,
}

/// A complete body and its share of the budget; keep the share as long as the bytes.
#[derive(Debug)]
pub struct BufferedBody {
    /// The body.
    pub bytes: Bytes,
    /// What it holds of the budget.
    pub share: ByteShare,
}

impl RequestBody {
    pub(super) fn empty() -> RequestBody {
        RequestBody(Source::Empty)
    }

    pub(super) fn http1(buffer: Rc<BodyBuffer>) -> RequestBody {
        RequestBody(Source::Http1(buffer))
    }

    pub(super) fn http2(incoming: Incoming) -> RequestBody {
        if incoming.is_end_stream() { RequestBody::empty() } else { RequestBody(Source::Http2(incoming)) }
    }

    /// Hands the body out as it comes.
    pub fn into_pieces(self) -> BodyPieces {
        if let Source::Http1(buffer) = &self.0 {
            buffer.start_pieces();
        }
        BodyPieces(self.0)
    }

    /// A body that never arrives.
    #[cfg(test)]
    pub(super) fn some() -> RequestBody {
        RequestBody::http1(Rc::new(BodyBuffer::new(None)))
    }

    /// Whether there is a body, even an empty one.
    pub fn is_some(&self) -> bool {
        !matches!(self.0, Source::Empty)
    }
}

impl BodyPieces {
    /// The next piece; `None` at the end.
    pub fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        match &mut self.0 {
            Source::Empty => Poll::Ready(None),
            Source::Http1(buffer) => buffer.poll_piece(context),
            Source::Http2(incoming) => loop {
                match ready!(Pin::new(&mut *incoming).poll_frame(context)) {
                    None => return Poll::Ready(None),
                    Some(Err(_)) => return Poll::Ready(Some(Err(BodyError::Broken))),
                    Some(Ok(frame)) => {
                        if let Ok(bytes) = frame.into_data() {
                            return Poll::Ready(Some(Ok(bytes)));
                        }
                    }
                }
            },
        }
    }
}

impl Drop for BodyPieces {
    fn drop(&mut self) {
        if let Source::Http1(buffer) = &self.0 {
            let mut state = buffer.0.borrow_mut();
            state.pieces = None;
            state.end.get_or_insert(Err(BodyError::Broken));
            wake(&mut state.connection);
        }
    }
}

/// Reads a whole request body of up to `limit` bytes.
///
/// # Errors
/// When it is larger, incomplete or too slow. One whose Content-Length is larger is not read.
pub async fn read_body(body: RequestBody, limit: usize) -> Result<Bytes, BodyError> {
    Ok(buffer_body(body, limit, &ByteBudget::new(usize::MAX)).await?.bytes)
}

/// The same, counted against a budget from the first byte. A body whose Content-Length exceeds what is left is not read; one
/// without a length fails once it exceeds what is left.
///
/// # Errors
/// As for [`read_body`], and when the budget has no room.
pub async fn buffer_body(body: RequestBody, limit: usize, budget: &Arc<ByteBudget>) -> Result<BufferedBody, BodyError> {
    let share = budget.share();
    match body.0 {
        Source::Empty => Ok(BufferedBody { bytes: Bytes::new(), share }),
        Source::Http1(buffer) => {
            let read = BodyRead(buffer);
            read.0.start(limit, share);
            with_minimum_rate(poll_fn(|context| read.0.poll_whole(context)), || read.0.received()).await
        }
        Source::Http2(incoming) => {
            let content_length = incoming.size_hint().exact();
            let frames =
                RefCell::new(Frames { incoming, partial: PartialBody::new(Vec::new(), limit, content_length, share)? });
            let whole = poll_fn(|context| frames.borrow_mut().poll_whole(context));
            with_minimum_rate(whole, || frames.borrow().partial.bytes.len()).await
        }
    }
}

/// A pending read by the handler; when dropped, reading stops and the buffer is freed.
struct BodyRead(Rc<BodyBuffer>);

impl Drop for BodyRead {
    fn drop(&mut self) {
        let mut state = self.0.0.borrow_mut();
        state.partial = None;
        state.end.get_or_insert(Err(BodyError::Broken));
    }
}

/// Waits for a body as long as it keeps the minimum rate.
async fn with_minimum_rate(
    whole: impl Future<Output = Result<BufferedBody, BodyError>>,
    received: impl Fn() -> usize,
) -> Result<BufferedBody, BodyError> {
    let mut whole = std::pin::pin!(whole);
    loop {
        let before = received();
        if let Ok(whole) = tokio::time::timeout(RATE_WINDOW, whole.as_mut()).await {
            return whole;
        }
        if received() < before + MIN_BYTES_PER_WINDOW {
            return Err(BodyError::TooSlow);
        }
    }
}

/// A body received in part.
#[derive(Debug)]
struct PartialBody {
    bytes: Vec<u8>,
    limit: usize,
    content_length: Option<usize>,
    share: ByteShare,
}

impl PartialBody {
    /// A body of which `bytes` were received. The announced length is allocated at once up to a small size, beyond it as bytes
    /// arrive, since announcing a length costs the client nothing.
    fn new(
        mut bytes: Vec<u8>,
        limit: usize,
        content_length: Option<u64>,
        mut share: ByteShare,
    ) -> Result<PartialBody, BodyError> {
        let content_length = content_length.map(|length| usize::try_from(length).unwrap_or(usize::MAX));
        if content_length.unwrap_or(0).max(bytes.len()) > limit {
            return Err(BodyError::TooLarge);
        }
        let room = content_length.map_or(0, |length| length.min(MAX_PREALLOCATED_BYTES)).max(bytes.capacity());
        if !content_length.is_none_or(|length| share.has_room_for(length)) || !share.resize(room) {
            return Err(BodyError::OverBudget);
        }
        bytes.reserve_exact(room - bytes.len());
        Ok(PartialBody { bytes, limit, content_length, share })
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), BodyError> {
        let all = self.bytes.len() + bytes.len();
        if all > self.limit {
            return Err(BodyError::TooLarge);
        }
        if all > self.bytes.capacity() {
            let doubled = self.bytes.capacity().saturating_mul(2);
            let expected = match self.content_length {
                Some(length) => length.min(doubled),
                None => self.limit.min(doubled),
            };
            let room = expected.max(all);
            if !self.share.resize(room) {
                return Err(BodyError::OverBudget);
            }
            self.bytes.reserve_exact(room - self.bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

impl From<PartialBody> for BufferedBody {
    fn from(PartialBody { bytes, share, .. }: PartialBody) -> BufferedBody {
        BufferedBody { bytes: Bytes::from(bytes), share }
    }
}

/// An HTTP/2 body.
struct Frames {
    incoming: Incoming,
    partial: PartialBody,
}

impl Frames {
    fn poll_whole(&mut self, context: &mut Context<'_>) -> Poll<Result<BufferedBody, BodyError>> {
        while let Some(frame) = ready!(Pin::new(&mut self.incoming).poll_frame(context)) {
            let Ok(bytes) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
            self.partial.push(&bytes)?;
        }
        let empty =
            PartialBody { bytes: Vec::new(), limit: 0, content_length: None, share: self.partial.share.empty() };
        Poll::Ready(Ok(std::mem::replace(&mut self.partial, empty).into()))
    }
}

/// What a connection has read of a body, for the handler.
#[derive(Debug)]
pub(super) struct BodyBuffer(RefCell<BufferState>);

#[derive(Debug)]
struct BufferState {
    /// What was read together with the head.
    early: Vec<u8>,
    /// Value of Content-Length.
    content_length: Option<u64>,
    /// What was read since the handler asked.
    partial: Option<PartialBody>,
    /// The same, where it is handed out as it comes.
    pieces: Option<Vec<u8>>,
    end: Option<Result<(), BodyError>>,
    handler: Option<Waker>,
    connection: Option<Waker>,
}

impl BodyBuffer {
    pub fn new(content_length: Option<u64>) -> BodyBuffer {
        let (early, partial, pieces, end) = (Vec::new(), None, None, None);
        let (handler, connection) = (None, None);
        BodyBuffer(RefCell::new(BufferState { early, content_length, partial, pieces, end, handler, connection }))
    }

    /// Appends what was read.
    pub fn push(&self, bytes: &[u8]) {
        let state = &mut *self.0.borrow_mut();
        match &mut state.partial {
            None if let Some(pieces) = &mut state.pieces => pieces.extend_from_slice(bytes),
            None => state.early.extend_from_slice(bytes),
            Some(partial) => {
                if let Err(error) = partial.push(bytes) {
                    state.fail(error);
                }
            }
        }
        wake(&mut state.handler);
    }

    /// The body is complete, or failed.
    pub fn end(&self, end: Result<(), BodyError>) {
        let mut state = self.0.borrow_mut();
        state.end.get_or_insert(end);
        wake(&mut state.handler);
    }

    /// Whether the body is complete.
    pub fn is_whole(&self) -> bool {
        self.0.borrow().end == Some(Ok(()))
    }

    /// Whether more is to be read. If not, the caller is woken when that changes.
    pub fn wants_more(&self, context: &Context<'_>) -> bool {
        let mut state = self.0.borrow_mut();
        let has_room = state.pieces.as_ref().is_some_and(|pieces| pieces.len() < MAX_PIECE_BYTES);
        let wants = (state.partial.is_some() || has_room) && state.end.is_none();
        if !wants {
            state.connection = Some(context.waker().clone());
        }
        wants
    }

    /// Bytes received so far.
    fn received(&self) -> usize {
        self.0.borrow().partial.as_ref().map_or(0, |partial| partial.bytes.len())
    }

    /// The handler asks for the body.
    fn start(&self, limit: usize, share: ByteShare) {
        let mut state = self.0.borrow_mut();
        let early = std::mem::take(&mut state.early);
        let partial = PartialBody::new(early, limit, state.content_length, share);
        match partial {
            Ok(partial) => state.partial = Some(partial),
            Err(error) => state.fail(error),
        }
    }

    /// The handler asks for the body as it comes.
    fn start_pieces(&self) {
        let mut state = self.0.borrow_mut();
        state.pieces = Some(std::mem::take(&mut state.early));
    }

    fn poll_piece(&self, context: &Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        let mut state = self.0.borrow_mut();
        let piece = state.pieces.as_mut().map(std::mem::take).unwrap_or_default();
        if !piece.is_empty() {
            wake(&mut state.connection);
            return Poll::Ready(Some(Ok(Bytes::from(piece))));
        }
        match state.end {
            Some(end) => Poll::Ready(end.err().map(Err)),
            None => {
                state.handler = Some(context.waker().clone());
                wake(&mut state.connection);
                Poll::Pending
            }
        }
    }

    fn poll_whole(&self, context: &Context<'_>) -> Poll<Result<BufferedBody, BodyError>> {
        let mut state = self.0.borrow_mut();
        match state.end {
            Some(Err(error)) => Poll::Ready(Err(error)),
            Some(Ok(())) => Poll::Ready(state.partial.take().map(BufferedBody::from).ok_or(BodyError::Broken)),
            None => {
                state.handler = Some(context.waker().clone());
                wake(&mut state.connection);
                Poll::Pending
            }
        }
    }
}

impl BufferState {
    /// Stops reading and frees the buffer.
    fn fail(&mut self, error: BodyError) {
        self.partial = None;
        self.end = Some(Err(error));
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}
