//! Every fault of the engine at every place, in every mode of a race: the client sees one lane's answer, whole, or one clear
//! failure; and tokens, dollars and attempts are the engines' own.

use tokrate_core::{FailureKind, Price, Span};
use tokrate_dst::fleet::{CallEnd, FleetHistory, FleetLane, FleetScenario, LaneSelector, Workload, run_fleet};
use tokrate_route::{LoserPolicy, Mode, Policy, RaceConfig, RouterConfig, WinRule};
use tokrate_sim::{Faults, Law, Persona};

const MODES: [Mode; 3] = [Mode::Off, Mode::Hedge, Mode::Race { lanes: 2 }];
const LOSERS: [LoserPolicy; 2] =
    [LoserPolicy::CancelEstimate, LoserPolicy::DrainExact { max_time: Span::from_secs(60), max_bytes: u64::MAX }];

/// Every fault, those that have a place at the beginning, within, and behind the last token.
fn faults() -> Vec<String> {
    let placed = ["stall", "disconnect", "malformed", "error_event"];
    let places = |kind: &str| match placed.contains(&kind) {
        true => ["0", "9", "9999"].map(|place| format!("{kind}@{place}")).to_vec(),
        false => vec![kind.to_owned()],
    };
    Faults::KINDS.iter().flat_map(|kind| places(kind)).collect()
}

/// Three lanes of the same law, the first of them with the fault, the others with it at that probability.
fn scenario(fault: &str, others: f64, mode: Mode, loser: LoserPolicy) -> FleetScenario {
    let lane = |number: usize| {
        let mut faults = Faults::default();
        let probability = if number == 0 { 1.0 } else { others };
        faults.set(&format!("{fault}={probability}")).expect("a fault");
        let law = Law { tokens_per_chunk: 4, ttft_jitter: 1.0, ..Law::default() };
        let price = Price::from_usd_per_million(1.0, 4.0).expect("a price");
        let persona = Persona { name: format!("lane-{number}"), law, faults, price, ..Persona::default() };
        FleetLane { persona, latency: Span::from_millis(5), loser }
    };
    let workload = Workload {
        calls_per_second: 1.0,
        warmup: Span::ZERO,
        measured: Span::from_secs(25),
        output_mean: 60.0,
        ..Workload::default()
    };
    let race = RaceConfig {
        mode,
        first_token_limit: Span::from_secs(2),
        gap_limit: Span::from_secs(1),
        total_limit: Span::from_secs(30),
        ..RaceConfig::default()
    };
    let mut router = RouterConfig::default();
    // The lane is to be asked in spite of what it does.
    router.breaker.consecutive_failures = u32::MAX;
    router.breaker.failure_rate_limit = 2.0;
    FleetScenario {
        race,
        router,
        ..FleetScenario::of(3, (0..3).map(lane).collect(), workload, LaneSelector::Router(Policy::Fixed))
    }
}

/// How far the reckoned cost may be off the ledger. What a provider reports is believed, even more than it sends: that is what
/// it bills.
fn max_deviation(fault: &str) -> f64 {
    if ["usage_inflated", "hidden_reasoning"].contains(&fault) { f64::INFINITY } else { 0.01 }
}

/// What must hold of every history.
fn hold(what: &str, history: &FleetHistory, max_deviation: f64) {
    assert!(history.calls.len() > 10, "{what}: {} calls", history.calls.len());
    assert_eq!(history.in_flight_at_end, 0, "{what}: attempts that nobody finished");
    let attempts: usize = history.calls.iter().map(|call| call.attempts.len()).sum();
    let requests: u64 = history.ledgers.iter().map(|ledger| ledger.requests).sum();
    assert_eq!(attempts as u64, requests, "{what}");
    for call in &history.calls {
        // None at all if every lane asked to be left alone.
        assert!(call.attempts.len() <= 3, "{what}: {call:?}");
        match (call.end, call.winner) {
            (CallEnd::Whole, Some(winner)) => {
                let shown = &call.attempts[winner];
                assert_eq!(call.shown_tokens, shown.tokens, "{what}: all of one answer");
                assert_eq!(shown.failure, None, "{what}");
            }
            (CallEnd::Broken(kind), Some(winner)) => {
                assert_eq!(call.shown_tokens, call.attempts[winner].tokens, "{what}");
                assert_eq!(call.attempts[winner].failure, Some(kind), "{what}: reported as it was");
            }
            (CallEnd::Failed(_), None) => assert_eq!((call.shown_tokens, call.ttft), (0, None), "{what}"),
            other => panic!("{what}: {other:?} in {call:?}"),
        }
        let losers = call.attempts.iter().enumerate().filter(|(number, _)| Some(*number) != call.winner);
        for (_, loser) in losers {
            let empty = loser.tokens == 0;
            assert!(loser.failure.is_some() || empty, "{what}: a loser ended as if it had won: {loser:?}");
        }
    }
    let usd: f64 = history.calls.iter().flat_map(|call| &call.attempts).map(|attempt| attempt.usd).sum();
    let ledger: f64 = history.ledgers.iter().map(|ledger| ledger.usd).sum();
    let off = (usd / ledger.max(1e-12) - 1.0).abs();
    assert!(off < max_deviation || ledger == 0.0 && usd == 0.0, "{what}: {usd} of {ledger} USD");
}

#[test]
fn for_any_behaviour_of_one_lane_the_client_gets_one_answer_or_one_failure() {
    use FailureKind::{ErrorInStream, Stalled, Truncated};
    for (fault, mode) in faults().iter().flat_map(|fault| MODES.map(|mode| (fault, mode))) {
        for loser in LOSERS {
            let what = format!("{fault}, {mode:?}, {loser:?}");
            let history = run_fleet(&scenario(fault, 0.0, mode, loser));
            hold(&what, &history, max_deviation(fault));
            let broken = match fault.as_str() {
                "stall@9" => Some(Stalled),
                "disconnect@9" | "disconnect@9999" => Some(Truncated),
                "error_event@9" | "error_event@9999" => Some(ErrorInStream),
                "stall@9999" => Some(Stalled),
                _ => None,
            };
            for call in &history.calls {
                match (call.end, broken) {
                    (CallEnd::Whole, _) => {}
                    (CallEnd::Broken(kind), Some(expected)) => assert_eq!(kind, expected, "{what}"),
                    other => panic!("{what}: two sound lanes, and {other:?}: {call:?}"),
                }
                let sound = call.winner.is_some_and(|winner| call.attempts[winner].lane.0 > 0);
                assert!(!sound || call.shown_tokens == call.output_tokens, "{what}: {call:?}");
            }
            // What shows before the first token is cured by another lane.
            let early = ["stall@0", "disconnect@0", "error_event@0", "rate_limited", "server_error", "empty"];
            let cured =
                history.calls.iter().all(|call| call.winner.is_some_and(|winner| call.attempts[winner].lane.0 > 0));
            assert!(!early.contains(&fault.as_str()) || cured, "{what}");
        }
    }
}

#[test]
fn for_any_behaviour_of_all_lanes_calls_end_and_costs_add_up() {
    for (fault, mode) in faults().iter().flat_map(|fault| MODES.map(|mode| (fault, mode))) {
        let history = run_fleet(&scenario(fault, 0.6, mode, LOSERS[0]));
        hold(&format!("{fault} on all lanes, {mode:?}"), &history, max_deviation(fault));
    }
}

#[test]
fn drained_losers_cost_exactly_what_the_engine_generated() {
    let mut scenario = scenario("malformed@9", 0.0, Mode::Race { lanes: 3 }, LOSERS[1]);
    scenario.workload.measured = Span::from_secs(60);
    // Every lane is asked, and the losers are those whose tokens come later.
    scenario.race.win = WinRule::FirstToken;
    let history = run_fleet(&scenario);
    hold("all drained", &history, 1e-9);
    let made: u64 = history.ledgers.iter().map(|ledger| ledger.output_tokens).sum();
    let read: u64 = history.calls.iter().flat_map(|call| &call.attempts).map(|attempt| u64::from(attempt.tokens)).sum();
    assert_eq!(read, made);
    assert!(history.calls.iter().all(|call| call.attempts.len() == 3));
}

#[test]
fn a_seed_gives_one_history() {
    let scenario = scenario("disconnect", 0.5, Mode::Hedge, LOSERS[0]);
    assert!(run_fleet(&scenario) == run_fleet(&scenario));
}
