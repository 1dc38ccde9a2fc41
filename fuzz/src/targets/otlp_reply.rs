//! Answers of an OpenTelemetry collector: what is reported of one is a bounded line without a key.
//!
//! It does not know what collectors say. Invariant: the first bytes of the input say the status, the type of the body and whether
//! a key stands in it.

use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode, Version};
use tokrate_gateway::fuzzing::otlp_error;
use tokrate_net::{Answer, Head, Secrets};

const KEY: &str = "sk-very-secret";
const STATUSES: [u16; 8] = [200, 202, 400, 401, 429, 500, 503, 599];
/// Of what is reported of an answer: the collector's own words are cut at 300 bytes, the rest is ours.
const TOLD_BYTES_MOST: usize = 400;

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let Some((&[status, kind, place], rest)) = input.split_first_chunk::<3>() else { return };
    let status =
        StatusCode::from_u16(STATUSES[usize::from(status) % STATUSES.len()]).expect("in the range of statuses");
    let mut headers = HeaderMap::new();
    let protobuf = kind & 1 == 0;
    let named = if protobuf { "application/x-protobuf" } else { "application/json" };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(named));
    if let Ok(value) = HeaderValue::from_bytes(&rest[..rest.len().min(usize::from(kind >> 4))]) {
        headers.insert(RETRY_AFTER, value);
    }
    let mut body = rest.to_vec();
    if kind & 2 != 0 {
        let place = usize::from(place).min(body.len());
        body.splice(place..place, KEY.bytes());
    }
    let mut sent = HeaderMap::new();
    let mut key = HeaderValue::from_str(&format!("Bearer {KEY}")).expect("a header's value");
    key.set_sensitive(true);
    sent.insert(AUTHORIZATION, key);
    let answer = Answer { head: Head { status, headers, version: Version::HTTP_11 }, body };
    let trouble = otlp_error(&answer, &Secrets::of(&sent));
    assert!(status.is_success() || trouble.is_some(), "a failure is reported");
    let Some(message) = trouble else { return };
    assert!(!message.is_empty() && message.len() <= TOLD_BYTES_MOST, "{}: {message}", message.len());
    assert!(!message.chars().any(char::is_control), "{message:?}");
    assert!(!message.contains(KEY), "{message}");
}
