//! HTTP/1.1: one request after the other on a connection.
//!
//! It refuses to know what is asked and answered. Invariant: a connection holds memory only for what it could not hand on: what
//! is read goes to the request at once, what an answer has goes out in one write, and while nothing moves there is no buffer.

mod answer;
mod outbox;
mod request;

#[cfg(test)]
mod tests;

use super::answered::{Answered, Answering, Served};
use super::body::{BodyError, Inbox, RequestBody};
use super::{HEAD_TIMEOUT, Handler, IDLE_TIMEOUT};
use crate::http1::HEAD_BYTES_MOST;
use crate::http1::framing::{Framing, State};
use answer::{Answer, Asked, Gathered};
use http::{Method, StatusCode, Version};
use outbox::Outbox;
use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};
use tokrate_core::Span;

/// How long a client that is refused may go on sending what nobody reads. Closing earlier would have the operating system tell
/// it of a broken connection, which can overtake the answer.
const LINGER: Span = Span::from_secs(2);
/// What is read at most at a time, and of requests that were sent before their turn (bytes).
const READ_BYTES_MOST: usize = 64 * 1024;

/// One connection.
pub(super) struct Connection<H: Handler, T> {
    transport: T,
    served: Served<H>,
    turn: Turn<H>,
    /// What came and is not yet understood: the beginning of a head, or requests before their turn.
    unread: Vec<u8>,
    /// How much of it was looked at and is no whole head.
    seen: usize,
    unsent: Outbox,
    /// The body of the request, as long as it is not whole.
    receiving: Option<Receiving>,
    asked: Asked,
    keep: bool,
    is_closing: bool,
    /// Runs while the client is waited for.
    timer: Option<Pin<Box<Sleep>>>,
    is_timed: bool,
}

/// What is done now.
enum Turn<H: Handler> {
    /// The next head is read.
    Reading,
    Handling(Answering<H::Body>),
    Answering(Answer<Answered<H::Body>>, Gathered),
    /// All is said; the client is told, and what it still sends is read and dropped if that matters.
    Leaving {
        lingers: bool,
    },
    Over,
}

struct Receiving {
    framing: Framing,
    inbox: Rc<Inbox>,
    /// Whether the client waits to be told that its body is wanted.
    waits: bool,
}

impl Receiving {
    /// Takes what a read brought; tells how much of it was the body's, and whether that was the end.
    fn take(&mut self, bytes: &mut [u8]) -> (usize, bool) {
        let taken = self.framing.take(bytes);
        if taken.body > 0 {
            self.inbox.push(&bytes[..taken.body]);
        }
        match taken.state {
            State::Open => return (taken.used, false),
            State::Ended => self.inbox.end(Ok(())),
            State::Garbled => self.inbox.end(Err(BodyError::Broken)),
        }
        (taken.used, true)
    }
}

thread_local! {
    /// What reads are made into: lent to the connection that is at work.
    static READ: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Something that ends a connection without a word.
struct Gone;

impl<H: Handler, T: AsyncRead + AsyncWrite + Unpin> Connection<H, T> {
    /// A connection of which `first` was read already.
    pub fn new(transport: T, first: Vec<u8>, served: Served<H>) -> Connection<H, T> {
        let asked = Asked { is_head: false, version: Version::HTTP_11 };
        Connection {
            transport,
            served,
            turn: Turn::Reading,
            unread: first,
            seen: 0,
            unsent: Outbox::default(),
            receiving: None,
            asked,
            keep: true,
            is_closing: false,
            timer: None,
            is_timed: false,
        }
    }

    /// Takes no further request.
    pub fn shut_down(mut self: Pin<&mut Self>) {
        self.is_closing = true;
    }

    fn step(&mut self, context: &mut Context<'_>, read: &mut [u8]) -> Poll<Result<(), Gone>> {
        match &self.turn {
            Turn::Reading => self.poll_head(context, read),
            Turn::Handling(_) => self.poll_handler(context, read),
            Turn::Answering(..) => self.poll_answer(context, read),
            Turn::Leaving { .. } => self.poll_leave(context, read),
            Turn::Over => Poll::Ready(Err(Gone)),
        }
    }

    /// Reads until a request begins.
    fn poll_head(&mut self, context: &mut Context<'_>, read: &mut [u8]) -> Poll<Result<(), Gone>> {
        loop {
            if self.looks_whole() {
                let mut held = std::mem::take(&mut self.unread);
                if self.begin(&mut held) {
                    return Poll::Ready(Ok(()));
                }
                self.unread = held;
            }
            if self.is_closing && self.unread.is_empty() {
                return Poll::Ready(Err(Gone));
            }
            let count = match self.poll_read(context, read) {
                Poll::Ready(count) => count?,
                Poll::Pending => {
                    let limit = if self.unread.is_empty() { IDLE_TIMEOUT } else { HEAD_TIMEOUT };
                    ready!(self.poll_timer(limit, context));
                    return Poll::Ready(Err(Gone));
                }
            };
            if self.unread.is_empty() {
                // As a rule a head comes in one read.
                if self.begin(&mut read[..count]) {
                    return Poll::Ready(Ok(()));
                }
                self.is_timed = false;
                self.seen = count;
            }
            self.unread.extend_from_slice(&read[..count]);
        }
    }

    /// Whether what is held may be a whole head, as far as that was not asked before.
    fn looks_whole(&mut self) -> bool {
        let (seen, all) = (std::mem::replace(&mut self.seen, self.unread.len()), self.unread.len());
        seen < all && (seen == 0 || all > HEAD_BYTES_MOST || request::may_end(&self.unread, seen))
    }

    /// Begins to handle the request at the beginning of `bytes`, if its head is whole.
    fn begin(&mut self, bytes: &mut [u8]) -> bool {
        let asked = match request::read(bytes) {
            Ok(Some(asked)) => asked,
            Ok(None) if bytes.len() <= HEAD_BYTES_MOST => return false,
            Ok(None) => return self.refuse(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
            Err(status) => return self.refuse(status),
        };
        if !self.served.tap.begins() {
            // It has to go for another one; what asks again on a new connection is answered there.
            self.turn = Turn::Over;
            return true;
        }
        (self.seen, self.is_timed) = (0, false);
        self.keep = asked.keep;
        self.asked = Asked { is_head: *asked.request.method() == Method::HEAD, version: asked.request.version() };
        let mut rest = &mut bytes[asked.length..];
        let body = if asked.framing.is_empty() {
            RequestBody::nothing()
        } else {
            let announced = asked.framing.length();
            let inbox = Rc::new(Inbox::new(announced));
            let mut receiving = Receiving { framing: asked.framing, inbox: Rc::clone(&inbox), waits: asked.waits };
            let (used, ended) = receiving.take(rest);
            rest = &mut rest[used..];
            self.receiving = Some(receiving).filter(|_| !ended);
            self.keep &= !ended || inbox.is_whole();
            RequestBody::http1(inbox)
        };
        self.unread.extend_from_slice(rest);
        let request = asked.request.map(|()| body);
        self.turn = Turn::Handling(self.served.answer(request));
        true
    }

    /// Answers what is no request.
    fn refuse(&mut self, status: StatusCode) -> bool {
        answer::refuse(status, self.unsent.text());
        self.turn = Turn::Leaving { lingers: true };
        self.is_timed = false;
        true
    }

    fn poll_handler(&mut self, context: &mut Context<'_>, read: &mut [u8]) -> Poll<Result<(), Gone>> {
        loop {
            let Turn::Handling(handling) = &mut self.turn else { return Poll::Ready(Ok(())) };
            if let Poll::Ready(response) = Pin::new(handling).poll(context) {
                // A client that is still sending has to be told before that its connection ends.
                self.keep &= self.receiving.is_none() && !self.is_closing;
                let answer = Answer::begin(response, self.asked, &mut self.keep, self.unsent.text());
                self.turn = Turn::Answering(answer, Gathered::Enough);
                return Poll::Ready(Ok(()));
            }
            ready!(self.listen(context, read))?;
        }
    }

    fn poll_answer(&mut self, context: &mut Context<'_>, read: &mut [u8]) -> Poll<Result<(), Gone>> {
        loop {
            let Turn::Answering(answer, gathered) = &mut self.turn else { return Poll::Ready(Ok(())) };
            if matches!(gathered, Gathered::Waiting | Gathered::Enough) {
                *gathered = answer.gather(&mut self.unsent, context);
            }
            let gathered = *gathered;
            match self.poll_write(context) {
                Poll::Ready(written) => written?,
                Poll::Pending => {
                    ready!(self.listen(context, read))?;
                    continue;
                }
            }
            match gathered {
                Gathered::Enough => {}
                Gathered::Waiting => ready!(self.listen(context, read))?,
                Gathered::Broken => return Poll::Ready(Err(Gone)),
                Gathered::Ended => {
                    self.end();
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }

    /// An answer has gone out whole.
    fn end(&mut self) {
        self.is_timed = false;
        self.turn = if self.keep && self.receiving.is_none() && !self.is_closing {
            self.served.tap.waits();
            Turn::Reading
        } else {
            Turn::Leaving { lingers: self.receiving.is_some() || !self.unread.is_empty() }
        };
    }

    fn poll_leave(&mut self, context: &mut Context<'_>, read: &mut [u8]) -> Poll<Result<(), Gone>> {
        let Turn::Leaving { lingers } = self.turn else { return Poll::Ready(Ok(())) };
        if self.poll_timer(LINGER, context).is_ready() {
            return Poll::Ready(Err(Gone));
        }
        ready!(self.poll_write(context))?;
        if ready!(Pin::new(&mut self.transport).poll_shutdown(context)).is_err() || !lingers {
            return Poll::Ready(Err(Gone));
        }
        loop {
            ready!(self.poll_read(context, read))?;
        }
    }

    /// Reads the request's body as far as it is wanted, else waits for the client to leave. Ready when there is news for who
    /// waits for the body.
    fn listen(&mut self, context: &mut Context<'_>, read: &mut [u8]) -> Poll<Result<(), Gone>> {
        let Some(receiving) = &mut self.receiving else {
            while self.unread.len() < READ_BYTES_MOST {
                let count = ready!(self.poll_read(context, read))?;
                self.unread.extend_from_slice(&read[..count]);
            }
            return Poll::Pending;
        };
        if !receiving.inbox.wants_more(context) {
            return Poll::Pending;
        }
        if std::mem::take(&mut receiving.waits) && matches!(self.turn, Turn::Handling(_)) {
            self.unsent.text().extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        if matches!(self.turn, Turn::Handling(_)) && !self.unsent.is_empty() {
            ready!(self.poll_write(context))?;
        }
        let came = ready!(self.poll_read(context, read));
        let Some(receiving) = &mut self.receiving else { return Poll::Ready(Ok(())) };
        let Ok(count) = came else {
            receiving.inbox.end(Err(BodyError::Broken));
            self.receiving = None;
            self.keep = false;
            return Poll::Ready(Ok(()));
        };
        let (used, ended) = receiving.take(&mut read[..count]);
        if ended {
            self.keep &= receiving.inbox.is_whole();
            self.receiving = None;
            self.unread.extend_from_slice(&read[used..count]);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_read(&mut self, context: &mut Context<'_>, read: &mut [u8]) -> Poll<Result<usize, Gone>> {
        let mut buffer = ReadBuf::new(read);
        let result = ready!(Pin::new(&mut self.transport).poll_read(context, &mut buffer));
        let count = buffer.filled().len();
        Poll::Ready(if result.is_ok() && count > 0 { Ok(count) } else { Err(Gone) })
    }

    /// Writes until the transport has taken everything.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        if ready!(self.unsent.poll_write(Pin::new(&mut self.transport), context)).is_err() {
            return Poll::Ready(Err(Gone));
        }
        Pin::new(&mut self.transport).poll_flush(context).map_err(|_: io::Error| Gone)
    }

    /// Ready when the client has been waited for as long as `limit`.
    fn poll_timer(&mut self, limit: Span, context: &mut Context<'_>) -> Poll<()> {
        if !std::mem::replace(&mut self.is_timed, true) {
            let until = Instant::now() + limit.as_duration();
            match &mut self.timer {
                Some(timer) => timer.as_mut().reset(until),
                None => self.timer = Some(Box::pin(tokio::time::sleep_until(until))),
            }
        }
        self.timer.as_mut().map_or(Poll::Pending, |timer| timer.as_mut().poll(context))
    }
}

impl<H: Handler, T: AsyncRead + AsyncWrite + Unpin> Future for Connection<H, T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut read = READ.take();
        read.resize(READ_BYTES_MOST, 0);
        let polled = loop {
            match self.step(context, &mut read) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(Gone)) => {
                    self.turn = Turn::Over;
                    break Poll::Ready(());
                }
                Poll::Pending => break Poll::Pending,
            }
        };
        READ.set(read);
        polled
    }
}
