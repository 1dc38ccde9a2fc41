//! The real gateway in virtual time: every checker holds in each world, a seed gives one trace, and together the kept seeds meet
//! every situation.

use crate::{SEEDS, named_seeds};
use std::collections::{BTreeMap, BTreeSet};
use tokrate_core::Span;
use tokrate_dst::gateway::{GatewayScenario, GatewaySituation, checkers, met, run_gateway};

/// Seeds that run each time.
const REGRESSION_SEEDS: std::ops::Range<u64> = 0..200;

/// What is wrong with the world of a seed, and what it met.
fn look_at(seed: u64) -> (Vec<String>, BTreeSet<GatewaySituation>) {
    let scenario = GatewayScenario::swarm(seed);
    let history = run_gateway(&scenario, false);
    let wrong = checkers::check(&scenario, &history);
    (wrong.into_iter().map(|what| format!("seed {seed}: {what}")).collect(), met(&scenario, &history))
}

/// Runs seeds and fails with the first violations of each that has any, and with the situations that none has met. Returns the first
/// seed that met each.
fn hold(seeds: &[u64], must_meet: &[GatewaySituation]) -> BTreeMap<GatewaySituation, u64> {
    let (mut wrong, mut failing, mut met) = (Vec::new(), Vec::new(), BTreeMap::new());
    for &seed in seeds {
        let (violations, situations) = look_at(seed);
        failing.extend((!violations.is_empty()).then_some(seed));
        wrong.extend(violations.into_iter().take(3));
        for situation in situations {
            met.entry(situation).or_insert(seed);
        }
    }
    let missing: Vec<_> = must_meet.iter().filter(|situation| !met.contains_key(situation)).collect();
    let one = failing.first().copied().unwrap_or_default();
    assert!(
        wrong.is_empty() && missing.is_empty(),
        "never met in {} seeds: {missing:?}\n{} seeds fail: {failing:?}; one alone, with its trace: {SEEDS}={one}..{} \
         cargo nextest run -p tokrate-dst --run-ignored only --no-capture gateways_of_named_seeds\n{}",
        seeds.len(),
        failing.len(),
        one + 1,
        wrong[..wrong.len().min(40)].join("\n")
    );
    met
}

#[test]
fn one_call_in_virtual_time_is_answered_and_logged() {
    let scenario = GatewayScenario::plain(1);
    let history = run_gateway(&scenario, true);
    assert_eq!(checkers::check(&scenario, &history), Vec::<String>::new(), "{:#?}", history.lines);
    assert_eq!((history.outcomes.len(), history.kept.rows.len(), history.log.written), (1, 1, 1));
    assert_eq!(history.outcomes[0].reply.status, Some(200));
}

#[test]
fn nothing_is_begun_for_a_client_that_has_left() {
    let line = |lines: &[String], what: &str| lines.iter().position(|line| line.contains(what));
    let at_ms = |lines: &[String], line: usize| -> u64 {
        let nanos: u64 = lines[line].split(' ').next().and_then(|nanos| nanos.parse().ok()).expect("a time");
        nanos / 1_000_000
    };
    let patient = run_gateway(&GatewayScenario::hedged(None), true).lines;
    let hedged_ms = at_ms(&patient, line(&patient, "dial 1").expect("a hedge"));
    let sent_ms = at_ms(&patient, line(&patient, "dial 0").expect("a first attempt"));
    let mut same_moment = 0;
    for leaves_ms in (hedged_ms - sent_ms - 3)..=(hedged_ms - sent_ms + 3) {
        let scenario = GatewayScenario::hedged(Some(Span::from_millis(leaves_ms)));
        let history = run_gateway(&scenario, true);
        assert_eq!(checkers::check(&scenario, &history), Vec::<String>::new());
        let left = line(&history.lines, "client 0 call 0 Disconnected").expect("the client leaves");
        same_moment += u32::from(at_ms(&history.lines, left) == hedged_ms);
        let hedge = line(&history.lines, "dial 1");
        assert!(hedge.is_none_or(|hedge| hedge < left), "leaves after {leaves_ms} ms: {:#?}", history.lines);
    }
    assert!(same_moment > 0, "a client left in the moment in which the hedge was due");
}

#[test]
fn a_seed_gives_one_trace_of_a_gateway() {
    let mut traces = BTreeSet::new();
    for seed in REGRESSION_SEEDS.take(20) {
        let scenario = GatewayScenario::swarm(seed);
        let (one, other) = (run_gateway(&scenario, true), run_gateway(&scenario, true));
        let differs = one.lines.iter().zip(&other.lines).find(|(one, other)| one != other);
        assert!(one.trace == other.trace, "seed {seed} gave two traces: {differs:?}");
        traces.insert(one.trace);
    }
    assert_eq!(traces.len(), 20, "seeds differ in what happens");
}

#[test]
fn gateway_worlds_of_fixed_seeds_hold_and_reach_every_situation() {
    let seeds: Vec<u64> = REGRESSION_SEEDS.collect();
    hold(&seeds, GatewaySituation::ALL);
}

/// More seeds than a test should take: `TOKRATE_SEEDS` names them. A single one tells its trace.
#[test]
#[ignore = "as long as it is told to"]
fn gateways_of_named_seeds() {
    let seeds = named_seeds(0..10_000);
    if seeds.end == seeds.start + 1 {
        let history = run_gateway(&GatewayScenario::swarm(seeds.start), true);
        history.lines.iter().for_each(|line| eprintln!("{line}"));
    }
    let seeds: Vec<u64> = seeds.collect();
    for (situation, seed) in hold(&seeds, &[]) {
        eprintln!("{situation:?}: first met by seed {seed}");
    }
}
