//! The admin side over loopback: page, metrics, API and log agree on the same calls of a gateway with simulated lanes.

use crate::client::{Answer, post};
use crate::harness::{TestGateway, configured, lane};
use serde_json::Value;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use tokrate_core::Span;
use tokrate_gateway::{Config, Mode};
use tokrate_host::{Host, HostConfig, RunningHost};
use tokrate_sim::Law;
use tokrate_wire::Dialect;

const CALLS: u64 = 4;
const BODY: &str =
    r#"{"model":"all","stream":true,"max_tokens":160,"messages":[{"role":"user","content":"a secret prompt"}]}"#;

/// Slow enough that each answer has an output speed, however its reads are delayed.
fn engine() -> RunningHost {
    let law = Law { base_delay: Span::from_millis(2), stream_tokens_per_second: 400.0, ..Law::default() };
    Host::start(HostConfig { law, ..HostConfig::default() }).expect("an engine")
}

fn with_admin(config: Config) -> Config {
    Config { admin: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))), workers: 2, ..config }
}

/// A gateway whose first lane refuses connections and whose second answers.
fn served(engine: &RunningHost) -> (TestGateway, SocketAddr) {
    let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
    let lanes = vec![
        lane("<script>dead</script>", nowhere, &[Dialect::OpenAiChat]),
        lane("alive", engine.address(), &[Dialect::OpenAiChat]),
    ];
    let gateway = TestGateway::start(with_admin(configured(lanes, Mode::Off)));
    let admin = gateway.running.as_ref().and_then(tokrate_gateway::RunningGateway::admin).expect("it was asked for");
    (gateway, admin)
}

fn get(address: SocketAddr, path: &str) -> Answer {
    let mut stream = TcpStream::connect(address).expect("the admin side listens");
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    crate::client::read_answer(&mut stream)
}

fn json(answer: &Answer) -> Value {
    assert_eq!(answer.header("content-type"), Some("application/json"), "{}", answer.text());
    serde_json::from_slice(&answer.body).unwrap_or_else(|error| panic!("{error}: {}", answer.text()))
}

/// The sum of a family's series whose labels contain all of these texts.
fn sum(metrics: &str, family: &str, labels: &[&str]) -> f64 {
    let series = metrics.lines().filter(|line| line.starts_with(&format!("{family}{{")));
    let held = series.filter(|line| labels.iter().all(|label| line.contains(label)));
    held.map(|line| line.rsplit(' ').next().unwrap_or_default().parse::<f64>().expect("a number")).sum()
}

#[test]
fn page_metrics_api_and_log_agree_on_the_same_calls() {
    let engine = engine();
    let (mut gateway, admin) = served(&engine);
    for _ in 0..CALLS {
        let answer = post(gateway.address, "/v1/chat/completions", BODY);
        assert_eq!((answer.status, answer.ended), (200, true), "{}", answer.text());
    }
    let metrics = get(admin, "/metrics");
    assert_eq!(metrics.header("content-type"), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    let metrics = metrics.text();
    let answered = sum(&metrics, "tokrate_attempts_total", &[r#"lane="alive""#, r#"end="answered""#]);
    let failed = sum(&metrics, "tokrate_attempts_total", &["dead", r#"end="failed""#, r#"failure="connect""#]);
    assert_eq!(answered, CALLS as f64, "{metrics}");
    assert!(failed >= 1.0 && failed <= CALLS as f64, "the breaker may leave it alone: {metrics}");
    assert_eq!(sum(&metrics, "gen_ai_server_time_to_first_token_seconds_count", &["alive"]), CALLS as f64);
    assert_eq!(sum(&metrics, "gen_ai_client_token_usage_count", &["alive", "output"]), CALLS as f64);
    assert!(sum(&metrics, "tokrate_gateway_overhead_seconds_count", &[]) == CALLS as f64, "{metrics}");
    assert!(sum(&metrics, "process_resident_memory_bytes", &[]) > 1e6);
    assert!(!metrics.contains("secret") && !metrics.contains("all\""), "neither prompts nor what clients ask for");

    let page = get(admin, "/");
    assert!(page.header("content-security-policy").is_some_and(|policy| policy.contains("default-src 'none'")));
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    let page = page.text();
    assert!(page.contains("answered by alive") && page.contains("&lt;script&gt;dead"), "{page}");
    assert!(!page.contains("<script>dead") && !page.contains("secret"));
    assert!(page.contains("<article class=\"card\" id=\"lane-1\">"));
    for path in ["/lane?lane=alive", "/calls", "/calls?sort=longest&since=15m", "/keys", "/settings"] {
        let page = get(admin, path);
        assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")), "{path}");
        assert!(!page.text().contains("<script>dead"), "{path}");
    }
    for (path, status) in [("/calls?sort=up", 400), ("/lane?lane=nobody", 404), ("/call?call=nothing", 404)] {
        let page = get(admin, path);
        assert_eq!((page.status, page.header("content-type")), (status, Some("text/html; charset=utf-8")), "{path}");
    }
    for (path, kind) in [("/style.css", "text/css; charset=utf-8"), ("/live.js", "text/javascript; charset=utf-8")] {
        assert_eq!(get(admin, path).header("content-type"), Some(kind));
    }

    let lanes = json(&get(admin, "/api/lanes"));
    let alive = &lanes["lanes"][1];
    assert_eq!((&alive["name"], &alive["state"], &alive["in_flight"]), (&"alive".into(), &"ready".into(), &0.into()));
    assert!(alive["expected_now"]["ttft_p50_ms"].as_f64().is_some_and(|ms| ms > 1.0), "{alive}");
    let calls = json(&get(admin, "/api/calls?limit=2"));
    assert_eq!(calls["calls"].as_array().map(Vec::len), Some(2));
    let last = &calls["calls"][0];
    let attempts = last["attempts"].as_array().expect("attempts");
    assert_eq!((&last["winner"], &attempts[attempts.len() - 1]["won"]), (&"alive".into(), &true.into()), "{last}");

    // The log is written a moment later; stopping waits for it.
    let rows = gateway.rows();
    assert_eq!(rows.len() as f64, answered + failed);
    let tokens: u64 = rows.iter().filter(|row| row.won).filter_map(|row| row.sample.output_tokens).sum();
    assert_eq!(sum(&metrics, "gen_ai_client_token_usage_sum", &["alive", r#"type="output""#]), tokens as f64);
}

#[test]
fn the_log_is_queried_over_the_api() {
    let engine = engine();
    let config = with_admin(configured(vec![lane("alive", engine.address(), &[Dialect::OpenAiChat])], Mode::Off));
    let path = config.log.as_ref().expect("a log").path.clone();
    // An earlier gateway wrote the rows, so that they are there when this one starts.
    let before = TestGateway::start(config.clone());
    for _ in 0..3 {
        assert_eq!(post(before.address, "/v1/chat/completions", BODY).status, 200);
    }
    let unknown = BODY.replace("\"all\"", "\"nobody\"");
    for _ in 0..2 {
        assert_eq!(post(before.address, "/v1/chat/completions", &unknown).status, 404);
    }
    let kept = path.with_extension("kept");
    let mut before = before;
    assert_eq!(before.rows().len(), 3);
    std::fs::copy(&path, &kept).expect("a copy of the log");
    drop(before);
    std::fs::rename(&kept, &path).expect("the log again");
    let gateway = TestGateway::start(config);
    let admin = gateway.running.as_ref().and_then(tokrate_gateway::RunningGateway::admin).expect("it was asked for");

    let summary = json(&get(admin, "/api/summary?since=1h&by=lane"));
    assert_eq!(summary["refused"], serde_json::json!({ "not_found": 2 }));
    assert_eq!(summary["lost"], serde_json::json!({ "attempts": 0, "refusals": 0 }));
    let of_lane = json(&get(admin, "/api/summary?since=1h&lane=alive"));
    assert_eq!(of_lane["refused"], serde_json::json!({}), "no lane has part in a refusal");
    assert_eq!((&summary["groups"][0]["lane"], &summary["groups"][0]["attempts"]), (&"alive".into(), &3.into()));
    assert_eq!(summary["cut_off"], false);
    let hours = json(&get(admin, "/api/summary?by=hour"));
    assert!(hours["groups"][0]["hour_unix_ms"].as_u64().is_some(), "{hours}");
    let attempts = json(&get(admin, "/api/attempts?limit=2&lane=alive&end=answered"));
    assert_eq!(attempts["attempts"].as_array().map(Vec::len), Some(2));
    assert_eq!(attempts["attempts"][0]["model"], "model-alive");
    assert_eq!(json(&get(admin, "/api/attempts?lane=other"))["attempts"], serde_json::json!([]));
    for (path, message) in [
        ("/api/attempts?limit=0", "whole number"),
        ("/api/attempts?lane=a'%20OR%20'1'='1&x=1", "unknown parameter"),
        ("/api/summary?by=day", "write lane"),
        ("/api/calls?limit=9999", "1 to 100"),
        ("/api/lanes?x=1", "leave it out"),
    ] {
        let answer = get(admin, path);
        assert_eq!(answer.status, 400, "{path}");
        assert!(
            json(&answer)["error"]["message"].as_str().is_some_and(|text| text.contains(message)),
            "{}",
            answer.text()
        );
    }
    assert_eq!(json(&get(admin, "/api/attempts?lane=%27%20OR%201=1"))["attempts"], serde_json::json!([]));
}

#[test]
fn unknown_hosts_methods_and_paths_are_rejected() {
    let engine = engine();
    let lanes = vec![lane("alive", engine.address(), &[Dialect::OpenAiChat])];
    let gateway = TestGateway::start(Config { log: None, ..with_admin(configured(lanes, Mode::Off)) });
    let admin = gateway.running.as_ref().and_then(tokrate_gateway::RunningGateway::admin).expect("it was asked for");
    let mut stream = TcpStream::connect(admin).expect("the admin side listens");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n").expect("it reads");
    assert_eq!(crate::client::read_answer(&mut stream).status, 421, "not one of its host names");
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let mut stream = TcpStream::connect(admin).expect("the admin side listens");
        let request =
            format!("{method} / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let answer = crate::client::read_answer(&mut stream);
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    assert_eq!(get(admin, "/v1/models").status, 404, "clients have an address of their own");
    assert_eq!(get(admin, "/../etc/passwd").status, 404);
    for (path, status) in [("/healthz", 200), ("/readyz", 200), ("/api/summary", 404), ("/api/attempts", 404)] {
        assert_eq!(get(admin, path).status, status, "{path}");
    }
    assert!(get(admin, "/").text().contains("No log is kept"));
    // And clients do not find the admin side at their address.
    for path in ["/metrics", "/api/calls", "/"] {
        assert_eq!(get(gateway.address, path).status, 404, "{path}");
    }
}

#[test]
fn no_admin_side_listens_unless_it_is_configured() {
    let engine = engine();
    let gateway =
        TestGateway::start(configured(vec![lane("alive", engine.address(), &[Dialect::OpenAiChat])], Mode::Off));
    assert_eq!(gateway.running.as_ref().and_then(tokrate_gateway::RunningGateway::admin), None);
}
