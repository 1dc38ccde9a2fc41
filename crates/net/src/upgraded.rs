//! A connection that speaks another protocol than HTTP from some byte on (RFC 9110, section 7.8): what a server hands to its handler behind
//! a 101, and what a client's exchange ends in. Reads are stamped as before.
//!
//! Invariant: no byte behind the head is lost: what was read together with it comes first.

use crate::prefixed::PrefixedStream;
use crate::stamped::{Stamps, forward_writes};
use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderName, UPGRADE};
use http::{HeaderMap, Method, Version};
use std::fmt;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokrate_core::Tick;

/// The transport of an upgraded connection.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Duplex for T {}

/// The bytes of a connection behind the head of a 101, in both directions. Dropping it closes the connection.
pub struct Upgraded {
    inner: PrefixedStream<Box<dyn Duplex>>,
    stamps: Rc<Stamps>,
}

impl Upgraded {
    /// A connection of which `first` was already read behind the head.
    pub(crate) fn new(first: Bytes, inner: Box<dyn Duplex>, stamps: Rc<Stamps>) -> Upgraded {
        Upgraded { inner: PrefixedStream::new(first, inner), stamps }
    }

    /// Timestamps and counters of the connection, its head included.
    pub fn stamps(&self) -> &Stamps {
        &self.stamps
    }

    /// When the last byte that was read from the socket arrived.
    pub fn read_at(&self) -> Tick {
        self.stamps.read_at()
    }
}

impl fmt::Debug for Upgraded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "an upgraded connection, {} bytes read ahead", self.inner.ahead())
    }
}

impl AsyncRead for Upgraded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl AsyncWrite for Upgraded {
    forward_writes!();
}

/// Whether a request asks for another protocol: one `upgrade` header, of which `connection` says that it is meant for this hop.
pub(crate) fn asks_to_upgrade(headers: &HeaderMap) -> bool {
    headers.contains_key(UPGRADE) && has_token(headers, CONNECTION, "upgrade")
}

/// The opening handshake of a WebSocket (RFC 6455, section 4) as a client sent it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handshake<'h> {
    /// Sound, with the value of `sec-websocket-key`.
    Sound(&'h str),
    /// No request for a WebSocket.
    None,
    /// One that must be refused, and why.
    Invalid(&'static str),
}

/// Whether a request opens a WebSocket. What two servers could read differently is invalid: repeated headers, a body, HTTP/1.0.
pub fn websocket_handshake<'h>(
    method: &Method,
    version: Version,
    headers: &'h HeaderMap,
    has_body: bool,
) -> Handshake<'h> {
    const KEY: HeaderName = HeaderName::from_static("sec-websocket-key");
    const WEBSOCKET_VERSION: HeaderName = HeaderName::from_static("sec-websocket-version");
    if !headers.contains_key(UPGRADE) {
        return Handshake::None;
    }
    let single = |name: HeaderName| {
        let mut values = headers.get_all(name).iter();
        let first = values.next()?.to_str().ok()?;
        values.next().is_none().then_some(first)
    };
    match () {
        () if version != Version::HTTP_11 => Handshake::Invalid("a WebSocket is opened over HTTP/1.1"),
        () if *method != Method::GET => Handshake::Invalid("a WebSocket is opened by GET"),
        () if has_body => Handshake::Invalid("a request that opens a WebSocket has no body"),
        () if single(HOST).is_none() => Handshake::Invalid("send exactly one `host` header"),
        () if !single(UPGRADE).is_some_and(|protocol| protocol.eq_ignore_ascii_case("websocket")) => {
            Handshake::Invalid("`upgrade` must be `websocket`, once")
        }
        () if !has_token(headers, CONNECTION, "upgrade") => Handshake::Invalid("`connection` must say `upgrade`"),
        () if single(WEBSOCKET_VERSION) != Some("13") => Handshake::Invalid("`sec-websocket-version` must be 13, once"),
        () => match single(KEY).filter(|key| is_nonce(key)) {
            Some(key) => Handshake::Sound(key),
            None => Handshake::Invalid("`sec-websocket-key` must be 16 bytes in base64, once"),
        },
    }
}

fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(token))
}

/// 16 bytes in base64.
fn is_nonce(key: &str) -> bool {
    let digits = key.strip_suffix("==").unwrap_or_default();
    digits.len() == 22 && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

#[cfg(test)]
mod tests;
