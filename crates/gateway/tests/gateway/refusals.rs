//! Requests and configurations that are rejected, and how.

use crate::client::{ask, post, read_answer, request};
use crate::harness::{TestGateway, configured, lane};
use crate::scripted::{Script, Scripted, chat_whole, whole};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use tokrate_admin::Admin;
use tokrate_core::Money;
use tokrate_gateway::{Gateway, GatewayError, KeyConfig, KeyLimits, LaneConfig, Mode, key_hash};
use tokrate_net::Target;
use tokrate_wire::Dialect;

const CHAT: &[Dialect] = &[Dialect::OpenAiChat];
const BODY: &str = r#"{"model":"all","messages":[{"role":"user","content":"hi"}]}"#;

fn answering() -> Scripted {
    Scripted::start(vec![Script::Send(vec![whole("200 OK", &chat_whole("yes"))])])
}

#[test]
fn malformed_requests_are_rejected_in_the_clients_dialect_and_reach_no_lane() {
    let first_lane = answering();
    let mut config = configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off);
    config.limits.request_bytes = 2_000;
    let gateway = TestGateway::start(config);
    let deep = format!("{{\"model\":\"all\",\"messages\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let large = format!("{{\"model\":\"all\",\"x\":\"{}\"}}", "y".repeat(3_000));
    for (body, status, expected) in [
        ("", 400, ""),
        ("{", 400, ""),
        ("[]", 400, ""),
        ("{\"messages\":[]}", 400, "model"),
        ("{\"model\":1}", 400, "model"),
        ("{\"model\":\"all\",\"model\":\"other\"}", 400, "model"),
        ("{\"model\":\"all\"} {}", 400, ""),
        ("{\"model\":\"nobody\"}", 404, "GET /v1/models"),
        (deep.as_str(), 400, ""),
        (large.as_str(), 413, "request_bytes"),
    ] {
        let answer = post(gateway.address, "/v1/chat/completions", body);
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
        // The unread rest of the body makes the connection unusable.
        assert_eq!(answer.header("connection"), (status == 413).then_some("close"), "{body}");
        let json: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
        let message = json["error"]["message"].as_str().expect("OpenAI's form");
        assert!(message.contains(expected), "{body}: {message}");
        let json: serde_json::Value =
            serde_json::from_slice(&post(gateway.address, "/v1/messages", body).body).expect("JSON");
        assert_eq!(json["type"], "error", "Anthropic's form: {json}");
    }
    assert!(first_lane.requests().is_empty());
    for (method, path, status) in [
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/v1/nothing", 404),
        ("GET", "/", 404),
        ("DELETE", "/v1/models", 405),
    ] {
        assert_eq!(ask(gateway.address, method, path, &[], b"").status, status, "{method} {path}");
    }
    let answer = ask(gateway.address, "POST", "/v1/chat/completions", &[("x-tokrate-mode", "sprint")], BODY.as_bytes());
    assert_eq!(answer.status, 400, "{}", answer.text());
}

#[test]
fn with_keys_configured_every_call_needs_one_and_each_has_its_limits() {
    let first_lane = answering();
    let mut config = configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off);
    let key = |name: &str, aliases: &[&str], limits| KeyConfig {
        name: name.to_owned(),
        sha256: key_hash(&format!("sk-{name}")),
        aliases: aliases.iter().map(|alias| (*alias).to_owned()).collect(),
        limits,
    };
    config.keys = vec![
        key("free", &[], KeyLimits::default()),
        key("narrow", &["one"], KeyLimits::default()),
        key("slow", &[], KeyLimits { requests_per_minute: Some(1), ..KeyLimits::default() }),
        key("poor", &[], KeyLimits { usd_per_month: Money::from_usd(1e-5), ..KeyLimits::default() }),
    ];
    let mut gateway = TestGateway::start(config);
    let with = |key: &str| {
        let bearer = format!("Bearer {key}");
        ask(gateway.address, "POST", "/v1/chat/completions", &[("authorization", &bearer)], BODY.as_bytes())
    };
    assert_eq!(post(gateway.address, "/v1/chat/completions", BODY).status, 401);
    assert_eq!(with("sk-wrong").status, 401);
    assert_eq!(ask(gateway.address, "GET", "/v1/models", &[], b"").status, 401);
    assert_eq!(ask(gateway.address, "GET", "/healthz", &[], b"").status, 200);
    assert_eq!(with("sk-free").status, 200);
    assert_eq!(with("sk-narrow").status, 403);
    assert_eq!(with("sk-slow").status, 200);
    let refused = with("sk-slow");
    assert_eq!(refused.status, 429);
    let wait: u64 = refused.header("retry-after").and_then(|wait| wait.parse().ok()).expect("how long to wait");
    assert!((1..=60).contains(&wait), "{wait}");
    // The first call's cost is known once it has ended; the budget is spent then.
    let spent = [with("sk-poor").status, with("sk-poor").status];
    assert_eq!(spent[1], 429, "{spent:?}");
    let listed = ask(gateway.address, "GET", "/v1/models", &[("x-api-key", "sk-narrow")], b"").text();
    assert!(listed.contains("\"id\":\"one\"") && !listed.contains("\"id\":\"all\""), "{listed}");
    let requests = first_lane.requests();
    assert!(requests.iter().all(|requests| !requests.head.contains("sk-")), "a client's key stays here");
    let rows = gateway.rows();
    assert_eq!(rows.iter().filter(|row| row.key.as_deref() == Some("free")).count(), 1);
    let row =
        |key: Option<&str>, alias: Option<&str>, reason| (key.map(str::to_owned), alias.map(str::to_owned), reason);
    let poor = spent.iter().filter(|status| **status == 429).count() as u64;
    let expected = BTreeMap::from([
        (row(None, None, "unauthorized"), 3),
        (row(Some("narrow"), Some("all"), "forbidden"), 1),
        // It is refused before its body is read.
        (row(Some("slow"), None, "too_many_requests"), 1),
        (row(Some("poor"), Some("all"), "budget_spent"), poor),
    ]);
    assert_eq!(gateway.refusals(), expected);
}

#[test]
fn what_a_client_writes_is_not_in_the_row_of_its_refusal_and_a_call_that_is_answered_has_none() {
    let first_lane = answering();
    let mut gateway = TestGateway::start(configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off));
    for n in 0..50 {
        let body = format!("{{\"model\":\"made-up-{n}\"}}");
        assert_eq!(post(gateway.address, "/v1/chat/completions", &body).status, 404);
    }
    assert_eq!(post(gateway.address, "/v1/chat/completions", BODY).status, 200);
    assert_eq!(gateway.refusals(), BTreeMap::from([((None, None, "not_found"), 50)]));
}

#[test]
fn a_public_address_needs_a_key() {
    let mut config = configured(vec![lane("one", SocketAddr::from(([127, 0, 0, 1], 1)), CHAT)], Mode::Off);
    config.listen = SocketAddr::from(([0, 0, 0, 0], 0));
    config.log = None;
    assert!(matches!(Gateway::start(config, Admin::new), Err(GatewayError::Public(_))));
}

#[test]
fn a_public_admin_address_needs_a_key() {
    let mut config = configured(vec![lane("one", SocketAddr::from(([127, 0, 0, 1], 1)), CHAT)], Mode::Off);
    config.admin = Some(SocketAddr::from(([0, 0, 0, 0], 0)));
    config.log = None;
    assert!(matches!(Gateway::start(config.clone(), Admin::new), Err(GatewayError::PublicAdmin(_))));
    config.admin_key = Some(key_hash("sk-admin"));
    let gateway = TestGateway::start(config.clone());
    let running = gateway.running.as_ref().expect("it runs");
    let address = running.admin().expect("it was asked for");
    let address = SocketAddr::from(([127, 0, 0, 1], address.port()));
    let with = |headers: &[(&str, &str)], path| ask(address, "GET", path, headers, b"");
    for path in ["/", "/metrics", "/api/lanes", "/style.css", "/readyz", "/nothing"] {
        let refused = with(&[], path);
        assert_eq!(refused.status, 401, "{path}");
        assert!(refused.header("www-authenticate").is_some_and(|value| value.starts_with("Basic ")), "{path}");
        assert_eq!(with(&[("authorization", "Bearer sk-other")], path).status, 401, "{path}");
    }
    assert_eq!(with(&[], "/healthz").status, 200);
    // `anybody:sk-admin`
    for key in ["Bearer sk-admin", "Basic YW55Ym9keTpzay1hZG1pbg=="] {
        assert_eq!(with(&[("authorization", key)], "/metrics").status, 200, "{key}");
        assert_eq!(with(&[("authorization", key)], "/").status, 200, "{key}");
    }
    // It cannot be removed while the address stays.
    let gone = running.reconfigure(&tokrate_gateway::Config { admin_key: None, admin: None, ..config.clone() });
    assert!(matches!(gone, Err(GatewayError::PublicAdmin(_))));
    running.reconfigure(&tokrate_gateway::Config { admin_key: Some(key_hash("sk-new")), ..config }).expect("a key");
    assert_eq!(with(&[("authorization", "Bearer sk-admin")], "/metrics").status, 401);
    assert_eq!(with(&[("authorization", "Bearer sk-new")], "/metrics").status, 200);
}

/// A lane whose host name needs no resolver to be invalid: labels have at most 63 letters.
fn lane_without_address(name: &str) -> LaneConfig {
    let mut lane = lane(name, SocketAddr::from(([127, 0, 0, 1], 1)), CHAT);
    lane.endpoints[0].base = Target::parse(&format!("http://{}.invalid:1/v1", "a".repeat(64))).expect("a URL");
    lane
}

#[test]
fn a_lane_without_an_address_is_skipped_and_the_others_serve() {
    let good = answering();
    let mut gateway = TestGateway::start(configured(
        vec![lane_without_address("lost"), lane("good", good.address, CHAT)],
        Mode::Race { lanes: 2 },
    ));
    let json = gateway.running.as_ref().expect("it runs").unresolved();
    assert!(json.len() == 1 && json[0].starts_with("lane lost: "), "{json:?}");
    assert_eq!(post(gateway.address, "/v1/chat/completions", BODY).status, 200);
    let alone = post(gateway.address, "/v1/chat/completions", &BODY.replace("all", "lost"));
    assert_eq!((alone.status, alone.header("retry-after")), (503, Some("60")), "{}", alone.text());
    assert!(alone.text().contains("lane lost") && alone.text().contains(".invalid"), "{}", alone.text());
    let rows = gateway.rows();
    assert!(rows.len() == 1 && rows[0].lane == "good", "{rows:?}");
}

#[test]
fn a_gateway_without_any_address_starts_and_says_why() {
    let gateway =
        TestGateway::start(configured(vec![lane_without_address("lost"), lane_without_address("gone")], Mode::Off));
    let answer = post(gateway.address, "/v1/chat/completions", BODY);
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.text().contains("lane lost") && answer.text().contains("find the address of"), "{}", answer.text());
    assert_eq!(ask(gateway.address, "GET", "/v1/models", &[], b"").status, 200);
    assert_eq!(gateway.running.as_ref().expect("it runs").unresolved().len(), 2);
}

#[test]
fn a_thread_that_a_lane_cannot_continue_is_rejected_as_anthropics_sdks_expect() {
    let first_lane = answering();
    let gateway = TestGateway::start(configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off));
    let ask = |more: &str| {
        let body = format!(r#"{{"model":"all","max_tokens":9,"messages":[{{"role":"user","content":"hi"}}]{more}}}"#);
        let answer = post(gateway.address, "/v1/messages", &body);
        let json: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
        (
            answer.status,
            json["error"]["type"].clone(),
            json["error"]["details"].clone(),
            json["error"]["message"].clone(),
        )
    };
    let (status, kind, details, message) = ask(r#","thread":{"type":"create"}"#);
    assert_eq!((status, kind), (400, "invalid_request_error".into()));
    assert_eq!(details, serde_json::json!({ "error_code": "thread_unsupported_request" }));
    assert!(message.as_str().is_some_and(|message| message.contains("`thread`")), "{message}");
    let (status, _, details, _) = ask(r#","diagnostics":{}"#);
    assert_eq!((status, details), (400, serde_json::Value::Null), "of other fields nothing of the kind is said");
    assert_eq!(ask("").0, 200);
    assert_eq!(first_lane.requests().len(), 1);
}

#[test]
fn request_smuggling_is_rejected() {
    let first_lane = answering();
    let gateway = TestGateway::start(configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off));
    for head in [
        "content-length: 5\r\ncontent-length: 6\r\n",
        "content-length: 5\r\ntransfer-encoding: identity\r\n",
        "content-length: -1\r\n",
        "transfer-encoding: chunked, identity\r\n",
        "content-length : 5\r\n",
    ] {
        let mut stream = TcpStream::connect(gateway.address).expect("it listens");
        let text = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n{head}\r\nhello");
        stream.write_all(text.as_bytes()).expect("it reads");
        stream.shutdown(std::net::Shutdown::Write).expect("it is open");
        let mut bytes = Vec::new();
        drop(std::io::Read::read_to_end(&mut stream, &mut bytes));
        let response = String::from_utf8_lossy(&bytes).into_owned();
        assert!(response.is_empty() || response.starts_with("HTTP/1.1 400"), "{head}: {response}");
        assert!(response.matches("HTTP/1.1").count() <= 1, "{head}: {response}");
    }
    let bomb = format!("x-bomb: {}\r\n", "b".repeat(300_000));
    let mut stream = TcpStream::connect(gateway.address).expect("it listens");
    drop(stream.write_all(format!("GET /v1/models HTTP/1.1\r\nhost: localhost\r\n{bomb}\r\n").as_bytes()));
    let mut bytes = Vec::new();
    drop(std::io::Read::read_to_end(&mut stream, &mut bytes));
    let response = String::from_utf8_lossy(&bytes).into_owned();
    assert!(
        response.is_empty() || response.starts_with("HTTP/1.1 431") || response.starts_with("HTTP/1.1 400"),
        "{response}"
    );
    assert!(first_lane.requests().is_empty());
}

#[test]
fn new_settings_apply_from_the_next_call_and_invalid_ones_change_nothing() {
    let (old, new) = (answering(), answering());
    let config = configured(vec![lane("one", old.address, CHAT)], Mode::Off);
    let gateway = TestGateway::start(config.clone());
    let running = gateway.running.as_ref().expect("it runs");
    let mut stream = TcpStream::connect(gateway.address).expect("it listens");
    let mut again = || {
        stream.write_all(&request("POST", "/v1/chat/completions", &[], BODY.as_bytes())).expect("it reads");
        read_answer(&mut stream).status
    };
    assert_eq!(again(), 200);
    let mut changed = config.clone();
    changed.lanes = vec![lane("one", new.address, CHAT)];
    running.reconfigure(&changed).expect("it is in order");
    assert_eq!(again(), 200, "on a connection that was open");
    assert_eq!((old.requests().len(), new.requests().len()), (1, 1));
    changed.lanes.clear();
    assert!(matches!(running.reconfigure(&changed), Err(GatewayError::NoLanes)));
    assert_eq!(again(), 200);
    assert_eq!((old.requests().len(), new.requests().len()), (1, 2));
}
