//! Tests of the distribution: quantiles against known ones, errors of a percentile against their formulas.

use super::*;

/// The 97.5th percentile of the standard normal distribution.
const Z: f64 = 1.959_964;

/// Times that are spread evenly by their logarithms over a hundred bins, and the least and the longest of them.
fn even() -> (Mixture, f64, f64) {
    let time = |bins: f64| 1e-5 * (0.005 * bins).exp();
    let mut mixture = Mixture::new();
    (0..100).for_each(|bin| mixture.add(time(2_300.5 + f64::from(bin)), 0.3));
    (mixture, time(2_300.0), time(2_400.0))
}

/// Of such a distribution every quantile is known.
fn even_quantile(least: f64, longest: f64, share: f64) -> f64 {
    least * (longest / least).powf(share.clamp(0.0, 1.0))
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * other.abs()
}

#[test]
fn quantiles_of_an_even_distribution_lie_between_its_times() {
    let (mixture, least, longest) = even();
    for share in [-0.2, 0.0, 0.005, 0.1, 0.257, 0.5, 0.9, 0.99, 0.999, 1.0, 1.2] {
        let (found, known) = (mixture.quantile(share), even_quantile(least, longest, share));
        assert!(near(found, known), "{share}: {found} and not {known}");
    }
}

#[test]
fn times_are_accurate_to_half_a_percent() {
    let mut mixture = Mixture::new();
    mixture.add(4.0, 0.5);
    mixture.add(0.02, 1.5);
    mixture.add(300.0, 2.0);
    // Below 0.02 s lie three eighths of all, below 4 s a half.
    for (share, seconds) in [(0.0, 0.02), (0.3, 0.02), (0.374, 0.02), (0.376, 4.0), (0.499, 4.0), (0.51, 300.0)] {
        let found = mixture.quantile(share);
        assert!((found / seconds - 1.0).abs() < 0.005_02, "{share}: {found} and not {seconds}");
    }
}

#[test]
fn zero_and_out_of_range_times_are_counted() {
    let mut mixture = Mixture::new();
    mixture.add(0.0, 1.0);
    assert!(mixture.quantile(0.5) < 1.01e-5);
    mixture.add(1e9, 9.0);
    // Times beyond eight days are clamped.
    assert!(mixture.quantile(0.05) < 1.01e-5 && mixture.quantile(0.5) > 8.0 * 86_400.0);
}

#[test]
fn the_quantile_of_a_list_is_the_lowest_value_that_reaches_the_share() {
    let ten: Vec<f64> = (1..=10).map(f64::from).collect();
    for (share, value) in [(-1.0, 1.0), (0.0, 1.0), (0.1, 1.0), (0.11, 2.0), (0.5, 5.0), (0.91, 10.0), (2.0, 10.0)] {
        assert!(near(quantile_of_sorted(&ten, share), value), "{share}");
    }
    assert!(quantile_of_sorted(&[], 0.5).abs() < f64::MIN_POSITIVE);
}

#[test]
fn independent_contributions_add_in_quadrature() {
    assert!(near(root_sum_of_squares([3.0, -4.0, 12.0].into_iter()), 13.0));
}

/// Calls that took 1 s, 2 s, up to 100 s. Their 90th percentile is 90 s; the share below it has a standard error of
/// `sqrt(0.9 * 0.1 / 100)` = 0.03, so that its interval goes from the 84.12th to the 95.88th in a hundred: 85 s to 96 s.
fn hundred() -> Vec<Option<f64>> {
    (1..=100).map(|seconds| Some(f64::from(seconds))).collect()
}

const OF_HUNDRED: f64 = (96.0 - 85.0) / (2.0 * Z);

#[test]
fn intervals_are_inverted_from_shares_and_independent_errors_add() {
    let (mixture, least, longest) = even();
    // What the estimate rests on are other calls than those that were measured: errors of 3 and 4 in a hundred make 5.
    let mut measured = hundred();
    measured.splice(40..40, [None, None]);
    let mut influences = vec![0.0; 102];
    influences[40..42].copy_from_slice(&[0.03, -0.04]);
    let found = percentile(0.9, &mixture, &influences, &measured);
    let [low, estimated, high] = [0.9 - Z * 0.05, 0.9, 0.9 + Z * 0.05].map(|q| even_quantile(least, longest, q));
    assert!(near(found.level, 0.9) && near(found.measured, 90.0) && near(found.estimated, estimated), "{found:?}");
    assert!(near(found.low, low) && near(found.high, high), "{found:?}, not {low} to {high}");
    let error = OF_HUNDRED.hypot((high - low) / (2.0 * Z));
    assert!(near(found.difference_error, error), "{found:?}, not {error}");
}

#[test]
fn shared_errors_cancel() {
    let (mixture, least, longest) = even();
    // Each call says of the estimate what it says of the measured percentile: it is below (90 calls) or above it (10).
    let influences: Vec<f64> = (1..=100).map(|call| if call <= 90 { 0.001 } else { -0.009 }).collect();
    let found = percentile(0.9, &mixture, &influences, &hundred());
    let [low, high] = [0.9 - Z * 0.03, 0.9 + Z * 0.03].map(|q| even_quantile(least, longest, q));
    assert!(near(found.low, low) && near(found.high, high), "{found:?}, not {low} to {high}");
    let error = OF_HUNDRED - (high - low) / (2.0 * Z);
    assert!((found.difference_error - error).abs() < 1e-9, "{found:?}, not {error}");
}

#[test]
fn a_certain_estimate_has_an_empty_interval() {
    let (mixture, least, longest) = even();
    let found = percentile(0.9, &mixture, &[0.0; 100], &hundred());
    let estimated = even_quantile(least, longest, 0.9);
    assert!(near(found.low, estimated) && near(found.high, estimated), "{found:?}");
    // What is left is that of what was measured.
    assert!(near(found.difference_error, OF_HUNDRED), "{found:?}");
}
