//! What client and server share in parsing HTTP/1.1: header fields and body framing.
//!
//! Invariant: what two parsers could understand differently is rejected, not guessed.

pub(crate) mod framing;

use bytes::Bytes;
use http::header::{CONNECTION, HeaderName};
use http::{HeaderMap, HeaderValue, Version};

/// Largest head, including interim (1xx) responses (bytes); nginx and hyper have limits of this order.
pub(crate) const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Most header fields of a head: hyper's default.
pub(crate) const MAX_FIELDS: usize = 100;

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
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| "a header name is invalid")?;
        let from = field.value.as_ptr() as usize - parsed_from.as_ptr() as usize;
        let value = HeaderValue::from_maybe_shared(head.slice(from..from + field.value.len()));
        headers.append(name, value.map_err(|_| "a header value is invalid")?);
    }
    Ok(headers)
}

/// Whether these headers allow the connection to be reused (keep-alive).
pub(crate) fn keeps_alive(headers: &HeaderMap, version: Version) -> bool {
    let has_option = |option: &str| {
        let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(option))
    };
    !has_option("close") && (version == Version::HTTP_11 || has_option("keep-alive"))
}

/// Parses a Content-Length: digits and nothing else.
pub(crate) fn length(value: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits?.parse().ok()
}
