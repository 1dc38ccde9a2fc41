//! The binary measures an engine that logs the nanosecond of every write; each number is held against that log.
//!
//! It does not judge how late a shared machine is. Invariant: both sides read the same monotonic clock, so nothing that
//! was measured may precede what was written.

use crate::folder::Folder;
use crate::tool::{self, Bench, bench, finish, number, start, tokrate};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::process::Command;
use tokrate_core::Span;
use tokrate_host::{Host, HostConfig, Kinds, RequestTruth, RunningHost, TruthLog, TruthRow};
use tokrate_sim::Law;

/// Any one request can be late; what the median adds is held to milliseconds in `loopback_medians`. This is far above what
/// any machine adds, and far below a mistake of a unit.
const SANE_NS: i64 = 1_000_000_000;

/// 10 ms to the first token, then a token each millisecond.
pub fn quick() -> Law {
    Law {
        slots: 64,
        base_delay: Span::from_millis(10),
        prefill_tokens_per_second: 1e6,
        stream_tokens_per_second: 1_000.0,
        contention: 0.0,
        coherency: 0.0,
        ..Law::default()
    }
}

/// An engine with that law, its log kept in memory.
pub fn engine(law: Law) -> RunningHost {
    Host::start(HostConfig { law, truth: TruthLog::Memory, ..HostConfig::default() }).expect("a host on loopback")
}

pub fn url(host: &RunningHost) -> String {
    format!("http://{}/v1", host.address())
}

/// One answer as its writer logged it.
struct Served {
    received_ns: u64,
    input_tokens: u32,
    writes: Vec<Written>,
}

struct Written {
    at_ns: u64,
    tokens: u32,
    kinds: Kinds,
}

impl Served {
    fn of(truth: &RequestTruth) -> Served {
        let written = |write: &tokrate_host::WriteTruth| Written {
            at_ns: write.written_at.as_nanos(),
            tokens: write.tokens,
            kinds: write.kinds,
        };
        Served {
            received_ns: truth.received_at.as_nanos(),
            input_tokens: truth.input_tokens,
            writes: truth.writes.iter().map(written).collect(),
        }
    }

    fn tokens(&self) -> u64 {
        self.writes.iter().map(|write| u64::from(write.tokens)).sum()
    }

    fn texts(&self) -> impl DoubleEndedIterator<Item = &Written> {
        self.writes.iter().filter(|write| write.tokens > 0)
    }

    /// When text of the answer, not of the reasoning, was first written.
    fn answer_ns(&self) -> Option<u64> {
        self.texts().find(|write| write.kinds.contains(Kinds::TEXT)).map(|write| write.at_ns)
    }
}

/// Holds one row against what was written to answer it.
fn hold(row: &Value, served: &Served) {
    assert!(row["failure"].is_null(), "{row}");
    let (first, last) = (served.texts().next().expect("text"), served.texts().next_back().expect("text"));
    assert_eq!(number(row, "tokens_std"), served.tokens(), "{row}");
    assert!(number(row, "chunks") <= served.texts().count() as u64, "chunks that nobody wrote: {row}");
    assert_eq!(u64::from(served.input_tokens), number(row, "input_asked"), "the prompt has its length: {row}");

    // Nothing arrives before it is written.
    assert!(number(row, "first_text_at_ns") >= first.at_ns, "{row}");
    assert!(number(row, "last_text_at_ns") >= last.at_ns, "{row}");
    let end = served.writes.last().expect("a write");
    assert!(number(row, "finished_at_ns") >= end.at_ns, "{row}");
    let streamed = row["ttft_missing"].is_null();
    if streamed {
        let answer_at = number(row, "sent_at_ns") + number(row, "ttfat_ns");
        assert!(answer_at >= served.answer_ns().expect("an answer"), "{row}");
    }

    // The order of things.
    let order =
        ["due_at_ns", "sent_at_ns", "first_byte_at_ns", "first_text_at_ns", "last_text_at_ns", "finished_at_ns"];
    let ticks: Vec<u64> = order.iter().map(|name| number(row, name)).collect();
    assert!(ticks.is_sorted(), "{order:?} are {ticks:?}");
    assert!(number(row, "finished_at_ns") <= number(row, "ended_at_ns"), "{row}");

    // Spans are differences of those ticks.
    let first_text = number(row, "first_text_at_ns") - number(row, "sent_at_ns");
    assert_eq!(row["ttft_ns"].as_u64(), streamed.then_some(first_text));
    assert_eq!(number(row, "e2e_ns"), number(row, "finished_at_ns") - number(row, "sent_at_ns"));
    let added = first_text as i64 - (first.at_ns - served.received_ns) as i64;
    assert!(added.abs() < SANE_NS, "{added} ns added to the first text: {row}");
    let served_decode = (last.at_ns - first.at_ns) as i64;
    let seen_decode = (number(row, "last_text_at_ns") - number(row, "first_text_at_ns")) as i64;
    assert!((seen_decode - served_decode).abs() < SANE_NS, "{row}");
    if let Some(speed) = row["output_speed"].as_f64() {
        let tokens = (number(row, "tokens_std") - number(row, "tokens_first_chunk")) as f64;
        let exact = tokens / (seen_decode as f64 / 1e9);
        assert!((speed / exact - 1.0).abs() < 1e-9, "{speed} is not {exact}");
    }
}

/// Holds every row of a bench against the host's log.
pub fn hold_all(bench: &Bench, host: &RunningHost) {
    bench.expect(0, &[]);
    let truth = host.truth();
    for (index, row) in (0..).zip(&bench.rows) {
        assert_eq!(row["index"], index, "rows are in the order of the plan");
        let id = row["request_id"].as_str().expect("an id");
        let served = truth.request(id).unwrap_or_else(|| panic!("the engine never saw {id}"));
        hold(row, &Served::of(served));
    }
    assert_eq!(truth.requests.len(), bench.rows.len(), "the engine saw no other request");
}

/// Measures an engine with the law and holds all rows against its log.
fn measure(name: &str, law: Law, further: &[&str]) -> Bench {
    let host = engine(law);
    let bench = bench(name, &url(&host), 4, 12, further);
    hold_all(&bench, &host);
    bench
}

pub fn each(bench: &Bench, name: &str, expected: u64) {
    for row in &bench.rows {
        assert_eq!(number(row, name), expected, "{name} of {row}");
    }
}

#[test]
fn a_stream_is_measured_as_it_was_written() {
    let bench = measure("plain", quick(), &[]);
    each(&bench, "tokens_std", 40);
    each(&bench, "tokens_reported", 40);
    each(&bench, "text_events", 40);
    each(&bench, "input_reported", 50);
}

#[test]
fn a_stream_that_is_long_enough_has_a_speed() {
    let law = Law { stream_tokens_per_second: 50.0, ..quick() };
    let bench = measure("speed", law, &[]);
    for row in &bench.rows {
        // 39 gaps of 20 ms; only a read that is half a second late could leave a window too short for a speed.
        let speed = row["output_speed"].as_f64().unwrap_or_else(|| panic!("{row}"));
        assert!((10.0..200.0).contains(&speed), "{speed}");
    }
    assert_eq!(bench.phase().output_speed.n, 12);
}

#[test]
fn reasoning_and_answer_are_kept_apart() {
    // The reasoning takes 150 ms, so that it and the answer come in one read of a client that was stopped for as long.
    let law = Law { reasoning_tokens: 15, stream_tokens_per_second: 100.0, ..quick() };
    let bench = measure("reasoning", law, &[]);
    each(&bench, "tokens_std_reasoning", 15);
    each(&bench, "tokens_std_answer", 25);
    each(&bench, "reasoning_reported", 15);
    let mut apart = 0;
    for row in &bench.rows {
        let (first, first_of_answer) = (number(row, "ttft_ns"), number(row, "ttfat_ns"));
        if number(row, "tokens_first_chunk") > 15 {
            assert_eq!(first_of_answer, first, "one read held both: {row}");
        } else {
            assert!(first_of_answer > first, "{row}");
            apart += 1;
        }
        assert_eq!(row["reasoning_hidden"], false);
    }
    assert!(apart > 0, "no request whose reasoning came by itself");
}

#[test]
fn four_tokens_in_a_chunk_are_four_tokens() {
    let bench = measure("four", Law { tokens_per_chunk: 4, ..quick() }, &[]);
    each(&bench, "tokens_std", 40);
    each(&bench, "text_events", 10);
    for row in &bench.rows {
        let (chunks, first) = (number(row, "chunks"), number(row, "tokens_first_chunk"));
        assert!(chunks <= 10 && first >= 4 && first.is_multiple_of(4), "{row}");
    }
}

#[test]
fn events_that_come_together_are_one_chunk() {
    let bench = measure("coalesced", Law { coalesce: Span::from_millis(8), ..quick() }, &[]);
    each(&bench, "text_events", 40);
    for row in &bench.rows {
        assert!(number(row, "chunks") <= 12, "40 ms hold at most 6 ticks of 8 ms and their jitter: {row}");
        assert!(number(row, "bursts") > 0, "{row}");
    }
}

#[test]
fn usage_in_every_chunk_changes_no_count() {
    let bench = measure("usage", Law { usage_every_chunk: true, ..quick() }, &[]);
    each(&bench, "tokens_std", 40);
    each(&bench, "tokens_reported", 40);
    each(&bench, "text_events", 40);
}

#[test]
fn without_usage_tokens_are_counted() {
    let bench = measure("no-usage", quick(), &["--no-usage"]);
    each(&bench, "tokens_std", 40);
    for row in &bench.rows {
        assert!(row["tokens_reported"].is_null() && row["input_reported"].is_null(), "{row}");
    }
}

#[test]
fn a_whole_answer_is_one_chunk_with_no_first_token_and_no_speed() {
    let bench = measure("whole", quick(), &["--no-stream", "--csv", "whole.csv", "--vllm-json", "whole.json"]);
    each(&bench, "tokens_std", 40);
    each(&bench, "chunks", 1);
    assert!(!bench.record.conditions.streaming);
    for row in &bench.rows {
        assert!(row["output_speed"].is_null() && row["output_speed_missing"].is_string(), "{row}");
        assert!(row["ttft_ns"].is_null() && row["ttft_missing"].is_string(), "{row}");
        assert!(number(row, "e2e_ns") >= 40_000_000, "39 gaps of 1 ms and 10 ms before: {row}");
    }
    assert_eq!((bench.phase().ttft.n, bench.phase().adj_ttft.n), (0, 0));
    let notes = bench.record.notes.join("\n");
    assert!(notes.contains("not streamed: each came in one piece, so there is no TTFT"), "{notes}");
    let csv = bench.folder.read("whole.csv");
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let cell = |name: &str| rows[1][rows[0].iter().position(|head| *head == name).expect(name)];
    assert_eq!((cell("streamed"), cell("ttft_p50_ms"), cell("output_speed_median_tok_s")), ("false", "", ""));
    let vllm: serde_json::Value = serde_json::from_str(&bench.folder.read("whole.json")).expect("JSON");
    assert!(vllm["median_ttft_ms"].is_null() && vllm["mean_tpot_ms"].is_null(), "{vllm}");
    assert!(vllm["median_e2el_ms"].is_number() && vllm["tokrate_streamed"] == false, "{vllm}");
}

#[test]
fn http2_is_measured_like_http1() {
    let bench = measure("http2", quick(), &["--http", "2"]);
    each(&bench, "tokens_std", 40);
    assert_eq!(bench.record.conditions.http_version, "h2");
    let connections = &bench.phase().connections;
    assert!(connections.new < 12, "streams share connections: {connections:?}");
}

#[test]
fn connections_are_reused_unless_told_otherwise() {
    let reused = measure("reused", quick(), &[]);
    let connections = &reused.phase().connections;
    assert!(connections.new <= 4 && connections.reused >= 8, "{connections:?}");
    let new = measure("new", quick(), &["--new-connections"]);
    assert_eq!((new.phase().connections.new, new.phase().connections.reused), (12, 0));
    assert_eq!(new.record.conditions.connection, "new");
    for row in &new.rows {
        assert!(number(row, "connect_ns") > 0, "{row}");
    }
}

#[test]
fn an_open_loop_keeps_its_schedule() {
    let host = engine(quick());
    let folder = Folder::new("open");
    let arguments = format!(
        "bench --url {} --model sim --rate 100 --arrivals constant --requests 20 --input-tokens 50 --output-tokens 40 \
         --calibration off --no-probe --json record.json --jsonl rows.jsonl",
        url(&host)
    );
    let finished = tool::run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
    let bench = Bench::read(folder, finished);
    hold_all(&bench, &host);
    let due: Vec<u64> = bench.rows.iter().map(|row| number(row, "due_at_ns")).collect();
    for pair in due.windows(2) {
        assert_eq!(pair[1] - pair[0], 10_000_000, "an absolute schedule: {due:?}");
    }
}

#[test]
fn the_sim_command_serves_and_logs_the_truth() {
    let folder = Folder::new("sim");
    let arguments = "sim --listen 127.0.0.1:0 --truth-log truth.jsonl --delay 10ms --speed 1000 --alpha 0 --beta 0";
    let mut sim = start(&mut tokrate(&folder, &arguments.split_whitespace().collect::<Vec<&str>>()));
    let mut lines = BufReader::new(sim.stdout.take().expect("piped"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("a line");
    let url =
        line.split_whitespace().find(|word| word.starts_with("http://")).expect("the address is named").to_owned();
    let bench = bench("sim-bench", &url, 4, 12, &[]);
    let pid = sim.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill is there").success());
    let mut rest = String::new();
    lines.read_to_string(&mut rest).expect("text");
    let ended = finish(sim);
    assert_eq!(ended.code, Some(0), "{rest} {ended:?}");
    assert!(rest.contains("lateness of the engine's own writes"), "{rest}");

    bench.expect(0, &[]);
    let served = read_log(&folder.read("truth.jsonl"));
    assert_eq!(served.len(), 12);
    for row in &bench.rows {
        hold(row, &served[row["request_id"].as_str().expect("an id")]);
    }
}

/// The requests of a truth log by their `x-request-id`.
fn read_log(text: &str) -> HashMap<String, Served> {
    let mut by_number: HashMap<u64, (String, Served)> = HashMap::new();
    for line in text.lines() {
        match serde_json::from_str(line).expect("a row of the log") {
            TruthRow::Request { request, id, received_ns, input_tokens, .. } => {
                let served = Served { received_ns, input_tokens, writes: Vec::new() };
                by_number.insert(request, (id.expect("an id"), served));
            }
            TruthRow::Write { request, written_ns, tokens, kinds, .. } => {
                let (_, served) = by_number.get_mut(&request).expect("its request came before");
                served.writes.push(Written { at_ns: written_ns, tokens, kinds });
            }
            TruthRow::End { .. } => {}
            TruthRow::Dropped { rows } => panic!("{rows} rows are missing"),
        }
    }
    by_number.into_values().collect()
}
