//! Timeouts, slow readers, shutdown.

use crate::client::{post, read_answer, read_answer_after, read_until, request};
use crate::harness::{TestGateway, configured, lane};
use crate::scripted::{Script, Scripted, WRITTEN, chat_events, chat_whole, stream, stream_head, whole};
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokrate_core::{FailureKind, Span};
use tokrate_gateway::{LoserPolicy, Mode};
use tokrate_record::AttemptEnd;
use tokrate_wire::Dialect;

const CHAT: &[Dialect] = &[Dialect::OpenAiChat];
const STREAM: &str = r#"{"model":"all","stream":true,"stream_options":{"include_usage":true},"messages":[]}"#;
const WHOLE: &str = r#"{"model":"all","messages":[]}"#;

/// The beginning of a stream, up to the first word.
fn stream_start(events: &str) -> Vec<u8> {
    let end = events.find("one").and_then(|at| Some(at + events[at..].find("\n\n")? + 2)).expect("an event");
    let mut bytes = stream_head();
    bytes.extend_from_slice(format!("{:x}\r\n{}\r\n", end, &events[..end]).as_bytes());
    bytes
}

#[test]
fn each_timeout_has_an_error_of_its_own() {
    let events = chat_events(&["one", " two"]);
    let short = Span::from_millis(60);
    let cases = [
        (Script::SendAndStall(stream_head()), STREAM, FailureKind::FirstTokenTimeout, 504),
        (Script::SendAndStall(stream_start(&events)), STREAM, FailureKind::Stalled, 200),
        (Script::SendAndStall(Vec::new()), WHOLE, FailureKind::TimedOut, 504),
    ];
    for (script, body, kind, status) in cases {
        let slow = Scripted::start(vec![script]);
        let mut config = configured(vec![lane("slow", slow.address, CHAT)], Mode::Off);
        match kind {
            FailureKind::FirstTokenTimeout => config.limits.first_token = short,
            FailureKind::Stalled => config.limits.gap = short,
            _ => config.limits.total = short,
        }
        let mut gateway = TestGateway::start(config);
        let answer = post(gateway.address, "/v1/chat/completions", body);
        assert_eq!(answer.status, status, "{kind:?}: {}", answer.text());
        assert!(answer.ended && answer.text().contains("\"error\""), "{kind:?}: {}", answer.text());
        let rows = gateway.rows();
        assert_eq!((rows[0].end, rows[0].sample.failure), (AttemptEnd::Failed, Some(kind)));
    }
}

#[test]
fn a_drained_loser_stays_within_the_time_limit_of_its_call() {
    let quick = Scripted::start(vec![Script::Send(vec![whole("200 OK", &chat_whole("yes"))])]);
    let endless = Scripted::start(vec![Script::SendAndStall(stream_start(&chat_events(&["one"])))]);
    let mut lanes = vec![lane("endless", endless.address, CHAT), lane("quick", quick.address, CHAT)];
    lanes[0].loser = LoserPolicy::DrainExact { max_time: Span::from_secs(3_600), max_bytes: 1 << 20 };
    let mut config = configured(lanes, Mode::Race { lanes: 2 });
    config.limits.total = Span::from_millis(300);
    let mut gateway = TestGateway::start(config);
    assert_eq!(post(gateway.address, "/v1/chat/completions", WHOLE).status, 200);
    endless.closed.recv_timeout(Duration::from_secs(20)).expect("its connection is closed long before an hour");
    let rows = gateway.rows();
    assert!(rows.iter().any(|row| row.lane == "endless" && row.end == AttemptEnd::Lost), "{rows:?}");
}

#[test]
fn a_stalled_reader_holds_back_its_own_lane_and_no_other() {
    const PIECE: usize = 64 << 10;
    const PIECES: usize = 1_000;
    let text =
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n", "x".repeat(PIECE));
    let mut pieces = vec![stream_head()];
    pieces.extend((0..PIECES).map(|_| format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()));
    pieces.push(format!("{:x}\r\ndata: [DONE]\n\n\r\n0\r\n\r\n", 14).into_bytes());
    let large = Scripted::start(vec![Script::Send(pieces)]);
    let quick = Scripted::start(vec![Script::SendHoldSend(Vec::new(), whole("200 OK", &chat_whole("yes")))]);
    let lanes = vec![lane("large", large.address, CHAT), lane("quick", quick.address, CHAT)];
    let mut config = configured(lanes, Mode::Off);
    config.limits.answer_bytes = 1 << 30;
    let mut gateway = TestGateway::start(config);
    let mut lazy = TcpStream::connect(gateway.address).expect("it listens");
    let body = STREAM.replace("all", "large");
    lazy.write_all(&request("POST", "/v1/chat/completions", &[], body.as_bytes())).expect("it reads");
    // Others are served meanwhile on the same thread; the large answer soon stalls.
    let (mut before, mut still) = (usize::MAX, 0);
    while still < 30 {
        quick.release();
        assert_eq!(post(gateway.address, "/v1/chat/completions", &WHOLE.replace("all", "quick")).status, 200);
        let written = WRITTEN.load(Ordering::Relaxed);
        still = if written == before && written > 0 { still + 1 } else { 0 };
        before = written;
    }
    assert!(before < PIECE * PIECES / 2, "{before} bytes were taken of a client that reads nothing");
    let answer = read_answer(&mut lazy);
    assert!(answer.ended && answer.body.len() == text.len() * PIECES + 14, "{}", answer.body.len());
    assert!(gateway.rows().iter().all(|row| row.end == AttemptEnd::Answered));
}

#[test]
fn a_client_that_reads_nothing_is_disconnected_and_its_lane_closed() {
    const PIECE: usize = 64 << 10;
    let text =
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n", "x".repeat(PIECE));
    // More than all buffers in between hold.
    let mut pieces = vec![stream_head()];
    pieces.extend((0..1_000).map(|_| format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()));
    let large = Scripted::start(vec![Script::Send(pieces)]);
    let mut config = configured(vec![lane("large", large.address, CHAT)], Mode::Off);
    config.limits.answer_bytes = 1 << 30;
    config.limits.send = Span::from_millis(100);
    let mut gateway = TestGateway::start(config);
    let mut lazy = TcpStream::connect(gateway.address).expect("it listens");
    lazy.write_all(&request("POST", "/v1/chat/completions", &[], STREAM.as_bytes())).expect("it reads");
    large.closed.recv().expect("its lane hears of it");
    let answer = read_answer(&mut lazy);
    assert!(answer.status == 200 && !answer.ended, "it was cut: {} bytes", answer.body.len());
    let rows = gateway.rows();
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].end, rows[0].sample.failure), (AttemptEnd::Abandoned, Some(FailureKind::ClientStalled)));
}

#[test]
fn a_whole_answer_that_nobody_reads_counts_as_abandoned() {
    // More than the socket buffers in between hold.
    let large = Scripted::start(vec![Script::Send(vec![whole("200 OK", &chat_whole(&"x".repeat(7 << 20)))])]);
    let mut config = configured(vec![lane("large", large.address, CHAT)], Mode::Off);
    config.limits.answer_bytes = 1 << 30;
    config.limits.send = Span::from_millis(100);
    let mut gateway = TestGateway::start(config);
    let mut lazy = TcpStream::connect(gateway.address).expect("it listens");
    lazy.write_all(&request("POST", "/v1/chat/completions", &[], WHOLE.as_bytes())).expect("it reads");
    let stream_start = read_until(&mut lazy, "HTTP/1.1 200");
    let rows = gateway.rows();
    assert_eq!((rows[0].end, rows[0].sample.failure), (AttemptEnd::Abandoned, Some(FailureKind::ClientStalled)));
    let answer = read_answer_after(stream_start, &mut lazy);
    assert!(answer.status == 200 && !answer.ended, "it was cut: {} bytes", answer.body.len());
}

#[test]
fn shutdown_lets_open_answers_end() {
    let events = chat_events(&["one", " two"]);
    let first = stream_start(&events);
    let rest = stream(&events)[first.len() + 1..].to_vec();
    // The rest after the first chunk, as a chunk of its own.
    let left =
        &events[events.find("one").and_then(|at| Some(at + events[at..].find("\n\n")? + 2)).expect("an event")..];
    drop(rest);
    let rest = format!("{:x}\r\n{left}\r\n0\r\n\r\n", left.len()).into_bytes();
    let slow = Scripted::start(vec![Script::SendHoldSend(first, rest)]);
    let mut gateway = TestGateway::start(configured(vec![lane("slow", slow.address, CHAT)], Mode::Off));
    let mut client = TcpStream::connect(gateway.address).expect("it listens");
    client.write_all(&request("POST", "/v1/chat/completions", &[], STREAM.as_bytes())).expect("it reads");
    let seen = read_until(&mut client, "\"one\"");
    let running = gateway.running.take().expect("it runs");
    let stopping = std::thread::spawn(move || running.stop());
    // No new client is accepted once it has stopped listening.
    while TcpStream::connect(gateway.address).is_ok() {
        std::thread::yield_now();
    }
    slow.release();
    let answer = read_answer_after(seen, &mut client);
    assert_eq!(answer.text(), events);
    stopping.join().expect("it ends");
    assert_eq!(gateway.rows()[0].end, AttemptEnd::Answered);
}
