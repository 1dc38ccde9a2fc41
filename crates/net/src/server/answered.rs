//! From a request's head to its answer: the rules of the listener first, then the handler.
//!
//! It does not know transports. Invariant: what the rules refuse never reaches the handler, and nothing of its body is read.

use super::access::{Access, Verdict};
use super::{Accepted, ConnectionTap, Handler, RequestBody, Rules};
use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, CONTENT_TYPE, VARY,
};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// What answers the requests of one connection.
pub(super) struct Served<H> {
    pub handler: Rc<H>,
    pub tap: Rc<ConnectionTap>,
    rules: Option<Arc<Rules>>,
}

/// An answer that is being made.
pub(super) enum Answering<B> {
    /// By the handler; with the origin of another site whose page may read it.
    Handled(Pin<Box<dyn Future<Output = Response<B>>>>, Option<HeaderValue>),
    /// Without it, until it is taken.
    Own(Option<Box<Response<Answered<B>>>>),
}

/// The body of an answer.
pub(super) enum Answered<B> {
    /// The handler's.
    Handled(B),
    /// Of a request that it never saw.
    Own(Option<Bytes>),
}

impl<H: Handler> Served<H> {
    pub fn new(handler: Rc<H>, tap: Rc<ConnectionTap>, accepted: Accepted) -> Served<H> {
        let (place, rules) = accepted.unzip();
        *tap.place.borrow_mut() = place;
        Served { handler, tap, rules }
    }

    /// Begins to answer.
    pub fn answer(&self, request: Request<RequestBody>) -> Answering<H::Body> {
        let access = self.rules.as_ref().map(|rules| &rules.access);
        match access.map_or(Verdict::Answered, |access: &Access| access.judge(&request)) {
            Verdict::Answered => self.handle(request, None),
            Verdict::AnsweredTo(origin) => self.handle(request, Some(origin)),
            Verdict::Asked(origin) => {
                let mut response = Response::new(Answered::Own(None));
                *response.status_mut() = StatusCode::NO_CONTENT;
                let headers = response.headers_mut();
                headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
                headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
                if let Some(wanted) = request.headers().get(ACCESS_CONTROL_REQUEST_HEADERS) {
                    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
                }
                allow(headers, origin);
                Answering::Own(Some(Box::new(response)))
            }
            Verdict::Refused(status, message) => {
                let body = self.handler.refusal(&request, status, &message);
                let mut response = Response::new(Answered::Own(Some(Bytes::from(body))));
                *response.status_mut() = status;
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                Answering::Own(Some(Box::new(response)))
            }
        }
    }

    fn handle(&self, request: Request<RequestBody>, origin: Option<HeaderValue>) -> Answering<H::Body> {
        Answering::Handled(Box::pin(Rc::clone(&self.handler).handle(request, Rc::clone(&self.tap))), origin)
    }
}

impl<B> Future for Answering<B> {
    type Output = Response<Answered<B>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response<Answered<B>>> {
        match self.get_mut() {
            Answering::Handled(handled, origin) => {
                let mut response = ready!(handled.as_mut().poll(context)).map(Answered::Handled);
                if let Some(origin) = origin.take() {
                    allow(response.headers_mut(), origin);
                }
                Poll::Ready(response)
            }
            Answering::Own(response) => Poll::Ready(*response.take().expect("it is polled to its end once")),
        }
    }
}

/// Lets the page of an origin that may ask read the answer.
fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
    headers.append(VARY, HeaderValue::from_static("origin"));
}

impl<B: Body<Data = Bytes, Error = io::Error> + Unpin> Body for Answered<B> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Answered::Handled(body) => Pin::new(body).poll_frame(context),
            Answered::Own(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Answered::Handled(body) => body.is_end_stream(),
            Answered::Own(bytes) => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Answered::Handled(body) => body.size_hint(),
            Answered::Own(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
        }
    }
}
