//! How long it takes to pass on the ends of the steps of one huge session of agents: `cargo run -p tokrate-bench --example agent_release`.
//!
//! A planner, so many workers that wait for it, and one that waits for all. Beside it, the time of a scan of all steps for each end, which is
//! what a plan without [`Followers`](tokrate_bench::agents::Followers) does.

#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "it times itself and says so")]

use std::fmt::Write;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use tokrate_bench::agents::AgentTrace;
use tokrate_bench::plan::{Backoff, Beginning, Extent, Load, Outcome, PhaseSpec, Plan, Share, Step};
use tokrate_core::{Rng, Span, Tick};

fn main() {
    for workers in [5_000, 10_000, 20_000, 40_000] {
        let trace = Arc::new(AgentTrace::parse(&session(workers)).expect("a trace"));
        let load = Load::Agents { trace: Arc::clone(&trace), beginning: Beginning::OwnTimes(1.0) };
        let spec = PhaseSpec { load, extent: Extent::Sessions(1), warmup: 0, backoff: Backoff::Obey };
        let mut plan = Plan::new(&spec, Share::WHOLE, Tick::ZERO, Rng::root(1));
        let (began, mut now, mut steps) = (Instant::now(), Tick::ZERO, 0);
        while let Step::Start(start) = plan.poll(now) {
            now += Span::from_nanos(1);
            plan.completed(&start, now, Outcome::Answered);
            steps += 1;
        }
        let released = began.elapsed();
        let began = Instant::now();
        let all = trace.steps_of(0);
        for ended in 0..all.len() as u32 {
            black_box(all.iter().filter(|step| step.after.contains(&ended)).count());
        }
        println!(
            "{steps} steps: {:.1} ms; with a scan for each end {:.0} ms more",
            released.as_secs_f64() * 1e3,
            began.elapsed().as_secs_f64() * 1e3
        );
    }
}

/// A planner, workers and a join, as JSON Lines.
fn session(workers: u32) -> String {
    let tokens = r#""input_tokens": 5, "output_tokens": 5"#;
    let mut text = format!("{{\"session\": 1, \"step\": \"p\", {tokens}}}\n");
    for worker in 0..workers {
        let _ = writeln!(text, "{{\"session\": 1, \"step\": {worker}, \"after\": [\"p\"], {tokens}}}");
    }
    let all: Vec<String> = (0..workers).map(|worker| format!("\"{worker}\"")).collect();
    let _ = writeln!(text, "{{\"session\": 1, \"after\": [{}], {tokens}}}", all.join(","));
    text
}
