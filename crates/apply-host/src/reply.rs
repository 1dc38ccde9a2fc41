//! A response before it is sent. Invariant: its body is complete; it is split only for streaming clients.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokrate_wire::{Dialect, encode_error_response};

/// Status, headers and body of an answer.
#[derive(Clone, PartialEq, Debug)]
pub struct Reply {
    /// Status.
    pub status: StatusCode,
    /// Headers, the type of the body among them.
    pub headers: HeaderMap,
    /// The body, in the pieces in which it is sent.
    pub body: Vec<Bytes>,
}

/// An error response: status and message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ErrorResponse(pub StatusCode, pub String);

impl ErrorResponse {
    pub fn bad_request(message: impl Into<String>) -> ErrorResponse {
        ErrorResponse(StatusCode::BAD_REQUEST, message.into())
    }

    pub fn not_found(message: impl Into<String>) -> ErrorResponse {
        ErrorResponse(StatusCode::NOT_FOUND, message.into())
    }
}

impl From<ErrorResponse> for Reply {
    fn from(ErrorResponse(status, message): ErrorResponse) -> Reply {
        let reply = Reply::error(status, &message);
        if status == StatusCode::SERVICE_UNAVAILABLE { reply.with("retry-after", "1") } else { reply }
    }
}

impl Reply {
    /// A JSON document.
    pub(crate) fn json(status: StatusCode, body: Vec<u8>) -> Reply {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Reply { status, headers, body: vec![body.into()] }
    }

    /// A page of counts, in the text format of Prometheus.
    pub(crate) fn text(body: String) -> Reply {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"));
        Reply { status: StatusCode::OK, headers, body: vec![body.into_bytes().into()] }
    }

    /// A stream of server-sent events.
    pub(crate) fn events(body: Vec<Bytes>) -> Reply {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        Reply { status: StatusCode::OK, headers, body }
    }

    /// An error in OpenAI's format.
    pub(crate) fn error(status: StatusCode, message: &str) -> Reply {
        Reply::json(status, encode_error_response(Dialect::OpenAiChat, status.as_u16(), message))
    }

    pub(crate) fn with(mut self, name: &'static str, value: &'static str) -> Reply {
        self.headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        self
    }

    /// The body in one piece.
    pub fn whole(&self) -> Vec<u8> {
        self.body.concat()
    }

    pub(crate) fn into_response(self) -> Response<Pieces> {
        let mut response = Response::new(Pieces(self.body.into()));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// A body in pieces.
pub(crate) struct Pieces(VecDeque<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
    }
}
