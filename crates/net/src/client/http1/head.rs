//! The head of an HTTP/1.1 answer, and what it says of the body and the connection.
//!
//! It refuses to read sockets. Invariant: a head that two readers could understand differently (two lengths, a coding that is
//! not known) is refused.

use super::framing::{Chunks, Framing};
use crate::exchange::Head;
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderName, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};

/// Fields of a head at most, as the HTTP library has it.
const FIELDS_MOST: usize = 100;

/// A head that was read whole.
#[derive(Debug)]
pub(super) struct Read {
    pub head: Head,
    pub framing: Framing,
    /// Whether the connection may be used again once the body has ended.
    pub keep: bool,
    /// Bytes that it took.
    pub length: usize,
}

/// Why a head cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NotHttp(pub String);

/// Reads a head; `None` if it is not whole yet. Interim answers (1xx) are heads too.
pub(super) fn read(bytes: &[u8], method: &Method) -> Result<Option<Read>, NotHttp> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MOST];
    let mut parsed = httparse::Response::new(&mut fields);
    let length = match parsed.parse(bytes).map_err(|error| NotHttp(error.to_string()))? {
        httparse::Status::Partial => return Ok(None),
        httparse::Status::Complete(length) => length,
    };
    let refused = |what: &str| NotHttp(what.to_owned());
    let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or_else(|| refused("no status"))?;
    let version = if parsed.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    // One copy for all values.
    let shared = Bytes::copy_from_slice(&bytes[..length]);
    let mut headers = HeaderMap::with_capacity(parsed.headers.len());
    for field in parsed.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| refused("a field's name is none"))?;
        let from = field.value.as_ptr() as usize - bytes.as_ptr() as usize;
        let value = HeaderValue::from_maybe_shared(shared.slice(from..from + field.value.len()));
        headers.append(name, value.map_err(|_| refused("a field's value is none"))?);
    }
    let framing = framing_of(&headers, status, version, method)?;
    let keep = keeps_alive(&headers, version) && !framing.may_end_by_close();
    Ok(Some(Read { head: Head { status, headers, version }, framing, keep, length }))
}

/// RFC 9112, section 6.3.
fn framing_of(headers: &HeaderMap, status: StatusCode, version: Version, method: &Method) -> Result<Framing, NotHttp> {
    if *method == Method::HEAD || status.is_informational() || matches!(status.as_u16(), 204 | 304) {
        return Ok(Framing::Length(0));
    }
    let refused = |what: &str| Err(NotHttp(what.to_owned()));
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter().peekable();
    if codings.peek().is_some() {
        if version == Version::HTTP_10 {
            return refused("a transfer coding in HTTP/1.0");
        }
        let last = codings.next_back().and_then(|value| value.to_str().ok()).unwrap_or_default();
        let is_chunked = last.rsplit(',').next().is_some_and(|coding| coding.trim().eq_ignore_ascii_case("chunked"));
        return Ok(if is_chunked { Framing::Chunked(Chunks::new()) } else { Framing::UntilClose });
    }
    let mut length = None;
    let values = headers.get_all(CONTENT_LENGTH).iter();
    for said in values.flat_map(|value| value.as_bytes().split(|&byte| byte == b',')).map(<[u8]>::trim_ascii) {
        let digits = std::str::from_utf8(said).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        match digits.and_then(|digits| digits.parse::<u64>().ok()) {
            Some(said) if length.is_none_or(|length| length == said) => length = Some(said),
            _ => return refused("a length that is none, or two of them"),
        }
    }
    Ok(length.map_or(Framing::UntilClose, Framing::Length))
}

fn keeps_alive(headers: &HeaderMap, version: Version) -> bool {
    let says = |option: &str| {
        let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|said| said.trim().eq_ignore_ascii_case(option))
    };
    !says("close") && (version == Version::HTTP_11 || says("keep-alive"))
}
