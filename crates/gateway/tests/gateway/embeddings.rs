//! Lanes without embeddings, and how the gateway finds out.

use crate::client::{get_admin, post};
use crate::harness::{TestGateway, configured, lane};
use crate::scripted::{Script, Scripted, chat_whole, whole};
use std::net::{Ipv4Addr, SocketAddr};
use tokrate_core::FailureKind;
use tokrate_gateway::{LaneConfig, Mode, RunningGateway, ServicesConfig};
use tokrate_wire::Dialect;

const BODY: &str = r#"{"model":"all","input":"hi"}"#;
const CHAT_BODY: &str = r#"{"model":"all","messages":[{"role":"user","content":"hi"}]}"#;
const EMBEDDED: &str = r#"{"object":"list","data":[],"model":"m","usage":{"prompt_tokens":3,"total_tokens":3}}"#;

fn chat_only(status: &str) -> Scripted {
    let message = r#"{"error":{"message":"The model `model-one` does not exist","code":"model_not_found"}}"#;
    Scripted::start(vec![
        Script::Send(vec![whole(status, message)]),
        Script::Send(vec![whole("200 OK", &chat_whole("yes"))]),
    ])
}

fn openai(name: &str, lane_at: &Scripted) -> LaneConfig {
    lane(name, lane_at.address, &[Dialect::OpenAiChat])
}

fn embeddings(has: bool) -> ServicesConfig {
    ServicesConfig { embeddings: Some(has), ..ServicesConfig::default() }
}

#[test]
fn lanes_without_embeddings_are_tried_once_then_skipped_and_stay_healthy() {
    let lanes = [chat_only("404 Not Found"), chat_only("405 Method Not Allowed"), chat_only("501 Not Implemented")];
    let configs = lanes.iter().zip(["one", "two", "three"]).map(|(at, name)| openai(name, at)).collect();
    let mut config = configured(configs, Mode::Off);
    config.admin = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let mut gateway = TestGateway::start(config);
    assert_eq!(post(gateway.address, "/v1/embeddings", BODY).status, 404, "as far as is known");
    for _ in 0..5 {
        let answer = post(gateway.address, "/v1/embeddings", BODY);
        assert_eq!(answer.status, 404, "{}", answer.text());
        for message in ["lane one", "lane two", "lane three", r#"`serves = [\"embeddings\"]`"#] {
            assert!(answer.text().contains(message), "{}", answer.text());
        }
    }
    assert!(lanes.iter().all(|lane| lane.requests().len() == 1), "six calls, three attempts");
    let running = gateway.running.as_ref().expect("it runs");
    let admin = running.admin().expect("an admin side");
    let page = get_admin(admin, "/api/lanes").text();
    let json: serde_json::Value = serde_json::from_str(&page).expect("JSON");
    for lane in json["lanes"].as_array().expect("lanes") {
        assert_eq!((&lane["state"], &lane["failing_share"]), (&"ready".into(), &0.0.into()), "{lane}");
    }
    assert!(running.take_breaker_notices().is_empty());
    assert_eq!(post(gateway.address, "/v1/chat/completions", CHAT_BODY).status, 200, "it chats as before");
    let rows = gateway.rows();
    let failed: Vec<_> = rows.iter().filter_map(|row| row.sample.failure).collect();
    assert_eq!(failed, [FailureKind::NotFound; 3]);
}

#[test]
fn a_chat_that_fails_says_nothing_about_embeddings() {
    let first_lane = Scripted::start(vec![
        Script::Send(vec![whole("500 Internal Server Error", "{}")]),
        Script::Send(vec![whole("200 OK", EMBEDDED)]),
    ]);
    let gateway = TestGateway::start(configured(vec![openai("one", &first_lane)], Mode::Off));
    assert_eq!(post(gateway.address, "/v1/chat/completions", CHAT_BODY).status, 502);
    let answer = post(gateway.address, "/v1/embeddings", BODY);
    assert_eq!((answer.status, answer.text().as_str()), (200, EMBEDDED));
}

#[test]
fn a_lane_with_embeddings_disabled_is_never_tried() {
    let (none, has) =
        (chat_only("404 Not Found"), Scripted::start(vec![Script::Send(vec![whole("200 OK", EMBEDDED)])]));
    let disabled = LaneConfig { services: embeddings(false), ..openai("none", &none) };
    let elsewhere = lane("elsewhere", none.address, &[Dialect::Anthropic]);
    let gateway = TestGateway::start(configured(
        vec![disabled.clone(), elsewhere.clone(), openai("has", &has)],
        Mode::Race { lanes: 2 },
    ));
    let answer = post(gateway.address, "/v1/embeddings", BODY);
    assert_eq!((answer.status, answer.header("x-tokrate-winner")), (200, Some("has")), "{}", answer.text());
    assert!(none.requests().is_empty());
    let gateway = TestGateway::start(configured(vec![disabled, elsewhere], Mode::Off));
    let answer = post(gateway.address, "/v1/embeddings", BODY);
    assert_eq!(answer.status, 404, "{}", answer.text());
    assert!(answer.text().contains("lane none has `embeddings = false`"), "{}", answer.text());
    assert!(none.requests().is_empty());
}

#[test]
fn a_lane_with_embeddings_enabled_is_tried_whatever_it_answered() {
    let stubborn = Scripted::start(vec![Script::Send(vec![whole("404 Not Found", "{}")])]);
    let config = LaneConfig { services: embeddings(true), ..openai("stubborn", &stubborn) };
    let gateway = TestGateway::start(configured(vec![config], Mode::Off));
    for _ in 0..3 {
        assert_eq!(post(gateway.address, "/v1/embeddings", BODY).status, 404);
    }
    assert_eq!(stubborn.requests().len(), 3);
    let _: &RunningGateway = gateway.running.as_ref().expect("it runs");
}
