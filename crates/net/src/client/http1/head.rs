//! Parses the head of an HTTP/1.1 response: status, headers, body framing, reuse of the connection.
//!
//! Invariant: an ambiguous head (two lengths, a transfer coding in HTTP/1.0) is rejected.

use crate::exchange::Head;
use crate::http1::framing::{Chunks, Framing};
use crate::http1::{MAX_FIELDS, fields, keeps_alive, length};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, Method, StatusCode, Version};
use std::mem::MaybeUninit;

/// A complete head.
#[derive(Debug)]
pub(super) struct ParsedHead {
    pub head: Head,
    pub framing: Framing,
    /// Whether the connection is reusable after the body.
    pub keep: bool,
    /// Its length in bytes.
    pub length: usize,
}

/// Why a head is invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct InvalidHead(pub String);

/// Parses a head; `None` if it is incomplete. Interim responses (1xx) are heads too.
pub(super) fn parse(bytes: &[u8], method: &Method) -> Result<Option<ParsedHead>, InvalidHead> {
    let mut found = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut parsed = httparse::Response::new(&mut []);
    let parsing = httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut parsed, bytes, &mut found);
    let length = match parsing.map_err(|error| InvalidHead(error.to_string()))? {
        httparse::Status::Partial => return Ok(None),
        httparse::Status::Complete(length) => length,
    };
    let refused = |what: &str| InvalidHead(what.to_owned());
    let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or_else(|| refused("no status"))?;
    let version = if parsed.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    // One copy that all header values share.
    let head = Bytes::copy_from_slice(&bytes[..length]);
    let headers = fields(parsed.headers, bytes, &head).map_err(refused)?;
    let framing = framing_of(&headers, status, version, method)?;
    let keep = keeps_alive(&headers, version) && !framing.may_end_by_close();
    Ok(Some(ParsedHead { head: Head { status, headers, version }, framing, keep, length }))
}

/// RFC 9112, section 6.3.
fn framing_of(
    headers: &HeaderMap,
    status: StatusCode,
    version: Version,
    method: &Method,
) -> Result<Framing, InvalidHead> {
    if *method == Method::HEAD || status.is_informational() || matches!(status.as_u16(), 204 | 304) {
        return Ok(Framing::Length(0));
    }
    let refused = |what: &str| Err(InvalidHead(what.to_owned()));
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter().peekable();
    if codings.peek().is_some() {
        if version == Version::HTTP_10 {
            return refused("a transfer coding in HTTP/1.0");
        }
        let last = codings.next_back().and_then(|value| value.to_str().ok()).unwrap_or_default();
        let is_chunked = last.rsplit(',').next().is_some_and(|coding| coding.trim().eq_ignore_ascii_case("chunked"));
        return Ok(if is_chunked { Framing::Chunked(Chunks::new()) } else { Framing::UntilClose });
    }
    let mut agreed = None;
    let values = headers.get_all(CONTENT_LENGTH).iter();
    for text in values.flat_map(|value| value.as_bytes().split(|&byte| byte == b',')).map(<[u8]>::trim_ascii) {
        match length(text) {
            Some(value) if agreed.is_none_or(|agreed| agreed == value) => agreed = Some(value),
            _ => return refused("an invalid or ambiguous content-length"),
        }
    }
    Ok(agreed.map_or(Framing::UntilClose, Framing::Length))
}
