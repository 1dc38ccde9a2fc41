//! Tests of the statistics against known values, by enumeration and by simulation with a known truth.

use super::*;
use tokrate_core::{Rng, Span};

mod edges;
mod linear;

fn close(found: f64, known: f64, relative: f64) {
    assert!((found - known).abs() <= relative * known.abs(), "{found:e} instead of {known:e}");
}

#[test]
fn the_normal_distribution_function_has_the_known_values() {
    // Computed with 60 decimal digits.
    for (x, known) in [
        (-1.0, 1.586_552_539_314_570_5e-1),
        (-1.96, 2.499_789_514_822_043_5e-2),
        (-2.4, 8.197_535_924_596_13e-3),
        (-2.6, 4.661_188_023_718_75e-3),
        (-5.0, 2.866_515_718_791_939e-7),
        (-20.0, 2.753_624_118_606_233_7e-89),
        (-2.5, 6.209_665_325_776_135e-3),
        (-37.0, 5.725_571_222_524_577e-300),
        (0.1, 5.398_278_372_770_29e-1),
    ] {
        close(normal_cdf(x), known, 1e-12);
        close(normal_cdf(-x), 1.0 - known, 1e-14);
    }
    assert_eq!((normal_cdf(0.0), normal_cdf(f64::NEG_INFINITY), normal_cdf(f64::INFINITY)), (0.5, 0.0, 1.0));
    assert!(normal_cdf(f64::NAN).is_nan());
}

#[test]
fn the_normal_quantile_inverts_it() {
    for (p, known) in [
        (0.975, 1.959_963_984_540_054),
        (0.99, 2.326_347_874_040_840_8),
        (0.995, 2.575_829_303_548_9),
        (0.9, 1.281_551_565_544_600_8),
        (0.001, -3.090_232_306_167_813),
    ] {
        close(normal_quantile(p).expect("inside"), known, 1e-12);
    }
    for exponent in 1..300 {
        let p = 10f64.powi(-exponent);
        close(normal_cdf(normal_quantile(p).expect("inside")), p, 1e-10);
    }
    assert!(normal_quantile(0.5).expect("inside").abs() < 1e-15);
    for outside in [0.0, 1.0, -0.1, 1.1, f64::NAN] {
        assert_eq!(normal_quantile(outside), None);
    }
}

#[test]
fn the_gamma_function_has_the_known_values() {
    for (x, known) in [
        (0.5, 0.572_364_942_924_700_1),
        (2.5, 0.284_682_870_472_919_6),
        (10.0, 12.801_827_480_081_467),
        (100.5, 361.435_540_467_777_6),
        (1e6, 12_815_504.569_147_611),
    ] {
        close(ln_gamma(x), known, 1e-13);
    }
    assert!(ln_gamma(1.0).abs() < 1e-14 && ln_gamma(2.0).abs() < 1e-14);
}

#[test]
fn the_floors_come_from_the_second_largest_sample_at_99_percent() {
    let floors: Vec<u64> =
        Level::ALL[1..].iter().map(|level| smallest_sample(level.share(), 0.01, 1).expect("inside")).collect();
    assert_eq!(floors, [64, 130, 662, 6_636]);
    assert_eq!(floors, Level::ALL[1..].iter().map(|level| level.floor()).collect::<Vec<_>>());
    assert_eq!(smallest_sample(0.5, 0.025, 0), Some(Level::P50.floor()));
    let largest_alone = [0.9, 0.95, 0.99, 0.999].map(|q| smallest_sample(q, 0.01, 0));
    assert_eq!(largest_alone, [Some(44), Some(90), Some(459), Some(4_603)]);
    assert_eq!(smallest_sample(1.0, 0.01, 1), None);
}

/// P(Binomial(n, q) <= k) by multiplying out, without logarithms.
fn chance_of_at_most(n: u64, q: f64, k: i64) -> f64 {
    (0..=k)
        .map(|outcome| {
            let ways = (0..outcome).map(|i| (n as i64 - i) as f64 / (i + 1) as f64).product::<f64>();
            ways * q.powi(outcome as i32) * (1.0 - q).powi((n as i64 - outcome) as i32)
        })
        .sum()
}

#[test]
fn the_ranks_are_those_of_an_enumeration() {
    for n in 1..=80_u64 {
        for (q, alpha) in [(0.5, 0.025), (0.9, 0.01), (0.95, 0.01), (0.3, 0.1)] {
            let lower = (1..=n).rev().find(|&rank| chance_of_at_most(n, q, rank as i64 - 1) <= alpha);
            let upper = (1..=n).find(|&rank| chance_of_at_most(n, q, rank as i64 - 1) >= 1.0 - alpha);
            assert_eq!(lower_rank(n, q, alpha), lower, "lower rank for n {n}, q {q}");
            assert_eq!(upper_rank(n, q, alpha), upper, "upper rank for n {n}, q {q}");
        }
    }
    assert_eq!((lower_rank(0, 0.5, 0.1), upper_rank(0, 0.5, 0.1)), (None, None));
}

#[test]
fn intervals_cover_the_true_quantile_as_often_as_they_say() {
    let rounds = 1_000;
    for (level, n) in [(Level::P50, 9), (Level::P50, 400), (Level::P90, 64), (Level::P95, 500), (Level::P99, 662)] {
        let mut rng = Rng::root(11).child(level.name()).nth(n);
        let truth = -(1.0 - level.share()).ln();
        let (mut below, mut above) = (0, 0);
        for _ in 0..rounds {
            let mut samples: Vec<f64> = (0..n).map(|_| rng.exponential(Span::from_secs(1)).as_secs_f64()).collect();
            samples.sort_by(f64::total_cmp);
            let quantile = Quantile::of_sorted(&samples, 0, level);
            above += usize::from(quantile.low.expect("stated") > truth);
            below += usize::from(quantile.high.expect("stated") < truth);
        }
        // Three standard errors of the count above the nominal share of misses.
        let allowed = rounds as f64 * level.alpha() + 3.0 * (rounds as f64 * level.alpha()).sqrt();
        assert!((below as f64) <= allowed && (above as f64) <= allowed, "{level:?} n {n}: {below} and {above} missed");
    }
}

#[test]
fn a_quantile_below_its_floor_is_described_and_not_stated() {
    let sorted: Vec<f64> = (1..=63).map(f64::from).collect();
    let small = Quantile::of_sorted(&sorted, 0, Level::P90);
    assert_eq!((small.status, small.stated(), small.descriptive), (QuantileStatus::NotEnoughSamples, None, Some(57.0)));
    assert_eq!((small.low, small.high, small.nearest_rank()), (None, None, Some(57.0)));
    let sorted: Vec<f64> = (1..=64).map(f64::from).collect();
    let large = Quantile::of_sorted(&sorted, 0, Level::P90);
    assert_eq!((large.status, large.stated(), large.descriptive), (QuantileStatus::Stated, Some(58.0), None));
    assert_eq!(large.high, Some(63.0), "the second largest sample");
    let none = Quantile::of_sorted(&[], 0, Level::P50);
    assert_eq!((none.status, none.nearest_rank()), (QuantileStatus::NoSamples, None));
}

#[test]
fn a_quantile_among_failures_is_infinite_and_not_a_number() {
    let mut samples: Vec<u64> = (1..=95).map(|i| i * 1_000_000).collect();
    let with_failures = Distribution::of_nanos_adjusted(&mut samples, 5);
    assert_eq!((with_failures.n, with_failures.infinite), (100, 5));
    assert_eq!((with_failures.mean, with_failures.max, with_failures.min), (None, None, Some(1.0)));
    assert_eq!((with_failures.p90.value, with_failures.p90.infinite), (Some(90.0), false));
    assert!(with_failures.p90.high_infinite && with_failures.p90.high.is_none());
    assert_eq!((with_failures.p99.nearest_rank(), with_failures.p99.infinite), (None, true));
    let all_failed = Distribution::of_nanos_adjusted(&mut [], 70);
    assert!(all_failed.p50.infinite && all_failed.p50.value.is_none());
    assert_eq!(all_failed.min, None);
}

#[test]
fn a_distribution_sums_up_what_it_was_given() {
    let mut samples = vec![4_000_000, 1_000_000, 3_000_000, 2_000_000, 6_000_000, 5_000_000];
    let distribution = Distribution::of_nanos(&mut samples);
    assert_eq!((distribution.n, distribution.mean, distribution.unit.name()), (6, Some(3.5), "ms"));
    assert_eq!((distribution.min, distribution.max), (Some(1.0), Some(6.0)));
    close(distribution.standard_deviation.expect("n > 1"), 3.5_f64.sqrt(), 1e-14);
    assert_eq!(
        (distribution.p50.value, distribution.p50.low, distribution.p50.high),
        (Some(3.0), Some(1.0), Some(6.0))
    );
    assert_eq!(distribution.sketch.0.sum(), 21_000_000);
    let written = serde_json::to_string(&distribution).expect("plain data");
    let read: Distribution = serde_json::from_str(&written).expect("what was written");
    assert_eq!(read, distribution);
    assert!(Distribution::of_nanos(&mut []).is_empty());
    let mut odd = vec![f64::NAN, 2.0, f64::INFINITY, -1.0, 0.5];
    assert_eq!(Distribution::of_values(&mut odd, Unit::TokensPerSecond).n, 2);
    let mut huge = vec![f64::MAX; 40];
    let distribution = Distribution::of_values(&mut huge, Unit::One);
    assert_eq!((distribution.mean, distribution.standard_deviation), (Some(f64::MAX), Some(0.0)));
}

#[test]
fn a_damaged_sketch_is_refused() {
    for damaged in [
        r#"{"scale":5,"zeros":0,"buckets":[],"sum":0,"min":0,"max":0}"#,
        r#"{"scale":6,"zeros":0,"buckets":[[3,1],[3,1]],"sum":9,"min":1,"max":2}"#,
        r#"{"scale":6,"zeros":0,"buckets":[[3,1]],"sum":9,"min":5,"max":2}"#,
    ] {
        assert!(serde_json::from_str::<SketchParts>(damaged).is_err(), "{damaged}");
    }
}

#[test]
fn the_interval_of_a_mean_covers_it_and_leans_to_the_skewed_side() {
    let rng = Rng::root(5);
    let (mut covered, mut longer_above) = (0, 0);
    let rounds = 200;
    for round in 0..rounds {
        let mut draws = rng.nth(round);
        let samples: Vec<f64> = (0..40).map(|_| draws.exponential(Span::from_secs(1)).as_secs_f64()).collect();
        let mean = samples.iter().sum::<f64>() / 40.0;
        let interval = mean_interval(&samples, 0.95, &rng).expect("enough samples");
        covered += usize::from(interval.holds(1.0));
        longer_above += usize::from(interval.high - mean > mean - interval.low);
    }
    assert!((180..=198).contains(&covered), "{covered} of {rounds} hold the true mean");
    assert!(longer_above > 190, "{longer_above} of {rounds} lean to the long tail");
}

#[test]
fn the_interval_of_a_mean_is_that_of_another_implementation() {
    // scipy 1.17.1, stats.bootstrap(method='BCa', n_resamples=200000): 6.40 to 11.70; method='percentile' 6.17 to 11.37.
    let samples: Vec<f64> = (0..30).map(|i| f64::from(i * i % 23 + if i == 7 { 30 } else { 0 })).collect();
    let ends = (0..20).map(|seed| mean_interval(&samples, 0.95, &Rng::root(seed)).expect("enough"));
    let (low, high) = ends.fold((0.0, 0.0), |sum, ends| (sum.0 + ends.low / 20.0, sum.1 + ends.high / 20.0));
    assert!((low - 6.40).abs() < 0.06 && (high - 11.70).abs() < 0.08, "{low} to {high}");
}

#[test]
fn the_interval_of_a_mean_is_reproducible_and_needs_ten_samples() {
    let rng = Rng::root(5);
    let samples: Vec<f64> = (0..50).map(|i| f64::from(i % 7)).collect();
    let interval = mean_interval(&samples, 0.95, &rng);
    assert_eq!(interval, mean_interval(&samples, 0.95, &rng));
    assert_ne!(interval, mean_interval(&samples, 0.95, &Rng::root(6)));
    assert_eq!(mean_interval(&samples[..9], 0.95, &rng), None);
    assert_eq!(mean_interval(&samples, 1.0, &rng), None);
    let equal = mean_interval(&[0.1; 20], 0.95, &rng).expect("enough");
    assert!((equal.low - 0.1).abs() < 1e-15 && (equal.high - 0.1).abs() < 1e-15);
    let mut draws = rng.child("many");
    let many: Vec<f64> = (0..10_000).map(|_| draws.normal()).collect();
    let normal = mean_interval(&many, 0.95, &rng).expect("enough");
    assert_eq!(normal.method, IntervalMethod::Normal);
    assert!(normal.holds(0.0) && (normal.high - normal.low - 2.0 * 1.96 / 100.0).abs() < 0.002);
}

#[test]
fn percentile_intervals_leave_out_what_is_not_finite() {
    let mut replicates: Vec<f64> = (0..1_000).map(f64::from).collect();
    replicates.push(f64::NAN);
    let interval = percentile_interval(&replicates, 0.5).expect("enough");
    assert_eq!((interval.low, interval.high), (250.0, 750.0));
    assert_eq!(percentile_interval(&[f64::NAN; 500], 0.5), None);
}

#[test]
fn wilson_gives_the_published_intervals() {
    // Newcombe (1998), "Two-sided confidence intervals for the single proportion", table I, method 3.
    for (hits, n, low, high) in
        [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)]
    {
        let interval = wilson_interval(hits, n, 0.95).expect("draws");
        assert!((interval.low - low).abs() < 5e-5 && (interval.high - high).abs() < 5e-5, "{hits}/{n}: {interval:?}");
    }
    assert_eq!(wilson_interval(0, 0, 0.95), None);
    assert_eq!(wilson_interval(3, 2, 0.95), None);
}

#[test]
fn distributions_are_pooled_by_their_samples_and_not_by_their_quantiles() {
    let of = |samples: std::ops::Range<u64>| {
        Distribution::of_nanos(&mut samples.map(|ms| ms * 1_000_000).collect::<Vec<u64>>())
    };
    // 90 samples of 100 to 189 ms and 20 of 1,000 to 1,019 ms: the 55th and the 105th of 110 are 154 and 1,014 ms.
    let (quick, slow) = (of(100..190), of(1_000..1_020));
    let pooled = Distribution::pooled(&[&quick, &slow]).expect("two of them");
    assert_eq!((pooled.n, pooled.min, pooled.max), (110, Some(100.0), Some(1_019.0)));
    let near = |seen: Option<f64>, truth: f64| (seen.expect("a number") / truth - 1.0).abs() < 0.0055;
    assert!(near(pooled.p50.stated(), 154.0) && near(pooled.p95.nearest_rank(), 1_014.0), "{pooled:?}");
    assert_eq!(pooled.p95.stated(), None, "130 samples are needed");
    assert!(near(pooled.mean, (90.0 * 144.5 + 20.0 * 1_009.5) / 110.0));
    assert!(
        near(pooled.p50.low, 144.0) && near(pooled.p50.high, 165.0),
        "ranks 45 and 66 by the binomial: {:?}",
        pooled.p50
    );
    assert_eq!(Distribution::pooled(&[&quick]), Some(quick), "one alone is exact");
    assert_eq!(Distribution::pooled(&[]), None);
}

#[test]
fn few_samples_bound_a_percentile_from_below() {
    let of =
        |range: std::ops::Range<u64>| Distribution::of_nanos(&mut range.map(|ms| ms * 1_000_000).collect::<Vec<u64>>());
    let few = of(100..140);
    // P(Binomial(40, 0.95) <= 33) = 0.0034, with 34 it is 0.0139: the 34th of 40.
    let bound = few.lower_bound(Level::P95, 0.01).expect("40 samples");
    assert!((132.0..=133.0).contains(&bound), "{bound}");
    assert_eq!(of(0..0).lower_bound(Level::P95, 0.01), None);
    assert_eq!(of(100..101).lower_bound(Level::P50, 0.01), None, "one sample is above or below by even chances");
    let mut samples: Vec<u64> = (0..10).map(|ms| ms * 1_000_000).collect();
    let failing = Distribution::of_nanos_adjusted(&mut samples, 30);
    assert_eq!(failing.lower_bound(Level::P95, 0.01), Some(f64::INFINITY));
}
