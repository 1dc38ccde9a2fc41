//! The head of an answer: what the provider said that a client can use, and what the gateway did.
//!
//! It refuses to hand on cookies, connection headers and anything else a provider says to its own clients. Invariant: what a
//! race cost is never left unsaid.

use crate::body::CallBody;
use crate::call::Call;
use crate::inbox::Inbox;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use tokrate_core::Span;

/// Headers of a provider that mean something to a client.
const HANDED_ON: [&str; 7] = [
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

/// Status and headers of an answer.
pub(crate) struct Heading {
    status: StatusCode,
    headers: HeaderMap,
}

impl Heading {
    /// Puts them on an answer.
    pub fn put_on(self, response: &mut Response<CallBody>) {
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
    }
}

/// Copies of those of a provider's headers that are handed on, or say when to ask again.
pub(crate) fn useful(headers: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for (name, value) in headers {
        if (HANDED_ON.contains(&name.as_str()) || name.as_str().contains("ratelimit"))
            && let Ok(value) = HeaderValue::from_bytes(value.as_bytes())
        {
            kept.append(name.clone(), value);
        }
    }
    kept
}

/// Takes those of a provider's headers that are handed on.
pub(crate) fn handed_on(inbox: &mut Inbox) -> HeaderMap {
    inbox.head.as_mut().map(|head| std::mem::take(&mut head.headers)).unwrap_or_default()
}

/// The head of a call that was won.
pub(crate) fn heading(call: &Call) -> Heading {
    let Some(entry) = call.won() else {
        return Heading { status: StatusCode::OK, headers: HeaderMap::new() };
    };
    let attempt = &entry.attempt;
    let mut headers = handed_on(&mut attempt.inbox.borrow_mut());
    let inbox = attempt.inbox.borrow();
    let request = &call.account.request;
    if request.routed.is_some() && attempt.dialect() != request.dialect() {
        let content_type = request.dialect().content_type(request.shape);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    let mut put = |name: &'static str, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    let lane = &attempt.lane.config;
    put(CALL_HEADER, &request.id);
    put("x-tokrate-provider", &lane.provider);
    put("x-tokrate-winner", &lane.name);
    put("x-tokrate-attempts", &call.attempts().len().to_string());
    put("x-tokrate-race-cost-usd", &format!("{:.8}", call.account.extra_usd()));
    if let Some(overhead) = call.overhead() {
        put("x-tokrate-overhead-us", &(overhead.as_nanos() / 1000).to_string());
    }
    let live = || Some(inbox.meter.first_text_at()? - inbox.sent_at()?);
    let ttft = attempt.measured().and_then(|measured| measured.ttft_ns).map(Span::from_nanos).or_else(live);
    if let Some(ttft) = ttft {
        put("x-tokrate-ttft-ms", &format!("{:.3}", ttft.as_nanos() as f64 / 1e6));
    }
    Heading { status: inbox.head.as_ref().map_or(StatusCode::OK, |head| head.status), headers }
}
