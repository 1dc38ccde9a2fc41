//! Samples are filled from what a meter measured, and from the rows of a bench; their texts are bounded.

use super::*;
use crate::record::{ConditionsRow, TargetPrice};
use serde::de::DeserializeOwned;
use tokrate_core::{Channel, Conditions, EventBatch, EventKind, Money, Price, Tick, Usage};
use tokrate_meter::fixtures::{RequestBuilder, at, numbers};
use tokrate_meter::request::ConnectionState;
use tokrate_meter::{Ending, LiveMeter, RequestNumbers, Timing};

/// Puts a long text with control characters into each field of a row and checks that it is bounded; how many fields hold texts.
pub(crate) fn every_text_is_bounded<T: Serialize + DeserializeOwned>(row: &T, bound_texts: fn(&mut T)) -> usize {
    let long = "\u{1b}[2J".to_owned() + &"x".repeat(1 << 20);
    let written = serde_json::to_value(row).expect("plain data");
    let fields: Vec<String> = written.as_object().expect("a row").keys().cloned().collect();
    let is_bounded = |field: &String| {
        let mut written = written.clone();
        written[field] = long.clone().into();
        // Of numbers and of names from a list that is refused.
        let Ok(mut row) = serde_json::from_value::<T>(written) else { return false };
        bound_texts(&mut row);
        let written = serde_json::to_value(&row).expect("plain data");
        let bounded = written[field].as_str().expect("a text");
        assert!(bounded.len() <= MAX_TEXT_BYTES && !bounded.contains('\u{1b}'), "{field}");
        true
    };
    fields.iter().filter(|field| is_bounded(field)).count()
}

#[test]
fn names_are_those_of_json() {
    for basis in CostBasis::ALL {
        assert_eq!(serde_json::to_value(basis).expect("plain data"), basis.name());
    }
}

#[test]
fn a_sample_is_filled_from_the_stream() {
    let mut meter = LiveMeter::new();
    let mut batch = EventBatch::new();
    let name = batch.store("large-2");
    batch.push(Tick::from_nanos(10), EventKind::Model(name));
    batch.push_text(Tick::from_nanos(10), Channel::Answer, "hello world");
    batch.push(Tick::from_nanos(20), EventKind::Usage(Usage { output: Some(5), input: Some(3), ..Usage::default() }));
    meter.on(&batch);
    assert_eq!(meter.usage().and_then(|usage| usage.output), Some(5));
    let timing = Timing { sent_at: Some(Tick::from_nanos(4)), ..Timing::default() };
    let mut sample = Sample { provider: "north".to_owned(), ..Sample::default() };
    sample.fill(&meter.finish(&timing, Ending::Complete));
    let expected = Sample {
        provider: "north".to_owned(),
        model_answered: Some("large-2".to_owned()),
        failure: Some(FailureKind::Truncated),
        ttft_ns: Some(6),
        ttfat_ns: Some(6),
        output_speed_missing: Some("fewer than 16 tokens".into()),
        text_events: 1,
        chunks: 1,
        output_tokens_std: 2,
        output_tokens: Some(5),
        input_tokens: Some(3),
        ..Sample::default()
    };
    assert_eq!(sample, expected);
}

fn conditions() -> ConditionsRow {
    ConditionsRow::from(&Conditions {
        model: "large".into(),
        provider: "north".into(),
        dialect: "openai-chat".into(),
        streaming: true,
        output_tokens: 64,
        tokenizer: "o200k_base".into(),
        host: "runner-7".into(),
        region: "eu".into(),
        version: "0.1.0".into(),
        ..Conditions::default()
    })
}

/// 40 words, one every 10 ms, due at `due_ms` and sent 2 ms later on a connection that was opened for it.
fn request(due_ms: u64) -> RequestNumbers {
    let sent = RequestBuilder::sent(due_ms, due_ms + 2).first_byte(due_ms + 49);
    let words = (0..40).fold(sent, |story, n| story.answer(due_ms + 50 + 10 * n, " word"));
    let numbers = numbers(&words.done(due_ms + 440, due_ms + 441));
    let connection = ConnectionState::New;
    RequestNumbers { connection, connect_ns: 900_000, request_bytes: Some(700), input_asked: Some(90), ..numbers }
}

#[test]
fn a_request_of_a_bench_becomes_a_sample_with_the_runs_conditions() {
    let conditions = conditions();
    let price = Price::from_usd_per_million(1.0, 10.0).expect("a price");
    let rows = [request(0), request(100), request(1_000)];
    let frame =
        RunFrame::new(&conditions, at(500).as_nanos(), 1_800_000_000_500, Some(TargetPrice::of_tokens(price, "", "")));
    let samples = frame.samples(&rows);
    let started: Vec<u64> = samples.iter().map(|sample| sample.started_unix_ms).collect();
    let due: Vec<u64> = rows.iter().map(|row| row.due_at_ns / 1_000_000).collect();
    assert_eq!(started, due.iter().map(|ms| 1_800_000_000_000 + ms).collect::<Vec<_>>());
    assert_eq!(samples.iter().map(|sample| sample.in_flight).collect::<Vec<_>>(), [1, 2, 1]);
    let (row, sample) = (&rows[1], &samples[1]);
    assert_eq!((sample.provider.as_str(), sample.model.as_str(), &*sample.dialect), ("north", "large", "openai-chat"));
    assert_eq!((sample.ttft_ns, sample.ttfb_ns, sample.output_speed), (row.ttft_ns, row.ttfb_ns, row.output_speed));
    assert!(
        sample.output_speed.is_some() && sample.tpot_ms() == row.tpot_ms.map(|_| 1e3 / row.output_speed.unwrap_or(0.0))
    );
    assert_eq!((sample.gaps.count(), sample.gap_max_ns), (39, row.largest_gap_ns));
    assert_eq!((sample.connection_new, sample.dns_ns, sample.connect_ns), (true, Some(0), Some(900_000)));
    assert_eq!((sample.wait_ns, sample.total_ns), (Some(2_000_000), row.ended_at_ns - row.due_at_ns));
    assert_eq!((sample.request_bytes, sample.output_limit, sample.input_tokens_std), (Some(700), Some(64), Some(90)));
    // Nothing was reported: what was counted is priced.
    assert_eq!(sample.cost_basis, CostBasis::Estimated);
    let cost = Money::from_usd((90.0 + 10.0 * 40.0) / 1e6).map(Money::as_usd);
    assert_eq!((sample.output_tokens_std, sample.cost_usd), (40, cost));
    let shared = &sample.conditions;
    assert_eq!((shared.region.as_deref(), shared.host.as_deref()), (Some("eu"), Some("runner-7")));
    assert_eq!(shared.tokenizer.as_deref(), Some("o200k_base"));
    assert_eq!(shared.fingerprint.as_deref(), Some(conditions.fingerprint.as_str()));
    assert_eq!(shared.version, "0.1.0");
}

#[test]
fn a_refused_request_is_free_and_one_without_a_price_unknown() {
    let conditions = conditions();
    let mut refused = request(0);
    refused.failure = Some(tokrate_meter::FailureRow {
        kind: FailureKind::RateLimited,
        message: String::new(),
        retry_after_ns: None,
    });
    let basis = |row: &RequestNumbers, price: Option<Price>| {
        let price = price.map(|price| TargetPrice::of_tokens(price, "", ""));
        let sample = Sample::of_request(row, &RunFrame::new(&conditions, 0, 0, price), 1);
        (sample.cost_basis, sample.cost_usd)
    };
    let price = Price::from_usd_per_million(1.0, 10.0);
    assert_eq!(basis(&refused, price), (CostBasis::Free, Some(0.0)));
    assert_eq!(basis(&request(0), None), (CostBasis::Unknown, None));
    let reported = RequestNumbers { input_reported: Some(1), tokens_reported: Some(2), ..request(0) };
    assert_eq!(basis(&reported, price), (CostBasis::Reported, Some(21.0 / 1e6)));
    assert_eq!(
        basis(&reported, Some(Price::default())),
        (CostBasis::Reported, Some(0.0)),
        "a model that costs nothing"
    );
}

#[test]
fn a_figure_that_a_row_does_not_have_is_absent_with_the_rows_reason() {
    let conditions = ConditionsRow { region: String::new(), streaming: false, ..conditions() };
    let mut row = request(0);
    row.clear_streaming_figures();
    row.connection = ConnectionState::Reused;
    row.chunk_list.clear();
    let sample = Sample::of_request(&row, &RunFrame::new(&conditions, 0, 0, None), 1);
    assert_eq!((sample.ttft_ns, sample.output_speed, sample.tpot_ms()), (None, None, None));
    assert_eq!(sample.ttft_missing.as_deref(), row.ttft_missing.as_deref());
    assert!(sample.ttft_missing.is_some() && sample.output_speed_missing.is_some());
    assert_eq!((sample.gap_p50_ns, sample.gap_max_ns, sample.gaps.count()), (None, None, 0));
    assert_eq!((sample.dns_ns, sample.connect_ns, sample.tls_ns), (None, None, None));
    assert_eq!(sample.conditions.region, None);
}
