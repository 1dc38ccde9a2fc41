//! Response headers: which of a provider's are forwarded, and the names of the gateway's own.

use http::HeaderMap;
use tokrate_net::Secrets;

/// Headers of a provider that are useful to a client, or that its support asks for.
const FORWARDED: [&str; 14] = [
    "retry-after-ms",
    "content-type",
    "retry-after",
    "request-id",
    "x-request-id",
    "x-should-retry",
    "openai-processing-ms",
    "openai-version",
    "openai-project",
    "openai-model",
    "apim-request-id",
    "x-ms-region",
    "content-disposition",
    // For a date in `retry-after`; it is not forwarded.
    "date",
];
/// The call's id in the log.
pub(crate) const CALL_HEADER: &str = "x-tokrate-call";

/// The headers that are forwarded or that carry rate limits, without secrets. Their values share the memory of the parsed head.
pub(crate) fn forwarded_headers(headers: &HeaderMap, secrets: &Secrets) -> HeaderMap {
    // The gateway's own are added to them.
    let mut kept = HeaderMap::with_capacity(16);
    for (name, value) in headers {
        if FORWARDED.contains(&name.as_str()) || name.as_str().contains("ratelimit") {
            kept.append(name.clone(), secrets.redacted_header(value).into_owned());
        }
    }
    kept
}
