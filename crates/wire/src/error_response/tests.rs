//! Tests of error bodies as servers send them.

use super::*;
use crate::{Dialect, encode_error_response};
use proptest::prelude::*;

fn kind(status: u16, body: &str) -> FailureKind {
    decode_error_response(status, &[], body.as_bytes(), None).kind
}

fn wait(headers: &[(&str, &str)]) -> Option<Span> {
    decode_error_response(429, headers, b"", None).retry_after
}

#[test]
fn each_status_has_its_kind() {
    use FailureKind::*;
    for (status, expected) in [
        (401, Unauthorized),
        (403, Unauthorized),
        (404, NotFound),
        (429, RateLimited),
        (400, BadRequest),
        (413, BadRequest),
        (422, BadRequest),
        (503, Overloaded),
        (529, Overloaded),
        (500, ServerError),
        (502, ServerError),
        (599, ServerError),
        (302, UnexpectedStatus),
        (418, UnexpectedStatus),
        (100, UnexpectedStatus),
    ] {
        assert_eq!(kind(status, ""), expected, "{status}");
    }
}

#[test]
fn a_bad_request_about_the_model_is_not_found() {
    for body in [
        r#"{"error":{"message":"nope","type":"invalid_request_error","code":"model_not_found"}}"#,
        r#"{"error":{"message":"The model `gpt-9` does not exist","type":"invalid_request_error"}}"#,
        r#"{"object":"error","message":"The model `x` does not exist.","type":"NotFoundError","code":404}"#,
        r#"{"error":"model 'x' not found"}"#,
    ] {
        assert_eq!(kind(400, body), FailureKind::NotFound, "{body}");
    }
    assert_eq!(kind(400, r#"{"error":{"message":"temperature must be below 2"}}"#), FailureKind::BadRequest);
}

#[test]
fn the_message_is_found_in_every_usual_wrapping() {
    for body in [
        r#"{"error":{"message":"too long"}}"#,
        r#"{"error":"too long"}"#,
        r#"[{"error":{"code":400,"message":"too long","status":"INVALID_ARGUMENT"}}]"#,
        r#"{"object":"error","message":"too long"}"#,
        r#"{"detail":"too long"}"#,
        "too long",
        "  too \r\n\t long\u{0}\n",
    ] {
        assert_eq!(decode_error_response(400, &[], body.as_bytes(), None).message, "too long", "{body:?}");
    }
    let listed = r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#;
    assert!(decode_error_response(422, &[], listed.as_bytes(), None).message.contains("field required"));
}

#[test]
fn the_message_is_bounded_at_a_character() {
    let message = decode_error_response(500, &[], "é".repeat(10_000).as_bytes(), None).message;
    assert!(message.len() <= 500 && message.len() > 490, "{}", message.len());
    assert!(message.ends_with('…'));
}

#[test]
fn the_wait_is_read_from_the_most_exact_header() {
    assert_eq!(wait(&[("retry-after", "20")]), Some(Span::from_secs(20)));
    assert_eq!(wait(&[("retry-after", "0.5")]), Some(Span::from_millis(500)));
    assert_eq!(wait(&[("retry-after", "20"), ("retry-after-ms", "1500")]), Some(Span::from_millis(1500)));
    let date = ("date", "Fri, 20 Nov 2026 09:59:30 GMT");
    for later in ["Fri, 20 Nov 2026 10:00:00 GMT", "Friday, 20-Nov-26 10:00:00 GMT", "Fri Nov 20 10:00:00 2026"] {
        assert_eq!(wait(&[("retry-after", later), date]), Some(Span::from_secs(30)), "{later}");
        assert_eq!(wait(&[("retry-after", later)]), None, "the server's own time is not known");
    }
    assert_eq!(wait(&[("retry-after", "Fri, 20 Nov 2026 09:00:00 GMT"), date]), Some(Span::ZERO), "it has passed");
    assert_eq!(wait(&[("retry-after", "soon"), date]), None);
    assert_eq!(wait(&[("retry-after", "-3")]), None);
    assert_eq!(wait(&[("retry-after", "NaN")]), None);
    assert_eq!(wait(&[]), None);
}

#[test]
fn the_wait_is_derived_from_the_exhausted_limit() {
    let requests = [("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "6m0s")];
    let tokens = [("x-ratelimit-remaining-tokens", "9"), ("x-ratelimit-reset-tokens", "20ms")];
    assert_eq!(wait(&[requests, tokens].concat()), Some(Span::from_secs(360)));
    assert_eq!(wait(&[requests[1], tokens[1]]), Some(Span::from_millis(20)), "without remains, the first to refill");
    assert_eq!(wait(&[("x-ratelimit-reset", "7.66s")]), Some(Span::from_millis(7660)));
    assert_eq!(wait(&[("x-ratelimit-reset", "1795168800000")]), None, "a date in milliseconds");
    let other_status = decode_error_response(500, &requests, b"", None);
    assert_eq!(other_status.retry_after, None, "limits refill always; only a rate-limited request waits for it");
    assert_eq!(other_status.limits.len(), 2);
}

#[test]
fn the_wait_is_read_from_the_body() {
    let google = r#"[{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED",
        "details":[{"@type":"type.googleapis.com/google.rpc.Help"},{"retryDelay":"27s"}]}}]"#;
    assert_eq!(decode_error_response(429, &[], google.as_bytes(), None).retry_after, Some(Span::from_secs(27)));
    let plain = r#"{"error":{"message":"slow down","retry_after":2}}"#;
    assert_eq!(decode_error_response(429, &[], plain.as_bytes(), None).retry_after, Some(Span::from_secs(2)));
}

#[test]
fn an_encoded_refusal_is_understood_again() {
    for status in [400, 401, 403, 404, 429, 500, 503] {
        let body = encode_error_response(Dialect::OpenAiChat, status, "say \"please\"\n");
        let understood = decode_error_response(status, &[], &body, None);
        assert_eq!((understood.kind, understood.message.as_str()), (kind(status, ""), "say \"please\""));
        let inside = ErrorBody::read(std::str::from_utf8(&body).unwrap());
        assert_eq!(inside.kind(), Some(understood.kind), "the same within a stream");
    }
}

#[test]
fn anthropics_kinds_are_understood_in_bodies_and_in_streams() {
    for (status, label, kind) in [
        (400, "invalid_request_error", FailureKind::BadRequest),
        (401, "authentication_error", FailureKind::Unauthorized),
        (403, "permission_error", FailureKind::Unauthorized),
        (404, "not_found_error", FailureKind::NotFound),
        (413, "request_too_large", FailureKind::BadRequest),
        (429, "rate_limit_error", FailureKind::RateLimited),
        (500, "api_error", FailureKind::ServerError),
        (504, "timeout_error", FailureKind::ServerError),
        (529, "overloaded_error", FailureKind::Overloaded),
    ] {
        let body = format!(r#"{{"type":"error","error":{{"type":"{label}","message":"No."}},"request_id":"req_1"}}"#);
        let understood = decode_error_response(status, &[], body.as_bytes(), None);
        assert_eq!((understood.kind, understood.message.as_str()), (kind, "No."), "{label}");
        assert_eq!(ErrorBody::read(&body).kind(), Some(kind), "{label} inside a stream");
    }
}

#[test]
fn anthropics_limits_are_kept_and_their_dates_are_not_taken_for_waits() {
    let limits = [
        ("anthropic-ratelimit-requests-limit", "50"),
        ("anthropic-ratelimit-requests-remaining", "0"),
        ("anthropic-ratelimit-requests-reset", "2026-11-21T06:00:00Z"),
        ("anthropic-ratelimit-input-tokens-reset", "2026-11-21T06:00:07Z"),
    ];
    let without = decode_error_response(429, &limits, b"", None);
    assert_eq!((without.retry_after, without.limits.len()), (None, 4));
    let with = decode_error_response(429, &[&limits[..], &[("retry-after", "17")]].concat(), b"", None);
    assert_eq!(with.retry_after, Some(Span::from_secs(17)));
}

proptest! {
    #[test]
    fn any_body_gives_a_bounded_message_on_one_line(
        body in prop_oneof![any::<Vec<u8>>(), any::<String>().prop_map(|text| encode_error_response(Dialect::OpenAiChat, 500, &text))],
        header in any::<String>(),
        status in any::<u16>(),
    ) {
        let headers = [("retry-after", header.as_str()), ("x-ratelimit-reset", header.as_str())];
        let understood = decode_error_response(status, &headers, &body, None);
        prop_assert!(understood.message.len() <= 500);
        prop_assert!(!understood.message.contains(char::is_control));
        prop_assert!(understood.limits.iter().all(|(_, value)| value.len() <= 100 && !value.contains(char::is_control)));
    }
}

#[test]
fn a_merge_engines_refusal_is_told_from_a_clients_error() {
    let refused = r#"{"error":{"type":"apply_refused","code":"ambiguous","message":"two places fit"}}"#;
    assert_eq!(decode_error_response(422, &[], refused.as_bytes(), None).kind, FailureKind::EditRefused);
    assert_eq!(decode_error_response(400, &[], refused.as_bytes(), None).kind, FailureKind::BadRequest);
    let other = r#"{"error":{"type":"invalid_request_error","message":"no"}}"#;
    assert_eq!(decode_error_response(422, &[], other.as_bytes(), None).kind, FailureKind::BadRequest);
}

#[test]
fn a_compressed_body_is_called_one_and_none_of_its_bytes_are_a_message() {
    let gzip = b"\x1f\x8b\x08\0\0\0\0\0";
    for headers in [&[("content-encoding", "gzip")][..], &[]] {
        let decoded = decode_error_response(404, headers, gzip, None);
        assert_eq!(decoded.kind, FailureKind::NotFound);
        assert_eq!(decoded.message, "the server's message is compressed (gzip), which was not asked for");
    }
    let plain = decode_error_response(404, &[("content-encoding", "identity")], b"nothing here", None);
    assert_eq!(plain.message, "nothing here");
}
