//! Statistics of a comparison against published values and exhaustive counts.

use super::*;
use tokrate_stats::{median, normal_p, visible_errors};

#[test]
fn a_median_is_the_sample_at_the_nearest_rank() {
    assert_eq!(median(&[5.0]), 5.0);
    assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
    assert_eq!(median(&[1.0, 2.0, 3.0, 9.0]), 2.0, "the lower of the two in the middle");
    assert!(median(&[]).is_nan());
}

#[test]
fn the_usual_deviates_have_their_usual_p() {
    assert!((normal_p(1.959_964) - 0.05).abs() < 1e-7 && (normal_p(-2.575_829) - 0.01).abs() < 1e-7);
    assert_eq!(normal_p(0.0), 1.0);
    assert!(normal_p(1e3) > 0.0, "a p is never 0");
}

#[test]
fn a_test_at_five_percent_sees_eighty_percent_of_what_is_2_8_errors_large() {
    // 1.96 + 0.84, as in every table of sample sizes; at 1 % 2.576 + 0.842.
    assert!((visible_errors(0.05) - 2.801_585).abs() < 1e-5, "{}", visible_errors(0.05));
    assert!((visible_errors(0.01) - 3.417_451).abs() < 1e-5, "{}", visible_errors(0.01));
}

#[test]
fn few_samples_are_split_ten_thousand_times() {
    // Of 28 samples 14 are alike far apart in 2 of 40,116,600 splits: none of those drawn, so only the one that was seen.
    let (low, high): (Vec<f64>, Vec<f64>) = ((0..14).map(f64::from).collect(), (20..34).map(f64::from).collect());
    assert_eq!(permutation_p(&low, &high, &Rng::root(1)), 1.0 / 10_001.0);
}

#[test]
fn the_interval_and_error_of_a_median_of_five_are_those_of_all_resamples() {
    // The median of 5 draws from 5 values is at most the k-th with P(Bin(5, k / 5) >= 3): 0.05792, 0.31744, 0.68256, 0.94208.
    // So each rank is the median with 0.05792, 0.25952, 0.36512, 0.25952, 0.05792, and in powers of two the variance is
    // 2 * 4 * 0.05792 + 2 * 0.25952 = 0.9824. Both ends have more than 2.5 %, so the interval reaches from end to end.
    let values = [1.0, 2.0, 4.0, 8.0, 16.0];
    let (interval, error) = ratio_of_medians(&[1.0], &values, &Rng::root(3)).expect("finite");
    assert!((interval.low - 1.0).abs() < 1e-9 && (interval.high - 16.0).abs() < 1e-9, "{interval:?}");
    // Four standard errors of 4,000 draws are 4 %.
    let expected = 0.9824_f64.sqrt() * 2.0_f64.ln();
    assert!((error / expected - 1.0).abs() < 0.04, "{error} for {expected}");
}

#[test]
fn a_resampled_median_falls_on_each_rank_as_often_as_drawing_with_replacement_says() {
    // Of `n` values the first `low` are 1 and the others e, so that the logarithm is 0 or 1 and its variance is p (1 - p).
    // The median of `n` draws is 1 with p = P(Bin(n, low / n) >= ceil(n / 2)).
    for (n, low, p) in [(2, 1, 0.75_f64), (6, 1, 0.062_286), (7, 2, 0.108_274)] {
        let values: Vec<f64> = (0..n).map(|place| if place < low { 1.0 } else { std::f64::consts::E }).collect();
        let rounds: u32 = 3;
        let seen = |seed: u32| {
            let (_, error) = ratio_of_medians(&[1.0], &values, &Rng::root(seed.into())).expect("finite");
            let part = (1.0 - (1.0 - 4.0 * error * error * 3_999.0 / 4_000.0).sqrt()) / 2.0;
            if p > 0.5 { 1.0 - part } else { part }
        };
        let share = (0..rounds).map(seen).sum::<f64>() / f64::from(rounds);
        let room = 4.0 * (p * (1.0 - p) / 12_000.0).sqrt();
        assert!((share - p).abs() < room, "{share} for {p} with {n} values");
    }
}
