//! The statistics at their edges, and on samples that are large or lopsided.

use super::*;

#[test]
fn ranks_of_large_samples_are_those_of_the_exact_distribution() {
    // scipy 1.17.1, stats.binom.
    for (n, q, alpha, lower, upper) in [
        (100, 0.5, 0.025, 40, 61),
        (1_000, 0.05, 0.001, 30, 74),
        (100_000, 0.5, 0.025, 49_690, 50_311),
        (100_000, 0.99, 0.01, 98_926, 99_073),
        (2_000_000, 0.9, 0.01, 1_799_012, 1_800_987),
    ] {
        assert_eq!((lower_rank(n, q, alpha), upper_rank(n, q, alpha)), (Some(lower), Some(upper)), "{n} samples");
    }
}

#[test]
fn outside_of_the_open_interval_nothing_is_claimed() {
    for outside in [0.0, 1.0, -0.5, 1.5, f64::NAN] {
        assert_eq!((lower_rank(100, outside, 0.01), upper_rank(100, outside, 0.01)), (None, None), "q {outside}");
        assert_eq!(smallest_sample(outside, 0.01, 1), None, "q {outside}");
        assert_eq!(smallest_sample(0.9, outside, 1), None, "alpha {outside}");
        assert_eq!(percentile_interval(&[1.0; 200], outside), None, "confidence {outside}");
    }
    assert_eq!(Level::P50.nearest_rank(0), None);
    assert_eq!(Level::P50.nearest_rank(1), Some(1));
}

#[test]
fn a_hundred_replicates_are_enough() {
    assert!(percentile_interval(&[1.0; 100], 0.95).is_some());
    assert_eq!(percentile_interval(&[1.0; 99], 0.95), None);
}

#[test]
fn an_upper_bound_that_is_the_last_finite_sample_is_finite() {
    // Of 100 samples the 61st is the upper bound of the median.
    let samples: Vec<f64> = (1..=61).map(f64::from).collect();
    let reached = Quantile::of_sorted(&samples, 39, Level::P50);
    assert_eq!((reached.high, reached.high_infinite), (Some(61.0), false));
    let beyond = Quantile::of_sorted(&samples[..60], 40, Level::P50);
    assert_eq!((beyond.high, beyond.high_infinite), (None, true));
}

#[test]
fn samples_that_are_all_zero_have_a_mean_of_zero_without_spread() {
    let zeros = Distribution::of_nanos(&mut [0; 12]);
    assert_eq!((zeros.mean, zeros.standard_deviation, zeros.is_empty()), (Some(0.0), Some(0.0), false));
    assert!(Distribution::of_nanos(&mut []).is_empty());
    let interval = mean_interval(&[0.0; 12], 0.95, &Rng::root(1)).expect("enough");
    assert_eq!((interval.low, interval.high), (0.0, 0.0));
}

#[test]
fn samples_of_any_size_have_the_interval_of_their_kind() {
    let samples: Vec<f64> = (0..40).map(|i| f64::from(i * i % 23 + 1)).collect();
    let rng = Rng::root(3);
    let plain = mean_interval(&samples, 0.95, &rng).expect("enough");
    // Powers of two, so that nothing is rounded.
    for scale in [2f64.powi(990), 2f64.powi(-990)] {
        let scaled: Vec<f64> = samples.iter().map(|sample| sample * scale).collect();
        let interval = mean_interval(&scaled, 0.95, &rng).expect("enough");
        close(interval.low / scale, plain.low, 1e-9);
        close(interval.high / scale, plain.high, 1e-9);
    }
}

#[test]
fn beyond_five_thousand_samples_the_interval_is_the_mean_and_its_standard_errors() {
    // 0 and 1 in turn, and one more 0: the mean is 2,500 / 5,001 and the variance of the sample 2,500 * 2,501 / (5,001 * 5,000).
    let samples: Vec<f64> = (0..5_001).map(|i| f64::from(i % 2)).collect();
    let interval = mean_interval(&samples, 0.95, &Rng::root(1)).expect("enough");
    let mean = 2_500.0 / 5_001.0;
    let error = (2_500.0 * 2_501.0 / (5_001.0 * 5_000.0) / 5_001.0_f64).sqrt();
    assert_eq!(interval.method, IntervalMethod::Normal);
    close(interval.low, mean - 1.959_963_984_540_054 * error, 1e-12);
    close(interval.high, mean + 1.959_963_984_540_054 * error, 1e-12);
}

#[test]
fn the_interval_of_a_lopsided_sample_leans_as_far_as_another_implementation_says() {
    // By scipy 1.17.1 and numpy 2.4.6, 400,000 resamples, the acceleration 0.1221: 2.2 to 15.7.
    let samples = [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 5.0, 9.0, 30.0];
    let ends = (0..20).map(|seed| mean_interval(&samples, 0.95, &Rng::root(seed)).expect("enough"));
    let (low, high) = ends.fold((0.0, 0.0), |sum, ends| (sum.0 + ends.low / 20.0, sum.1 + ends.high / 20.0));
    assert!((low - 2.2).abs() < 0.06 && (high - 15.7).abs() < 0.5, "{low} to {high}");
}
