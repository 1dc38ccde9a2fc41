//! Ranks of equal and of different engines. The table of docs/method.md is made by `examples/ranks.rs`.

use tokrate_dst::ranks::Pairing;

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
