//! Tests of the engine against its law, to the nanosecond, and of its invariants.

use super::*;
use crate::encoder::Encoder;
use crate::faults::AtToken;
use proptest::prelude::*;
use tokrate_core::{Channel, FinishReason};

pub(super) const MS: u64 = 1_000_000;

pub(super) fn at(nanoseconds: u64) -> Tick {
    Tick::from_nanos(nanoseconds)
}

pub(super) fn ask(input_tokens: u32, output_tokens: u32) -> SimRequest {
    SimRequest { input_tokens, output_tokens: Some(output_tokens), include_usage: true, ..SimRequest::default() }
}

fn with_faults(texts: &[&str]) -> Faults {
    let mut faults = Faults::default();
    texts.iter().for_each(|text| faults.set(text).expect("well written"));
    faults
}

fn engine(law: Law, faults: &[&str]) -> Engine {
    Engine::new(law, with_faults(faults), 7).expect("makes sense")
}

/// A law with round numbers: 10 ms of delay, 1 ms per token alone, no prefill time.
pub(super) fn plain() -> Law {
    Law {
        base_delay: Span::from_millis(10),
        prefill_tokens_per_second: f64::INFINITY,
        stream_tokens_per_second: 1_000.0,
        contention: 0.0,
        coherency: 0.0,
        ..Law::default()
    }
}

pub(super) fn run(engine: &mut Engine) -> Vec<Emission> {
    let mut out = Vec::new();
    while let Some(due) = engine.wake_at() {
        engine.poll(due, &mut out);
    }
    out
}

/// Due tick and tokens of each text of one request.
pub(super) fn texts(emissions: &[Emission], id: RequestId) -> Vec<(u64, u32)> {
    let mine = emissions.iter().filter(|emission| emission.request == id);
    mine.filter_map(|emission| match emission.what {
        Emitted::Text { words, .. } => Some((emission.due.as_nanos(), words.count())),
        _ => None,
    })
    .collect()
}

pub(super) fn kinds(emissions: &[Emission]) -> Vec<&'static str> {
    emissions
        .iter()
        .map(|emission| match emission.what {
            Emitted::Role => "role",
            Emitted::Text { channel: Channel::Reasoning, .. } => "reasoning",
            Emitted::Text { .. } => "text",
            Emitted::Malformed => "malformed",
            Emitted::Finish(_) => "finish",
            Emitted::Usage(_) => "usage",
            Emitted::Timings(_) => "timings",
            Emitted::Done => "done",
            Emitted::Failed { .. } => "failed",
            Emitted::End(Outcome::Complete) => "end",
            Emitted::End(Outcome::Disconnected) => "disconnected",
        })
        .collect()
}

/// The kinds of emission that one request with these faults gives.
fn kinds_with(law: Law, faults: &[&str], output_tokens: u32) -> Vec<&'static str> {
    let mut engine = engine(law, faults);
    engine.submit(Tick::ZERO, ask(5, output_tokens)).expect("taken");
    kinds(&run(&mut engine))
}

#[test]
fn one_stream_obeys_the_law_to_the_nanosecond() {
    let law = Law { prefill_tokens_per_second: 3_000.0, stream_tokens_per_second: 300.0, ..Law::default() };
    let mut engine = engine(law, &[]);
    let id = engine.submit(at(123), ask(100, 4)).expect("taken");
    let emissions = run(&mut engine);
    // 40 ms + 100 / 3000 s, then 1 / 300 s each, every span rounded to the nanosecond.
    let first = 123 + 40_000_000 + 33_333_333;
    let gap = 3_333_333;
    let expected = [(first, 1), (first + gap, 1), (first + 2 * gap, 1), (first + 3 * gap, 1)];
    assert_eq!(texts(&emissions, id), expected);
    assert_eq!(kinds(&emissions), ["role", "text", "text", "text", "text", "finish", "usage", "done", "end"]);
    assert_eq!(emissions[0].due, at(123));
    assert_eq!(emissions[5].what, Emitted::Finish(FinishReason::Length));
    let usage =
        Usage { input: Some(100), output: Some(4), reasoning: None, cached_input: None, cache_write_input: None };
    assert_eq!(emissions[6].what, Emitted::Usage(usage));
    assert_eq!(engine.stats(), Stats { submitted: 1, ended: 1, ..Stats::default() });
}

#[test]
fn a_request_without_a_limit_gets_the_default_length_and_stops() {
    let mut engine = engine(Law { default_output_tokens: 3, ..plain() }, &[]);
    engine.submit(Tick::ZERO, SimRequest::default()).expect("taken");
    let emissions = run(&mut engine);
    assert_eq!(kinds(&emissions), ["role", "text", "text", "text", "finish", "done", "end"]);
    assert_eq!(emissions[4].what, Emitted::Finish(FinishReason::Stop));
}

#[test]
fn streams_that_start_together_share_the_speed() {
    for n in [1u32, 2, 7, 25] {
        let law = Law { slots: 25, ..Law::default() };
        let mut engine = engine(law.clone(), &[]);
        let ids: Vec<RequestId> = (0..n).map(|_| engine.submit(Tick::ZERO, ask(0, 101)).expect("taken")).collect();
        let emissions = run(&mut engine);
        let gap = law.gap(1, n).as_nanos();
        for id in ids {
            let texts = texts(&emissions, id);
            assert!(texts.windows(2).all(|pair| pair[1].0 - pair[0].0 == gap), "n = {n}");
        }
        // Throughput after the first tokens is n v(n): the scaling law.
        let span = emissions.last().expect("some").due.since(at(40 * MS)).as_secs_f64();
        let n = f64::from(n);
        let expected = n * 120.0 / (1.0 + 0.02 * (n - 1.0) + 0.0005 * n * (n - 1.0));
        assert!((n * 100.0 / span - expected).abs() < 1e-4 * expected);
    }
}

#[test]
fn a_gap_counts_streams_that_begin_and_not_those_that_end_at_its_tick() {
    let law = Law { contention: 1.0, ..plain() };
    let mut engine = engine(law, &[]);
    let one = engine.submit(Tick::ZERO, ask(0, 4)).expect("taken");
    // Its first chunk falls on the tick of the second chunk of `one`, 11 ms; it is its last one as well.
    let short = engine.submit(at(MS), ask(0, 1)).expect("taken");
    // Its first chunk falls on the tick of the third chunk of `one`.
    let two = engine.submit(at(2 * MS), ask(0, 3)).expect("taken");
    let emissions = run(&mut engine);
    assert_eq!(texts(&emissions, short), [(11 * MS, 1)]);
    assert_eq!(texts(&emissions, one), [(10 * MS, 1), (11 * MS, 1), (12 * MS, 1), (14 * MS, 1)]);
    // Both gaps began at 12 ms with two streams; at 14 ms `one` ends, so the last gap is that of a lone stream.
    assert_eq!(texts(&emissions, two), [(12 * MS, 1), (14 * MS, 1), (15 * MS, 1)]);
}

#[test]
fn requests_without_a_slot_wait_in_order_of_arrival() {
    let mut engine = engine(Law { slots: 2, ..plain() }, &[]);
    let ids: Vec<RequestId> = (0..5).map(|i| engine.submit(at(i * 1_000), ask(0, 11)).expect("taken")).collect();
    assert_eq!((engine.stats().running, engine.stats().queued), (2, 3));
    let emissions = run(&mut engine);
    let first: Vec<u64> = ids.iter().map(|&id| texts(&emissions, id)[0].0).collect();
    // A holder stays 10 ms before and 10 ms after its first chunk; the queue moves up as slots free, first come first.
    assert_eq!(first, [10 * MS, 10 * MS + 1_000, 30 * MS, 30 * MS + 1_000, 50 * MS]);
}

#[test]
fn a_full_queue_refuses_and_cancelling_makes_room() {
    let mut engine = engine(Law { slots: 1, queue_limit: Some(1), ..plain() }, &[]);
    let running = engine.submit(Tick::ZERO, ask(0, 100)).expect("taken");
    let queued = engine.submit(Tick::ZERO, ask(0, 1)).expect("taken");
    let refusal = engine.submit(Tick::ZERO, ask(0, 1)).expect_err("full");
    assert_eq!((refusal.status, refusal.request), (503, RequestId(2)));
    engine.cancel(at(15 * MS), running);
    let emissions = run(&mut engine);
    // What was due by the cancellation is still handed out: the first chunk at 10 ms and five more.
    assert_eq!(texts(&emissions, running).len(), 6);
    assert_eq!(texts(&emissions, queued), [(25 * MS, 1)]);
    engine.cancel(at(99 * MS), queued);
    let stats = Stats { submitted: 3, refused: 1, ended: 1, cancelled: 1, ..Stats::default() };
    assert_eq!(engine.stats(), stats);
}

#[test]
fn cancelling_in_the_queue_moves_the_others_up() {
    let mut engine = engine(Law { slots: 1, ..plain() }, &[]);
    let ids: Vec<RequestId> = (0..3).map(|_| engine.submit(Tick::ZERO, ask(0, 1)).expect("taken")).collect();
    engine.cancel(at(1), ids[1]);
    let emissions = run(&mut engine);
    assert_eq!(texts(&emissions, ids[1]), []);
    assert_eq!(texts(&emissions, ids[2]), [(20 * MS, 1)]);
}

#[test]
fn chunks_never_cross_the_end_of_the_reasoning() {
    let mut engine = engine(Law { tokens_per_chunk: 4, reasoning_tokens: 6, ..plain() }, &[]);
    let id = engine.submit(Tick::ZERO, ask(0, 13)).expect("taken");
    let emissions = run(&mut engine);
    let expected = [(10 * MS, 4), (12 * MS, 2), (16 * MS, 4), (19 * MS, 3)];
    assert_eq!(texts(&emissions, id), expected, "the gap before a chunk is that of its tokens");
    let text_of = ["role", "reasoning", "reasoning", "text", "text", "finish", "usage", "done", "end"];
    assert_eq!(kinds(&emissions), text_of);
    assert!(
        emissions.iter().any(|emission| matches!(
            emission.what,
            Emitted::Usage(Usage { output: Some(13), reasoning: Some(6), .. })
        ))
    );
}

#[test]
fn coalescing_emits_at_multiples_of_the_interval() {
    let law = Law { coalesce: Span::from_millis(4), ..plain() };
    let mut engine = engine(law, &[]);
    let id = engine.submit(at(1), ask(0, 6)).expect("taken");
    let emissions = run(&mut engine);
    let due: Vec<u64> = texts(&emissions, id).iter().map(|(due, _)| due / MS).collect();
    assert_eq!(due, [12, 12, 16, 16, 16, 16], "made at 10 to 15 ms and 1 ns");
    assert_eq!(emissions[0].due, at(4 * MS), "the role too");
}

#[test]
fn jitter_keeps_the_mean_and_has_the_configured_variation() {
    let mut engine = engine(Law { gap_jitter: 0.3, ..plain() }, &[]);
    let id = engine.submit(Tick::ZERO, ask(0, 40_001)).expect("taken");
    let texts = texts(&run(&mut engine), id);
    let gaps: Vec<f64> = texts.windows(2).map(|pair| (pair[1].0 - pair[0].0) as f64 / 1e6).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    assert!((mean - 1.0).abs() < 0.01, "{mean}");
    assert!((variance.sqrt() - 0.3).abs() < 0.01, "{}", variance.sqrt());
}

#[test]
fn an_unlimited_engine_emits_everything_at_once() {
    let mut engine = Engine::new(Law::unlimited(), Faults::default(), 0).expect("makes sense");
    let id = engine.submit(at(5), ask(1_000, 10_000)).expect("taken");
    let mut out = Vec::new();
    engine.poll(at(5), &mut out);
    assert_eq!(texts(&out, id).len(), 10_000);
    assert!(out.iter().all(|emission| emission.due == at(5)));
    assert_eq!(engine.wake_at(), None);
}

#[test]
fn an_answer_is_never_longer_than_the_law_allows() {
    let mut engine = engine(Law { max_output_tokens: 2, ..plain() }, &[]);
    let id = engine.submit(Tick::ZERO, ask(0, u32::MAX)).expect("taken");
    assert_eq!(texts(&run(&mut engine), id).len(), 2);
}

#[test]
fn refusals_have_their_status() {
    let refused = |fault: &str| engine(plain(), &[fault]).submit(Tick::ZERO, ask(0, 1)).expect_err("refused");
    let limited = refused("rate_limited");
    assert_eq!((limited.status, limited.retry_after), (429, Some(Span::from_secs(1))));
    assert_eq!(refused("server_error").status, 500);
}

#[test]
fn a_stall_keeps_its_slot_until_it_is_cancelled() {
    let mut engine = engine(Law { slots: 1, ..plain() }, &["stall@2"]);
    let id = engine.submit(Tick::ZERO, ask(0, 5)).expect("taken");
    assert_eq!(kinds(&run(&mut engine)), ["role", "text", "text"]);
    let (stats, wake) = (engine.stats(), engine.wake_at());
    assert_eq!((stats.running, stats.decoding, wake), (1, 0, None));
    engine.cancel(at(MS), id);
    assert_eq!(engine.stats().running, 0);
}

#[test]
fn each_fault_shows_at_its_position() {
    let with = |fault: &str| kinds_with(plain(), &[fault], 3);
    assert_eq!(with("disconnect@1"), ["role", "text", "disconnected"]);
    assert_eq!(with("disconnect@0"), ["role", "disconnected"]);
    assert_eq!(with("disconnect@99"), ["role", "text", "text", "text", "disconnected"]);
    assert_eq!(with("error_event@2"), ["role", "text", "text", "failed", "done", "end"]);
    let ending = ["finish", "usage", "done", "end"];
    assert_eq!(with("malformed@1"), [&["role", "text", "malformed", "text", "text"], &ending[..]].concat());
    assert_eq!(with("malformed@3"), [&["role", "text", "text", "text", "malformed"], &ending[..]].concat());
    assert_eq!(with("missing_usage"), ["role", "text", "text", "text", "finish", "done", "end"]);
    assert_eq!(with("no_done"), ["role", "text", "text", "text", "finish", "usage", "end"]);
    assert_eq!(with("empty"), [&["role"], &ending[..]].concat());
    let law = Law { role_first: false, usage_every_chunk: true, ..plain() };
    let every = kinds_with(law, &[], 2);
    assert_eq!(every, ["text", "usage", "text", "usage", "finish", "done", "end"]);
}

#[test]
fn a_fault_splits_a_chunk_so_that_its_position_is_exact() {
    let mut engine = engine(Law { tokens_per_chunk: 8, ..plain() }, &["disconnect@11"]);
    let id = engine.submit(Tick::ZERO, ask(0, 32)).expect("taken");
    let emissions = run(&mut engine);
    assert_eq!(texts(&emissions, id), [(10 * MS, 8), (13 * MS, 3)]);
    // It breaks when the next chunk would have come.
    assert_eq!(emissions.last().expect("some").due, at(21 * MS));
}

#[test]
fn a_burst_is_emitted_with_the_last_token() {
    let mut engine = engine(plain(), &["burst"]);
    engine.submit(Tick::ZERO, ask(0, 11)).expect("taken");
    let emissions = run(&mut engine);
    assert_eq!(emissions.len(), 1 + 11 + 4);
    assert!(emissions.iter().all(|emission| emission.due == at(20 * MS)));
}

#[test]
fn faults_have_their_probability() {
    let mut faults = with_faults(&["rate_limited=0.3"]);
    faults.malformed = AtToken { probability: 0.5, token: None };
    let mut engine = Engine::new(Law::unlimited(), faults, 3).expect("makes sense");
    let taken = (0..4_000).filter(|_| engine.submit(Tick::ZERO, ask(0, 10)).is_ok()).count();
    assert!((2_700..2_900).contains(&taken), "{taken}");
    let malformed = kinds(&run(&mut engine)).iter().filter(|kind| **kind == "malformed").count();
    assert!((taken * 45 / 100..taken * 55 / 100).contains(&malformed), "{malformed} of {taken}");
}

#[test]
fn the_faults_of_a_request_replace_those_of_the_engine() {
    let mut engine = engine(plain(), &["rate_limited"]);
    let own = Some(Box::new(with_faults(&["empty"])));
    engine.submit(Tick::ZERO, SimRequest { faults: own, ..ask(0, 9) }).expect("taken");
    assert_eq!(kinds(&run(&mut engine)), ["role", "finish", "usage", "done", "end"]);
}

/// Requests and cancellations at given ticks.
#[derive(Clone, Debug)]
struct Scenario {
    law: Law,
    faults: Faults,
    seed: u64,
    /// Tick of submission, length, and after how long it is cancelled.
    requests: Vec<(u64, u32, Option<u64>)>,
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let law = (1u32..5, 0u64..4, 1u32..4, prop_oneof![Just(0.0), Just(0.5)], 0u64..3, 0u32..6).prop_map(
        |(slots, delay, tokens_per_chunk, jitter, coalesce, reasoning_tokens)| Law {
            slots,
            tokens_per_chunk,
            reasoning_tokens,
            base_delay: Span::from_millis(delay),
            contention: 0.1,
            gap_jitter: jitter,
            ttft_jitter: jitter,
            coalesce: Span::from_micros(coalesce * 700),
            stream_tokens_per_second: if delay == 3 { f64::INFINITY } else { 1_000.0 },
            ..Law::default()
        },
    );
    let mut faults = with_faults(&["rate_limited=0.1", "empty=0.1", "burst=0.2"]);
    faults.stall.probability = 0.1;
    faults.disconnect.probability = 0.2;
    faults.error_event.probability = 0.1;
    faults.malformed.probability = 0.2;
    let request = (0u64..30 * MS, 1u32..20, proptest::option::of(0u64..20 * MS));
    (law, any::<u64>(), proptest::collection::vec(request, 1..20)).prop_map(move |(law, seed, mut requests)| {
        requests.sort_unstable();
        Scenario { law, faults: faults.clone(), seed, requests }
    })
}

/// Runs a scenario, polling at the given ticks as well.
fn run_scenario(scenario: &Scenario, polls: &[u64]) -> (Vec<Emission>, Stats) {
    let mut engine = Engine::new(scenario.law.clone(), scenario.faults.clone(), scenario.seed).expect("makes sense");
    let mut out = Vec::new();
    // Tick, order within the tick, and what happens: a poll, a submission or a cancellation.
    let mut actions: Vec<(u64, u8, usize)> = Vec::new();
    for (index, &(submitted, _, cancelled)) in scenario.requests.iter().enumerate() {
        actions.push((submitted, 1, index));
        actions.extend(cancelled.map(|after| (submitted + after, 2, index)));
    }
    actions.extend(polls.iter().enumerate().map(|(index, &tick)| (tick, [0, 3][index % 2], 0)));
    actions.sort_unstable();
    let mut ids = vec![None; scenario.requests.len()];
    for (tick, action, index) in actions {
        match action {
            1 => ids[index] = engine.submit(at(tick), ask(3, scenario.requests[index].1)).ok(),
            2 => {
                if let Some(id) = ids[index] {
                    engine.cancel(at(tick), id);
                }
            }
            _ => engine.poll(at(tick), &mut out),
        }
    }
    engine.poll(at(10_000 * MS), &mut out);
    assert_eq!(engine.wake_at(), None);
    (out, engine.stats())
}

proptest! {
    #[test]
    fn any_polling_gives_the_same_trace(scenario in scenario(), polls in proptest::collection::vec(0u64..80 * MS, 0..60)) {
        let (trace, stats) = run_scenario(&scenario, &[]);
        prop_assert!(trace.windows(2).all(|pair| pair[0].due <= pair[1].due), "due ticks never fall");
        prop_assert_eq!(stats.submitted, stats.refused + stats.ended + stats.cancelled + u64::from(stats.running) + u64::from(stats.queued));
        prop_assert_eq!(run_scenario(&scenario, &polls), (trace, stats));
    }

    #[test]
    fn polling_at_wake_up_times_is_never_late(scenario in scenario()) {
        let mut engine = Engine::new(scenario.law.clone(), scenario.faults.clone(), scenario.seed).expect("makes sense");
        for &(_, tokens, _) in &scenario.requests {
            engine.submit(Tick::ZERO, ask(3, tokens)).ok();
        }
        let mut out = Vec::new();
        while let Some(due) = engine.wake_at() {
            out.clear();
            engine.poll(due, &mut out);
            prop_assert!(out.iter().all(|emission| emission.due == due));
        }
        prop_assert_eq!(engine.stats().decoding, 0);
    }

    #[test]
    fn no_more_streams_run_than_there_are_slots(scenario in scenario()) {
        let mut engine = Engine::new(scenario.law.clone(), Faults::default(), scenario.seed).expect("makes sense");
        let mut out = Vec::new();
        for &(submitted, tokens, _) in &scenario.requests {
            engine.submit(at(submitted), ask(3, tokens)).expect("no faults");
            prop_assert!(engine.stats().running <= scenario.law.slots);
        }
        engine.poll(at(10_000 * MS), &mut out);
        let asked: u32 = scenario.requests.iter().map(|request| request.1).sum();
        let text_of: u32 = (0..scenario.requests.len() as u64)
            .flat_map(|id| texts(&out, RequestId(id)))
            .map(|(_, tokens)| tokens)
            .sum();
        prop_assert_eq!(text_of, asked);
    }
}

#[test]
fn pictures_and_sound_are_encoded_before_the_prompt_is_read() {
    let law =
        Law { encoder: Encoder { pixels_per_second: 1e6, sound_per_second: 10.0, caches: true }, ..Law::default() };
    let mut engine = Engine::new(law, Faults::default(), 0).expect("valid");
    let seen =
        SimRequest { pictures: 2, pixels: 300_000, cached_pixels: 100_000, sound: Span::from_secs(1), ..ask(0, 2) };
    engine.submit(Tick::ZERO, seen).expect("taken");
    let mut out = Vec::new();
    engine.poll(Tick::from_nanos(10_000_000_000), &mut out);
    let first = out.iter().find(|emission| matches!(emission.what, Emitted::Text { .. })).expect("text");
    // 40 ms of delay, 200 of pictures, 100 of sound.
    assert_eq!(first.due, Tick::from_nanos(340_000_000));
}
