//! Measures what a routing decision costs, in nanoseconds per call on one thread: `cargo run --release -p tokrate-route
//! --example decision_speed`.

#![allow(clippy::print_stdout)]
#![allow(clippy::disallowed_methods, reason = "measures real time")]

use std::hint::black_box;
use std::time::Instant;
use tokrate_core::{Price, Rng, Span, Tick};
use tokrate_route::{CallShape, LaneConfig, LaneId, Outcome, Policy, PromptHasher, Router};

const LANES: u32 = 8;
const CALLS: u32 = 200_000;

fn main() {
    let price = LaneConfig { price: Price::from_usd_per_million(1.0, 4.0), max_in_flight: None };
    let (mut router, mut rng) = (Router::new(vec![price; LANES as usize], 1), Rng::root(2));
    let ids: Vec<LaneId> = (0..LANES).map(LaneId).collect();
    let shape = CallShape { prompt_tokens: 800, output_tokens: 250.0 };
    let mut now = Tick::ZERO;
    let (mut starting, mut first, mut finishing) = (0.0, 0.0, 0.0);
    let mut open = std::collections::VecDeque::new();
    for _ in 0..CALLS {
        now += rng.exponential(Span::from_micros(50));
        let lane = LaneId(rng.below(u64::from(LANES)) as u32);
        let begun = Instant::now();
        let mut started = router.start(lane, now);
        starting += begun.elapsed().as_nanos() as f64;
        let begun = Instant::now();
        router.first_token(&mut started, now, Span::from_secs_f64(0.2 * rng.log_normal(0.5)), 800);
        first += begun.elapsed().as_nanos() as f64;
        open.push_back(started);
        if open.len() > 200 {
            let output_speed = Some(80.0 * rng.log_normal(0.2));
            let outcome = Outcome { prompt_tokens: 800, output_tokens: 250, output_speed, ..Outcome::default() };
            let started = open.pop_front().expect("not empty");
            let begun = Instant::now();
            router.finish(started, now, &outcome);
            finishing += begun.elapsed().as_nanos() as f64;
        }
    }
    let per_call = |sum: f64| sum / f64::from(CALLS);
    println!(
        "start {:.0} ns, first_token {:.0} ns, finish {:.0} ns (the clock's own time included)",
        per_call(starting),
        per_call(first),
        per_call(finishing)
    );
    for policy in
        [Policy::Completion, Policy::OwnCompletion, Policy::Cache, Policy::PeakEwma, Policy::LeastBusy, Policy::Fixed]
    {
        let begun = Instant::now();
        for _ in 0..CALLS {
            black_box(router.order(now, black_box(&shape), &ids, &policy));
        }
        println!("order of {LANES} lanes, {policy:?}: {:.0} ns", begun.elapsed().as_nanos() as f64 / f64::from(CALLS));
    }
    let begun = Instant::now();
    for _ in 0..CALLS {
        black_box(router.hedge_after(black_box(LaneId(1)), now, 800));
    }
    println!("hedge_after: {:.0} ns", begun.elapsed().as_nanos() as f64 / f64::from(CALLS));
    for kilobytes in [4, 32, 256] {
        caches(&mut router, &ids, now, kilobytes);
    }
}

/// What the objective `cache` adds: hashing a prompt, asking every lane how much of it is there, noting that it was sent.
fn caches(router: &mut Router, ids: &[LaneId], now: Tick, kilobytes: usize) {
    const PROMPTS: u32 = 2_000;
    let text: Vec<u8> = (0..kilobytes * 1_024).map(|place| b'a' + (place * place % 26) as u8).collect();
    let (mut hashing, mut ordering, mut sending) = (0.0, 0.0, 0.0);
    for number in 0..PROMPTS {
        let begun = Instant::now();
        let mut hasher = PromptHasher::new([7, 11]);
        hasher.salt(&(number % 20).to_le_bytes());
        hasher.update(black_box(&text));
        let prompt = hasher.finish(text.len() as u64 / 4);
        hashing += begun.elapsed().as_nanos() as f64;
        let shape = CallShape { prompt_tokens: text.len() as u64 / 4, output_tokens: 250.0 };
        let begun = Instant::now();
        let order = router.order_with(now, &shape, Some(&prompt), ids, &Policy::Cache);
        ordering += begun.elapsed().as_nanos() as f64;
        let mut started = router.start(order[0].lane, now);
        let begun = Instant::now();
        router.send_prompt(&mut started, now, &prompt);
        sending += begun.elapsed().as_nanos() as f64;
        router.first_token(&mut started, now, Span::from_millis(200), shape.prompt_tokens);
        router.finish(started, now, &Outcome { prompt_tokens: shape.prompt_tokens, ..Outcome::default() });
    }
    let microseconds = |sum: f64| sum / f64::from(PROMPTS) / 1e3;
    let all = microseconds(hashing + ordering + sending);
    println!(
        "Cache, {kilobytes} KiB of prompt, {LANES} lanes: hash {:.1} us, order {:.1} us, send {:.1} us, in all {:.3} us per KiB",
        microseconds(hashing),
        microseconds(ordering),
        microseconds(sending),
        all / kilobytes as f64
    );
}
