//! A provider that echoes the gateway's key wherever it can, and where the key must not appear.

use crate::client::{get_admin, post};
use crate::harness::{TestGateway, configured, lane};
use crate::scripted::{Script, Scripted, chat_events, chat_whole, stream, whole};
use http::{HeaderMap, HeaderValue};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokrate_gateway::{LaneConfig, Mode};
use tokrate_net::{Authorization, Authorize, AuthorizeFuture, Secrets, Unauthorized};
use tokrate_wire::Dialect;

const KEY: &str = "sk-lane-0123456789-abcdef";
const CHAT: &[Dialect] = &[Dialect::OpenAiChat];

fn keyed(address: SocketAddr) -> LaneConfig {
    let mut lane = lane("one", address, CHAT);
    let mut value = HeaderValue::from_str(&format!("Bearer {KEY}")).expect("a value");
    value.set_sensitive(true);
    lane.endpoints[0].headers = HeaderMap::from_iter([(http::header::AUTHORIZATION, value)]);
    lane
}

/// A token that expires, which authorises requests in place of a header.
#[derive(Debug)]
struct Token;

impl Authorize for Token {
    fn authorize<'a>(&'a self, _: Unauthorized<'a>) -> AuthorizeFuture<'a> {
        Box::pin(async {
            let mut value = HeaderValue::from_str(&format!("Bearer {KEY}")).expect("a value");
            value.set_sensitive(true);
            let headers = HeaderMap::from_iter([(http::header::AUTHORIZATION, value)]);
            Ok(Authorization { secrets: Secrets::of(&headers), headers, ..Authorization::default() })
        })
    }
}

fn authorized(address: SocketAddr) -> LaneConfig {
    let mut lane = lane("one", address, CHAT);
    lane.endpoints[0].authorizer = Some(Arc::new(Token));
    lane
}

/// A token that cannot be had.
#[derive(Debug)]
struct NoToken;

impl Authorize for NoToken {
    fn authorize<'a>(&'a self, _: Unauthorized<'a>) -> AuthorizeFuture<'a> {
        Box::pin(async { Err("get credentials of AWS: the environment: AWS_ACCESS_KEY_ID is not set".into()) })
    }
}

#[test]
fn a_lane_without_credentials_is_told_apart_and_another_lane_answers() {
    let second_lane = Scripted::start(vec![Script::Send(vec![whole("200 OK", &chat_whole("yes"))])]);
    let mut first = lane("one", second_lane.address, CHAT);
    first.endpoints[0].authorizer = Some(Arc::new(NoToken));
    let mut config = configured(vec![first, lane("two", second_lane.address, CHAT)], Mode::Off);
    config.aliases[0].policy = tokrate_gateway::Policy::Fixed;
    let mut gateway = TestGateway::start(config);
    let body = r#"{"model":"all","messages":[{"role":"user","content":"hi"}]}"#;
    let answer = post(gateway.address, "/v1/chat/completions", body);
    assert_eq!((answer.status, answer.text()), (200, chat_whole("yes")));
    let rows = gateway.rows();
    let failed = rows.iter().find(|row| row.lane == "one").expect("an attempt");
    assert_eq!(failed.sample.failure, Some(tokrate_core::FailureKind::Unauthorized));
    let mut alone = lane("one", second_lane.address, CHAT);
    alone.endpoints[0].authorizer = Some(Arc::new(NoToken));
    let gateway = TestGateway::start(configured(vec![alone], Mode::Off));
    let answer = post(gateway.address, "/v1/chat/completions", body);
    assert_eq!(answer.status, 502, "{}", answer.text());
    assert!(answer.text().contains("AWS_ACCESS_KEY_ID is not set"), "{}", answer.text());
}

/// How a lane gets its key.
const WAYS: [fn(SocketAddr) -> LaneConfig; 2] = [keyed, authorized];

/// The key as JSON may escape it.
fn escaped_key() -> String {
    KEY.replace('-', "\\u002d")
}

/// The same response with the key in headers that are forwarded.
fn with_headers(answer: Vec<u8>) -> Vec<u8> {
    let text = String::from_utf8(answer).expect("text");
    let headers = format!("\r\nx-ratelimit-key: {KEY}\r\nrequest-id: req-{KEY}\r\nx-request-id: {KEY}\r\n");
    text.replacen("\r\n", &headers, 1).into_bytes()
}

fn holds_the_key(text: &str) -> bool {
    text.replace("\\u002d", "-").contains("0123456789")
}

#[test]
fn a_key_that_a_provider_echoes_reaches_neither_the_client_nor_the_log_nor_the_page() {
    let name = |text: String, key: &str| {
        text.replace("\"m\"", &format!("\"{key}\"")).replace("\"x\"", &format!("\"id-{key}\""))
    };
    let refused = |key: &str| {
        format!(r#"{{"error":{{"message":"bad key {key}","type":"invalid_request_error","code":"{key}"}}}}"#)
    };
    let broken = |key: &str| {
        let events = chat_events(&["one"]);
        let first = &events[..events
            .find("\"content\":\"one\"")
            .and_then(|at| Some(at + events[at..].find("\n\n")? + 2))
            .expect("an event")];
        format!("{first}data: {{\"error\":{{\"message\":\"no more for {key}\"}}}}\n\n")
    };
    let embedded =
        |key: &str| format!(r#"{{"object":"list","data":[],"model":"{key}","usage":{{"prompt_tokens":3}}}}"#);
    let body = |stream: bool| {
        format!(r#"{{"model":"all","max_tokens":9,"stream":{stream},"messages":[{{"role":"user","content":"hi"}}]}}"#)
    };
    let mut seen = 0;
    for key in [KEY.to_owned(), escaped_key()] {
        for (path, request, response) in [
            ("/v1/chat/completions", body(true), stream(&name(chat_events(&["one", " two"]), &key))),
            ("/v1/chat/completions", body(false), whole("200 OK", &name(chat_whole("one two"), &key))),
            ("/v1/chat/completions", body(false), whole("200 OK", &chat_whole(&format!("your key is {key}")))),
            ("/v1/chat/completions", body(true), stream(&broken(&key))),
            ("/v1/chat/completions", body(true), whole("400 Bad Request", &refused(&key))),
            ("/v1/chat/completions", body(false), whole("401 Unauthorized", &refused(&key))),
            ("/v1/messages", body(true), stream(&name(chat_events(&["one"]), &key))),
            ("/v1/messages", body(true), stream(&broken(&key))),
            ("/v1/messages", body(false), whole("200 OK", &chat_whole(&format!("your key is {key}")))),
            ("/v1/messages", body(false), whole("500 Internal Server Error", &refused(&key))),
            ("/v1/embeddings", r#"{"model":"all","input":"hi"}"#.to_owned(), whole("200 OK", &embedded(&key))),
        ] {
            let response = with_headers(response);
            // Cut anywhere, also within the key; a header of every request, or a token that authorises it.
            for (size, keyed) in [7, response.len()].into_iter().flat_map(|size| WAYS.map(|way| (size, way))) {
                let first_lane =
                    Scripted::start(vec![Script::Send(response.chunks(size).map(<[u8]>::to_vec).collect())]);
                let mut config = configured(vec![keyed(first_lane.address)], Mode::Off);
                config.admin = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
                let mut gateway = TestGateway::start(config);
                let answer = post(gateway.address, path, &request);
                let context = format!("{path} {request}: {} {}", answer.head, answer.text());
                assert!(!holds_the_key(&answer.head) && !holds_the_key(&answer.text()), "{context}");
                assert!(
                    answer.head.contains("***") || answer.text().contains("***"),
                    "something was taken out: {context}"
                );
                let admin =
                    gateway.running.as_ref().and_then(tokrate_gateway::RunningGateway::admin).expect("an admin side");
                for page in ["/", "/api/calls", "/api/lanes", "/metrics"] {
                    let headers = get_admin(admin, page);
                    assert_eq!(headers.status, 200, "{page}: {}", headers.text());
                    assert!(!holds_the_key(&headers.text()), "{page} {context}");
                }
                let troubles = gateway.running.as_ref().expect("it runs").take_breaker_notices();
                assert!(!troubles.iter().any(|line| holds_the_key(line)), "{troubles:?}");
                let rows = serde_json::to_string(&gateway.rows()).expect("plain data");
                assert!(!holds_the_key(&rows), "{rows}");
                assert!(first_lane.requests()[0].head.contains(KEY), "it was shown to the lane");
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 88);
}

#[test]
fn a_key_that_the_client_sent_itself_comes_back_as_it_is() {
    let first_lane = Scripted::start(vec![Script::Send(vec![whole("200 OK", &chat_whole(&format!("KEY={KEY}")))])]);
    let gateway = TestGateway::start(configured(vec![keyed(first_lane.address)], Mode::Off));
    let body = format!(r#"{{"model":"all","messages":[{{"role":"user","content":"change KEY={KEY}"}}]}}"#);
    let answer = post(gateway.address, "/v1/chat/completions", &body);
    assert!(answer.text().contains(&format!("KEY={KEY}")), "{}", answer.text());
}

#[test]
fn a_name_of_a_megabyte_is_cut_in_the_log_and_commands_to_a_terminal_are_left_out() {
    let name = format!("\\u001b[2J{}", "m".repeat(1 << 20));
    let response = chat_whole("yes").replace("\"m\"", &format!("\"{name}\""));
    let first_lane = Scripted::start(vec![Script::Send(vec![whole("200 OK", &response)])]);
    let mut gateway = TestGateway::start(configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off));
    let body = r#"{"model":"all","messages":[{"role":"user","content":"hi"}]}"#;
    assert_eq!(
        post(gateway.address, "/v1/chat/completions", body).text(),
        response,
        "to the client it comes as it was said"
    );
    let rows = gateway.rows();
    let model = rows[0].sample.model_answered.as_deref().expect("a model");
    assert!(model.len() <= 256 && model.starts_with("[2Jmmm") && model.ends_with('…'), "{model}");
}
