//! Headers that a client gets: those of a provider that mean something to it, and the gateway's own.

use http::{HeaderMap, HeaderValue};
use tokrate_net::Secrets;

/// Headers of a provider that mean something to a client.
const FORWARDED: [&str; 7] = [
    "retry-after-ms",
    "content-type",
    "retry-after",
    "request-id",
    "x-request-id",
    "x-should-retry",
    "openai-processing-ms",
];
/// Header that names a call as the log does.
pub(crate) const CALL_HEADER: &str = "x-tokrate-call";

/// Copies of those of a provider's headers that are handed on, or say when to ask again, without what may never be shown.
pub(crate) fn forwarded_headers(headers: &HeaderMap, secrets: &Secrets) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for (name, value) in headers {
        if (FORWARDED.contains(&name.as_str()) || name.as_str().contains("ratelimit"))
            && let Ok(value) = HeaderValue::from_bytes(secrets.redacted_header(value).as_bytes())
        {
            kept.append(name.clone(), value);
        }
    }
    kept
}
