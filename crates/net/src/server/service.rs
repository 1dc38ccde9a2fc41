//! From the head of a request to its response: the access rules first, then the handler.
//!
//! Invariant: a rejected request never reaches the handler, and its body is not read.

use super::access::{Access, Decision};
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

/// Handles the requests of one connection.
pub(super) struct RequestService<H> {
    pub handler: Rc<H>,
    pub tap: Rc<ConnectionTap>,
    rules: Option<Arc<Rules>>,
}

/// A response in progress.
pub(super) enum PendingResponse<B> {
    /// From the handler; with the foreign origin that may read it.
    Handler(Pin<Box<dyn Future<Output = Response<B>>>>, Option<HeaderValue>),
    /// Made here, until it is taken.
    Ready(Option<Box<Response<ResponseBody<B>>>>),
}

/// Body of a response.
pub(super) enum ResponseBody<B> {
    /// From the handler.
    Handler(B),
    /// Of a response made here.
    Ready(Option<Bytes>),
}

impl<H: Handler> RequestService<H> {
    pub fn new(handler: Rc<H>, tap: Rc<ConnectionTap>, accepted: Accepted) -> RequestService<H> {
        let (permit, rules) = accepted.unzip();
        *tap.permit.borrow_mut() = permit;
        RequestService { handler, tap, rules }
    }

    /// Starts to handle a request.
    pub fn call(&self, request: Request<RequestBody>) -> PendingResponse<H::Body> {
        let access = self.rules.as_ref().map(|rules| &rules.access);
        match access
            .map_or(Decision::Allow, |access: &Access| access.decide(&request, || self.handler.takes_form(&request)))
        {
            Decision::Allow => self.handle(request, None),
            Decision::AllowOrigin(origin) => self.handle(request, Some(origin)),
            Decision::Preflight(origin) => {
                let mut response = Response::new(ResponseBody::Ready(None));
                *response.status_mut() = StatusCode::NO_CONTENT;
                let headers = response.headers_mut();
                let methods = self.handler.allowed_methods(request.uri().path());
                headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
                headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
                if let Some(wanted) = request.headers().get(ACCESS_CONTROL_REQUEST_HEADERS) {
                    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
                }
                allow(headers, origin);
                PendingResponse::Ready(Some(Box::new(response)))
            }
            Decision::Reject(status, message) => {
                let body = self.handler.error_body(&request, status, &message);
                let mut response = Response::new(ResponseBody::Ready(Some(Bytes::from(body))));
                *response.status_mut() = status;
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                PendingResponse::Ready(Some(Box::new(response)))
            }
        }
    }

    fn handle(&self, request: Request<RequestBody>, origin: Option<HeaderValue>) -> PendingResponse<H::Body> {
        PendingResponse::Handler(Box::pin(Rc::clone(&self.handler).handle(request, Rc::clone(&self.tap))), origin)
    }
}

impl<B> Future for PendingResponse<B> {
    type Output = Response<ResponseBody<B>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response<ResponseBody<B>>> {
        match self.get_mut() {
            PendingResponse::Handler(handled, origin) => {
                let mut response = ready!(handled.as_mut().poll(context)).map(ResponseBody::Handler);
                if let Some(origin) = origin.take() {
                    allow(response.headers_mut(), origin);
                }
                Poll::Ready(response)
            }
            PendingResponse::Ready(response) => {
                Poll::Ready(*response.take().expect("a future is not polled after completion"))
            }
        }
    }
}

/// Adds the CORS headers that let pages of `origin` read the response.
fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
    headers.append(VARY, HeaderValue::from_static("origin"));
}

impl<B: Body<Data = Bytes, Error = io::Error> + Unpin> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            ResponseBody::Handler(body) => Pin::new(body).poll_frame(context),
            ResponseBody::Ready(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Handler(body) => body.is_end_stream(),
            ResponseBody::Ready(bytes) => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Handler(body) => body.size_hint(),
            ResponseBody::Ready(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
        }
    }
}
