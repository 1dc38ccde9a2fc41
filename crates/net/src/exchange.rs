//! One request and its answer, as the client's caller sees them.
//!
//! It refuses to know dialects: bodies are bytes. Invariant: an answer with an error status is an answer; a failure is what
//! kept the exchange from ending as HTTP wants it.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use tokrate_core::{FailureKind, Span, Tick};

/// A request to be sent. Printing it shows no header value: one of them is a key.
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

/// When to give up on an exchange; [`Span::MAX`] for who bounds its time in another way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Time without any byte read or written.
    pub idle: Span,
    /// Time for everything.
    pub total: Span,
    /// Largest body that is read.
    pub max_body_bytes: u64,
}

/// The head of an answer.
#[derive(Clone, Debug)]
pub struct Head {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Version that was spoken.
    pub version: http::Version,
}

/// Filled with the tick at which a request's last byte had been handed to the socket.
pub type Departure = Rc<Cell<Option<Tick>>>;

/// Hears of an exchange as it happens.
pub trait Sink {
    /// The exchange begins; `departure` will say when the request was sent, also if the exchange is given up before an answer
    /// comes.
    fn begin(&mut self, _departure: &Departure) {}
    /// The request's last byte was handed to the socket at `at`. Told at most once, before the head.
    fn sent(&mut self, at: Tick);
    /// The answer's head was read at `at`.
    fn head(&mut self, at: Tick, head: &Head);
    /// A piece of the answer's body; the read that completed it returned at `at`.
    fn body(&mut self, at: Tick, bytes: &[u8]);
    /// Whether nothing more is to be read before the next poll of the exchange: for who hands on what it hears, and may only
    /// hold so much of it.
    fn is_full(&self) -> bool {
        false
    }
}

/// How an exchange ended.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// When.
    pub ended_at: Tick,
    /// Whether the answer came to its end.
    pub outcome: Result<(), ExchangeFailure>,
    /// The connection it used.
    pub connection: ConnectionUse,
    /// Bytes read from the socket meanwhile. Over HTTP/2 those of the other streams of the connection are counted as well.
    pub bytes_in: u64,
    /// Bytes written to the socket meanwhile, likewise.
    pub bytes_out: u64,
}

/// Why an answer did not come to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExchangeFailure {
    /// The kind, for counting.
    pub kind: FailureKind,
    /// What happened, for people. Never holds header values.
    pub detail: String,
}

/// What a request's connection cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ConnectionUse {
    /// Whether it was opened for this request.
    pub new: bool,
    /// Resolution of the name; told with the first connection of a client, zero after that.
    pub dns: Span,
    /// Opening TCP (and a proxy's tunnel).
    pub connect: Span,
    /// The TLS handshake.
    pub tls: Span,
}
