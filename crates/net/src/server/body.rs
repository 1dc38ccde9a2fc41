//! A request's body on its way to the handler.
//!
//! It refuses to read sockets. Invariant: it holds no more than the handler's limits and one read, what it holds is counted
//! against the budget of all bodies, and it is not read before the handler asks for it.

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

/// What is reserved at most for a body because its length was announced.
const RESERVED_BYTES: usize = 64 * 1024;
/// In each of these spans a body brings at least so many bytes, or is given up: a line of 26 kbit/s is quick enough.
const PACE_SPAN: Duration = Duration::from_secs(5);
const PACE_BYTES: usize = 16 * 1024;

/// A request's body as it comes in; see [`read_body`].
#[derive(Debug)]
pub struct RequestBody(Source);

#[derive(Debug)]
enum Source {
    Nothing,
    Http1(Rc<Inbox>),
    Http2(Incoming),
}

/// Why a request's body could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyError {
    /// It is larger than the limit.
    TooLarge,
    /// It broke off.
    Broken,
    /// It came too slowly.
    TooSlow,
    /// All bodies together hold as much as they may.
    NoRoom,
}

/// A body that came whole, and what it holds of the budget of all bodies, to be kept for as long as its bytes are.
#[derive(Debug)]
pub struct HeldBody {
    /// The body.
    pub bytes: Bytes,
    /// What it holds of the budget.
    pub share: ByteShare,
}

impl RequestBody {
    pub(super) fn nothing() -> RequestBody {
        RequestBody(Source::Nothing)
    }

    pub(super) fn http1(inbox: Rc<Inbox>) -> RequestBody {
        RequestBody(Source::Http1(inbox))
    }

    pub(super) fn http2(incoming: Incoming) -> RequestBody {
        if incoming.is_end_stream() { RequestBody::nothing() } else { RequestBody(Source::Http2(incoming)) }
    }

    /// A body that never comes.
    #[cfg(test)]
    pub(super) fn some() -> RequestBody {
        RequestBody::http1(Rc::new(Inbox::new(None)))
    }

    /// Whether there is a body at all, be it empty.
    pub(super) fn is_some(&self) -> bool {
        !matches!(self.0, Source::Nothing)
    }
}

/// Reads a request's body whole, up to `limit` bytes. What it hands back holds on to nothing else.
///
/// # Errors
/// When it is larger, breaks off or comes too slowly. One that says that it is larger is not read.
pub async fn read_body(body: RequestBody, limit: usize) -> Result<Bytes, BodyError> {
    Ok(hold_body(body, limit, &ByteBudget::new(usize::MAX)).await?.bytes)
}

/// The same, counted against a budget from the first byte on. A body that says that it is larger than what is left of it is not
/// read; one that does not say is given up when it has outgrown what is left.
///
/// # Errors
/// As for [`read_body`], and when the budget has no room.
pub async fn hold_body(body: RequestBody, limit: usize, budget: &Arc<ByteBudget>) -> Result<HeldBody, BodyError> {
    let share = budget.share();
    match body.0 {
        Source::Nothing => Ok(HeldBody { bytes: Bytes::new(), share }),
        Source::Http1(inbox) => {
            let wanting = Wanting(inbox);
            wanting.0.want(limit, share);
            paced(poll_fn(|context| wanting.0.poll_whole(context)), || wanting.0.received()).await
        }
        Source::Http2(incoming) => {
            let announced = incoming.size_hint().exact();
            let frames = RefCell::new(Frames { incoming, growing: Growing::new(Vec::new(), limit, announced, share)? });
            let whole = poll_fn(|context| frames.borrow_mut().poll_whole(context));
            paced(whole, || frames.borrow().growing.bytes.len()).await
        }
    }
}

/// A handler that waits for a body; when it no longer does, nothing further is read, and what was is let go.
struct Wanting(Rc<Inbox>);

impl Drop for Wanting {
    fn drop(&mut self) {
        let mut letters = self.0.0.borrow_mut();
        letters.growing = None;
        letters.end.get_or_insert(Err(BodyError::Broken));
    }
}

/// Waits for a body as long as it comes quickly enough.
async fn paced(
    whole: impl Future<Output = Result<HeldBody, BodyError>>,
    received: impl Fn() -> usize,
) -> Result<HeldBody, BodyError> {
    let mut whole = std::pin::pin!(whole);
    loop {
        let before = received();
        if let Ok(whole) = tokio::time::timeout(PACE_SPAN, whole.as_mut()).await {
            return whole;
        }
        if received() < before + PACE_BYTES {
            return Err(BodyError::TooSlow);
        }
    }
}

/// A body as far as it has come.
#[derive(Debug)]
struct Growing {
    bytes: Vec<u8>,
    limit: usize,
    announced: Option<usize>,
    share: ByteShare,
}

impl Growing {
    /// A body of which `bytes` have come. Room for what is announced is made at once, up to a small size; beyond it as bytes come,
    /// since a length that is only announced costs its client nothing.
    fn new(
        mut bytes: Vec<u8>,
        limit: usize,
        announced: Option<u64>,
        mut share: ByteShare,
    ) -> Result<Growing, BodyError> {
        let announced = announced.map(|length| usize::try_from(length).unwrap_or(usize::MAX));
        if announced.unwrap_or(0).max(bytes.len()) > limit {
            return Err(BodyError::TooLarge);
        }
        let room = announced.map_or(0, |length| length.min(RESERVED_BYTES)).max(bytes.capacity());
        if !announced.is_none_or(|length| share.has_room_for(length)) || !share.resize(room) {
            return Err(BodyError::NoRoom);
        }
        bytes.reserve_exact(room - bytes.len());
        Ok(Growing { bytes, limit, announced, share })
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), BodyError> {
        let all = self.bytes.len() + bytes.len();
        if all > self.limit {
            return Err(BodyError::TooLarge);
        }
        if all > self.bytes.capacity() {
            let doubled = self.bytes.capacity().saturating_mul(2);
            let expected = match self.announced {
                Some(length) => length.min(doubled),
                None => self.limit.min(doubled),
            };
            let room = expected.max(all);
            if !self.share.resize(room) {
                return Err(BodyError::NoRoom);
            }
            self.bytes.reserve_exact(room - self.bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

impl From<Growing> for HeldBody {
    fn from(Growing { bytes, share, .. }: Growing) -> HeldBody {
        HeldBody { bytes: Bytes::from(bytes), share }
    }
}

/// A body of HTTP/2.
struct Frames {
    incoming: Incoming,
    growing: Growing,
}

impl Frames {
    fn poll_whole(&mut self, context: &mut Context<'_>) -> Poll<Result<HeldBody, BodyError>> {
        while let Some(frame) = ready!(Pin::new(&mut self.incoming).poll_frame(context)) {
            let Ok(bytes) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
            self.growing.push(&bytes)?;
        }
        let empty = Growing { bytes: Vec::new(), limit: 0, announced: None, share: self.growing.share.empty() };
        Poll::Ready(Ok(std::mem::replace(&mut self.growing, empty).into()))
    }
}

/// What a connection has read of a body, for the handler to take.
#[derive(Debug)]
pub(super) struct Inbox(RefCell<Letters>);

#[derive(Debug)]
struct Letters {
    /// What came with the head, before the handler asked.
    early: Vec<u8>,
    /// How long it says that it is.
    announced: Option<u64>,
    /// What is read, once the handler wants it.
    growing: Option<Growing>,
    end: Option<Result<(), BodyError>>,
    handler: Option<Waker>,
    connection: Option<Waker>,
}

impl Inbox {
    pub fn new(announced: Option<u64>) -> Inbox {
        let (early, growing, end) = (Vec::new(), None, None);
        Inbox(RefCell::new(Letters { early, announced, growing, end, handler: None, connection: None }))
    }

    /// Takes what a read brought.
    pub fn push(&self, bytes: &[u8]) {
        let mut letters = self.0.borrow_mut();
        match &mut letters.growing {
            None => letters.early.extend_from_slice(bytes),
            Some(growing) => {
                if let Err(error) = growing.push(bytes) {
                    letters.fail(error);
                }
            }
        }
        wake(&mut letters.handler);
    }

    /// The body is whole, or will never be.
    pub fn end(&self, end: Result<(), BodyError>) {
        let mut letters = self.0.borrow_mut();
        letters.end.get_or_insert(end);
        wake(&mut letters.handler);
    }

    /// Whether the body has come to its end.
    pub fn is_whole(&self) -> bool {
        self.0.borrow().end == Some(Ok(()))
    }

    /// Whether more is to be read. If not, the caller is woken when that changes.
    pub fn wants_more(&self, context: &Context<'_>) -> bool {
        let mut letters = self.0.borrow_mut();
        let wants = letters.growing.is_some() && letters.end.is_none();
        if !wants {
            letters.connection = Some(context.waker().clone());
        }
        wants
    }

    /// Bytes that have come since the handler asked, and before.
    fn received(&self) -> usize {
        self.0.borrow().growing.as_ref().map_or(0, |growing| growing.bytes.len())
    }

    /// The handler asks for the body.
    fn want(&self, limit: usize, share: ByteShare) {
        let mut letters = self.0.borrow_mut();
        let early = std::mem::take(&mut letters.early);
        let growing = Growing::new(early, limit, letters.announced, share);
        match growing {
            Ok(growing) => letters.growing = Some(growing),
            Err(error) => letters.fail(error),
        }
    }

    fn poll_whole(&self, context: &Context<'_>) -> Poll<Result<HeldBody, BodyError>> {
        let mut letters = self.0.borrow_mut();
        match letters.end {
            Some(Err(error)) => Poll::Ready(Err(error)),
            Some(Ok(())) => Poll::Ready(letters.growing.take().map(HeldBody::from).ok_or(BodyError::Broken)),
            None => {
                letters.handler = Some(context.waker().clone());
                wake(&mut letters.connection);
                Poll::Pending
            }
        }
    }
}

impl Letters {
    /// Nothing more is read, and what was is let go.
    fn fail(&mut self, error: BodyError) {
        self.growing = None;
        self.end = Some(Err(error));
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}
