//! The response head: the provider's headers that a client can use, and the gateway's own.
//!
//! Cookies, connection headers and anything else between a provider and its own clients are dropped. Invariant: the
//! cost of a race is always stated.

use crate::dispatch::call::Call;
use crate::respond::headers::CALL_HEADER;
use crate::upstream::body::UpstreamBody;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, DATE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use tokrate_core::Span;

const PROVIDER: HeaderName = HeaderName::from_static("x-tokrate-provider");
const WINNER: HeaderName = HeaderName::from_static("x-tokrate-winner");
const ATTEMPTS: HeaderName = HeaderName::from_static("x-tokrate-attempts");
const RACE_COST: HeaderName = HeaderName::from_static("x-tokrate-race-cost-usd");
const OVERHEAD: HeaderName = HeaderName::from_static("x-tokrate-overhead-us");
const RACE_LIMIT: HeaderName = HeaderName::from_static("x-tokrate-race-limit");
const TTFT: HeaderName = HeaderName::from_static("x-tokrate-ttft-ms");
const HOLD: HeaderName = HeaderName::from_static("x-tokrate-hold-ms");
const CACHE_EXPECTED: HeaderName = HeaderName::from_static("x-tokrate-cache-expected");
const ANSWER: HeaderName = HeaderName::from_static("x-tokrate-answer-ms");

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
    let [provider, lane] = &attempt.lane.name_headers;
    for (name, value) in [(PROVIDER, provider), (WINNER, lane)] {
        value.iter().for_each(|value| drop(headers.insert(name.clone(), value.clone())));
    }
    let mut own = HeaderBlock::with_capacity(request.id.len());
    own.text(HeaderName::from_static(CALL_HEADER), &request.id);
    own.number(ATTEMPTS, call.attempts().len() as u64);
    own.decimal(RACE_COST, (call.account.extra_usd() * 1e8).round() as u64, 8);
    call.overhead().iter().for_each(|overhead| own.number(OVERHEAD, overhead.as_nanos() / 1000));
    call.race_limit().iter().for_each(|limit| own.text(RACE_LIMIT, limit));
    let microseconds = |time: Span| (time.as_nanos() + 500) / 1000;
    let live = || Some(body.meter.first_text_at()? - body.sent_at()?);
    let ttft = attempt.measured().and_then(|measured| measured.ttft_ns).map(Span::from_nanos).or_else(live);
    let ttft = ttft.filter(|_| attempt.has_streamed());
    ttft.iter().for_each(|ttft| own.decimal(TTFT, microseconds(*ttft), 3));
    call.hold().iter().for_each(|hold| own.decimal(HOLD, microseconds(*hold), 3));
    attempt.whole_answer_time().iter().for_each(|time| own.decimal(ANSWER, microseconds(*time), 3));
    entry.expected_cached.iter().for_each(|tokens| own.number(CACHE_EXPECTED, *tokens));
    own.move_into(&mut headers);
    ResponseHead { status: body.answer.head().map_or(StatusCode::OK, |head| head.status), headers }
}

/// Headers whose values stand in one buffer: a response has six of them, which would take an allocation each.
struct HeaderBlock {
    values: Vec<u8>,
    /// Each header's name, and where its value ends.
    ends: Vec<(HeaderName, usize)>,
}

impl HeaderBlock {
    /// Room for the gateway's own headers, of which one is of `text_bytes`.
    fn with_capacity(text_bytes: usize) -> HeaderBlock {
        HeaderBlock { values: Vec::with_capacity(text_bytes + 80), ends: Vec::with_capacity(8) }
    }

    fn text(&mut self, name: HeaderName, value: &str) {
        self.values.extend_from_slice(value.as_bytes());
        self.ends.push((name, self.values.len()));
    }

    fn number(&mut self, name: HeaderName, value: u64) {
        self.digits(value, 1);
        self.ends.push((name, self.values.len()));
    }

    /// A count of units of `10^-places`. Cheaper than formatting an `f64`, whose code would have to be fetched into the
    /// cache while a first token waits.
    fn decimal(&mut self, name: HeaderName, units: u64, places: u32) {
        let one = 10_u64.pow(places);
        self.digits(units / one, 1);
        self.values.push(b'.');
        self.digits(units % one, places as usize);
        self.ends.push((name, self.values.len()));
    }

    /// Decimal digits, at least `width` of them.
    fn digits(&mut self, mut number: u64, width: usize) {
        let start = self.values.len();
        while number > 0 || self.values.len() - start < width {
            self.values.push(b'0' + (number % 10) as u8);
            number /= 10;
        }
        self.values[start..].reverse();
    }

    fn move_into(self, headers: &mut HeaderMap) {
        let (values, mut start) = (Bytes::from(self.values), 0);
        for (name, end) in self.ends {
            if let Ok(value) = HeaderValue::from_maybe_shared(values.slice(start..end)) {
                headers.insert(name, value);
            }
            start = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decimal_reads_as_a_float_would() {
        for (units, places, text) in
            [(0, 8, "0.00000000"), (5, 3, "0.005"), (12_345, 3, "12.345"), (100_000_000, 8, "1.00000000")]
        {
            let (mut block, mut headers) = (HeaderBlock::with_capacity(0), HeaderMap::new());
            block.decimal(TTFT, units, places);
            block.number(ATTEMPTS, units);
            block.move_into(&mut headers);
            assert_eq!(headers[TTFT], text);
            assert_eq!(text, format!("{:.*}", places as usize, units as f64 / 10_f64.powi(places as i32)));
            assert_eq!(headers[ATTEMPTS], units.to_string());
        }
    }
}
