//! Random worlds: every checker holds in each, a seed gives one history, and together they meet every situation.

use crate::named_seeds;
use tokrate_dst::seeds::REGRESSION_SEEDS;
use tokrate_dst::situations::{Situation, Situations};
use tokrate_dst::{Scenario, checkers, run};

/// How many seeds run each time, from 1 on.
const COUNT: u64 = 60;

/// What is wrong with the world of a seed, and what it met.
fn look_at(seed: u64) -> (Vec<String>, Situations) {
    let scenario = Scenario::swarm(seed);
    let history = run(&scenario);
    let wrong = checkers::check(&scenario, &history);
    (wrong.into_iter().map(|what| format!("seed {seed}: {what}")).collect(), history.situations)
}

/// Runs seeds and fails with the first violations of each that has any.
fn hold(seeds: impl IntoIterator<Item = u64>) -> Situations {
    let (mut wrong, mut met) = (Vec::new(), Situations::default());
    for (violations, situations) in seeds.into_iter().map(look_at) {
        wrong.extend(violations.into_iter().take(3));
        met.merge(&situations);
    }
    assert!(wrong.is_empty(), "{} violations\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
    met
}

#[test]
fn random_worlds_hold_and_reach_every_situation() {
    let met = hold(1..=COUNT);
    assert_eq!(met.missing(), Vec::<Situation>::new(), "never met in {COUNT} seeds");
}

#[test]
fn every_shape_of_load_holds() {
    let mut wrong = Vec::new();
    for seed in 1..=2 * COUNT {
        let scenario = Scenario::with_random_load(seed);
        let history = run(&scenario);
        let found = checkers::check(&scenario, &history);
        wrong.extend(found.into_iter().take(3).map(|what| format!("seed {seed}: {what}")));
    }
    assert!(wrong.is_empty(), "{} violations\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
}

#[test]
fn kept_seeds_still_hold() {
    assert!(REGRESSION_SEEDS.iter().all(|kept| kept.reason.contains(": ")), "every seed says why it is kept");
    hold(REGRESSION_SEEDS.iter().map(|kept| kept.seed));
}

#[test]
fn a_seed_gives_one_history() {
    let mut different = std::collections::BTreeSet::new();
    for seed in 1..=15 {
        let scenario = Scenario::swarm(seed);
        let (one, other) = (run(&scenario), run(&scenario));
        assert!(one == other, "seed {seed} gave two histories");
        different.insert(format!("{:?}", one.exchanges.first()));
    }
    assert!(different.len() > 12, "seeds differ in what happens");
}

/// More seeds than a test should take: `TOKRATE_SEEDS` names them.
#[test]
#[ignore = "as long as it is told to"]
fn worlds_of_named_seeds() {
    hold(named_seeds(1_000..3_000));
}
