//! What starts when: fan-out, joins, tools, failures, places.

use super::super::{Backoff, Extent, Load, Outcome, PhaseSpec, Plan, Step};
use super::*;
use tokrate_core::Rng;

/// A plan, a join of two workers, of which the second uses a tool for 100 ms; and a second session of one step, 40 ms later.
const TRACE: &str = r#"
{"session": "a", "step": "p", "role": "plan", "input_tokens": 9, "output_tokens": 5, "wait_ms": 10}
{"session": "a", "step": "l", "after": ["p"], "input_tokens": 9, "output_tokens": 5}
{"session": "a", "step": "r", "after": ["p"], "input_tokens": 9, "output_tokens": 5, "wait_ms": 100}
{"session": "a", "step": "j", "after": ["l", "r"], "input_tokens": 9, "output_tokens": 5}
{"session": "b", "step": "p", "input_tokens": 9, "output_tokens": 5, "at_ms": 40}"#;

fn ms(at: u64) -> Tick {
    Tick::ZERO + Span::from_millis(at)
}

fn plan(beginning: Beginning, sessions: u64, share: Share) -> Plan {
    let trace = Arc::new(AgentTrace::parse(TRACE).expect("a trace"));
    let spec = PhaseSpec {
        load: Load::Agents { trace, beginning },
        extent: Extent::Sessions(sessions),
        warmup: 0,
        backoff: Backoff::Obey,
    };
    Plan::new(&spec, share, Tick::ZERO, Rng::root(1))
}

/// Runs a plan whose answers take 50 ms each, and returns (due in ms, session, step, released by), in order of starts.
fn run(mut plan: Plan, outcome: impl Fn(u64, u32) -> Outcome) -> Vec<(f64, u64, u32, Option<u32>)> {
    let mut now = Tick::ZERO;
    let mut started = Vec::new();
    let mut in_flight: BTreeSet<(Tick, super::super::Start)> = BTreeSet::new();
    loop {
        let wake = match plan.poll(now) {
            Step::Start(start) => {
                let turn = start.turn.expect("a step of a session");
                started.push((start.due_at.as_nanos() as f64 / 1e6, turn.session, turn.turn, start.released_by));
                in_flight.insert((now + Span::from_millis(50), start));
                continue;
            }
            Step::Finished => return started,
            Step::WaitUntil(tick) => Some(tick),
            Step::WaitForCompletion => None,
        };
        let ends = in_flight.first().map(|(at, _)| *at);
        now = ends.into_iter().chain(wake).min().expect("something happens");
        while in_flight.first().is_some_and(|(at, _)| *at <= now) {
            let (_, start) = in_flight.pop_first().expect("it is there");
            let turn = start.turn.expect("a step of a session");
            plan.completed(&start, now, outcome(turn.session, turn.turn));
        }
    }
}

const ANSWERED: fn(u64, u32) -> Outcome = |_, _| Outcome::Answered;

#[test]
fn a_step_starts_when_the_last_that_it_waits_for_has_ended_and_its_tool_is_done() {
    let started = run(plan(Beginning::OwnTimes(1.0), 2, Share::WHOLE), ANSWERED);
    assert_eq!(
        started,
        [(10.0, 0, 0, None), (40.0, 1, 0, None), (60.0, 0, 1, Some(0)), (160.0, 0, 2, Some(0)), (210.0, 0, 3, Some(2)),]
    );
    let fast = run(plan(Beginning::OwnTimes(2.0), 2, Share::WHOLE), ANSWERED);
    assert_eq!(fast[3].0, 105.0, "5 of the agent, 50 of an answer, half of the tool's 100");
}

#[test]
fn sessions_take_turns_in_their_places_and_run_again_with_other_prompts() {
    let started = run(plan(Beginning::AtOnce(1, 1.0), 3, Share::WHOLE), ANSWERED);
    let begun: Vec<(f64, u64)> = started.iter().filter(|it| it.2 == 0).map(|it| (it.0, it.1)).collect();
    assert_eq!(begun, [(10.0, 0), (260.0, 1), (320.0, 2)], "the third is the first session once more");
    let agents = Agents::new(
        &Arc::new(AgentTrace::parse(TRACE).expect("a trace")),
        Beginning::AtOnce(1, 1.0),
        Share::WHOLE,
        Tick::ZERO,
        Some(3),
    );
    let prompt = |session, turn| agents.prompt(Turn { session, turn });
    assert_eq!([prompt(0, 3), prompt(1, 0), prompt(2, 3)], [3, 4, 8]);
}

#[test]
fn a_failed_step_ends_its_session_and_no_other() {
    let failing = |session, step| if (session, step) == (0, 1) { Outcome::Failed } else { Outcome::Answered };
    let started = run(plan(Beginning::AtOnce(1, 1.0), 2, Share::WHOLE), failing);
    assert_eq!(
        started.iter().map(|it| (it.1, it.2)).collect::<Vec<_>>(),
        [(0, 0), (0, 1), (1, 0)],
        "the tool's step never starts"
    );
    assert_eq!(started[2].0, 110.0, "the place is free when what was in flight has ended");
}

#[test]
fn a_step_that_was_refused_for_its_rate_is_sent_again_after_the_wait() {
    let mut plan = plan(Beginning::AtOnce(1, 1.0), 1, Share::WHOLE);
    let Step::WaitUntil(at) = plan.poll(Tick::ZERO) else { panic!("the agent's own 10 ms come first") };
    let Step::Start(start) = plan.poll(at) else { panic!("it is due") };
    plan.completed(&start, ms(60), Outcome::RateLimited { retry_after: Some(Span::from_millis(500)) });
    assert_eq!(plan.poll(ms(60)), Step::WaitUntil(ms(560)));
    let Step::Start(again) = plan.poll(ms(560)) else { panic!("it is due") };
    assert_eq!((again.prompt, again.turn), (start.prompt, start.turn));
}

#[test]
fn workers_share_the_sessions_and_start_the_same_steps_as_one() {
    let mut apart: Vec<_> =
        (0..3).flat_map(|worker| run(plan(Beginning::AtOnce(2, 1.0), 6, Share { worker, of: 3 }), ANSWERED)).collect();
    let mut whole = run(plan(Beginning::AtOnce(2, 1.0), 6, Share::WHOLE), ANSWERED);
    apart.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
    whole.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
    assert_eq!(apart, whole);
}

#[test]
fn a_failed_step_takes_back_what_was_ready_of_its_session() {
    let failing = |session, step| if (session, step) == (0, 0) { Outcome::Failed } else { Outcome::Answered };
    let two = TRACE.replace("\"after\": [\"p\"], ", "\"after\": [], ");
    let trace = Arc::new(AgentTrace::parse(&two).expect("a trace"));
    let load = Load::Agents { trace, beginning: Beginning::OwnTimes(1.0) };
    let spec = PhaseSpec { load, extent: Extent::Sessions(2), warmup: 0, backoff: Backoff::Obey };
    let started = run(Plan::new(&spec, Share::WHOLE, Tick::ZERO, Rng::root(1)), failing);
    // The plan fails at 60 ms, when the tool of `r` was still to take until 100.
    let seen: Vec<(u64, u32)> = started.iter().map(|it| (it.1, it.2)).collect();
    assert_eq!(seen, [(0, 1), (0, 0), (1, 0)]);
}
