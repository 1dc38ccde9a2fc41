//! What both sides of HTTP/1.1 read alike: the fields of a head, and how a body is marked off.
//!
//! It refuses to read sockets. Invariant: what two readers could understand differently is refused, not guessed.

pub(crate) mod framing;

use bytes::Bytes;
use http::header::{CONNECTION, HeaderName};
use http::{HeaderMap, HeaderValue, Version};

/// Largest head that is read, interim ones before it included (bytes).
pub(crate) const HEAD_BYTES_MOST: usize = 64 * 1024;
/// Fields of a head at most, as the HTTP library has it.
pub(crate) const FIELDS_MOST: usize = 100;

/// The fields of a parsed head. Their values share `head`, a copy of the bytes from `parsed_from` on that were parsed.
///
/// # Errors
/// With what is wrong.
pub(crate) fn fields(
    parsed: &[httparse::Header<'_>],
    parsed_from: &[u8],
    head: &Bytes,
) -> Result<HeaderMap, &'static str> {
    let mut headers = HeaderMap::with_capacity(parsed.len());
    for field in parsed {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| "a field's name is none")?;
        let from = field.value.as_ptr() as usize - parsed_from.as_ptr() as usize;
        let value = HeaderValue::from_maybe_shared(head.slice(from..from + field.value.len()));
        headers.append(name, value.map_err(|_| "a field's value is none")?);
    }
    Ok(headers)
}

/// Whether a connection may be used again after the message with these fields.
pub(crate) fn keeps_alive(headers: &HeaderMap, version: Version) -> bool {
    let says = |option: &str| {
        let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|said| said.trim().eq_ignore_ascii_case(option))
    };
    !says("close") && (version == Version::HTTP_11 || says("keep-alive"))
}

/// A length as a field says it: digits and nothing else.
pub(crate) fn length(said: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(said).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits?.parse().ok()
}
