//! The live meter against the one that keeps the text, on arbitrary streams; its memory.

use super::*;
use crate::GapSketch;
use crate::request::{RequestMeter, RequestNumbers};
use proptest::prelude::*;
use tokrate_core::{Anomaly, EventKind, FailureKind, FinishReason};

/// One event to be pushed.
#[derive(Clone, Debug)]
enum Say {
    Text(Channel, String),
    ToolCall(String),
    Model(String),
    Other(EventKind),
    Failed(FailureKind, String),
}

fn say() -> impl Strategy<Value = Say> {
    let channel = proptest::sample::select(vec![Channel::Reasoning, Channel::Answer, Channel::Answer, Channel::Tool]);
    let word = proptest::sample::select(vec![
        "The", " answer", " is", "n't", "it's", " 42", "12345", ".\n", "\n\n  ", " ", "，", "世界", "。", "{\"a\":",
        "e\u{301}",
    ]);
    let words = proptest::collection::vec(word, 0..40).prop_map(|words| words.concat());
    let usage = (proptest::option::of(0..9_u64), proptest::option::of(0..9_u64));
    let others = vec![
        EventKind::Empty,
        EventKind::Done,
        EventKind::Finish(FinishReason::Stop),
        EventKind::Finish(FinishReason::Length),
        EventKind::Anomaly(Anomaly::Malformed),
        EventKind::Anomaly(Anomaly::UnfinishedEvent),
    ];
    prop_oneof![
        12 => (channel, words).prop_map(|(channel, text)| Say::Text(channel, text)),
        1 => "[a-z]{0,5}".prop_map(Say::ToolCall),
        1 => "[ab]{0,2}".prop_map(Say::Model),
        3 => proptest::sample::select(others).prop_map(Say::Other),
        1 => usage.prop_map(|(input, output)| Say::Other(EventKind::Usage(Usage { input, output, ..Usage::default() }))),
        1 => Just(Say::Failed(FailureKind::Overloaded, "busy".to_owned())),
    ]
}

fn push(batch: &mut EventBatch, at: Tick, say: &Say) {
    match say {
        Say::Text(channel, text) => batch.push_text(at, *channel, text),
        Say::ToolCall(name) => {
            let (id, name) = (batch.store(""), batch.store(name));
            batch.push(at, EventKind::ToolCall { index: 0, id, name });
        }
        Say::Model(name) => {
            let name = batch.store(name);
            batch.push(at, EventKind::Model(name));
        }
        Say::Other(what) => batch.push(at, *what),
        Say::Failed(kind, message) => {
            let message = batch.store(message);
            batch.push(at, EventKind::Failed { kind: *kind, message, retry_after: None });
        }
    }
}

fn ending() -> impl Strategy<Value = Ending> {
    let failed = Ending::Failed { kind: FailureKind::Stalled, message: "silence".to_owned(), retry_after: None };
    prop_oneof![3 => Just(Ending::Complete), 1 => Just(failed)]
}

/// Reads, each with its distance in time to the one before (sometimes backwards), and what they said.
fn reads() -> impl Strategy<Value = Vec<(i64, Vec<Say>)>> {
    let step = prop_oneof![1 => Just(0_i64), 8 => 1_024..200_000_000_i64, 1 => -5_000_i64..5_000_000_000];
    proptest::collection::vec((step, proptest::collection::vec(say(), 0..4)), 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn it_says_what_the_meter_says_that_keeps_everything(reads in reads(), ending in ending(), sent in any::<bool>()) {
        let (mut live, mut whole) = (LiveMeter::new(), RequestMeter::new());
        let mut batch = EventBatch::new();
        let mut at = 1_000_000_u64;
        for (step, events) in &reads {
            at = at.saturating_add_signed(*step);
            batch.clear();
            events.iter().for_each(|say| push(&mut batch, Tick::from_nanos(at), say));
            live.on(&batch);
            whole.on(&batch);
        }
        let timing = Timing {
            sent_at: sent.then_some(Tick::from_nanos(900_000)),
            first_byte_at: Some(Tick::from_nanos(950_000)),
            ended_at: Tick::from_nanos(at),
            ..Timing::default()
        };
        prop_assert_eq!(live.is_done(), whole.is_done());
        let found = live.finish(&timing, ending.clone());
        let trace = whole.finish(timing, ending);
        let row = RequestNumbers::measure(&trace, Encoding::O200kBase);
        // All of it at once, and below figure by figure what the row itself says.
        prop_assert_eq!(&StreamNumbers::from(&row), &found);
        prop_assert_eq!((found.ttfb_ns, found.ttft_ns, found.ttfat_ns), (row.ttfb_ns, row.ttft_ns, row.ttfat_ns));
        prop_assert_eq!((found.text_events, found.chunks), (row.text_events, row.chunks));
        prop_assert_eq!((found.tokens_std, found.tokens_first_chunk), (row.tokens_std, row.tokens_first_chunk));
        prop_assert!(found.tokens_exact);
        prop_assert_eq!((found.output_speed, found.output_speed_missing.as_deref()), (row.output_speed, row.output_speed_missing.as_deref()));
        prop_assert_eq!(found.usage, trace.usage.unwrap_or_default());
        prop_assert_eq!((found.finish, &found.model, found.model_changes), (trace.finish, &trace.model, trace.model_changes));
        prop_assert_eq!((&found.failure, found.anomalies), (&trace.failure, trace.anomalies));
        let mut gaps: Vec<u64> = row.gaps().map(|(gap, _)| gap).collect();
        gaps.sort_unstable();
        prop_assert_eq!((found.gaps.count(), found.gap_max_ns), (gaps.len() as u64, gaps.last().copied()));
        for (share, stated) in [0.5, 0.99].map(|share| (share, found.gap(share))) {
            let exact = gaps.get(((share * gaps.len() as f64).ceil() as usize).saturating_sub(1)).copied();
            prop_assert_eq!(stated.is_some(), exact.is_some());
            let (stated, exact) = (stated.unwrap_or(0) as f64, exact.unwrap_or(0) as f64);
            // Below the lowest bucket, 1 µs, gaps are not told apart.
            prop_assert!((stated - exact).abs() <= exact * GapSketch::RELATIVE_ERROR + 1_100.0, "{} for {}", stated, exact);
        }
    }
}

#[test]
fn an_open_stream_takes_two_kibibytes_however_long_it_is() {
    let mut meter = LiveMeter::new();
    let mut batch = EventBatch::new();
    let mut most = 0;
    for n in 0..200_000_u64 {
        batch.clear();
        let channel = if n % 1_000 < 100 { Channel::Reasoning } else { Channel::Answer };
        batch.push_text(Tick::from_nanos(n * 20_000_000), channel, [" word", "ing", ", it's", " x_1"][n as usize % 4]);
        meter.on(&batch);
        most = most.max(meter.token_counter.as_ref().expect("it counts").heap());
    }
    assert!(size_of::<LiveMeter>() + most <= 2_048, "{} + {most} bytes", size_of::<LiveMeter>());
    let numbers = meter.finish(&Timing::default(), Ending::Complete);
    assert_eq!((numbers.chunks, numbers.gaps.count()), (200_000, 199_999));
}

#[test]
fn without_tokens_there_is_no_speed_and_the_reason_is_given() {
    let mut meter = LiveMeter::without_tokens();
    let mut batch = EventBatch::new();
    batch.push_text(Tick::from_nanos(7), Channel::Answer, "hello");
    meter.on(&batch);
    assert_eq!((meter.first_text_at(), meter.last_text_at()), (Some(Tick::from_nanos(7)), Some(Tick::from_nanos(7))));
    let numbers = meter.finish(&Timing::default(), Ending::Complete);
    assert_eq!((numbers.tokens_std, numbers.output_speed_missing.as_deref()), (0, Some("tokens were not counted")));
}

#[test]
fn a_text_of_four_gibibytes_is_the_longest() {
    let say = |meter: &mut LiveMeter, text: &str| {
        let mut batch = EventBatch::new();
        batch.push_text(Tick::from_nanos(5), Channel::Answer, text);
        meter.on(&batch);
    };
    let mut meter = LiveMeter::new();
    meter.text_bytes = u64::from(u32::MAX) - 4;
    say(&mut meter, "abcd");
    assert!(meter.failure().is_none(), "just as long");
    say(&mut meter, "e");
    assert!(meter.failure().is_some(), "one byte more");
    let numbers = meter.finish(&Timing::default(), Ending::Complete);
    assert_eq!(numbers.text_events, 1);
}
