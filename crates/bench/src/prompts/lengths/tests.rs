//! Each distribution against what it promises, and what is refused.

use super::*;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

fn read(text: &str) -> Lengths {
    Lengths::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn drawn(lengths: &Lengths, n: u64) -> Vec<u32> {
    let rng = Rng::root(7);
    let mut all: Vec<u32> = (0..n).map(|number| lengths.draw(&mut rng.nth(number))).collect();
    all.sort_unstable();
    all
}

fn mean(all: &[u32]) -> f64 {
    all.iter().map(|length| f64::from(*length)).sum::<f64>() / all.len() as f64
}

#[test]
fn a_log_normal_has_its_median_and_ends_at_the_99_9th_percentile() {
    let lengths = read("lognormal:800,1.2");
    let all = drawn(&lengths, 20_000);
    // exp(1.2 * 3.09) = 40.8 medians.
    assert_eq!((lengths.least(), lengths.most()), (1, 32_627));
    let median = f64::from(all[10_000]);
    assert!((median / 800.0 - 1.0).abs() < 0.03, "{median}");
    assert!((mean(&all) / lengths.mean() - 1.0).abs() < 0.03, "{} {}", mean(&all), lengths.mean());
    assert!(all[0] >= 1 && all[19_999] <= lengths.most());
}

#[test]
fn a_log_normal_of_a_mean_has_that_mean_but_for_its_tail() {
    let lengths = read("lognormal:mean=900,0.5");
    assert_eq!(lengths.to_string(), "lognormal:794.25,0.5");
    assert!((lengths.mean() - 896.8).abs() < 0.5, "{}", lengths.mean());
}

#[test]
fn a_normal_is_cut_where_there_is_no_token_and_keeps_the_rest_in_proportion() {
    let lengths = read("normal:100,100");
    let all = drawn(&lengths, 20_000);
    assert_eq!((lengths.least(), all[0]), (1, 1));
    assert!(all.iter().filter(|length| **length == 1).count() < 120, "cut, not pushed to the end");
    // The mean of a normal cut at -0.995 sd and +3.09 sd is 0.285 sd higher.
    assert!((lengths.mean() - 128.3).abs() < 0.5, "{}", lengths.mean());
    assert!((mean(&all) / lengths.mean() - 1.0).abs() < 0.02);
    assert_eq!(drawn(&read("normal:100,0"), 3), [100, 100, 100]);
}

#[test]
fn a_limit_is_the_most_that_is_drawn() {
    let lengths = read("lognormal:800,1.2,max=2048");
    assert_eq!((lengths.most(), lengths.to_string().as_str()), (2048, "lognormal:800,1.2,max=2048"));
    let all = drawn(&lengths, 5_000);
    assert!(all[4_999] <= 2048 && all.iter().filter(|length| **length == 2048).count() < 20, "cut, not pushed to it");
}

#[test]
fn a_uniform_draws_both_of_its_ends() {
    let all = drawn(&read("uniform:5..8"), 1_000);
    assert_eq!((all[0], all[999]), (5, 8));
    assert_eq!(read("uniform:5..8").mean(), 6.5);
    assert_eq!(drawn(&read("uniform:4..4"), 2), [4, 4]);
}

#[test]
fn lengths_of_a_file_are_drawn_as_often_as_there() {
    let lengths = Lengths::empirical("tokens,count\n100,3\n7 , 1\n\n").expect("lengths");
    let all = drawn(&lengths, 10_000);
    let short = all.iter().filter(|length| **length == 7).count();
    assert!((2_300..2_700).contains(&short) && all[9_999] == 100, "{short}");
    assert_eq!((lengths.mean(), lengths.least(), lengths.most()), (76.75, 7, 100));
    let plain = Lengths::empirical("5\n5\n9").expect("lengths");
    assert!((plain.mean() - 19.0 / 3.0).abs() < 1e-9);
    for (text, expected) in [
        ("", "line 1, column 1: expected at least one length"),
        ("5\nsix\n", "line 2, column 1: expected a length from 1"),
        ("5,0\n", "line 1, column 1: expected at least one length"),
        ("5,1,2\n", "line 1, column 1: expected a length from 1"),
        ("0\n", "line 1, column 1: expected a length from 1"),
    ] {
        let error = Lengths::empirical(text).expect_err("it is bad").to_string();
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}

#[test]
fn what_is_no_distribution_is_refused_with_what_to_write() {
    for (text, expected) in [
        ("many", "`many` is no length; write N, normal:"),
        ("0", "0 is not between 1"),
        ("normal:100", "`normal:100` does not hold two numbers"),
        ("normal:0,5", "0 is not between 1"),
        ("normal:10,-5", "`-5` is no number of at least 0"),
        ("normal:mean=10,5", "`normal` is no distribution"),
        ("lognormal:100,9", "a sigma of 9 is above 5"),
        ("zipf:1,2", "`zipf` is no distribution"),
        ("uniform:5", "`5` is no range"),
        ("uniform:9..5", "the range 9..5 is empty"),
        ("normal:1000,10,max=100", "less than 1 % of normal:1000,10,max=100"),
        ("normal:10,5,max=x", "`x` is no limit"),
    ] {
        let error = Lengths::parse(text).expect_err("it is bad");
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn whatever_is_accepted_stays_within_its_ends(text in "[a-z]{0,10}:?[0-9.,=a-z]{0,16}", centre in 1u32..100_000, spread in 0u32..5, seed in proptest::num::u64::ANY) {
        let all = [text, format!("normal:{centre},{spread}"), format!("lognormal:{centre},{spread}"), format!("uniform:1..{centre}")];
        for lengths in all.iter().filter_map(|text| Lengths::parse(text).ok()) {
            let rng = Rng::root(seed);
            for number in 0..20 {
                let length = lengths.draw(&mut rng.nth(number));
                prop_assert!((lengths.least()..=lengths.most()).contains(&length), "{lengths}: {length}");
                prop_assert_eq!(length, lengths.draw(&mut rng.nth(number)));
            }
        }
    }
}
