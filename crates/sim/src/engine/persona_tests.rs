//! Tests of the engine with a persona: timetable, background load, rate limits and faults, to the nanosecond.

use super::tests::{MS, ask, at, kinds, plain, run, texts};
use super::*;
use crate::background::Background;
use crate::limits::{LimitStatus, Limits};
use crate::timetable::{Change, Curve, Timetable};
use tokrate_core::FinishReason;

fn persona() -> Persona {
    Persona { law: plain(), ..Persona::default() }
}

fn start(persona: Persona) -> Engine {
    Engine::with_persona(persona, 7, Tick::ZERO).expect("makes sense")
}

fn engine_with_fault(fault: &str) -> Engine {
    let mut persona = persona();
    persona.faults.set(fault).expect("a fault");
    start(persona)
}

/// The text of one request.
fn text_of(emissions: &[Emission], id: RequestId) -> String {
    let mut text = String::new();
    for emission in emissions.iter().filter(|emission| emission.request == id) {
        if let Emitted::Text { words, .. } = emission.what {
            words.push_to(&mut text);
        }
    }
    text
}

fn usage(emissions: &[Emission]) -> Usage {
    let found = emissions.iter().find_map(|emission| match emission.what {
        Emitted::Usage(usage) => Some(usage),
        _ => None,
    });
    found.expect("usage was asked for")
}

fn finish(emissions: &[Emission]) -> FinishReason {
    let found = emissions.iter().find_map(|emission| match emission.what {
        Emitted::Finish(finish) => Some(finish),
        _ => None,
    });
    found.expect("it came to its end")
}

#[test]
fn a_regression_slows_what_begins_after_it() {
    let change = Change { at: Span::from_millis(12), speed: 0.5, ttft: 3.0, faults: 1.0, replacement: None };
    let timetable = Timetable { changes: vec![change], speed: None };
    let started_at = at(5 * MS);
    let mut engine = Engine::with_persona(Persona { timetable, ..persona() }, 7, started_at).expect("makes sense");
    let one = engine.submit(started_at, ask(0, 6)).expect("taken");
    let two = engine.submit(started_at + Span::from_millis(12), ask(0, 2)).expect("taken");
    let emissions = run(&mut engine);
    // 10 ms after the start, then 1 ms a token; from 12 ms on 2 ms, the gap that begins at that very tick included.
    let ms: Vec<u64> = texts(&emissions, one).iter().map(|(due, _)| due / MS - 5).collect();
    assert_eq!(ms, [10, 11, 12, 14, 16, 18]);
    // 3 x 10 ms until the first token.
    assert_eq!(texts(&emissions, two), [(47 * MS, 1), (49 * MS, 1)]);
}

#[test]
fn a_change_follows_the_scaled_clock() {
    let change = Change { at: Span::from_secs(600), speed: 0.5, ttft: 1.0, faults: 1.0, replacement: None };
    let timetable = Timetable { changes: vec![change], speed: None };
    // 600 s in 12 ms.
    let mut engine = start(Persona { timetable, time_scale: 50_000.0, ..persona() });
    let id = engine.submit(Tick::ZERO, ask(0, 5)).expect("taken");
    let ms: Vec<u64> = texts(&run(&mut engine), id).iter().map(|(due, _)| due / MS).collect();
    assert_eq!(ms, [10, 11, 12, 14, 16]);
}

#[test]
fn a_change_replaces_the_faults() {
    let mut replacement = Faults::default();
    replacement.set("server_error").expect("a fault");
    let change = Change { at: Span::from_secs(1), speed: 1.0, ttft: 1.0, faults: 1.0, replacement: Some(replacement) };
    let mut engine = start(Persona { timetable: Timetable { changes: vec![change], speed: None }, ..persona() });
    assert!(engine.submit(at(999 * MS), ask(0, 1)).is_ok());
    assert_eq!(engine.submit(at(1_000 * MS), ask(0, 1)).expect_err("refused").status, 500);
}

#[test]
fn other_users_count_as_streams_and_take_no_slots() {
    let law = Law { slots: 2, contention: 1.0, coherency: 0.5, ..plain() };
    let background = Background { streams: 7.0, ..Background::default() };
    let mut engine = start(Persona { law: law.clone(), background, ..Persona::default() });
    let ids: Vec<RequestId> = (0..2).map(|_| engine.submit(Tick::ZERO, ask(0, 50)).expect("taken")).collect();
    assert_eq!((engine.stats().running, engine.stats().queued), (2, 0));
    let emissions = run(&mut engine);
    let gap = law.gap(1, 9).as_nanos();
    for id in ids {
        let texts = texts(&emissions, id);
        assert!(texts.windows(2).all(|pair| pair[1].0 - pair[0].0 == gap), "v(2 + 7) all along");
    }
}

#[test]
fn the_background_follows_its_curve_and_its_seed() {
    let curve = Curve { period: Span::from_millis(200), amplitude: 1.0, peak: Span::from_millis(100) };
    let every = Span::from_millis(100);
    let background = Background { streams: 5.0, every, curve: Some(curve), jitter: 0.0 };
    let law = Law { contention: 0.1, base_delay: Span::ZERO, ..plain() };
    let mut engine = start(Persona { law: law.clone(), background, ..Persona::default() });
    let id = engine.submit(Tick::ZERO, ask(0, 160)).expect("taken");
    let texts = texts(&run(&mut engine), id);
    for pair in texts.windows(2) {
        // 0 others in the first 100 ms, 10 in the next, and so on.
        let background_streams = if (pair[0].0 / (100 * MS)).is_multiple_of(2) { 0 } else { 10 };
        assert_eq!(pair[1].0 - pair[0].0, law.gap(1, 1 + background_streams).as_nanos(), "at {} ns", pair[0].0);
    }
    let jittery = |seed| {
        let background = Background { jitter: 0.8, ..background };
        let mut engine =
            Engine::with_persona(Persona { law: law.clone(), background, ..Persona::default() }, seed, Tick::ZERO);
        let engine = engine.as_mut().expect("makes sense");
        engine.submit(Tick::ZERO, ask(0, 160)).expect("taken");
        run(engine)
    };
    assert_eq!(jittery(1), jittery(1));
    assert_ne!(jittery(1), jittery(2));
}

#[test]
fn rate_limits_admit_their_number_and_report_the_wait() {
    let limits = Limits { requests_per_minute: Some(2), tokens_per_minute: Some(1_000) };
    let mut engine = start(Persona { limits, ..persona() });
    engine.submit(Tick::ZERO, ask(100, 100)).expect("the first of two");
    engine.submit(Tick::ZERO, ask(100, 100)).expect("the second");
    let refusal = engine.submit(Tick::ZERO, ask(1, 1)).expect_err("no third");
    assert_eq!((refusal.status, refusal.retry_after), (429, Some(Span::from_secs(30))));
    assert_eq!(refusal.message, "the limit of requests per minute is reached");
    assert_eq!(engine.stats().refused, 1);
    let allowance = engine.allowance();
    assert_eq!(allowance.requests, Some(LimitStatus { limit: 2, remaining: 0, reset: Span::from_secs(60) }));
    // 400 of 1,000 tokens take 24 s to come back.
    assert_eq!(allowance.tokens, Some(LimitStatus { limit: 1_000, remaining: 600, reset: Span::from_secs(24) }));
    engine.submit(at(30_000 * MS), ask(100, 800)).expect("after the wait");
    let refusal = engine.submit(at(60_000 * MS), ask(100, 801)).expect_err("no tokens");
    assert_eq!(refusal.message, "the limit of tokens per minute is reached");
    // 600 left at 60 s; 301 more tokens come in 18.06 s.
    assert_eq!(refusal.retry_after, Some(Span::from_millis(18_060)));
    // Without a limit of its own, an answer counts with the length that it will have.
    let open = SimRequest { output_tokens: None, ..ask(873, 1) };
    assert_eq!(engine.submit(at(90_000 * MS), open).expect_err("1,001 tokens").retry_after, None);
}

#[test]
fn a_replay_gives_everyone_the_same_text() {
    let mut engine = engine_with_fault("replay");
    let ids: Vec<RequestId> = (0..3).map(|i| engine.submit(at(i), ask(i as u32, 40)).expect("taken")).collect();
    let emissions = run(&mut engine);
    let text = text_of(&emissions, ids[0]);
    assert!(ids.iter().all(|&id| text_of(&emissions, id) == text));
    let mut honest = start(persona());
    let ids: Vec<RequestId> = (0..2).map(|i| honest.submit(at(i), ask(0, 40)).expect("taken")).collect();
    let emissions = run(&mut honest);
    assert_ne!(text_of(&emissions, ids[0]), text_of(&emissions, ids[1]));
}

#[test]
fn answers_with_the_same_start_differ_after_it() {
    let mut engine = engine_with_fault("same_start");
    let ids: Vec<RequestId> = (0..2).map(|_| engine.submit(Tick::ZERO, ask(0, 140)).expect("taken")).collect();
    let emissions = run(&mut engine);
    let [one, other] = [ids[0], ids[1]].map(|id| text_of(&emissions, id));
    let words: [Vec<&str>; 2] = [&one, &other].map(|text| text.split(' ').skip(1).collect());
    let alike = words[0].iter().zip(&words[1]).take_while(|(one, other)| one == other).count();
    assert_eq!(words.each_ref().map(Vec::len), [140, 140]);
    assert!((100..110).contains(&alike), "{alike}");
    let bytes: usize = words[0][..100].iter().map(|word| word.len() + 1).sum();
    assert!(bytes >= 256, "{bytes}");
}

#[test]
fn a_repetition_has_a_period_of_four_words() {
    let mut engine = engine_with_fault("repeat");
    let id = engine.submit(Tick::ZERO, ask(0, 40)).expect("taken");
    let text = text_of(&run(&mut engine), id);
    let words: Vec<&str> = text.split(' ').skip(1).collect();
    assert_eq!(words.len(), 40);
    assert!(words.chunks(4).all(|round| round == &words[..4]));
}

#[test]
fn a_short_answer_stops_by_itself_before_the_limit() {
    let mut engine = engine_with_fault("short");
    let ids: Vec<RequestId> = (0..50).map(|_| engine.submit(Tick::ZERO, ask(0, 100)).expect("taken")).collect();
    let emissions = run(&mut engine);
    let lengths: Vec<usize> = ids.iter().map(|&id| texts(&emissions, id).len()).collect();
    assert!(lengths.iter().all(|tokens| (25..=75).contains(tokens)), "{lengths:?}");
    assert!(lengths.iter().max() > lengths.iter().min(), "{lengths:?}");
    assert_eq!(finish(&emissions), FinishReason::Stop);
    let mut engine = engine_with_fault("short");
    let id = engine.submit(Tick::ZERO, ask(0, 1)).expect("taken");
    assert_eq!(texts(&run(&mut engine), id).len(), 1, "never nothing");
}

#[test]
fn another_model_is_named_while_the_request_runs() {
    let mut engine = engine_with_fault("other_model=0.5");
    let ids: Vec<RequestId> = (0..100).map(|_| engine.submit(Tick::ZERO, ask(0, 1)).expect("taken")).collect();
    let posing = ids.iter().filter(|&&id| engine.claims_other_model(id)).count();
    assert!((30..70).contains(&posing), "{posing}");
    run(&mut engine);
    assert!(!engine.claims_other_model(ids[0]) && !engine.claims_other_model(RequestId(999)));
}

#[test]
fn inflated_usage_reports_half_as_much_again() {
    let mut engine = engine_with_fault("usage_inflated");
    let id = engine.submit(Tick::ZERO, ask(9, 11)).expect("taken");
    let emissions = run(&mut engine);
    assert_eq!(texts(&emissions, id).len(), 11);
    let usage = usage(&emissions);
    assert_eq!((usage.input, usage.output), (Some(9), Some(17)), "16.5, rounded up");
}

#[test]
fn hidden_reasoning_takes_time_and_is_reported_but_never_sent() {
    let mut engine = engine_with_fault("hidden_reasoning");
    let id = engine.submit(Tick::ZERO, ask(0, 20)).expect("taken");
    let emissions = run(&mut engine);
    let texts = texts(&emissions, id);
    assert_eq!((texts.len(), texts[0].0, texts[9].0), (10, 20 * MS, 29 * MS), "ten tokens later than it could be");
    assert!(!kinds(&emissions).contains(&"reasoning"));
    let usage = usage(&emissions);
    assert_eq!((usage.output, usage.reasoning), (Some(20), Some(10)));
    // With a law that reasons, it is that reasoning which is hidden.
    let mut persona = Persona { law: Law { reasoning_tokens: 5, ..plain() }, ..Persona::default() };
    persona.faults.set("hidden_reasoning").expect("a fault");
    let mut engine = start(persona);
    let id = engine.submit(Tick::ZERO, ask(0, 20)).expect("taken");
    assert_eq!(super::tests::texts(&run(&mut engine), id).len(), 15);
}

#[test]
fn timings_add_up() {
    let law = Law { slots: 1, prefill_tokens_per_second: 1_000.0, ..plain() };
    let mut engine = start(Persona { law, ..Persona::default() });
    let asked = |input, output| SimRequest { include_timings: true, ..ask(input, output) };
    engine.submit(Tick::ZERO, asked(5, 11)).expect("taken");
    let queued = engine.submit(at(4 * MS), asked(7, 3)).expect("taken");
    let emissions = run(&mut engine);
    let timings =
        emissions.iter().filter(|emission| emission.request == queued).find_map(|emission| match emission.what {
            Emitted::Timings(timings) => Some(timings),
            _ => None,
        });
    // The slot is free at 10 + 5 + 10 ms.
    let expected = Timings {
        queue: Span::from_millis(21),
        prefill: Span::from_millis(17),
        decode: Span::from_millis(2),
        input_tokens: 7,
        output_tokens: 3,
    };
    assert_eq!(timings, Some(expected));
    assert_eq!(expected.total(), Span::from_millis(40));
    assert_eq!(kinds(&emissions[12..16]), ["finish", "timings", "usage", "done"]);
}
