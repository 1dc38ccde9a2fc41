//! A request's body on its way to the handler.
//!
//! It refuses to read sockets. Invariant: it holds no more than the handler's limit and one read, and it is not read before the
//! handler asks for it.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// What is reserved at most for a body because its length was announced.
const RESERVED_BYTES_MOST: usize = 1 << 20;

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
}

impl RequestBody {
    pub(super) fn nothing() -> RequestBody {
        RequestBody(Source::Nothing)
    }

    pub(super) fn http1(inbox: Rc<Inbox>) -> RequestBody {
        RequestBody(Source::Http1(inbox))
    }

    pub(super) fn http2(incoming: Incoming) -> RequestBody {
        RequestBody(Source::Http2(incoming))
    }
}

/// Reads a request's body whole, up to `limit` bytes. What it hands back holds on to nothing else.
///
/// # Errors
/// When it is larger or breaks off. One that says that it is larger is not read.
pub async fn read_body(body: RequestBody, limit: usize) -> Result<Bytes, BodyError> {
    match body.0 {
        Source::Nothing => Ok(Bytes::new()),
        Source::Http1(inbox) => poll_fn(|context| inbox.poll_whole(limit, context)).await,
        Source::Http2(incoming) => read_frames(incoming, limit).await,
    }
}

async fn read_frames(mut body: Incoming, limit: usize) -> Result<Bytes, BodyError> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(bytes) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
        if whole.len() + bytes.len() > limit {
            return Err(BodyError::TooLarge);
        }
        whole.extend_from_slice(&bytes);
    }
    Ok(whole.freeze())
}

/// What a connection has read of a body, for the handler to take.
#[derive(Debug)]
pub(super) struct Inbox(RefCell<Letters>);

#[derive(Debug)]
struct Letters {
    bytes: Vec<u8>,
    /// How long it says that it is.
    announced: Option<u64>,
    /// As much as the handler wants; nothing before it asks.
    wanted: Option<usize>,
    end: Option<Result<(), BodyError>>,
    handler: Option<Waker>,
    connection: Option<Waker>,
}

impl Inbox {
    pub fn new(announced: Option<u64>) -> Inbox {
        let (bytes, wanted, end) = (Vec::new(), None, None);
        Inbox(RefCell::new(Letters { bytes, announced, wanted, end, handler: None, connection: None }))
    }

    /// Takes what a read brought.
    pub fn push(&self, bytes: &[u8]) {
        let mut letters = self.0.borrow_mut();
        if letters.wanted.is_some_and(|wanted| letters.bytes.len() + bytes.len() > wanted) {
            letters.bytes = Vec::new();
            letters.end = Some(Err(BodyError::TooLarge));
        } else {
            if letters.bytes.is_empty() {
                let all = letters.announced.map_or(bytes.len(), |all| usize::try_from(all).unwrap_or(usize::MAX));
                letters.bytes.reserve_exact(all.min(RESERVED_BYTES_MOST).max(bytes.len()));
            }
            letters.bytes.extend_from_slice(bytes);
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
        let wants = letters.wanted.is_some() && letters.end.is_none();
        if !wants {
            letters.connection = Some(context.waker().clone());
        }
        wants
    }

    fn poll_whole(&self, limit: usize, context: &Context<'_>) -> Poll<Result<Bytes, BodyError>> {
        let mut letters = self.0.borrow_mut();
        letters.wanted = Some(limit);
        let is_larger = |length| usize::try_from(length).map_or(true, |length| length > limit);
        if letters.bytes.len() > limit || letters.announced.is_some_and(is_larger) {
            letters.end = Some(Err(BodyError::TooLarge));
        }
        match letters.end {
            Some(Ok(())) => Poll::Ready(Ok(Bytes::from(std::mem::take(&mut letters.bytes)))),
            Some(Err(error)) => Poll::Ready(Err(error)),
            None => {
                letters.handler = Some(context.waker().clone());
                wake(&mut letters.connection);
                Poll::Pending
            }
        }
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}
