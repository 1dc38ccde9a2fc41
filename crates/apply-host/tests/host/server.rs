//! The server over loopback: limits, the end, many at once.
//!
//! The content of answers is tested with the service. Invariant: nothing is waited for without a bound.

use http::Request;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;
use tokrate_apply_host::{HostConfig, Service, Stamp, Summary, run};
use tokrate_core::Span;
use tokrate_net::server::ApiKey;

const BOUND: Duration = Duration::from_secs(30);
const FILE: &str = "one = 1\ntwo = 2\n";

struct Running {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Summary>>,
}

impl Running {
    fn start(change: impl FnOnce(&mut HostConfig)) -> Running {
        let mut config = HostConfig::new(SocketAddr::from(([127, 0, 0, 1], 0)));
        change(&mut config);
        let ((stop, stopped), (ready, address)) = (oneshot::channel(), channel());
        let thread = std::thread::spawn(move || {
            let ready = move |address| ready.send(address).expect("the test waits");
            run(config, ready, async { drop(stopped.await) }).expect("it serves")
        });
        let address = address.recv_timeout(BOUND).expect("it listens");
        Running { address, stop: Some(stop), thread: Some(thread) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(BOUND)).expect("a bound");
        stream
    }

    /// Sends bytes and reads until the server closes.
    fn exchange(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("taken");
        read(stream)
    }

    fn stop(mut self) -> Summary {
        drop(self.stop.take());
        self.thread.take().expect("once").join().expect("no panic")
    }
}

fn read(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer within the bound");
    String::from_utf8(bytes).expect("UTF-8")
}

fn post(body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST /v1/code/apply HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn edit(old: &str) -> Value {
    let update = json!({"old_string": old, "new_string": "two = 22\n"}).to_string();
    json!({"initial_code": FILE, "edit_snippet": update})
}

#[test]
fn the_page_of_counts_says_what_was_refused_and_asks_for_the_key() {
    let get = |path: &str, key: &str| {
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\r\n")
    };
    let server = Running::start(|_| {});
    for old in ["two = 2\n", "two = 2\n", "nowhere\n"] {
        server.exchange(&post(&edit(old)));
    }
    let page = server.exchange(&get("/metrics", ""));
    assert!(page.contains("content-type: text/plain; version=0.0.4"), "{page}");
    for row in ["edits_total{result=\"merged\"} 2\n", "refused_total{code=\"no_anchor\"} 1\n", "refusal_ratio 0.3333"] {
        assert!(page.contains(&format!("tokrate_apply_{row}")), "{row}: {page}");
    }
    server.stop();
    let guarded = Running::start(|config| config.api_key = Some(ApiKey::new("secret".to_owned())));
    assert!(guarded.exchange(&get("/metrics", "wrong")).starts_with("HTTP/1.1 401"));
    assert!(guarded.exchange(&get("/metrics", "secret")).starts_with("HTTP/1.1 200"));
    guarded.stop();
}

#[test]
fn edits_are_served_and_counted() {
    let server = Running::start(|_| {});
    let answer = server.exchange(&post(&edit("two = 2\n")));
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("x-tokrate-apply: deterministic"), "{answer}");
    assert!(answer.contains(r#""merged_code":"one = 1\ntwo = 22\n""#), "{answer}");
    let answer = server.exchange(&post(&edit("three = 3\n")));
    assert!(answer.starts_with("HTTP/1.1 422 "), "{answer}");
    let summary = server.stop();
    assert_eq!((summary.merged, summary.merged_by_model), (1, 0));
    assert_eq!(summary.refused.into_iter().collect::<Vec<_>>(), [("no_anchor", 1)]);
}

#[test]
fn bodies_beyond_the_limit_are_turned_away() {
    let server = Running::start(|config| config.max_body_bytes = 100);
    let answer = server.exchange(&post(&edit(&"x".repeat(200))));
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("more than 100 bytes"), "{answer}");
    let chunked = "POST /v1/code/apply HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    let answer = server.exchange(&format!("{chunked}78\r\n{}\r\n0\r\n\r\n", "x".repeat(0x78)));
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let answer = server.exchange(&format!("{chunked}2\r\n{{}}\r\n0\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    server.stop();
}

#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    let server = Running::start(|config| config.body_timeout = Span::from_millis(20));
    let answer =
        server.exchange("POST /v1/code/apply HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 5\r\n\r\n{");
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    server.stop();
}

#[test]
fn memory_for_open_requests_is_bounded() {
    let server = Running::start(|config| config.max_buffered_bytes = 1000);
    let mut waiting = server.connect();
    waiting
        .write_all(b"POST /v1/code/apply HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\nexpect: 100-continue\r\ncontent-length: 900\r\n\r\n")
        .expect("taken");
    // The server asks for the body, so the request holds its share.
    let mut first = [0; 12];
    waiting.read_exact(&mut first).expect("an answer within the bound");
    assert_eq!(&first, b"HTTP/1.1 100");
    let answer = server.exchange(&post(&edit(&"x".repeat(100))));
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("retry-after: 1"), "{answer}");
    drop(waiting);
    server.stop();
}

#[test]
fn many_clients_are_served_at_once() {
    let server = Running::start(|_| {});
    std::thread::scope(|scope| {
        for client in 0..8 {
            let server = &server;
            scope.spawn(move || {
                for request in 0..10 {
                    let text = format!("client {client} request {request}\n");
                    let update = json!({"old_string": "two = 2\n", "new_string": text}).to_string();
                    let answer = server.exchange(&post(&json!({"initial_code": FILE, "edit_snippet": update})));
                    assert!(answer.contains(&format!(r"one = 1\nclient {client} request {request}\n")), "{answer}");
                }
            });
        }
    });
    assert_eq!(server.stop().merged, 80);
}

/// Edits of a file so long that other threads help with it: one that has a place, one that breaks it, one without a place.
fn long_edits(version: usize) -> Vec<Value> {
    let function =
        |at: usize| format!("fn f{at}() -> usize {{\n    let first = {at} + {version};\n    first * 2\n}}\n\n");
    let file: String = (0..300).map(function).collect();
    let body = |old: String, new: &str| {
        let update = json!({"old_string": old, "new_string": new}).to_string();
        json!({"initial_code": file, "edit_snippet": update, "path": "a.rs"})
    };
    let old = format!("let first = 7 + {version};");
    vec![body(old.clone(), "let first = 8;"), body(old, "let first = (8;"), body("nowhere".to_owned(), "")]
}

#[test]
fn answers_are_the_same_with_help_with_memory_and_alone() {
    let servers = [1, 2, 8].map(|threads| Running::start(|config| config.threads = threads));
    std::thread::scope(|scope| {
        for (server, client) in servers.iter().flat_map(|server| [(server, 1), (server, 2)]) {
            scope.spawn(move || {
                // The first version is common to the clients; each is asked twice.
                for edit in [0, client, 0, client].into_iter().flat_map(long_edits) {
                    let (head, ()) = Request::post("/v1/code/apply").body(()).expect("a request").into_parts();
                    let alone = Service::default().answer(&head, edit.to_string().as_bytes(), Stamp::default());
                    let answer = server.exchange(&post(&edit));
                    let (_, body) = answer.split_once("\r\n\r\n").expect("an end of the head");
                    assert!(body.as_bytes() == alone.whole(), "{answer}");
                }
            });
        }
    });
    for server in servers {
        let summary = server.stop();
        assert_eq!(summary.merged + summary.refused.values().sum::<u64>(), 24);
        assert_eq!(summary.merged, 8);
    }
}

#[test]
fn the_end_waits_for_an_open_request() {
    let mut server = Running::start(|_| {});
    let mut open = server.connect();
    let request = post(&edit("two = 2\n"));
    let head = request.replace("connection: close\r\n", "connection: close\r\nexpect: 100-continue\r\n");
    let (head, body) = head.split_at(head.find("\r\n\r\n").expect("an end") + 4);
    open.write_all(head.as_bytes()).expect("taken");
    let mut first = [0; 12];
    open.read_exact(&mut first).expect("an answer within the bound");
    drop(server.stop.take());
    open.write_all(body.as_bytes()).expect("taken");
    let answer = read(open);
    assert!(answer.contains("HTTP/1.1 200 OK"), "{answer}");
    assert_eq!(server.stop().merged, 1);
}

#[test]
fn elsewhere_than_on_loopback_a_key_is_asked_for() {
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let refused = run(HostConfig::new(everywhere), |_| {}, std::future::pending()).expect_err("anyone could ask");
    assert!(refused.to_string().contains("--serve-key-file"), "{refused}");
    let server = Running::start(|config| {
        config.address = everywhere;
        config.api_key = Some(ApiKey::new("secret".to_owned()));
    });
    let server = Running { address: SocketAddr::from(([127, 0, 0, 1], server.address.port())), ..server };
    let with = |header: &str| {
        server.exchange(&post(&edit("two = 2\n")).replace("connection:", &format!("{header}\r\nconnection:")))
    };
    for wrong in ["x: y", "authorization: Bearer secre", "x-api-key: secrets"] {
        assert!(with(wrong).starts_with("HTTP/1.1 401 "), "{wrong}");
    }
    for right in ["authorization: Bearer secret", "x-api-key: secret"] {
        assert!(with(right).starts_with("HTTP/1.1 200 "), "{right}");
    }
    let health = "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert!(server.exchange(health).starts_with("HTTP/1.1 200 "));
    assert_eq!(server.stop().merged, 2);
}

#[test]
fn a_web_page_cannot_have_edits_merged_and_a_foreign_name_is_not_answered() {
    let server = Running::start(|config| config.hosts = vec!["apply.example".to_owned()]);
    let good = post(&edit("two = 2\n"));
    for (from, to, status) in [
        ("application/json", "text/plain", "415"),
        ("content-type: application/json", "x: y", "415"),
        ("host: localhost", "host: evil.example", "421"),
        ("host: localhost", "host: localhost\r\norigin: http://127.0.0.1:9", "403"),
        ("host: localhost", "host: localhost\r\nsec-fetch-site: cross-site", "403"),
        ("host: localhost", "host: apply.example:80", "200"),
    ] {
        let answer = server.exchange(&good.replace(from, to));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{to}: {answer}");
    }
    assert_eq!(server.stop().merged, 1);
}
