//! A wrong key or model, and how users and clients learn of it.

use crate::client::{Answer, post};
use crate::harness::{TestGateway, configured, lane};
use crate::scripted::{Script, Scripted, chat_whole, whole};
use http::{HeaderMap, HeaderValue};
use std::net::SocketAddr;
use tokrate_gateway::{Config, LaneConfig, Mode};
use tokrate_record::AttemptEnd;
use tokrate_wire::Dialect;

const CHAT: &[Dialect] = &[Dialect::OpenAiChat];
const NO_KEY: &str = r#"{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#;
const NO_MODEL: &str = r#"{"error":{"message":"The model `model-one` does not exist","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#;
const NO_RIGHT: &str = r#"{"error":{"message":"You may not use this model","type":"permission_error"}}"#;

fn refusing(status: &str, message: &str) -> Scripted {
    Scripted::start(vec![Script::Send(vec![whole(status, message)])])
}

fn ask(gateway: &TestGateway) -> Answer {
    ask_at(gateway.address)
}

fn ask_at(address: SocketAddr) -> Answer {
    post(address, "/v1/chat/completions", r#"{"model":"all","messages":[{"role":"user","content":"hi"}]}"#)
}

fn ask_as_anthropic(gateway: &TestGateway) -> Answer {
    let body = r#"{"model":"all","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    post(gateway.address, "/v1/messages", body)
}

fn breaker_notices(gateway: &TestGateway) -> Vec<String> {
    gateway.running.as_ref().expect("it runs").take_breaker_notices()
}

#[test]
fn a_single_lanes_refusal_of_its_key_or_model_is_passed_on_and_repeated() {
    for (status, line, message) in
        [(401, "401 Unauthorized", NO_KEY), (404, "404 Not Found", NO_MODEL), (403, "403 Forbidden", NO_RIGHT)]
    {
        let first_lane = refusing(line, message);
        let mut gateway = TestGateway::start(configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off));
        for _ in 0..3 {
            let answer = ask(&gateway);
            assert_eq!((answer.status, answer.text().as_str()), (status, message));
            assert_eq!(answer.header("content-type"), Some("application/json"));
        }
        // In another dialect the error has that dialect's form.
        let other = ask_as_anthropic(&gateway);
        assert_eq!(other.status, status, "{}", other.text());
        let json: serde_json::Value = serde_json::from_slice(&other.body).expect("JSON");
        assert!(
            json["type"] == "error"
                && json["error"]["message"].as_str().is_some_and(|message| message.contains("lane one"))
        );
        assert_eq!(first_lane.requests().len(), 1, "it is left alone meanwhile");
        let lines = breaker_notices(&gateway);
        assert_eq!(lines.len(), 1, "one line a trip, not one a call: {lines:?}");
        assert!(lines[0].starts_with("lane one is out of rotation for 600 s: "), "{lines:?}");
        assert!(lines[0].contains(&format!("({status}): ")) && lines[0].contains("[gateway.lanes.one]"), "{lines:?}");
        assert_eq!(gateway.rows().len(), 1);
    }
}

#[test]
fn a_first_refusal_in_another_dialect_has_the_providers_status() {
    let first_lane = refusing("401 Unauthorized", NO_KEY);
    let gateway = TestGateway::start(configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off));
    let answer = ask_as_anthropic(&gateway);
    assert_eq!(answer.status, 401, "{}", answer.text());
    assert!(answer.text().contains("Incorrect API key provided"), "{}", answer.text());
}

#[test]
fn a_clients_own_error_does_not_replace_the_failure_that_is_remembered_of_a_lane() {
    let bad_request = r#"{"error":{"message":"messages: too few","type":"invalid_request_error"}}"#;
    let first_lane = Scripted::start(vec![
        Script::SendHoldSend(Vec::new(), whole("400 Bad Request", bad_request)),
        Script::Send(vec![whole("401 Unauthorized", NO_KEY)]),
    ]);
    let gateway = TestGateway::start(configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off));
    let address = gateway.address;
    let invalid = std::thread::spawn(move || ask_at(address));
    while first_lane.requests().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(ask(&gateway).status, 401);
    first_lane.release();
    assert_eq!(invalid.join().expect("an answer").status, 400);
    let answer = ask(&gateway);
    assert_eq!((answer.status, answer.text().as_str()), (401, NO_KEY), "as long as the lane is out of rotation");
    assert_eq!(first_lane.requests().len(), 2);
}

#[test]
fn if_no_lane_is_available_each_says_why_and_when_it_is_retried() {
    let (one, two) = (refusing("401 Unauthorized", NO_KEY), refusing("404 Not Found", &NO_MODEL.replace("one", "two")));
    let lanes = vec![lane("one", one.address, CHAT), lane("two", two.address, CHAT)];
    let gateway = TestGateway::start(configured(lanes, Mode::Off));
    assert_eq!(ask(&gateway).status, 502);
    for _ in 0..3 {
        let answer = ask(&gateway);
        assert_eq!(answer.status, 503);
        let json: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
        let message = json["error"]["message"].as_str().expect("a message");
        for expected in [
            "lane one: unauthorized (401): Incorrect API key provided, retried in ",
            "lane two: model not found (404): The model `model-two` does not exist, retried in ",
        ] {
            assert!(message.contains(expected), "{message}");
        }
        assert!(answer.header("retry-after").is_some());
    }
    assert_eq!((one.requests().len(), two.requests().len()), (1, 1));
    assert_eq!(breaker_notices(&gateway).len(), 2);
    assert!(breaker_notices(&gateway).is_empty(), "each is reported once");
}

#[test]
fn a_corrected_key_is_tried_as_soon_as_the_settings_are_reloaded() {
    let first_lane = Scripted::start(vec![
        Script::Send(vec![whole("401 Unauthorized", NO_KEY)]),
        Script::Send(vec![whole("200 OK", &chat_whole("yes"))]),
    ]);
    let keyed = |key: &str| {
        let mut value = HeaderValue::from_str(&format!("Bearer {key}")).expect("a value");
        value.set_sensitive(true);
        let mut lane: LaneConfig = lane("one", first_lane.address, CHAT);
        lane.endpoints[0].headers = HeaderMap::from_iter([(http::header::AUTHORIZATION, value)]);
        lane
    };
    let config = configured(vec![keyed("sk-wrong-key-0123456")], Mode::Off);
    let mut gateway = TestGateway::start(config.clone());
    assert_eq!(ask(&gateway).status, 401);
    let running = gateway.running.as_ref().expect("it runs");
    running.reconfigure(&config).expect("the same");
    assert_eq!(ask(&gateway).status, 401, "nothing was changed");
    running.reconfigure(&Config { lanes: vec![keyed("sk-right-key-0123456")], ..config }).expect("another key");
    assert_eq!(ask(&gateway).status, 200);
    let ends: Vec<_> = gateway.rows().iter().map(|row| row.end).collect();
    assert_eq!(ends, [AttemptEnd::Failed, AttemptEnd::Answered]);
}
