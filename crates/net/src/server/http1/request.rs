//! Parses the head of an HTTP/1.1 request: method, target, headers, body framing, keep-alive.
//!
//! Invariant: an ambiguous head is rejected: two lengths, a length besides a transfer coding, any coding but `chunked` alone.

use crate::http1::framing::{Chunks, Framing};
use crate::http1::{MAX_FIELDS, fields, keeps_alive, length};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, Method, Request, StatusCode, Uri, Version};
use std::mem::MaybeUninit;

/// A complete head.
#[derive(Debug)]
pub(super) struct ParsedRequest {
    pub request: Request<()>,
    pub framing: Framing,
    /// Whether the client keeps the connection alive.
    pub keep: bool,
    /// Whether the client waits for `100 Continue`.
    pub expects_continue: bool,
    /// Its length in bytes.
    pub length: usize,
}

/// Parses a head; `None` if it is incomplete.
///
/// # Errors
/// The status of the error response.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<ParsedRequest>, StatusCode> {
    let mut found = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut parsed = httparse::Request::new(&mut []);
    let taken = match parsed.parse_with_uninit_headers(bytes, &mut found) {
        Ok(httparse::Status::Complete(taken)) => taken,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
        Err(_) => return Err(StatusCode::BAD_REQUEST),
    };
    let (Some(method), Some(address)) = (parsed.method, parsed.path) else { return Err(StatusCode::BAD_REQUEST) };
    // One copy that target and header values share.
    let head = Bytes::copy_from_slice(&bytes[..taken]);
    let from = address.as_ptr() as usize - bytes.as_ptr() as usize;
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(method.as_bytes()).map_err(|_| StatusCode::BAD_REQUEST)?;
    let address = Uri::from_maybe_shared(head.slice(from..from + address.len()));
    *request.uri_mut() = address.map_err(|_| StatusCode::BAD_REQUEST)?;
    *request.version_mut() = if parsed.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    *request.headers_mut() = fields(parsed.headers, bytes, &head).map_err(|_| StatusCode::BAD_REQUEST)?;
    let framing = framing_of(request.headers(), request.version())?;
    // What follows a CONNECT is not HTTP, nor what follows a WebSocket's handshake, even where it is refused.
    let upgrades = request
        .headers()
        .get_all(UPGRADE)
        .iter()
        .any(|protocol| protocol.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let keep = keeps_alive(request.headers(), request.version()) && *request.method() != Method::CONNECT && !upgrades;
    let expected = request.headers().get(EXPECT).map(http::HeaderValue::as_bytes);
    let expects_continue = request.version() == Version::HTTP_11
        && expected.is_some_and(|expected| expected.eq_ignore_ascii_case(b"100-continue"));
    Ok(Some(ParsedRequest { request, framing, keep, expects_continue, length: taken }))
}

/// RFC 9112, section 6.3; stricter where it leaves a choice.
fn framing_of(headers: &HeaderMap, version: Version) -> Result<Framing, StatusCode> {
    let single = |name| {
        let mut values = headers.get_all(name).iter();
        let first = values.next().map(http::HeaderValue::as_bytes);
        if values.next().is_some() { Err(StatusCode::BAD_REQUEST) } else { Ok(first) }
    };
    match (single(TRANSFER_ENCODING)?, single(CONTENT_LENGTH)?) {
        (None, None) => Ok(Framing::Length(0)),
        (None, Some(value)) => length(value).map(Framing::Length).ok_or(StatusCode::BAD_REQUEST),
        (Some(coding), None) if version == Version::HTTP_11 && coding.eq_ignore_ascii_case(b"chunked") => {
            Ok(Framing::Chunked(Chunks::new()))
        }
        (Some(_), _) => Err(StatusCode::BAD_REQUEST),
    }
}

/// Whether `bytes` may contain the empty line that ends a head; the first `scanned` were searched before. Saves parsing a head
/// anew with every byte of a slow client.
pub(super) fn may_end(bytes: &[u8], scanned: usize) -> bool {
    let new = &bytes[scanned.saturating_sub(3)..];
    new.windows(2).any(|two| two == b"\n\n") || new.windows(3).any(|three| three == b"\n\r\n")
}
