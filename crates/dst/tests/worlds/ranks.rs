//! Ranks of equal and of different engines. The table of docs/method.md is made by `examples/ranks.rs`.

use tokrate_dst::ranks::Pairing;
use tokrate_judge::compare::CompareVerdict;

#[test]
fn the_same_engine_measured_twice_in_rounds_with_a_state_of_their_own_has_one_rank() {
    let pairing = Pairing { rounds: 2, requests: 15, drift: 0.01, slower: 1.0 };
    let pairs = 100;
    let apart = (0..pairs).filter(|seed| pairing.run(*seed).apart.contains(&true)).count();
    // 5 of 100 are expected at most; 11 or more of them come in 1 of 100 such series (binomial).
    assert!(apart <= 10, "{apart} of {pairs} pairs of one engine have different ranks");
}

#[test]
fn a_difference_of_five_percent_is_seen_by_as_many_rounds_as_are_run_by_default() {
    let seen = |rounds, requests| {
        let pairing = Pairing { rounds, requests, drift: 0.01, slower: 1.05 };
        (0..20).filter(|seed| pairing.run(*seed).apart.contains(&true)).count()
    };
    let (four, two) = (seen(4, 10), seen(2, 20));
    assert!(four >= 18 && two <= 8, "{four} of 20 by four rounds of 10, {two} by two rounds of 20");
}

#[test]
fn an_engine_that_is_a_tenth_slower_is_ranked_behind() {
    let pairing = Pairing { rounds: 4, requests: 15, drift: 0.01, slower: 1.1 };
    let seen = (0..20).filter(|seed| pairing.run(*seed).first_leads == [true, true]).count();
    assert!(seen >= 18, "{seen} of 20 pairs");
}

#[test]
fn looking_after_some_rounds_and_stopping_at_a_verdict_calls_no_more_differences_than_stated() {
    let wrong = |slower: f64| {
        let pairing = Pairing { rounds: 0, requests: 10, drift: 0.01, slower };
        (0..60).filter(|seed| pairing.run_until_verdict(*seed).is_wrong(slower)).count()
    };
    // 3 of 60 are 5 %; 9 or more of them come in 1 of 200 such series (binomial).
    let (equal, apart) = (wrong(1.0), wrong(1.05));
    assert!(equal <= 8 && apart <= 8, "{equal} of 60 equal pairs and {apart} of 60 that are 5 % apart");
}

#[test]
fn a_difference_of_five_percent_has_its_verdict_after_few_rounds() {
    let pairing = Pairing { rounds: 0, requests: 10, drift: 0.01, slower: 1.05 };
    let results: Vec<_> = (0..20).map(|seed| pairing.run_until_verdict(seed)).collect();
    let seen = results.iter().filter(|it| it.verdicts == [CompareVerdict::Worse; 2]).count();
    let rounds: u64 = results.iter().map(|result| result.rounds).sum();
    assert!(seen >= 17 && rounds <= 240, "{seen} of 20 in {rounds} rounds");
}
