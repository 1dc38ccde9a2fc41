//! The head of a request, and what it says of the body and the connection.
//!
//! It refuses to read sockets. Invariant: a head that two readers could understand differently is refused: two lengths, a length
//! beside a coding, any coding but chunks alone.

use crate::http1::framing::{Chunks, Framing};
use crate::http1::{FIELDS_MOST, fields, keeps_alive, length};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING};
use http::{HeaderMap, Method, Request, StatusCode, Uri, Version};

/// A head that was read whole.
#[derive(Debug)]
pub(super) struct Read {
    pub request: Request<()>,
    pub framing: Framing,
    /// Whether the client would use the connection again.
    pub keep: bool,
    /// Whether the client waits to be told that its body is wanted.
    pub waits: bool,
    /// Bytes that it took.
    pub length: usize,
}

/// Reads a head; `None` if it is not whole yet.
///
/// # Errors
/// With the status that says what is wrong with it.
pub(super) fn read(bytes: &[u8]) -> Result<Option<Read>, StatusCode> {
    let mut found = [httparse::EMPTY_HEADER; FIELDS_MOST];
    let mut parsed = httparse::Request::new(&mut found);
    let taken = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(taken)) => taken,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
        Err(_) => return Err(StatusCode::BAD_REQUEST),
    };
    let (Some(method), Some(address)) = (parsed.method, parsed.path) else { return Err(StatusCode::BAD_REQUEST) };
    // One copy for the address and all values.
    let head = Bytes::copy_from_slice(&bytes[..taken]);
    let from = address.as_ptr() as usize - bytes.as_ptr() as usize;
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(method.as_bytes()).map_err(|_| StatusCode::BAD_REQUEST)?;
    let address = Uri::from_maybe_shared(head.slice(from..from + address.len()));
    *request.uri_mut() = address.map_err(|_| StatusCode::BAD_REQUEST)?;
    *request.version_mut() = if parsed.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    *request.headers_mut() = fields(parsed.headers, bytes, &head).map_err(|_| StatusCode::BAD_REQUEST)?;
    let framing = framing_of(request.headers(), request.version())?;
    // After a request for a tunnel, what follows is not HTTP.
    let keep = keeps_alive(request.headers(), request.version()) && *request.method() != Method::CONNECT;
    let expected = request.headers().get(EXPECT).map(http::HeaderValue::as_bytes);
    let waits = request.version() == Version::HTTP_11
        && expected.is_some_and(|expected| expected.eq_ignore_ascii_case(b"100-continue"));
    Ok(Some(Read { request, framing, keep, waits, length: taken }))
}

/// RFC 9112, section 6.3, of what it leaves open the stricter.
fn framing_of(headers: &HeaderMap, version: Version) -> Result<Framing, StatusCode> {
    let single = |name| {
        let mut values = headers.get_all(name).iter();
        let first = values.next().map(http::HeaderValue::as_bytes);
        if values.next().is_some() { Err(StatusCode::BAD_REQUEST) } else { Ok(first) }
    };
    match (single(TRANSFER_ENCODING)?, single(CONTENT_LENGTH)?) {
        (None, None) => Ok(Framing::Length(0)),
        (None, Some(said)) => length(said).map(Framing::Length).ok_or(StatusCode::BAD_REQUEST),
        (Some(coding), None) if version == Version::HTTP_11 && coding.eq_ignore_ascii_case(b"chunked") => {
            Ok(Framing::Chunked(Chunks::new()))
        }
        (Some(_), _) => Err(StatusCode::BAD_REQUEST),
    }
}

/// Whether a head may end in `bytes`, of which the first `known` were looked at before: it ends with an empty line. A head that
/// comes byte by byte is not parsed anew with each of them.
pub(super) fn may_end(bytes: &[u8], known: usize) -> bool {
    let new = &bytes[known.saturating_sub(3)..];
    new.windows(2).any(|two| two == b"\n\n") || new.windows(3).any(|three| three == b"\n\r\n")
}
