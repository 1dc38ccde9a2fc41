//! Arbitrary requests never panic: lanes would get valid requests of their own dialect, or the client gets an error in
//! its.

use crate::harness::{configured, lane};
use bytes::Bytes;
use http::Method;
use proptest::prelude::*;
use serde_json::Value;
use std::net::SocketAddr;
use tokrate_gateway::{Config, Decision, DryRun, Mode};
use tokrate_wire::{Dialect, Shape, decode_request};

/// The ingress of a gateway with a lane for each dialect, and an alias over all of them.
fn dry_run() -> DryRun {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
    let lanes = Dialect::ALL.iter().map(|dialect| lane(dialect.name(), nowhere, &[*dialect])).collect();
    DryRun::new(&Config { log: None, ..configured(lanes, Mode::Off) }).expect("a gateway")
}

/// What must hold for every request.
fn check(
    dry_run: &DryRun,
    method: &Method,
    path: &str,
    header: Option<(&str, &[u8])>,
    body: &[u8],
) -> Option<Decision> {
    let mut request = http::Request::builder().method(method).uri(path);
    if let Some((name, value)) = header {
        request = request.header(name, value);
    }
    // What is no HTTP request does not get this far.
    let head = request.body(()).ok()?.into_parts().0;
    let decision = dry_run.evaluate(head, Bytes::copy_from_slice(body));
    match &decision {
        Decision::Respond { status: 200, .. } => {}
        Decision::Respond { status, body, dialect } => {
            let json: Value = serde_json::from_slice(body).expect("an error is JSON");
            let error = &json["error"];
            let message = match dialect {
                Dialect::OllamaChat | Dialect::OllamaGenerate => error,
                Dialect::BedrockConverse | Dialect::CohereChat => &json["message"],
                _ => &error["message"],
            };
            assert!(message.as_str().is_some_and(|message| !message.is_empty()), "{dialect:?}: {json}");
            assert_eq!(*dialect == Dialect::Anthropic, json["type"] == "error", "{json}");
            assert!((400..500).contains(status), "{status}: {json}");
        }
        Decision::Forward(requests) => {
            assert!(!requests.is_empty());
            for upstream in requests {
                assert!(upstream.path.starts_with("/v1/"), "{}", upstream.path);
                let read: Value = serde_json::from_slice(&upstream.body).unwrap_or(Value::Null);
                // Numbers beyond floats and half a surrogate pair are forwarded as they came.
                assert!(read.is_object() || serde_json::from_slice::<Value>(body).is_err());
                let Some(dialect) = upstream.dialect else { continue };
                let is_own = Dialect::of_path(path).is_some_and(|routed| routed.dialect == dialect);
                let routed = Dialect::of_path(&dialect.path("m", Shape::Stream)).expect("a path of ours");
                assert!(is_own || decode_request(&routed, &upstream.body).is_ok(), "what was translated can be read");
            }
        }
    }
    Some(decision)
}

const CHAT: &str = r#"{"model":"all","messages":[{"role":"user","content":"hi"}],"stream":true,"max_tokens":9}"#;

#[test]
fn a_plain_request_reaches_every_lane_in_its_own_dialect() {
    let decision = check(&dry_run(), &Method::POST, "/v1/chat/completions", None, CHAT.as_bytes());
    let Some(Decision::Forward(requests)) = decision else { panic!("{decision:?}") };
    let dialects: Vec<_> = requests.iter().filter_map(|upstream| upstream.dialect).collect();
    assert_eq!(dialects, Dialect::ALL);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn any_request_is_forwarded_or_rejected_in_the_clients_dialect(
        index in 0..Dialect::ALL.len() + 3,
        post in proptest::bool::weighted(0.9),
        header in proptest::option::of((
            prop_oneof![Just("authorization"), Just("x-tokrate-mode"), Just("anthropic-version"), Just("content-length")],
            proptest::collection::vec(any::<u8>(), 0..12),
        )),
        body in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..60),
            (0..CHAT.len(), any::<u8>(), "[a-z_]{1,12}", "[0-9]{1,3}|null|\\{\\}|\\[\\]|\"x\"").prop_map(|(at, byte, name, value)| {
                let mut body = CHAT.replacen('{', &format!("{{\"{name}\":{value},"), 1).into_bytes();
                if byte > 127 {
                    body[at] = byte;
                }
                body
            }),
        ],
        tail in "[a-z/?=:%.]{0,12}",
    ) {
        let path = match Dialect::ALL.get(index) {
            Some(dialect) => format!("/v1{}", dialect.path("all", Shape::Stream)),
            None => [format!("/v1/{tail}"), format!("/v1/models/{tail}"), "/v1/embeddings".to_owned()][index - Dialect::ALL.len()].clone(),
        };
        let method = if post { Method::POST } else { Method::GET };
        let header = header.as_ref().map(|(name, value)| (*name, value.as_slice()));
        let _ = check(&dry_run(), &method, &path, header, &body);
    }
}
