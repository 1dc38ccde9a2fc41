//! The response head: the provider's headers that a client can use, and the gateway's own.
//!
//! Cookies, connection headers and anything else between a provider and its own clients are dropped. Invariant: the
//! cost of a race is always stated.

use crate::dispatch::call::Call;
use crate::respond::headers::CALL_HEADER;
use crate::upstream::body::UpstreamBody;
use http::header::{CONTENT_TYPE, DATE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use tokrate_core::Span;

/// Status and headers of a response.
pub(crate) struct ResponseHead {
    status: StatusCode,
    headers: HeaderMap,
}

impl ResponseHead {
    /// Sets them on a response.
    pub fn apply_to<B>(self, response: &mut Response<B>) {
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
    }
}

/// Takes the provider's headers that are forwarded.
fn take_forwarded_headers(body: &mut UpstreamBody) -> HeaderMap {
    body.answer.head_mut().map(|head| std::mem::take(&mut head.headers)).unwrap_or_default()
}

/// The head for the winner of a call.
pub(crate) fn response_head(call: &Call) -> ResponseHead {
    let Some(entry) = call.winning_entry() else {
        return ResponseHead { status: StatusCode::OK, headers: HeaderMap::new() };
    };
    let attempt = &entry.attempt;
    let mut headers = take_forwarded_headers(&mut attempt.body.borrow_mut());
    let body = attempt.body.borrow();
    let request = &call.account.request;
    headers.remove(DATE);
    let is_converted = attempt.streamed && !request.is_stream();
    if request.routed.is_some() && (attempt.dialect() != request.dialect() || is_converted) {
        let content_type = request.dialect().content_type(request.shape);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    let mut put = |name: &'static str, value: Option<HeaderValue>| {
        if let Some(value) = value {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    let [provider, lane] = &attempt.lane.name_headers;
    put(CALL_HEADER, HeaderValue::from_str(&request.id).ok());
    put("x-tokrate-provider", provider.clone());
    put("x-tokrate-winner", lane.clone());
    put("x-tokrate-attempts", Some(call.attempts().len().into()));
    put("x-tokrate-race-cost-usd", decimal((call.account.extra_usd() * 1e8).round() as u64, 8));
    put("x-tokrate-overhead-us", call.overhead().map(|overhead| (overhead.as_nanos() / 1000).into()));
    put("x-tokrate-race-limit", call.race_limit().map(HeaderValue::from_static));
    let milliseconds = |time: Span| decimal((time.as_nanos() + 500) / 1000, 3);
    let live = || Some(body.meter.first_text_at()? - body.sent_at()?);
    let ttft = attempt.measured().and_then(|measured| measured.ttft_ns).map(Span::from_nanos).or_else(live);
    put("x-tokrate-ttft-ms", ttft.filter(|_| attempt.has_streamed()).and_then(milliseconds));
    put("x-tokrate-answer-ms", attempt.whole_answer_time().and_then(milliseconds));
    ResponseHead { status: body.answer.head().map_or(StatusCode::OK, |head| head.status), headers }
}

/// A count of units of `10^-places` as a decimal number. Cheaper than formatting an `f64`, whose code would have to be
/// fetched into the cache while a first token waits.
fn decimal(units: u64, places: u32) -> Option<HeaderValue> {
    let one = 10_u64.pow(places);
    HeaderValue::try_from(format!("{}.{:0width$}", units / one, units % one, width = places as usize)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decimal_reads_as_a_float_would() {
        for (units, places, text) in
            [(0, 8, "0.00000000"), (5, 3, "0.005"), (12_345, 3, "12.345"), (100_000_000, 8, "1.00000000")]
        {
            assert_eq!(decimal(units, places).expect("a value"), text);
            assert_eq!(text, format!("{:.*}", places as usize, units as f64 / 10_f64.powi(places as i32)));
        }
    }
}
