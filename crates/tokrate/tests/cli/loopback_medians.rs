//! What the binary reports beside what the engine wrote, request by request: the medians of the differences are within
//! milliseconds.
//!
//! It does not bound single requests: any of them can be late on a shared machine. Invariant: a difference is taken within
//! one request, between spans of one clock, so the load that all requests share weighs on both sides of it.

use crate::folder::Folder;
use crate::loopback_truth::{engine, hold_all, quick, url};
use crate::tool::{self, Bench, bench, number};
use serde_json::Value;
use tokrate_core::Span;
use tokrate_host::{Kinds, RequestTruth, RunningHost, WriteTruth};
use tokrate_sim::Law;

/// What is promised: the way to the engine and back, and the time until a thread is woken on either side, are all that is
/// added in the median.
const WITHIN_NS: i64 = 5_000_000;
/// A span between two reads has no way in it; what is left is how differently late two wake-ups of a thread are. That
/// falls to either side alike, so its median is nearly nothing.
const WITHIN_OF_SPANS_NS: i64 = 2_500_000;
/// Half of so many are not late by accident.
const REQUESTS: u32 = 60;
/// So few at once leave a core to the engine.
const AT_ONCE: u32 = 2;

/// What a request's report adds to what was written, in nanoseconds; spans below zero were told shorter than they were.
#[derive(Clone, Copy, Default)]
struct Added {
    ttft: i64,
    ttfat: i64,
    end: i64,
    /// First text to last text.
    decode: i64,
    /// `decode`, shared among the gaps between the tokens.
    gap: i64,
}

impl Added {
    fn of(row: &Value, truth: &RequestTruth) -> Added {
        let received = truth.received_at.as_nanos();
        let texts: Vec<&WriteTruth> = truth.writes.iter().filter(|write| write.tokens > 0).collect();
        let (first, last) = (texts[0].written_at.as_nanos(), texts[texts.len() - 1].written_at.as_nanos());
        let answer = texts.iter().find(|write| write.kinds.contains(Kinds::TEXT)).expect("an answer");
        let end = truth.writes.last().expect("a write").written_at.as_nanos();
        let reported = |name: &str| number(row, name) as i64;
        // An answer that was not streamed has no TTFT; its text came all the same.
        let text = reported("first_text_at_ns") - reported("sent_at_ns");
        let since_sent = |name: &str| if row["ttft_missing"].is_null() { reported(name) } else { text };
        let decode = reported("last_text_at_ns") - reported("first_text_at_ns") - (last - first) as i64;
        Added {
            ttft: since_sent("ttft_ns") - (first - received) as i64,
            ttfat: since_sent("ttfat_ns") - (answer.written_at.as_nanos() - received) as i64,
            end: reported("e2e_ns") - (end - received) as i64,
            decode,
            gap: decode / (reported("tokens_std") - 1),
        }
    }
}

fn median(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// The medians that are not where they were promised to be.
fn too_far(added: &[Added]) -> Vec<String> {
    type Part = (&'static str, fn(&Added) -> i64, i64);
    let parts: [Part; 5] = [
        ("ttft", |added| added.ttft, WITHIN_NS),
        ("ttfat", |added| added.ttfat, WITHIN_NS),
        ("e2e", |added| added.end, WITHIN_NS),
        ("first to last text", |added| added.decode, WITHIN_OF_SPANS_NS),
        // 40 tokens have 39 gaps.
        ("gap", |added| added.gap, WITHIN_OF_SPANS_NS / 39),
    ];
    let medians = parts.map(|(name, part, within)| (name, median(added.iter().map(part).collect()), within));
    let far = medians.into_iter().filter(|(_, median, within)| median.abs() > *within);
    far.map(|(name, median, within)| format!("{name}: {median} ns added in the median, over {within}")).collect()
}

/// Holds a bench to the promise, each request by itself and the record's own medians.
fn hold_medians(bench: &Bench, host: &RunningHost) {
    hold_all(bench, host);
    assert_eq!(bench.rows.len(), REQUESTS as usize);
    let truth = host.truth();
    let served =
        |row: &Value| truth.request(row["request_id"].as_str().expect("an id")).expect("hold_all found it").clone();
    let added: Vec<Added> = bench.rows.iter().map(|row| Added::of(row, &served(row))).collect();
    assert_eq!(too_far(&added), [""; 0]);

    let written = |row: &Value| {
        let truth = served(row);
        let first = truth.writes.iter().find(|write| write.tokens > 0).expect("text").written_at;
        (first - truth.received_at).as_nanos() as i64
    };
    let true_median = median(bench.rows.iter().map(written).collect()) as f64 / 1e6;
    // All of a whole answer is written at once.
    let phase = bench.phase();
    let stated = if bench.record.conditions.streaming { &phase.ttft.p50 } else { &phase.e2e.p50 };
    let reported = stated.value.unwrap_or_else(|| panic!("60 requests are enough for a median: {stated:?}"));
    assert!(
        (reported - true_median).abs() * 1e6 < WITHIN_NS as f64,
        "{reported} ms are reported, {true_median} ms were written"
    );
}

/// Measures an engine with the law and holds the medians to the promise.
fn measure(name: &str, law: Law, further: &[&str]) {
    let host = engine(law);
    let bench = bench(name, &url(&host), AT_ONCE, REQUESTS, further);
    hold_medians(&bench, &host);
}

#[test]
fn the_median_stream_is_told_within_milliseconds_of_what_was_written() {
    measure("medians", quick(), &[]);
}

/// Quick answers are over after some ten milliseconds, and have a speed like all others.
#[test]
fn the_median_speed_of_quick_answers_is_the_one_that_was_written() {
    let host = engine(quick());
    let bench = bench("quick-speed", &url(&host), AT_ONCE, REQUESTS, &[]);
    let truth = host.truth();
    let mut ratios: Vec<f64> = Vec::new();
    for row in &bench.rows {
        let Some(speed) = row["output_speed"].as_f64() else { continue };
        let served = truth.request(row["request_id"].as_str().expect("an id")).expect("it was served");
        let texts: Vec<&WriteTruth> = served.writes.iter().filter(|write| write.tokens > 0).collect();
        let window = texts[texts.len() - 1].written_at - texts[0].written_at;
        let later: u32 = texts[1..].iter().map(|write| write.tokens).sum();
        ratios.push(speed * window.as_secs_f64() / f64::from(later));
    }
    assert!(ratios.len() * 2 > bench.rows.len(), "{} of {} have a speed", ratios.len(), bench.rows.len());
    ratios.sort_by(f64::total_cmp);
    let ratio = ratios[ratios.len() / 2];
    assert!((0.9..1.1).contains(&ratio), "the median speed is {ratio} times what was written");
}

#[test]
fn the_median_stream_over_http2_is_told_within_milliseconds_of_what_was_written() {
    measure("medians-http2", quick(), &["--http", "2"]);
}

#[test]
fn the_median_stream_of_a_new_connection_is_told_within_milliseconds_of_what_was_written() {
    measure("medians-new", quick(), &["--new-connections"]);
}

#[test]
fn the_median_whole_answer_is_told_within_milliseconds_of_what_was_written() {
    measure("medians-whole", quick(), &["--no-stream"]);
}

#[test]
fn the_median_first_answer_after_reasoning_is_told_within_milliseconds_of_what_was_written() {
    measure("medians-reasoning", Law { reasoning_tokens: 15, ..quick() }, &[]);
}

#[test]
fn the_median_stream_of_a_schedule_is_told_within_milliseconds_of_what_was_written() {
    let host = engine(quick());
    let folder = Folder::new("medians-open");
    let arguments = format!(
        "bench --url {} --model sim --rate 30 --arrivals constant --requests {REQUESTS} --input-tokens 50 \
         --output-tokens 40 --calibration off --no-probe --json record.json --jsonl rows.jsonl",
        url(&host)
    );
    let finished = tool::run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
    hold_medians(&Bench::read(folder, finished), &host);
}

#[test]
fn six_milliseconds_in_the_median_are_too_far_and_half_the_requests_late_by_a_second_are_not() {
    let usual = Added { ttft: 400_000, ttfat: 450_000, end: 500_000, decode: 100_000, gap: 2_564 };
    let mut added = vec![usual; 60];
    assert_eq!(too_far(&added), [""; 0]);
    for late in &mut added[..29] {
        late.ttft += Span::from_secs(1).as_nanos() as i64;
    }
    assert_eq!(too_far(&added), [""; 0]);
    let shifted: [fn(&mut Added); 4] = [
        |added| added.ttft += 6_000_000,
        |added| added.ttfat -= 6_000_000,
        |added| added.end += 6_000_000,
        |added| (added.decode, added.gap) = (added.decode - 6_000_000, added.gap - 153_846),
    ];
    for shift in shifted {
        let mut added = vec![usual; 60];
        added.iter_mut().for_each(shift);
        assert!(!too_far(&added).is_empty());
    }
}
