//! The host as a client sees it, byte by byte over a bare socket, against its own truth log.

use crate::client::{Answer, ask, chat, connect, parse_answer, read_answer, request_text, send};
use std::io::{Read, Write};
use std::net::TcpStream;
use tokrate_core::{Anomaly, EventKind, Span, Usage};
use tokrate_host::{AnswerEnd, ApiKey, Host, HostConfig, Kinds, RunningHost, TruthLog, TruthRow};
use tokrate_sim::{Faults, Law, WORDS};

/// 10 ms to the first token, 1 ms per token.
pub fn law() -> Law {
    Law {
        base_delay: Span::from_millis(10),
        prefill_tokens_per_second: 1e6,
        stream_tokens_per_second: 1_000.0,
        contention: 0.0,
        coherency: 0.0,
        ..Law::default()
    }
}

fn config() -> HostConfig {
    HostConfig { law: law(), truth: TruthLog::Memory, ..HostConfig::default() }
}

fn start(config: HostConfig) -> RunningHost {
    Host::start(config).expect("a host on loopback")
}

/// Asks a host with these faults for ten tokens; the truth is that of the only request.
fn with_faults(faults: &[&str]) -> (Answer, AnswerEnd) {
    let mut config = config();
    faults.iter().for_each(|fault| config.faults.set(fault).expect("a fault"));
    let host = start(config);
    let answer = ask(host.address(), &chat("", 10));
    let truth = host.truth();
    (answer, truth.requests[0].end.expect("ended"))
}

#[test]
fn a_stream_has_the_shape_of_the_dialect() {
    let host = start(config());
    let answer = ask(host.address(), &chat("X-Request-Id: abc\r\n", 10));
    assert_eq!((answer.status, answer.is_whole), (200, true));
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.header("x-request-id"), Some("abc"));
    let events = answer.events();
    let kinds: Vec<EventKind> =
        events.all().filter(|what| !matches!(what, EventKind::Model(_) | EventKind::Text { .. })).collect();
    let usage =
        Usage { input: Some(5), output: Some(10), reasoning: None, cached_input: None, cache_write_input: None };
    let finish = EventKind::Finish(tokrate_core::FinishReason::Length);
    assert_eq!(kinds, [EventKind::Empty, finish, EventKind::Usage(usage), EventKind::Done]);
    assert_eq!(events.all().filter(|what| matches!(what, EventKind::Text { .. })).count(), 10);
    assert_eq!(events.tokens(), 10);
    assert!(answer.text().contains(r#""model":"sim""#));
}

#[test]
fn the_truth_log_is_what_the_client_read_and_what_the_law_says() {
    let host = start(config());
    let answers: Vec<Answer> =
        (0..3).map(|i| ask(host.address(), &chat(&format!("X-Request-Id: r{i}\r\n"), 20))).collect();
    let truth = host.truth();
    for (index, answer) in answers.iter().enumerate() {
        let logged = truth.request(&format!("r{index}")).expect("logged");
        assert_eq!((logged.end, logged.input_tokens, logged.stream), (Some(AnswerEnd::Complete), 5, true));
        assert_eq!(logged.output_limit, Some(20));
        // A chunk is a write: the same lengths in the same order.
        let read: Vec<usize> = answer.chunks.iter().map(Vec::len).collect();
        let written: Vec<usize> = logged.writes.iter().map(|write| write.bytes as usize).collect();
        assert_eq!(read, written);
        let sequence: Vec<u32> = logged.writes.iter().map(|write| write.sequence).collect();
        assert_eq!(sequence, (0..logged.writes.len() as u32).collect::<Vec<_>>());
        assert_eq!(logged.writes.iter().map(|write| write.tokens).sum::<u32>(), 20);
        assert!(logged.received_at <= logged.submitted_at);
        assert!(
            logged.writes.iter().all(|write| logged.submitted_at <= write.due_at && write.due_at <= write.written_at)
        );
        assert!(logged.writes.windows(2).all(|pair| pair[0].written_at <= pair[1].written_at));
        // 10 ms and 5 tokens of prompt at a million per second, then 1 ms each. A late wake joins writes: the first
        // emission in each says when it was due.
        let mut tokens = 0;
        for write in logged.writes.iter().filter(|write| write.tokens > 0) {
            let due = logged.submitted_at + Span::from_micros(10_005 + 1_000 * u64::from(tokens));
            assert_eq!(write.due_at, due);
            tokens += write.tokens;
        }
        let last = logged.writes.last().expect("some");
        assert!(last.kinds.contains(Kinds::TEXT.with(Kinds::FINISH).with(Kinds::USAGE).with(Kinds::DONE)));
    }
    let writes: usize = truth.requests.iter().map(|request| request.writes.len()).sum();
    assert_eq!(host.lateness().count(), writes as u64);
    let summary = host.stop();
    assert_eq!((summary.stats.ended, summary.rows_dropped, summary.log_error), (3, 0, None));
}

#[test]
fn a_whole_answer_comes_in_one_piece_with_usage() {
    let host = start(HostConfig { law: Law { reasoning_tokens: 4, ..law() }, ..config() });
    let body = r#"{"model":"m","messages":[{"role":"user","content":"Hello"}],"max_completion_tokens":9}"#;
    let answer = ask(host.address(), &request_text("/chat/completions", "", body));
    assert_eq!((answer.status, answer.is_whole), (200, true));
    let events = answer.events();
    assert_eq!(
        events.usage(),
        Some(Usage {
            input: Some(1),
            output: Some(9),
            reasoning: Some(4),
            cached_input: None,
            cache_write_input: None
        })
    );
    assert!(events.is_done());
    let truth = host.truth();
    let logged = &truth.requests[0];
    assert_eq!((logged.writes.len(), logged.writes[0].tokens, logged.end), (1, 9, Some(AnswerEnd::Complete)));
    assert_eq!(logged.writes[0].bytes as usize, answer.body().len());
    assert_eq!(logged.writes[0].due_at, logged.submitted_at + Span::from_micros(10_001 + 8 * 1_000));
}

#[test]
fn a_connection_serves_one_request_after_the_other() {
    let host = start(config());
    let mut stream = connect(host.address());
    for _ in 0..3 {
        stream.write_all(chat("", 3).as_bytes()).expect("taken");
        let answer = read_answer(&mut stream);
        assert!(answer.is_whole && answer.events().tokens() == 3);
    }
}

#[test]
fn refusals_have_their_status_and_header() {
    let (limited, end) = with_faults(&["rate_limited"]);
    assert_eq!((limited.status, limited.header("retry-after"), end), (429, Some("1"), AnswerEnd::Refused));
    assert!(limited.text().starts_with(r#"{"error":{"message":"#));
    let (failed, _) = with_faults(&["server_error"]);
    assert_eq!((failed.status, failed.header("content-type")), (500, Some("application/json")));
}

#[test]
fn a_disconnect_breaks_the_body_after_exactly_its_tokens() {
    let (answer, end) = with_faults(&["disconnect@3"]);
    assert_eq!((answer.status, answer.is_whole, end), (200, false, AnswerEnd::Disconnected));
    assert_eq!(answer.events().tokens(), 3);
    let host = start(config());
    let whole = r#"{"model":"m","messages":[],"max_tokens":9}"#;
    let text = request_text("/chat/completions", "X-Tokrate-Fault: disconnect@3\r\n", whole);
    assert!(!ask(host.address(), &text).is_whole);
    assert_eq!(host.truth().requests[0].end, Some(AnswerEnd::Disconnected));
}

#[test]
fn an_answer_made_at_once_is_written_before_the_connection_breaks() {
    let mut faults = Faults::default();
    faults.set("disconnect@500").expect("a fault");
    let host = start(HostConfig { law: Law::unlimited(), faults, ..config() });
    let answer = ask(host.address(), &chat("", 1_000));
    assert_eq!((answer.is_whole, answer.events().tokens()), (false, 500));
}

#[test]
fn faults_inside_the_stream_are_seen_where_they_should_be() {
    let (malformed, _) = with_faults(&["malformed@4"]);
    let events = malformed.events();
    assert!(malformed.is_whole && events.is_done());
    assert_eq!(events.tokens(), 10, "the stream goes on");
    assert_eq!(events.all().filter(|what| *what == EventKind::Anomaly(Anomaly::Unreadable)).count(), 1);

    let (failed, _) = with_faults(&["error_event@4"]);
    let events = failed.events();
    assert!(failed.is_whole && events.has(|what| matches!(what, EventKind::Failed { .. })));
    assert_eq!(events.tokens(), 4);

    let (no_done, _) = with_faults(&["no_done"]);
    assert!(no_done.is_whole && !no_done.text().contains("[DONE]"));
    assert_eq!(no_done.events().tokens(), 10);

    let (empty, _) = with_faults(&["empty"]);
    assert!(empty.is_whole && empty.events().is_done());
    assert_eq!(empty.events().tokens(), 0);

    let (silent, _) = with_faults(&["missing_usage"]);
    assert_eq!((silent.events().usage(), silent.events().tokens()), (None, 10));

    let (burst, _) = with_faults(&["burst"]);
    assert_eq!((burst.chunks.len(), burst.events().tokens()), (1, 10));
}

#[test]
fn a_whole_answer_fails_with_a_status_or_breaks() {
    let host = start(config());
    let with = |fault: &str| {
        let body = r#"{"model":"m","messages":[],"max_tokens":9}"#;
        ask(host.address(), &request_text("/v1/chat/completions", &format!("X-Tokrate-Fault: {fault}\r\n"), body))
    };
    assert_eq!(with("error_event@2").status, 500);
    assert!(serde_json::from_str::<serde_json::Value>(&with("malformed").text()).is_err());
    assert_eq!(with("missing_usage").events().usage(), None);
}

#[test]
fn a_stall_leaves_the_connection_open_and_silent() {
    let host = start(config());
    let mut stream = send(host.address(), &chat("X-Tokrate-Fault: stall@3\r\n", 10));
    let mut bytes = Vec::new();
    while parse_answer(&bytes).events().tokens() < 3 {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).expect("open");
        assert!(read > 0, "closed before the stall");
        bytes.extend_from_slice(&part[..read]);
    }
    while host.stats().decoding > 0 {
        std::thread::yield_now();
    }
    assert_eq!(host.stats().running, 1, "a stalled request keeps its slot");
    stream.set_nonblocking(true).expect("an option of every socket");
    let silence = stream.read(&mut [0; 16]).expect_err("nothing to read");
    assert_eq!(silence.kind(), std::io::ErrorKind::WouldBlock);
    let truth = host.truth();
    let logged = &truth.requests[0];
    assert_eq!((logged.end, logged.writes.iter().map(|write| write.tokens).sum::<u32>()), (None, 3));
}

#[test]
fn a_client_that_leaves_frees_its_slot() {
    let host = start(HostConfig { law: Law { slots: 1, ..law() }, ..config() });
    let mut leaving = send(host.address(), &chat("X-Request-Id: leaves\r\n", 100_000));
    assert!(leaving.read(&mut [0; 16]).expect("open") > 0);
    let mut queued = send(host.address(), &chat("", 2));
    while host.stats().queued == 0 {
        std::thread::yield_now();
    }
    drop(leaving);
    // Without the slot this would take 100 s.
    assert_eq!(read_answer(&mut queued).events().tokens(), 2);
    assert_eq!((host.stats().cancelled, host.stats().running), (1, 0));
    assert_eq!(host.truth().request("leaves").and_then(|request| request.end), Some(AnswerEnd::Cancelled));
}

#[test]
fn what_cannot_be_answered_is_refused_as_json() {
    let host = start(HostConfig {
        api_key: Some(ApiKey::new("secret".to_owned())),
        only_model: true,
        max_request_bytes: 10_000,
        ..config()
    });
    let key = "Authorization: Bearer secret\r\n";
    let status = |text: &str| {
        let answer = ask(host.address(), text);
        let body: serde_json::Value = serde_json::from_slice(&answer.body()).expect("JSON");
        let code = &body["error"]["code"];
        assert!(code.is_null() || code.is_string(), "OpenAI's clients read nothing else: {body}");
        assert!(body["error"]["message"].is_string() && body["error"]["type"].is_string(), "{body}");
        answer.status
    };
    let post = |headers: &str, body: &str| request_text("/v1/chat/completions", headers, body);
    let good = r#"{"model":"sim","messages":[]}"#;
    assert_eq!(status(&post("", good)), 401);
    assert_eq!(status(&post("Authorization: Bearer secre\r\n", good)), 401);
    assert_eq!(status(&post(key, "{")), 400);
    assert_eq!(status(&post(key, r#"{"messages":[]}"#)), 400);
    assert_eq!(status(&post(key, r#"{"model":"sim","messages":[],"max_tokens":0}"#)), 400);
    assert_eq!(status(&post(&format!("{key}X-Tokrate-Fault: fire\r\n"), good)), 400);
    assert_eq!(status(&post(key, r#"{"model":"other","messages":[]}"#)), 404);
    assert_eq!(status(&request_text("/v1/moderations", key, "{}")), 404);
    assert_eq!(status(&format!("GET /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n{key}\r\n")), 405);
    assert_eq!(status(&post(key, &"x".repeat(10_001))), 413);
    assert_eq!(host.stats().submitted, 0);
    let models = ask(host.address(), &format!("GET /v1/models HTTP/1.1\r\nHost: localhost\r\n{key}\r\n"));
    assert!(models.status == 200 && models.text().contains(r#""id":"sim""#));
    assert_eq!(ask(host.address(), "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 200);
}

#[test]
fn more_requests_than_allowed_are_refused() {
    let host = start(HostConfig { max_requests: 1, ..config() });
    let mut first = send(host.address(), &chat("", 100_000));
    assert!(first.read(&mut [0; 16]).expect("open") > 0);
    assert_eq!(ask(host.address(), &chat("", 1)).status, 503);
}

#[test]
fn a_long_prompt_is_counted_exactly_and_enters_the_ttft() {
    let host = start(config());
    let prompt: String = WORDS.iter().cycle().take(5_000).copied().collect();
    let body =
        format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{prompt}"}}],"stream":true,"max_tokens":1}}"#);
    for _ in 0..2 {
        assert!(ask(host.address(), &request_text("/v1/chat/completions", "", &body)).is_whole);
    }
    let truth = host.truth();
    for logged in &truth.requests {
        assert_eq!(logged.input_tokens, 5_000);
        let first = logged.writes.iter().find(|write| write.tokens > 0).expect("text");
        assert_eq!(first.due_at, logged.submitted_at + Span::from_millis(15));
    }
}

#[test]
fn stopping_lets_open_streams_end_and_cuts_those_that_do_not() {
    let host = start(HostConfig { drain: Span::from_secs(1), ..config() });
    let mut ends = send(host.address(), &chat("", 50));
    let mut never = send(host.address(), &chat("X-Tokrate-Fault: stall@1\r\n", 50));
    assert!(ends.read(&mut [0; 1]).expect("open") > 0);
    assert!(never.read(&mut [0; 1]).expect("open") > 0);
    let address = host.address();
    let reader = std::thread::spawn(move || {
        let mut bytes = b"H".to_vec();
        ends.read_to_end(&mut bytes).expect("open");
        parse_answer(&bytes)
    });
    let summary = host.stop();
    let answer = reader.join().expect("no panic");
    assert!(answer.is_whole && answer.events().tokens() == 50);
    assert_eq!((summary.stats.ended, summary.stats.cancelled), (1, 1));
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[test]
fn the_log_in_a_file_tells_the_same() {
    let path = std::env::temp_dir().join(format!("tokrate-truth-{}.jsonl", std::process::id()));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let (ready, address) = std::sync::mpsc::channel();
    let config = HostConfig { truth: TruthLog::File(path.clone()), ..config() };
    let host = std::thread::spawn(move || {
        Host::run(config, |addresses| ready.send(addresses.first()).expect("awaited"), async { drop(stopped.await) })
    });
    let address = address.recv().expect("it listens");
    let answer = ask(address, &chat("X-Request-Id: abc\r\n", 8));
    let _ = ask(address, &chat("X-Tokrate-Fault: rate_limited\r\n", 8));
    stop.send(()).expect("it runs");
    let summary = host.join().expect("no panic").expect("it ran");
    assert_eq!((summary.rows_dropped, summary.log_error), (0, None));
    let text = std::fs::read_to_string(&path).expect("written");
    std::fs::remove_file(&path).expect("there");
    let rows: Vec<TruthRow> = text.lines().map(|line| serde_json::from_str(line).expect("a row")).collect();
    assert!(matches!(&rows[0], TruthRow::Request { request: 0, id: Some(id), .. } if id == "abc"));
    let written: u32 =
        rows.iter().map(|row| if let TruthRow::Write { request: 0, bytes, .. } = row { *bytes } else { 0 }).sum();
    assert_eq!(written as usize, answer.body().len());
    assert!(rows.contains(&TruthRow::End { request: 0, end: AnswerEnd::Complete }));
    assert_eq!(rows.last(), Some(&TruthRow::End { request: 1, end: AnswerEnd::Refused }));
}

#[test]
fn what_keeps_a_host_from_starting_is_named() {
    let error = |config: HostConfig| Host::start(config).expect_err("refused").to_string();
    let slots = HostConfig { law: Law { slots: 0, ..law() }, ..config() };
    assert_eq!(error(slots), "set the slots to 0; give at least 1");
    let host = start(config());
    let taken = error(HostConfig { address: host.address(), ..config() });
    assert!(taken.starts_with(&format!("listen on {}", host.address())), "{taken}");
    let log = HostConfig { truth: TruthLog::File("/nowhere/at/all.jsonl".into()), ..config() };
    assert!(error(log).starts_with("write the truth log /nowhere/at/all.jsonl: "));
}

#[test]
fn elsewhere_than_on_loopback_every_provider_asks_for_a_key() {
    let everywhere = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
    let open = HostConfig { address: everywhere, ..config() };
    let refused = Host::start(open.clone()).expect_err("anyone could ask");
    assert!(refused.to_string().contains("without a key") && refused.to_string().contains("--key-env"), "{refused}");
    assert!(Host::start(HostConfig { api_key: Some(ApiKey::new("secret".to_owned())), ..open }).is_ok());
}

#[test]
fn a_page_of_another_site_and_a_foreign_name_are_not_answered() {
    let host = start(HostConfig { hosts: vec!["sim.example".to_owned()], ..config() });
    let get = |headers: &str| ask(host.address(), &format!("GET /v1/models HTTP/1.1\r\n{headers}\r\n")).status;
    assert_eq!(get("Host: evil.example\r\n"), 421);
    assert_eq!(get("Host: localhost\r\nOrigin: http://evil.example\r\n"), 403);
    assert_eq!(get("Host: sim.example\r\n"), 200);
    let body = r#"{"model":"sim","messages":[]}"#;
    let plain = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(ask(host.address(), &plain).status, 415);
    assert_eq!(host.stats().submitted, 0);
}
