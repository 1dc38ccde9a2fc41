//! Every fault of the engine: named rightly, counted, kept apart from speed, and told by the exit code.
//!
//! Invariant: what was measured before a fault is kept.

use crate::loopback_truth::{engine, quick, url};
use crate::scripted::{Server, Then, stream};
use crate::tool::{Bench, bench, folded, number};
use std::collections::HashSet;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokrate_record::Status;

/// Six requests, two at a time, each with the fault.
fn with(fault: &str, further: &[&str]) -> Bench {
    let host = engine(quick());
    let header = format!("x-tokrate-fault: {fault}");
    let name = fault.split(['@', '=']).next().expect("a name");
    bench(name, &url(&host), 2, 6, &[&["--header", &header], further].concat())
}

/// Sixty requests of which some have the fault.
fn with_some(fault: &str, further: &[&str]) -> Bench {
    let host = engine(quick());
    let header = format!("x-tokrate-fault: {fault}");
    bench("some", &url(&host), 20, 60, &[&["--header", &header], further].concat())
}

fn all_tokens(bench: &Bench, expected: u64) {
    for row in &bench.rows {
        assert_eq!(number(row, "tokens_std"), expected, "{row}");
    }
}

#[test]
fn a_rate_limit_is_a_state_of_its_own() {
    let bench = with("rate_limited", &[]);
    bench.expect(2, &[("rate_limited", 6)]);
    assert_eq!(bench.record.status, Status::Failed);
    let limited = &bench.phase().rate_limited;
    assert_eq!((limited.count, limited.with_retry_after, limited.retry_after_total_ms), (6, 6, Some(6_000.0)));
    assert_eq!(bench.phase().counts.failed, 0);
    assert!(bench.finished.stdout.contains("rate-limited"), "{}", bench.finished.stdout);
}

#[test]
fn some_rate_limits_are_no_failures() {
    let bench = with_some("rate_limited=0.3", &[]);
    let limited = bench.phase().counts.rate_limited;
    assert!((1..60).contains(&limited), "{limited}");
    bench.expect(0, &[("rate_limited", limited)]);
    let answered = bench.phase().ttft.n;
    assert_eq!(answered, 60 - limited, "a refusal is no slow answer");
    assert!(
        bench.record.warnings.iter().any(|warning| warning.contains("rate-limited")),
        "{:?}",
        bench.record.warnings
    );
}

#[test]
fn a_server_error_is_counted_with_its_message() {
    let bench = with("server_error", &[]);
    bench.expect(2, &[("server_error", 6)]);
    let failure = &bench.phase().failures[0];
    assert!(failure.message.as_deref().is_some_and(|message| message.starts_with("HTTP 500")), "{failure:?}");
    assert!(!failure.hint.is_empty());
    assert!(bench.finished.stdout.contains("FAILED"), "{}", bench.finished.stdout);
}

#[test]
fn more_than_one_percent_failed_is_exit_code_one() {
    let bench = with_some("server_error=0.3", &[]);
    let failed = bench.phase().counts.failed;
    assert!((1..60).contains(&failed), "{failed}");
    bench.expect(1, &[("server_error", failed)]);
    assert!(bench.phase().failures_above_limit);
    let tolerant = with_some("server_error=0.3", &["--max-failures", "0.9"]);
    tolerant.expect(0, &[("server_error", failed)]);
}

#[test]
fn a_stalled_stream_ends_at_the_idle_limit_and_keeps_its_tokens() {
    let bench = with("stall@5", &["--idle-timeout", "300ms"]);
    bench.expect(2, &[("stalled", 6)]);
    all_tokens(&bench, 5);
    for row in &bench.rows {
        let waited = number(row, "ended_at_ns") - number(row, "last_text_at_ns");
        assert!((250_000_000..5_000_000_000).contains(&waited), "{row}");
        assert!(row["ttft_ns"].is_u64() && row["e2e_ns"].is_null(), "{row}");
    }
}

#[test]
fn a_whole_request_has_its_limit_too() {
    let bench = with("stall@5", &["--timeout", "500ms"]);
    bench.expect(2, &[("timed_out", 6)]);
    all_tokens(&bench, 5);
}

#[test]
fn a_cut_stream_is_kept_and_labelled() {
    let bench = with_some("disconnect@5=0.3", &[]);
    let cut = bench.phase().counts.failed;
    assert!((1..60).contains(&cut), "{cut}");
    bench.expect(1, &[("truncated", cut)]);
    for row in bench.rows.iter().filter(|row| !row["failure"].is_null()) {
        assert_eq!(number(row, "tokens_std"), 5, "{row}");
        assert!(number(row, "ttft_ns") > 0 && row["e2e_ns"].is_null(), "{row}");
    }
    assert_eq!(bench.phase().ttft.n, 60 - cut, "a cut answer enters no distribution of answers");
    assert!(bench.finished.stdout.contains("truncated"), "{}", bench.finished.stdout);
}

#[test]
fn when_every_stream_is_cut_nothing_was_measured() {
    let bench = with("disconnect@5", &[]);
    bench.expect(2, &[("truncated", 6)]);
    all_tokens(&bench, 5);
}

#[test]
fn a_cut_whole_answer_is_no_answer() {
    let bench = with("disconnect@5", &["--no-stream"]);
    let kinds = bench.failures();
    assert_eq!(kinds.values().sum::<u64>(), 6);
    assert!(kinds.keys().all(|kind| kind == "truncated" || kind == "protocol" || kind == "closed"), "{kinds:?}");
    assert_eq!(bench.finished.code, Some(2));
}

#[test]
fn a_cut_http2_stream_is_truncated() {
    let bench = with("disconnect@5", &["--http", "2"]);
    bench.expect(2, &[("truncated", 6)]);
    all_tokens(&bench, 5);
}

#[test]
fn a_broken_event_is_an_anomaly_and_no_end() {
    let bench = with("malformed@5", &[]);
    bench.expect(0, &[]);
    assert_eq!(bench.anomalies("unreadable_event"), 6);
    all_tokens(&bench, 40);
}

#[test]
fn a_broken_whole_answer_is_truncated() {
    let bench = with("malformed@5", &["--no-stream"]);
    let kinds = bench.failures();
    assert_eq!(kinds.values().sum::<u64>(), 6, "{kinds:?}");
    assert_eq!(bench.finished.code, Some(2));
}

#[test]
fn an_error_in_a_stream_is_not_an_answer() {
    let bench = with("error_event@5", &[]);
    bench.expect(2, &[("error_in_stream", 6)]);
    all_tokens(&bench, 5);
    assert!(bench.phase().failures[0].message.is_some());
}

#[test]
fn an_error_before_any_text_has_its_own_kind() {
    let bench = with("error_event@0", &[]);
    let kinds = bench.failures();
    assert_eq!(kinds.values().sum::<u64>(), 6, "{kinds:?}");
    assert_eq!(bench.finished.code, Some(2));
    all_tokens(&bench, 0);
}

#[test]
fn missing_usage_is_counted_instead() {
    let bench = with("missing_usage", &[]);
    bench.expect(0, &[]);
    all_tokens(&bench, 40);
    assert!(bench.rows.iter().all(|row| row["tokens_reported"].is_null()));
}

#[test]
fn an_empty_answer_is_a_failure_with_a_hint() {
    let bench = with("empty", &[]);
    bench.expect(2, &[("empty", 6)]);
    assert!(bench.phase().failures[0].hint.contains("--output-tokens"));
}

#[test]
fn an_empty_whole_answer_is_a_failure() {
    with("empty", &["--no-stream"]).expect(2, &[("empty", 6)]);
}

#[test]
fn a_missing_end_mark_is_an_anomaly() {
    let bench = with("no_done", &[]);
    bench.expect(0, &[]);
    assert_eq!(bench.anomalies("missing_done"), 6);
    all_tokens(&bench, 40);
}

#[test]
fn an_answer_in_one_burst_has_no_speed() {
    let bench = with("burst", &[]);
    bench.expect(0, &[]);
    all_tokens(&bench, 40);
    for row in &bench.rows {
        assert_eq!(row["one_burst"], true, "{row}");
        assert!(row["output_speed"].is_null() && row["output_speed_missing"].is_string(), "{row}");
        assert!(number(row, "ttft_ns") >= 40_000_000, "it comes when the last token is made: {row}");
    }
    assert_eq!(bench.phase().output_speed.n, 0);
}

#[test]
fn several_faults_at_once_are_counted_apart() {
    let bench = with_some("server_error=0.2,disconnect@5=0.2,malformed@3=0.3", &[]);
    let kinds = bench.failures();
    let names: Vec<&str> = kinds.keys().map(String::as_str).collect();
    assert_eq!(names, ["server_error", "truncated"]);
    assert!(bench.anomalies("unreadable_event") > 0);
    assert_eq!(bench.finished.code, Some(1));
}

#[test]
fn a_connection_that_cannot_be_opened_was_no_kept_one() {
    let place = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
    let bench = crate::tool::bench("refused", &format!("http://{place}/v1"), 1, 3, &[]);
    bench.expect(2, &[("connect", 3)]);
    assert_eq!(bench.phase().connections.stale, 0);
    assert!(!folded(&bench.finished.stdout).contains("kept connections"), "{}", bench.finished.stdout);
}

/// Keeps each connection after its first answer; reads the second request on it, works on that and closes without a word.
fn closes_after_work() -> (Server, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let (count, served) = (Arc::clone(&asked), Mutex::new(HashSet::new()));
    let server = Server::start(move |_, client| {
        count.fetch_add(1, SeqCst);
        let is_first = served.lock().expect("no panic holds it").insert(client.peer_addr()?);
        if !is_first {
            // Longer than a connection that was closed before would have taken to say so.
            std::thread::sleep(Duration::from_millis(200));
            return Ok(Then::Close);
        }
        let body = stream(40).concat();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: ";
        write!(client, "{head}{}\r\n\r\n{body}", body.len()).map(|()| Then::Keep)
    });
    (server, asked)
}

#[test]
fn a_request_that_a_server_worked_on_and_dropped_is_a_failure_sent_once_and_paid() {
    let (server, asked) = closes_after_work();
    let priced = ["--max-cost-usd", "1", "--price-input", "10", "--price-output", "20", "--max-failures", "1"];
    let bench = bench("worked", &server.url(), 1, 6, &priced);
    bench.expect(0, &[("closed", 3)]);
    assert_eq!((bench.phase().counts.answered, asked.load(SeqCst)), (3, 6), "no request was sent twice");
    assert_eq!(bench.phase().connections.stale, 0);
    let spending = bench.record.spending.expect("the price is known");
    // The three that failed cost their prompts at least.
    assert_eq!(spending.input_tokens, 3 * 50 + 3 * 50, "{spending:?}");
}
