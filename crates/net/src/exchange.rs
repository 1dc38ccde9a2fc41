//! One request and its answer as the client's caller sees them.
//!
//! Invariant: an answer with an error status is an answer; a failure means that the exchange did not end as HTTP requires.

use crate::secrets::Secrets;
use crate::stamped::Departure;
use crate::upgraded::Upgraded;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use std::fmt;
use std::io;
use std::task::{Context, Poll};
use tokrate_core::{FailureKind, Span, Tick};

/// A request to send. `Debug` shows no header values, since one of them is a key.
#[derive(Clone)]
pub struct Outgoing {
    /// Method.
    pub method: http::Method,
    /// Path below the target's host, its base path included.
    pub path: String,
    /// Headers; `Host` and `Content-Length` are added.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.keys().map(http::HeaderName::as_str).collect();
        write!(formatter, "{} {} {names:?}, {} bytes", self.method, self.path, self.body.len())
    }
}

/// Gives the rest of a request's body as it comes.
pub trait UploadSource {
    /// The next piece; `None` at the end.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>>;
}

/// The rest of a request's body, which is not held: it follows the bytes of [`Outgoing`], and cannot be sent a second time.
pub struct StreamedUpload {
    /// Its length.
    pub length: u64,
    /// Where it comes from.
    pub source: Box<dyn UploadSource>,
}

/// Timeouts and limits of an exchange; [`Span::MAX`] turns a timeout off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Longest time without a byte read or written.
    pub idle: Span,
    /// Longest time in all.
    pub total: Span,
    /// Largest body.
    pub max_body_bytes: u64,
}

/// The head of an answer.
#[derive(Clone, Debug)]
pub struct Head {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// HTTP version.
    pub version: http::Version,
}

impl Head {
    /// Names and values of the headers whose values are text.
    pub fn text_headers(&self) -> Vec<(&str, &str)> {
        self.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect()
    }
}

/// Receives the events of an exchange as they happen.
pub trait Sink {
    /// The exchange begins; `departure` is set when the request is sent, even if the exchange is abandoned before an answer.
    fn begin(&mut self, _departure: &Departure) {}
    /// The request was authorised with these, which must not be shown. Called before it is sent, if at all.
    fn authorized(&mut self, _secrets: &Secrets) {}
    /// The request's last byte was handed to the socket at `at`. Called at most once, before `head`.
    fn sent(&mut self, at: Tick);
    /// The answer's head was read at `at`.
    fn head(&mut self, at: Tick, head: &Head);
    /// A piece of the answer's body; the read that completed it returned at `at`.
    fn body(&mut self, at: Tick, bytes: &[u8]);
    /// The answer's body has ended, and not by the connection's end; the read that brought its end returned at `at`, which may be later
    /// than its last byte.
    fn ended(&mut self, _at: Tick) {}
    /// The answer's body ends with the connection, which was closed without the alert that ends TLS: the exchange fails, as anybody on the way
    /// may have closed it, but whoever reads the body may know that it is whole.
    fn unsealed(&mut self) {}
    /// The answer was a 101 to a request that asked for it: the exchange ends, and the connection goes on as this one.
    fn upgraded(&mut self, _connection: Upgraded) {}
    /// Whether reading pauses until the next poll of the exchange: backpressure for sinks with a bounded buffer.
    fn is_full(&self) -> bool {
        false
    }
}

/// How an exchange ended.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// When it began, before its connection was looked for; of a client whose every connection looks the name up.
    pub began_at: Option<Tick>,
    /// When.
    pub ended_at: Tick,
    /// Whether the answer was complete.
    pub outcome: Result<(), ExchangeFailure>,
    /// The connection it used.
    pub connection: ConnectionUse,
    /// Bytes read from the socket meanwhile. Over HTTP/2 the bytes of other streams on the connection are included.
    pub bytes_in: u64,
    /// Bytes written to the socket meanwhile; likewise.
    pub bytes_out: u64,
}

/// Why an exchange failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExchangeFailure {
    /// The kind, for counting.
    pub kind: FailureKind,
    /// What happened, for the user. Never contains header values.
    pub detail: String,
}

/// Connection setup of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ConnectionUse {
    /// Whether it was opened for this request.
    pub new: bool,
    /// DNS resolution: of every connection that looked the name up; else reported with the first connection of a client, zero after that.
    pub dns: Span,
    /// Opening TCP (and a proxy's tunnel).
    pub connect: Span,
    /// The TLS handshake.
    pub tls: Span,
    /// Whether the handshake went on from an earlier session.
    pub resumed: bool,
    /// The stream that it had, over HTTP/2.
    pub stream: Option<StreamUse>,
    /// The server said that it did not begin with the request, over HTTP/2 (GOAWAY, or a refused stream).
    pub unprocessed: bool,
}

/// A stream of an HTTP/2 connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamUse {
    /// Waiting for another stream to end, or for a connection that another exchange opened.
    pub wait: Span,
    /// Number of the connection among those that the client opened, from 1.
    pub connection: u32,
    /// Streams on it when this one began, itself included.
    pub sharing: u32,
    /// Streams that its server allowed then, if it named a limit.
    pub allowed: Option<u32>,
}
