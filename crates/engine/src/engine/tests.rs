//! Small schedules worked out by hand, and laws that hold for all.

use super::*;
use crate::args::{Policy, Speculation};
use crate::cluster::Cluster;
use crate::prefix::Part;
use proptest::prelude::*;
use std::collections::HashMap;
use tokrate_core::Span;

/// Each step takes 10 ms, and 1 ms for each prompt token.
fn time(work: &Work) -> Span {
    Span::from_millis(10 + work.prompt_tokens())
}

/// The same, and 1 us for each token in the cache.
fn growing_time(work: &Work) -> Span {
    time(work) + Span::from_micros(work.decode_context)
}

type Timed = fn(&Work) -> Span;

fn engine(args: EngineArgs) -> Engine<Timed> {
    Engine::new(args, time as Timed).expect("settings that can run")
}

fn small(policy: Policy) -> EngineArgs {
    EngineArgs {
        policy,
        max_num_seqs: 4,
        max_num_batched_tokens: 32,
        max_model_len: 100,
        block_size: 4,
        num_blocks: 20,
        ..EngineArgs::default()
    }
}

/// Steps until nothing is left: time of the end of each, emissions.
fn run(engine: &mut Engine<Timed>) -> Vec<StepReport> {
    let mut reports: Vec<StepReport> = Vec::new();
    while let Some(report) = engine.step(reports.last().map_or(Tick::ZERO, |last| last.ended_at)) {
        reports.push(report);
        assert!(reports.len() < 100_000, "it comes to an end");
    }
    reports
}

fn millis(tick: Tick) -> u64 {
    tick.since(Tick::ZERO).as_nanos() / 1_000_000
}

#[test]
fn one_request_takes_a_step_for_its_prompt_and_one_for_each_further_token() {
    let mut engine = engine(small(Policy::Vllm));
    engine.submit(&Request::unique(1, 8, 3)).expect("fits");
    let ends: Vec<u64> = run(&mut engine).iter().map(|report| millis(report.ended_at)).collect();
    assert_eq!(ends, [18, 28, 38]);
    assert_eq!(engine.stats().blocks_held, 0);
}

#[test]
fn a_long_prompt_is_processed_in_chunks_beside_decoding() {
    let mut engine = engine(small(Policy::Vllm));
    engine.submit(&Request::unique(1, 8, 4)).expect("fits");
    engine.submit(&Request::unique(2, 40, 1)).expect("fits");
    let reports = run(&mut engine);
    let works: Vec<(u32, u64)> =
        reports.iter().map(|report| (report.work.decoding, report.work.prompt_tokens())).collect();
    // 8 + 24 of 32, then 1 + 16.
    assert_eq!(works, [(0, 32), (1, 16), (1, 0), (1, 0)]);
    assert_eq!(reports[1].work.chunks, [Chunk { tokens: 16, context: 24 }]);
    let emitted: Vec<Vec<u64>> =
        reports.iter().map(|report| report.emissions.iter().map(|emission| emission.id).collect()).collect();
    assert_eq!(emitted, [vec![1], vec![1, 2], vec![1], vec![1]]);
}

#[test]
fn the_last_admitted_is_preempted_and_computed_again() {
    // 5 blocks of 4: two requests of 8 tokens hold 2 each; both want a third.
    let mut engine = engine(EngineArgs { num_blocks: 5, ..small(Policy::Vllm) });
    engine.submit(&Request::unique(1, 8, 6)).expect("fits");
    engine.submit(&Request::unique(2, 8, 6)).expect("fits");
    let reports = run(&mut engine);
    let preempted: Vec<(usize, u64)> = reports
        .iter()
        .enumerate()
        .flat_map(|(step, report)| report.preempted.iter().map(move |id| (step, *id)))
        .collect();
    assert_eq!(preempted, [(1, 2)], "in the step in which both need a block");
    let tokens: u32 = reports.iter().flat_map(|report| &report.emissions).map(|emission| emission.tokens).sum();
    assert_eq!((tokens, engine.stats().preemptions, engine.stats().blocks_held), (12, 1, 0));
    // The first has ended after 6 steps; then the prompt and the one token of the second are computed again.
    assert_eq!(reports[6].work.chunks, [Chunk { tokens: 9, context: 0 }]);
}

#[test]
fn a_policy_that_reserves_never_preempts() {
    for policy in [Policy::TensorRt, Policy::StaticBatch, Policy::Serial] {
        let mut engine = engine(EngineArgs { num_blocks: 5, ..small(policy) });
        for id in 0..3 {
            engine.submit(&Request::unique(id, 8, 6)).expect("fits");
        }
        let reports = run(&mut engine);
        assert_eq!(engine.stats().preemptions, 0, "{policy:?}");
        assert!(reports.iter().all(|report| report.work.requests() == 1), "{policy:?}: 14 tokens are 4 of 5 blocks");
    }
}

#[test]
fn a_static_batch_waits_for_its_last() {
    let mut engine = engine(EngineArgs { max_num_seqs: 2, ..small(Policy::StaticBatch) });
    for (id, output) in [(1, 2), (2, 5), (3, 1)] {
        engine.submit(&Request::unique(id, 20, output)).expect("fits");
    }
    let reports = run(&mut engine);
    let began: Vec<usize> = (0..reports.len()).filter(|step| !reports[*step].admitted.is_empty()).collect();
    // Prompts of 20 and 20 tokens in steps of at most 32: the second's tokens come one step later.
    assert_eq!(began, [0, 6]);
    assert_eq!(reports[0].work.prompt_tokens(), 32);
}

#[test]
fn sglang_processes_prompts_apart_and_takes_known_prefixes_first() {
    let mut engine = engine(small(Policy::Sglang));
    let shared = |id, content| Request { shared: vec![Part { content, tokens: 12 }], ..Request::unique(id, 12, 3) };
    engine.submit(&shared(1, 7)).expect("fits");
    let first = engine.step(Tick::ZERO).expect("a prompt");
    engine.submit(&shared(2, 8)).expect("fits");
    engine.submit(&shared(3, 7)).expect("fits");
    let second = engine.step(first.ended_at).expect("prompts");
    assert_eq!(
        (second.work.decoding, second.admitted),
        (0, vec![(3, 8), (2, 0)]),
        "8 of 12: the last block yields a token"
    );
    let third = engine.step(second.ended_at).expect("tokens");
    assert_eq!((third.work.decoding, third.work.prompt_tokens()), (3, 0));
}

#[test]
fn an_answer_is_found_by_the_next_turn() {
    let mut engine = engine(small(Policy::Vllm));
    let first = Request { shared: vec![Part { content: 1, tokens: 10 }], answer: Some(2), ..Request::unique(1, 10, 8) };
    engine.submit(&first).expect("fits");
    run(&mut engine);
    let history = vec![Part { content: 1, tokens: 10 }, Part { content: 2, tokens: 8 }, Part { content: 3, tokens: 6 }];
    engine.submit(&Request { shared: history, ..Request::unique(2, 24, 1) }).expect("fits");
    let report = engine.step(Tick::ZERO).expect("a prompt");
    // 17 of the first 18 tokens are in the cache, as the last one was never computed: 4 blocks.
    assert_eq!((report.admitted, report.work.prompt_tokens()), (vec![(2, 16)], 8));
    assert_eq!(engine.stats().found_tokens, 16);
}

#[test]
fn a_prompt_that_was_processed_elsewhere_goes_on_with_its_second_token() {
    let mut engine = engine(small(Policy::Vllm));
    engine.submit_prefilled(&Request::unique(1, 30, 3)).expect("fits");
    let reports = run(&mut engine);
    assert_eq!(reports.len(), 2);
    assert_eq!((reports[0].work.decoding, reports[0].work.decode_context), (1, 30));
    assert!(reports.iter().flat_map(|report| &report.emissions).all(|emission| !emission.first));
}

#[test]
fn what_can_never_run_is_refused() {
    let mut engine = engine(EngineArgs { num_blocks: 10, ..small(Policy::Vllm) });
    assert_eq!(engine.submit(&Request::unique(1, 0, 1)), Err(TooLarge::Empty));
    assert_eq!(engine.submit(&Request::unique(1, 99, 2)), Err(TooLarge::Context { tokens: 101, most: 100 }));
    assert_eq!(engine.submit(&Request::unique(1, 40, 1)), Err(TooLarge::Cache { blocks: 11, most: 10 }));
    let whole = EngineArgs { chunked_prefill: false, ..small(Policy::Vllm) };
    let refused = self::engine(whole).submit(&Request::unique(1, 32, 1));
    assert_eq!(refused, Err(TooLarge::Step { tokens: 33, most: 32 }));
    assert!(Engine::new(EngineArgs { block_size: 0, ..EngineArgs::default() }, time as Timed).is_err());
    let greedy = Some(Speculation { draft_tokens: 40, acceptance: 0.5 });
    assert!(Engine::new(EngineArgs { speculation: greedy, ..small(Policy::Vllm) }, time as Timed).is_err());
}

fn any_args() -> impl Strategy<Value = EngineArgs> {
    let policies = prop::sample::select(Policy::NAMED.map(|(_, policy)| policy).to_vec());
    let speculation = prop::option::of((1u32..6, 0.0..1.0f64));
    (policies, 1u32..9, 8u32..64, 1u32..9, 16u32..60, any::<[bool; 2]>(), speculation, any::<u64>()).prop_map(
        |(policy, seqs, tokens, block_size, num_blocks, [prefix_caching, chunked_prefill], drafts, seed)| EngineArgs {
            policy,
            max_num_seqs: seqs,
            max_num_batched_tokens: tokens,
            max_model_len: 120,
            block_size,
            num_blocks,
            prefix_caching,
            chunked_prefill,
            long_prefill_token_threshold: if seed % 3 == 0 { 5 } else { 0 },
            speculation: drafts.map(|(draft_tokens, acceptance)| Speculation { draft_tokens, acceptance }),
            seed,
        },
    )
}

/// Prompt, answer, content, and the step at which it comes.
fn any_requests() -> impl Strategy<Value = Vec<(u32, u32, u64, usize, bool)>> {
    prop::collection::vec((1u32..60, 1u32..40, 0u64..3, 0usize..60, prop::bool::weighted(0.1)), 1..40)
}

proptest! {
    #[test]
    fn tokens_and_blocks_are_conserved(args in any_args(), requests in any_requests()) {
        let mut engine = engine(args.clone());
        let mut arrivals = requests.clone();
        arrivals.sort_by_key(|request| request.3);
        let mut arrivals = arrivals.into_iter().enumerate().peekable();
        let (mut expected, mut got): (HashMap<u64, u32>, HashMap<u64, u32>) = (HashMap::new(), HashMap::new());
        let mut now = Tick::ZERO;
        for step in 0.. {
            while let Some((id, (prompt, output, content, _, cancelled))) = arrivals.next_if(|(_, request)| request.3 <= step) {
                let id = id as u64;
                let shared = vec![Part { content, tokens: prompt }];
                let request = Request { shared, answer: Some(content + 10), ..Request::unique(id, prompt, output) };
                if engine.submit(&request).is_ok() {
                    match cancelled {
                        true => prop_assert!(engine.cancel(id)),
                        false => { expected.insert(id, output); }
                    }
                }
            }
            let Some(report) = engine.step(now) else {
                if arrivals.peek().is_none() { break }
                continue;
            };
            prop_assert!(report.work.tokens() <= u64::from(args.max_num_batched_tokens));
            let most = if args.policy == Policy::Serial { 1 } else { args.max_num_seqs };
            prop_assert!(engine.stats().running <= most);
            prop_assert!(report.ended_at > report.started_at);
            for emission in &report.emissions {
                let sum = got.entry(emission.id).or_default();
                prop_assert_eq!(emission.first, *sum == 0);
                *sum += emission.tokens;
                prop_assert_eq!(emission.last, *sum == expected[&emission.id]);
            }
            now = report.ended_at;
        }
        prop_assert_eq!(got, expected);
        let stats = engine.stats();
        prop_assert_eq!((stats.blocks_held, stats.running, stats.waiting), (0, 0, 0));
        if matches!(args.policy, Policy::TensorRt | Policy::StaticBatch | Policy::Serial) {
            prop_assert_eq!(stats.preemptions, 0);
        }
    }

    #[test]
    fn requests_in_the_system_are_their_rate_times_their_time(args in any_args(), requests in any_requests()) {
        // Little's law, over the whole log: the sum over time of the requests in the engine is the sum of their times.
        let mut engine = engine(args);
        let mut came: HashMap<u64, Tick> = HashMap::new();
        let (mut now, mut inside, mut times) = (Tick::ZERO, 0, 0);
        for step in 0.. {
            for (id, request) in requests.iter().enumerate().filter(|(_, request)| request.3 == step) {
                let id = id as u64;
                if engine.submit(&Request::unique(id, request.0, request.1)).is_ok() {
                    came.insert(id, now);
                }
            }
            let Some(report) = engine.step(now) else {
                if step > 60 { break }
                continue;
            };
            let stats = engine.stats();
            let ended = report.emissions.iter().filter(|emission| emission.last);
            let there = u64::from(stats.running + stats.waiting) + ended.clone().count() as u64;
            inside += there * report.ended_at.since(report.started_at).as_nanos();
            times += ended.map(|emission| report.ended_at.since(came[&emission.id]).as_nanos()).sum::<u64>();
            now = report.ended_at;
        }
        prop_assert_eq!(inside, times);
    }

    #[test]
    fn steps_taken_together_bring_first_and_last_tokens_when_single_ones_do(
        args in any_args(), requests in any_requests(), ranks in 1_usize..4,
    ) {
        // Every user asks once more when answered, so that what ends on one rank brings work to another.
        let run = |together: bool| {
            let engines = (0..ranks).map(|_| Engine::new(args.clone(), growing_time as Timed).expect("can run")).collect();
            let mut cluster = Cluster::new(engines).expect("a rank");
            let mut due: Vec<(Tick, u64, u32, u32)> = requests.iter().enumerate()
                .map(|(id, request)| (Tick::from_nanos(request.3 as u64 * 70_000_000), id as u64, request.0, request.1))
                .collect();
            let (mut seen, mut sums, mut out) = (Vec::new(), HashMap::<u64, u32>::new(), Vec::new());
            loop {
                due.sort();
                let next_due = due.first().map(|request| request.0);
                let Some(now) = cluster.wake_at().into_iter().chain(next_due).min() else { break };
                let until = if together { next_due.unwrap_or(Tick::MAX) } else { Tick::ZERO };
                cluster.poll_to(now, until, &mut out);
                for (at, emission) in out.drain(..) {
                    *sums.entry(emission.id).or_default() += emission.tokens;
                    if emission.first || emission.last { seen.push((at, emission.id, emission.last)); }
                    if emission.last && emission.id < 1000 {
                        let (prompt, output) = (requests[emission.id as usize].0, requests[emission.id as usize].1);
                        due.push((at, emission.id + 1000, prompt, output));
                    }
                }
                due.sort();
                while due.first().is_some_and(|request| request.0 <= now) {
                    let (_, id, prompt, output) = due.remove(0);
                    let _ = cluster.submit(&Request::unique(id, prompt, output));
                }
                let until = if together { due.first().map_or(Tick::MAX, |request| request.0) } else { Tick::ZERO };
                cluster.poll_to(now, until, &mut out);
            }
            let stats: Vec<EngineStats> = cluster.stats().collect();
            seen.sort();
            (seen, sums, stats)
        };
        prop_assert_eq!(run(true), run(false));
    }

    #[test]
    fn the_same_requests_give_the_same_steps(args in any_args(), requests in any_requests()) {
        let steps = || {
            let mut engine = engine(args.clone());
            for (id, request) in requests.iter().enumerate() {
                let _ = engine.submit(&Request::unique(id as u64, request.0, request.1));
            }
            run(&mut engine)
        };
        prop_assert_eq!(steps(), steps());
    }
}
