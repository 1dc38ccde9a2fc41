//! A scheduler's tokens come out at the ends of its steps, whatever is polled when.

use super::*;
use crate::emission::Outcome;
use tokrate_engine::{EngineArgs, Part, Speculation, Work};

/// Each step takes 10 ms, and 1 ms for each prompt token.
fn scheduled(args: EngineArgs) -> Persona {
    let time = SharedTime::new(|work: &Work| Span::from_millis(10 + work.prompt_tokens()));
    let engine = tokrate_engine::Engine::new(args, time).expect("settings that can run");
    let cluster = Cluster::new(vec![engine]).expect("a rank");
    Persona { scheduled: Some(Scheduled::new(cluster)), ..Persona::default() }
}

fn args() -> EngineArgs {
    EngineArgs { num_blocks: 64, max_num_seqs: 2, ..EngineArgs::default() }
}

fn engine(args: EngineArgs) -> Engine {
    Engine::with_persona(scheduled(args), 0, Tick::ZERO).expect("valid")
}

fn request(input: u32, output: u32) -> SimRequest {
    SimRequest { input_tokens: input, output_tokens: Some(output), include_timings: true, ..SimRequest::default() }
}

fn millis(tick: Tick) -> u64 {
    tick.as_nanos() / 1_000_000
}

/// Runs to the end; text as (ms, request, tokens).
fn texts(engine: &mut Engine) -> Vec<(u64, u64, u32)> {
    let mut all = Vec::new();
    while let Some(due) = engine.wake_at() {
        engine.poll(due, &mut all);
    }
    let text = |emission: &Emission| match emission.what {
        Emitted::Text { words, .. } => Some((millis(emission.due), emission.request.0, words.count())),
        _ => None,
    };
    all.iter().filter_map(text).collect()
}

#[test]
fn tokens_come_at_the_ends_of_steps() {
    let mut engine = engine(args());
    for (input, output) in [(20, 2), (30, 3), (5, 1)] {
        engine.submit(Tick::ZERO, request(input, output)).expect("fits");
    }
    // The first begins alone; the second joins after its step, the third waits for a place.
    let expected = [(30, 0, 1), (70, 0, 1), (70, 1, 1), (85, 1, 1), (85, 2, 1), (95, 1, 1)];
    assert_eq!(texts(&mut engine), expected);
    let stats = engine.stats();
    assert_eq!(
        (stats.ended, stats.running, stats.queued, stats.cache_blocks_held, stats.cache_blocks),
        (3, 0, 0, 0, 64)
    );
    assert_eq!(stats.looked_up_tokens, 55);
}

#[test]
fn a_beginning_that_another_prompt_had_is_found_in_the_cache() {
    let mut engine = engine(args());
    let parts = [Part { content: 1, tokens: 16 }, Part { content: 2, tokens: 16 }, Part { content: 3, tokens: 8 }];
    let other = [Part { content: 1, tokens: 16 }, Part { content: 9, tokens: 24 }];
    let with = |parts: &[Part]| SimRequest { parts: parts.into(), ..request(40, 1) };
    for prompt in [with(&parts), with(&parts), with(&other), request(40, 1)] {
        engine.submit(engine.now, prompt).expect("fits");
        texts(&mut engine);
    }
    // Whole blocks of 16: none, two, one, and none of a prompt whose contents nobody named.
    let stats = engine.stats();
    assert_eq!((stats.looked_up_tokens, stats.found_tokens), (160, 48));
    // 40, 8, 24 and 40 tokens at 1 ms each, and four steps of 10 ms.
    assert_eq!(millis(engine.now), 152);
}

#[test]
fn polling_does_not_change_the_trace() {
    let run = |step: u64| {
        let mut engine = engine(args());
        let mut all = Vec::new();
        for at in (0..400).step_by(step as usize) {
            let now = Tick::from_nanos(at * 1_000_000);
            if at % 20 == 0 && at < 100 {
                engine.submit(now, request(10, 4)).expect("fits");
            }
            engine.poll(now, &mut all);
        }
        all.into_iter()
            .map(|emission| (emission.due, emission.request, format!("{:?}", emission.what)))
            .collect::<Vec<_>>()
    };
    let (fine, coarse) = (run(1), run(20));
    assert!(fine.len() > 20 && fine == coarse);
}

#[test]
fn outputs_of_a_step_leave_one_after_another() {
    let mut engine = engine(EngineArgs { num_blocks: 4_000, max_num_seqs: 2_000, ..EngineArgs::default() });
    for _ in 0..2_000 {
        engine.submit(Tick::ZERO, request(1, 2)).expect("fits");
    }
    let mut all = Vec::new();
    while let Some(due) = engine.wake_at() {
        engine.poll(due, &mut all);
    }
    let texts: Vec<&Emission> = all.iter().filter(|emission| matches!(emission.what, Emitted::Text { .. })).collect();
    assert_eq!(texts.len(), 4_000);
    assert!(all.windows(2).all(|pair| pair[0].due <= pair[1].due), "in the order of their times");
    // The last step: 10 us apart, and what would be more than 12 ms behind comes with the others.
    let last: Vec<u64> = texts[texts.len() - 1_999..].iter().map(|emission| emission.due.as_nanos()).collect();
    assert_eq!((last[1] - last[0], last[1_998] - last[1_500]), (10_000, 0));
    // It takes 10 ms, in whose first 2.01 the outputs of the step before are still written.
    assert_eq!(last[1_998] - last[0], 9_990_000);
}

#[test]
fn several_tokens_of_a_step_are_one_event() {
    let speculation = Some(Speculation { draft_tokens: 3, acceptance: 1.0 });
    let mut engine = engine(EngineArgs { speculation, ..args() });
    engine.submit(Tick::ZERO, request(10, 9)).expect("fits");
    assert_eq!(texts(&mut engine), [(20, 0, 1), (30, 0, 4), (40, 0, 4)]);
}

#[test]
fn what_is_cancelled_or_broken_leaves_its_blocks() {
    let mut engine = engine(args());
    let first = engine.submit(Tick::ZERO, request(20, 50)).expect("fits");
    let mut faults = Faults::default();
    faults.set("disconnect@3=1").expect("a fault");
    let broken = SimRequest { faults: Some(Box::new(faults.clone())), ..request(20, 50) };
    engine.submit(Tick::ZERO, broken).expect("fits");
    let mut stalls = Faults::default();
    stalls.set("stall@2=1").expect("a fault");
    engine.submit(Tick::ZERO, SimRequest { faults: Some(Box::new(stalls)), ..request(5, 2) }).expect("fits");
    let mut all = Vec::new();
    engine.poll(Tick::from_nanos(100_000_000), &mut all);
    engine.cancel(Tick::from_nanos(100_000_000), first);
    while let Some(due) = engine.wake_at() {
        engine.poll(due, &mut all);
    }
    let ends: Vec<Outcome> = all
        .iter()
        .filter_map(|emission| match emission.what {
            Emitted::End(outcome) => Some(outcome),
            _ => None,
        })
        .collect();
    assert_eq!(ends, [Outcome::Disconnected]);
    let stats = engine.stats();
    assert_eq!((stats.cancelled, stats.ended, stats.running, stats.queued, stats.cache_blocks_held), (1, 1, 0, 0, 0));
}

#[test]
fn what_can_never_run_is_refused() {
    let refusal = engine(args()).submit(Tick::ZERO, request(2000, 10)).expect_err("64 blocks are 1,024 tokens");
    assert_eq!((refusal.status, refusal.message.contains("longer")), (400, true));
}
