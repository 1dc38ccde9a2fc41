//! A lane's response cut at every byte, in every mode: the client gets a whole answer of another lane, or one clear
//! error.

use crate::client::post;
use crate::harness::{TestGateway, configured, lane};
use crate::scripted::{Script, Scripted, chat_events, stream, whole};
use tokrate_gateway::Mode;
use tokrate_record::AttemptEnd;
use tokrate_wire::Dialect;

const CHAT: &[Dialect] = &[Dialect::OpenAiChat];
const BODY: &str = r#"{"model":"all","stream":true,"stream_options":{"include_usage":true},"messages":[]}"#;

#[test]
fn cut_at_every_byte_a_client_sees_a_whole_answer_or_a_prefix_and_one_error() {
    let events = chat_events(&["first"]);
    let good_events = chat_events(&["second"]);
    let message = stream(&events);
    for mode in [Mode::Off, Mode::Hedge, Mode::Race { lanes: 2 }] {
        let scripts = (0..message.len()).map(|end| Script::SendAndClose(message[..end].to_vec())).collect();
        let bad = Scripted::start(scripts);
        let good = Scripted::start(vec![Script::Send(vec![stream(&good_events)])]);
        let lanes = vec![lane("bad", bad.address, CHAT), lane("good", good.address, CHAT)];
        let mut config = configured(lanes, mode);
        // The lane is tried again and again, however often it failed.
        config.aliases[0].policy = tokrate_gateway::Policy::Fixed;
        let mut gateway = TestGateway::start(config);
        let mut kinds = [0; 3];
        for _ in 0..message.len() {
            let answer = post(gateway.address, "/v1/chat/completions", BODY);
            let text = answer.text();
            assert!(answer.ended && answer.status == 200, "{mode:?}: {} {text}", answer.status);
            if text == good_events || text == events {
                kinds[0] += 1;
                continue;
            }
            let (prefix, error) = text.split_once("data: {\"error\"").unwrap_or_else(|| panic!("{mode:?}: {text}"));
            let prefix = prefix.trim_end();
            assert!(events.starts_with(prefix), "{mode:?}: {text}");
            assert!(prefix.contains("\"first\""), "before its first token another lane answers: {text}");
            assert!(!error.contains("data: {\"error\"") && !text.contains("second"), "{mode:?}: {text}");
            kinds[1 + usize::from(prefix.contains("[DONE]"))] += 1;
        }
        assert!(kinds[0] > 0, "{mode:?}: {kinds:?}");
        let rows = gateway.rows();
        let calls: std::collections::BTreeSet<&str> = rows.iter().map(|row| row.call.as_str()).collect();
        assert_eq!(calls.len(), message.len(), "{mode:?}: every call is in the log");
        let requests = bad.requests().len() + good.requests().len();
        assert_eq!(rows.len(), requests, "{mode:?}: every attempt is one row");
        assert!(rows.iter().all(|row| row.end != AttemptEnd::Abandoned), "{mode:?}");
    }
}

#[test]
fn a_refusal_cut_at_every_byte_of_its_body_is_one_error_that_a_client_can_read() {
    let body = r#"{"error":{"message":"messages: too few","type":"invalid_request_error","code":null}}"#;
    let message = whole("400 Bad Request", body);
    let cuts = message.len() - body.len()..message.len();
    let strict = Scripted::start(cuts.clone().map(|end| Script::SendAndClose(message[..end].to_vec())).collect());
    let gateway = TestGateway::start(configured(vec![lane("strict", strict.address, CHAT)], Mode::Off));
    for cut in cuts {
        let answer = post(gateway.address, "/v1/chat/completions", BODY);
        let text = answer.text();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{cut}: `{text}`"));
        assert!(json["error"]["message"].is_string() && answer.status == 400, "{cut}: {} {text}", answer.status);
    }
}
