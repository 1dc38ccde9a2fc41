//! Access control: web pages of other sites, foreign host names, crowds without a key, requests that are never
//! finished.

use crate::client::{Answer, ask, post, read_answer, read_until, request};
use crate::harness::{TestGateway, configured, lane};
use crate::scripted::{Script, Scripted, chat_whole, whole};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use tokrate_gateway::{Config, KeyConfig, KeyLimits, Mode, key_hash};
use tokrate_wire::Dialect;

const CHAT: &str = "/v1/chat/completions";
const BODY: &str = r#"{"model":"all","messages":[{"role":"user","content":"hi"}]}"#;
/// Far longer than anything here takes.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(20);

fn answering() -> Scripted {
    Scripted::start(vec![Script::Send(vec![whole("200 OK", &chat_whole("yes"))])])
}

fn config(first_lane: &Scripted) -> Config {
    let lanes = ["one", "two", "three"].map(|name| lane(name, first_lane.address, &[Dialect::OpenAiChat]));
    configured(lanes.to_vec(), Mode::Race { lanes: 3 })
}

fn key(limits: KeyLimits) -> KeyConfig {
    KeyConfig { name: "team".to_owned(), sha256: key_hash("sk-team"), aliases: Vec::new(), limits }
}

/// Sends exactly these header lines, and a body.
fn raw(address: SocketAddr, lines: &[&str], body: &str) -> Answer {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let head: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).expect("it reads");
    read_answer(&mut stream)
}

#[test]
fn a_web_page_cannot_make_calls_and_a_foreign_host_name_is_rejected() {
    let first_lane = answering();
    let mut config = config(&first_lane);
    config.hosts = vec!["gateway.example".to_owned()];
    config.origins = vec!["https://app.example".to_owned()];
    let gateway = TestGateway::start(config);
    let length = format!("content-length: {}", BODY.len());
    let requests = |host: &str, more: &[&str]| {
        let host = format!("host: {host}");
        let lines = [&["POST /v1/chat/completions HTTP/1.1", &host, &length], more].concat();
        raw(gateway.address, &lines, BODY)
    };
    let (here, json) = (gateway.address.to_string(), "content-type: application/json");
    // What `fetch(…, {mode: "no-cors"})` sends from a page on another port, from a file, and from a form.
    for more in [
        ["origin: http://127.0.0.1:9000", "content-type: text/plain;charset=UTF-8", "sec-fetch-site: same-site"],
        ["origin: null", "content-type: text/plain", "sec-fetch-site: cross-site"],
        ["origin: http://evil.example", "content-type: application/x-www-form-urlencoded", "sec-fetch-mode: navigate"],
        ["origin: http://evil.example", json, "x: y"],
    ] {
        let answer = requests(&here, &more);
        assert_eq!(answer.status, 403, "{more:?}: {}", answer.text());
        assert!(answer.text().contains("`origins` under [gateway]"), "{}", answer.text());
    }
    assert_eq!(requests(&here, &["content-type: text/plain"]).status, 415);
    assert_eq!(requests(&here, &[]).status, 415, "a page can send what has no type");
    for host in ["evil.example", "127.0.0.1.evil.example:8411"] {
        let answer = requests(host, &[json]);
        assert_eq!(answer.status, 421, "{host}: {}", answer.text());
        let json: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
        let message = json["error"]["message"].as_str().expect("OpenAI's form");
        assert!(message.contains(host) && message.contains("`hosts` under [gateway]"), "{message}");
    }
    let lines = ["POST /v1/messages HTTP/1.1", "host: evil.example", json, "content-length: 2"];
    assert!(raw(gateway.address, &lines, "{}").text().starts_with(r#"{"type":"error""#), "Anthropic's form");
    assert_eq!(raw(gateway.address, &["GET /v1/models HTTP/1.1", "host: evil.example"], "").status, 421);
    assert!(first_lane.requests().is_empty(), "no lane was asked, and nothing was spent");
    assert_eq!(requests("gateway.example", &[json]).status, 200);
    let answer = requests(&here, &[json, "origin: https://app.example", "sec-fetch-site: cross-site"]);
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some("https://app.example")));
    let preflight = [
        "OPTIONS /v1/chat/completions HTTP/1.1",
        "host: localhost",
        "origin: https://app.example",
        "access-control-request-method: POST",
        "access-control-request-headers: authorization,content-type",
    ];
    let answer = raw(gateway.address, &preflight, "");
    let allowed = answer.header("access-control-allow-headers");
    assert_eq!((answer.status, allowed), (204, Some("authorization,content-type")));
    let methods = |path: &str| {
        let asks = format!("OPTIONS {path} HTTP/1.1");
        let lines =
            [asks.as_str(), "host: localhost", "origin: https://app.example", "access-control-request-method: DELETE"];
        raw(gateway.address, &lines, "").header("access-control-allow-methods").map(str::to_owned)
    };
    for (path, listed) in [
        ("/v1/files/file-1", "GET, POST, DELETE"),
        ("/v1/responses/resp_1", "GET, POST, DELETE"),
        ("/v1/responses/resp_1/cancel", "GET, POST"),
        ("/v1/files", "GET, POST"),
        ("/v1/chat/completions", "GET, POST"),
        ("/v1/nothing", "GET, POST"),
    ] {
        assert_eq!(methods(path).as_deref(), Some(listed), "{path}");
    }
}

#[test]
fn the_admin_side_has_the_same_rules_with_a_key_and_without() {
    let first_lane = answering();
    for admin_key in [None, Some(key_hash("sk-admin"))] {
        let mut config = config(&first_lane);
        config.admin = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        config.admin_key = admin_key;
        config.hosts = vec!["metrics.example".to_owned()];
        let gateway = TestGateway::start(config);
        let admin =
            gateway.running.as_ref().and_then(tokrate_gateway::RunningGateway::admin).expect("it was asked for");
        let get = |host: &str, more: &str| {
            let host = format!("host: {host}");
            raw(admin, &["GET /metrics HTTP/1.1", &host, "authorization: Bearer sk-admin", more], "").status
        };
        assert_eq!(get("evil.example", "x: y"), 421);
        assert_eq!(get("metrics.example:1234", "x: y"), 200);
        assert_eq!(get("localhost", "origin: http://evil.example"), 403);
        assert_eq!(get("localhost", "sec-fetch-site: cross-site"), 403);
        let link = "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\nsec-fetch-dest: document";
        assert_eq!(get("localhost", link), 200, "a link on another page may be followed");
    }
}

#[test]
fn a_keys_limit_of_concurrent_calls_holds_before_any_of_a_body_is_read() {
    let first_lane = answering();
    let mut config = config(&first_lane);
    config.keys = vec![key(KeyLimits { streams: Some(1), ..KeyLimits::default() })];
    let gateway = TestGateway::start(config);
    let head = |length: usize| {
        format!(
            "POST {CHAT} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer sk-team\r\ncontent-type: application/json\r\n\
             expect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
        )
    };
    let mut first = TcpStream::connect(gateway.address).expect("it listens");
    first.write_all(head(BODY.len()).as_bytes()).expect("it reads");
    read_until(&mut first, "100 Continue");
    for _ in 0..30 {
        let mut more = TcpStream::connect(gateway.address).expect("it listens");
        more.set_read_timeout(Some(TIMEOUT)).expect("a bound");
        more.write_all(head(31 << 20).as_bytes()).expect("it reads");
        let answer = read_answer(&mut more);
        assert_eq!(answer.status, 429, "{}", answer.text());
        assert!(answer.text().contains("concurrent calls"), "{}", answer.text());
    }
    first.write_all(BODY.as_bytes()).expect("it reads");
    assert_eq!(read_answer(&mut first).status, 200);
    let with = |body: &str| {
        let headers = [("authorization", "Bearer sk-team"), ("content-type", "application/json")];
        ask(gateway.address, "POST", CHAT, &headers, body.as_bytes()).status
    };
    assert_eq!(with("{"), 400, "a call that came to nothing gives back its place");
    assert_eq!(with(BODY), 200);
}

#[test]
fn bodies_beyond_the_shared_limit_are_rejected_by_their_head_and_small_ones_pass() {
    let first_lane = answering();
    let mut config = config(&first_lane);
    config.limits.bodies_bytes = 8 << 20;
    config.limits.request_bytes = 6 << 20;
    let gateway = TestGateway::start(config);
    let head = |length: usize| {
        format!(
            "POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        )
    };
    let mut first = TcpStream::connect(gateway.address).expect("it listens");
    first.write_all(head(5 << 20).as_bytes()).expect("it reads");
    first.write_all(&vec![b' '; 4 << 20]).expect("it reads");
    // The bytes may still be in transit; once they were read, there is no room for as much again.
    let refused = loop {
        let mut more = TcpStream::connect(gateway.address).expect("it listens");
        more.set_read_timeout(Some(std::time::Duration::from_millis(50))).expect("a bound");
        more.write_all(head(5 << 20).as_bytes()).expect("it reads");
        let mut byte = [0];
        if more.read(&mut byte).is_ok_and(|count| count == 1) {
            more.set_read_timeout(Some(TIMEOUT)).expect("a bound");
            break crate::client::read_answer_after(byte.to_vec(), &mut more);
        }
    };
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")), "{}", refused.text());
    assert!(refused.text().contains("`bodies_bytes`"), "{}", refused.text());
    assert_eq!(post(gateway.address, CHAT, BODY).status, 200);
    drop(first);
    // A client that disconnects releases its bytes.
    let large = format!("{{\"model\":\"all\",\"messages\":[],\"x\":\"{}\"}}", "y".repeat(5 << 20));
    let mut last = post(gateway.address, CHAT, &large);
    while last.status == 503 {
        last = post(gateway.address, CHAT, &large);
    }
    assert_eq!(last.status, 200, "{}", last.text());
}

#[test]
fn a_crowd_without_a_key_does_not_shut_out_a_client_with_one() {
    let first_lane = answering();
    let mut config = config(&first_lane);
    config.keys = vec![key(KeyLimits::default())];
    config.limits.connections = Some(32);
    config.workers = 2;
    let gateway = TestGateway::start(config);
    let headers = [("authorization", "Bearer sk-team"), ("content-type", "application/json")];
    let mut crowd = Vec::new();
    for number in 0..200 {
        let mut stream = TcpStream::connect(gateway.address).expect("it listens");
        if number % 2 == 0 {
            stream.write_all(b"POST /v1/chat").expect("taken");
        }
        crowd.push(stream);
        if number % 20 == 0 {
            assert_eq!(ask(gateway.address, "POST", CHAT, &headers, BODY.as_bytes()).status, 200, "among {number}");
        }
    }
    assert_eq!(ask(gateway.address, "POST", CHAT, &headers, BODY.as_bytes()).status, 200);
}

#[test]
fn a_kept_connection_with_a_key_is_not_closed_for_a_crowd_without_one() {
    let first_lane = answering();
    let mut config = config(&first_lane);
    config.keys = vec![key(KeyLimits::default())];
    config.limits.connections = Some(32);
    let gateway = TestGateway::start(config);
    let headers = [("authorization", "Bearer sk-team"), ("content-type", "application/json")];
    let requests = request("POST", CHAT, &headers, BODY.as_bytes());
    let mut kept = TcpStream::connect(gateway.address).expect("it listens");
    kept.write_all(&requests).expect("it reads");
    assert_eq!(read_answer(&mut kept).status, 200);
    let crowd: Vec<_> = (0..200).map(|_| TcpStream::connect(gateway.address).expect("it listens")).collect();
    // It is accepted after all of them.
    assert_eq!(ask(gateway.address, "POST", CHAT, &headers, BODY.as_bytes()).status, 200);
    kept.write_all(&requests).expect("it reads");
    assert_eq!(read_answer(&mut kept).status, 200);
    drop(crowd);
}
