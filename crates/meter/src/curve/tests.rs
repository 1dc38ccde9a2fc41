//! Tests of the curve: known parameters recovered, minima against brute force, and every odd input survived.

use super::usl::{Observation, fit, loss};
use super::*;

const DOUBLING: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

fn level(load: f64, throughput: f64) -> LoadLevel {
    LoadLevel {
        load,
        throughput: Some(Measured::plain(throughput)),
        output_speed: Some(Measured::plain(throughput / load)),
        ttft: Some(Measured::plain(100.0)),
        requests: 100,
        failures: 0,
        rate_limited: 0,
    }
}

fn curve_of(points: impl IntoIterator<Item = (f64, f64)>) -> CurveResult {
    let levels: Vec<LoadLevel> = points.into_iter().map(|(load, throughput)| level(load, throughput)).collect();
    CurveResult::of(LoadAxis::Concurrency, &levels, &Rng::root(1))
}

fn observe(loads: &[f64], truth: &UslParameters, mut error: impl FnMut() -> f64) -> Vec<Observation> {
    let one = |&n: &f64| Observation { n, throughput: usl(n, truth) * error(), weight: 1.0 };
    loads.iter().map(one).collect()
}

fn grid() -> impl Iterator<Item = UslParameters> {
    [0.7, 80.0, 25_000.0].into_iter().flat_map(|lambda| {
        [0.0, 0.001, 0.02, 0.1, 0.5, 1.0].into_iter().flat_map(move |alpha| {
            [0.0, 1e-6, 1e-4, 2e-3, 0.05].into_iter().map(move |beta| UslParameters { lambda, alpha, beta })
        })
    })
}

#[test]
fn known_parameters_are_recovered_from_exact_data() {
    for truth in grid() {
        for loads in [&DOUBLING[..], &[1.0, 10.0, 25.0, 50.0], &[1.0, 4.0, 64.0], &[8.0, 64.0, 512.0, 640.0]] {
            let found = fit(&observe(loads, &truth, || 1.0)).expect("three loads");
            let near = |found: f64, known: f64, scale: f64| (found - known).abs() <= 1e-6 * (known + scale);
            let recovered = near(found.lambda, truth.lambda, truth.lambda * 0.1)
                && near(found.alpha, truth.alpha, 1.0)
                && near(found.beta, truth.beta, 1e-3);
            assert!(recovered, "{found:?} from {truth:?} at {loads:?}");
        }
    }
}

#[test]
fn no_point_of_a_grid_fits_noisy_data_better() {
    let rng = Rng::root(3);
    for (round, truth) in grid().enumerate() {
        let mut draws = rng.nth(round as u64);
        let data = observe(&DOUBLING, &truth, || (draws.normal() * 0.15).exp());
        let found = fit(&data).expect("seven loads");
        let least = loss(&data, &found);
        for alpha in (0..=60).map(|i| if i == 0 { 0.0 } else { 10f64.powf(f64::from(i - 60) / 15.0) }) {
            for beta in (0..=90).map(|i| if i == 0 { 0.0 } else { 10f64.powf(f64::from(i - 80) / 12.0) }) {
                let shape = UslParameters { lambda: 1.0, alpha, beta };
                let logs = data.iter().map(|o| (o.throughput / usl(o.n, &shape)).ln());
                let tried = UslParameters { lambda: (logs.sum::<f64>() / data.len() as f64).exp(), ..shape };
                assert!(least <= loss(&data, &tried) * (1.0 + 1e-9) + 1e-15, "{tried:?} beats {found:?} for {truth:?}");
            }
        }
    }
}

#[test]
fn intervals_hold_the_true_parameters() {
    let truth = UslParameters { lambda: 80.0, alpha: 0.05, beta: 0.0005 };
    let rng = Rng::root(4);
    let rounds = 40;
    let mut held = [0; 3];
    for round in 0..rounds {
        let mut draws = rng.nth(round);
        let levels: Vec<LoadLevel> = DOUBLING
            .iter()
            .map(|&n| {
                let (fitted, deviation) = (usl(n, &truth), 0.03);
                let value = fitted * (deviation * draws.normal()).exp();
                let reach = 1.96 * deviation * fitted;
                let throughput = Measured { value, low: Some(value - reach), high: Some(value + reach) };
                LoadLevel { throughput: Some(throughput), ..level(n, value) }
            })
            .collect();
        let usl = CurveResult::of(LoadAxis::Concurrency, &levels, &rng).usl;
        assert_eq!(usl.intervals_from, Some(UslInterval::MeasuredNoise));
        let holds = |interval: Option<crate::stats::Interval>, value| interval.expect("seven loads").holds(value);
        held[0] += usize::from(holds(usl.lambda_interval, truth.lambda));
        held[1] += usize::from(holds(usl.alpha_interval, truth.alpha));
        held[2] += usize::from(holds(usl.beta_interval, truth.beta));
    }
    assert!(held.iter().all(|&count| count >= 34), "{held:?} of {rounds}");
}

#[test]
fn what_the_parameters_imply() {
    let both = UslParameters { lambda: 100.0, alpha: 0.19, beta: 0.0001 };
    assert!((both.peak().expect("beta > 0") - 90.0).abs() < 1e-9);
    let most = (1..1000).map(|n| usl(f64::from(n), &both)).fold(0.0, f64::max);
    assert!((both.ceiling().expect("beta > 0") - most).abs() < 1e-9 * most);
    assert_eq!(UslParameters { beta: 0.0, ..both }.peak(), None);
    assert!((UslParameters { beta: 0.0, ..both }.saturation().expect("alpha > 0") - 1.0 / 0.19).abs() < 1e-9);
    assert_eq!(UslParameters { alpha: 0.0, beta: 0.0, ..both }.saturation(), None);
    assert_eq!(UslParameters { alpha: 1.0, ..both }.peak(), Some(1.0));
}

#[test]
fn few_levels_are_named_and_not_fitted() {
    let two = curve_of([(1.0, 50.0), (2.0, 90.0)]);
    assert_eq!((two.usl.status, two.usl.notes), (UslStatus::NotEnoughLevels, vec![UslNote::NeedsThreeLevels]));
    assert_eq!((two.segmented.status, two.knee.status), (BreakStatus::NotEnoughLevels, KneeStatus::NotEnoughLevels));
    let repeated = curve_of([(1.0, 50.0), (1.0, 51.0), (1.0, 52.0), (2.0, 90.0)]);
    assert_eq!(repeated.usl.status, UslStatus::NotEnoughLevels);
    let three = curve_of([(1.0, 50.0), (8.0, 300.0), (32.0, 500.0)]);
    assert_eq!((three.usl.status, three.usl.alpha_interval), (UslStatus::Exact, None));
    assert!(three.usl.notes.contains(&UslNote::NoIntervalsFromThreeLevels));
    assert!(three.usl.relative_error.expect("fitted") < 1e-6);
    assert_eq!(three.knee.status, KneeStatus::NotEnoughLevels);
    assert_eq!(three.usl.peak.expect("bends").high, None);
}

fn noisy(loads: &[f64], deviation: f64, seed: u64, truth: impl Fn(f64) -> f64) -> CurveResult {
    let mut rng = Rng::root(seed);
    curve_of(loads.iter().map(|&n| (n, truth(n) * (deviation * rng.normal()).exp())))
}

#[test]
fn the_break_is_the_best_of_a_dense_grid() {
    let mut rng = Rng::root(6);
    for _ in 0..60 {
        let mut loads: Vec<f64> = (0..4 + rng.below(6)).map(|_| 1.0 + rng.unit() * 63.0).collect();
        loads.sort_by(f64::total_cmp);
        let knee = 1.0 + rng.unit() * 63.0;
        let values: Vec<f64> = loads.iter().map(|n| 80.0 * n.min(knee) + 200.0 * rng.normal()).collect();
        let weights: Vec<f64> = loads.iter().map(|_| 0.5 + rng.unit()).collect();
        let found = super::segmented::two_lines(&loads, &values, &weights).expect("four loads");
        let (first, last) = (loads[1], loads[loads.len() - 2]);
        for step in 0..=2_000 {
            let at = first + (last - first) * f64::from(step) / 2_000.0;
            let Some(tried) = super::segmented::joined(&loads, &values, &weights, at) else { continue };
            assert!(found.loss <= tried.loss * (1.0 + 1e-9), "{found:?} is worse than {tried:?}");
        }
    }
}

#[test]
fn a_straight_line_rarely_breaks_and_a_capped_one_does() {
    let rounds = 60;
    let count = |truth: fn(f64) -> f64, status| {
        let point = |rng: &mut Rng, n: f64| {
            let throughput = truth(n) + 20.0 * rng.normal();
            super::segmented::Point { load: n, throughput, deviation: None }
        };
        let found = (0..rounds).filter(|&round| {
            let mut rng = Rng::root(8).nth(round);
            let points: Vec<_> = (1..=8).map(|i| point(&mut rng, 8.0 * f64::from(i))).collect();
            super::segmented::fit(&points, &Rng::root(round)).status == status
        });
        found.count()
    };
    let false_alarms = count(|n| 20.0 * n, BreakStatus::Supported);
    assert!(false_alarms <= 6, "{false_alarms} of {rounds} straight lines broke");
    let missed = count(|n| 20.0 * n.min(30.0), BreakStatus::NotSupported);
    assert!(missed <= 6, "{missed} of {rounds} breaks were missed");
    assert!(count(|n| 20.0 * n.max(30.0), BreakStatus::BendsUpward) >= 54);
}

#[test]
fn a_known_error_makes_four_levels_testable() {
    let levels = |throughput: fn(f64) -> f64| -> Vec<LoadLevel> {
        let one = |n: f64| {
            let value = throughput(n);
            let throughput = Some(Measured { value, low: Some(value * 0.98), high: Some(value * 1.02) });
            LoadLevel { throughput, ..level(n, value) }
        };
        [1.0, 10.0, 25.0, 50.0].map(one).to_vec()
    };
    let status = |throughput| {
        let curve = CurveResult::of(LoadAxis::Concurrency, &levels(throughput), &Rng::root(1));
        (curve.segmented.status, curve.knee.status)
    };
    assert_eq!(status(|n| 80.0 * n.min(16.0)), (BreakStatus::Supported, KneeStatus::Agree));
    assert_eq!(status(|n| 80.0 * n * (1.0 - 1e-4 * n)), (BreakStatus::NotSupported, KneeStatus::NoKneeInRange));
}

#[test]
fn intervals_of_levels_that_are_too_narrow_are_not_believed() {
    let curve = |deviation: f64, seed: u64, truth: fn(f64) -> f64| {
        let mut rng = Rng::root(seed);
        let one = |n: f64| {
            let value = truth(n) * (deviation * rng.normal()).exp();
            let throughput = Some(Measured { value, low: Some(value * 0.999), high: Some(value * 1.001) });
            LoadLevel { throughput, ..level(n, value) }
        };
        let levels: Vec<LoadLevel> = (1..=10).map(|i| 8.0 * f64::from(i)).map(one).collect();
        CurveResult::of(LoadAxis::Concurrency, &levels, &Rng::root(1))
    };
    let broken = (0..60).filter(|&seed| curve(0.03, seed, |n| 20.0 * n).segmented.status == BreakStatus::Supported);
    let broken = broken.count();
    assert!(broken <= 8, "{broken} of 60 straight lines broke");
    let width = |deviation| {
        let interval = curve(deviation, 1, |n| 20.0 * n / (1.0 + 0.05 * n)).usl.alpha_interval.expect("ten loads");
        interval.high - interval.low
    };
    assert!(width(0.05) > 5.0 * width(0.001), "{} and {}", width(0.05), width(0.001));
}

#[test]
fn the_knee_is_agreed_on_where_throughput_saturates() {
    let contended = |n| usl(n, &UslParameters { lambda: 80.0, alpha: 0.05, beta: 0.0005 });
    for seed in 0..8 {
        for loads in [&DOUBLING[..], &[1.0, 10.0, 25.0, 50.0]] {
            let smooth = noisy(loads, 0.03, seed, contended);
            assert_eq!(smooth.knee.status, KneeStatus::Agree, "seed {seed}: {}", smooth.knee.reason);
            let [low, high] = smooth.knee.between.expect("agreed");
            assert!((7.0..=16.0).contains(&low) && (9.0..=25.0).contains(&high), "{low} to {high}");
            let capped = noisy(loads, 0.03, seed, |n| 80.0 * n.min(16.0));
            assert_eq!(capped.knee.status, KneeStatus::Agree, "seed {seed}: {}", capped.knee.reason);
            assert!((12.0..=20.0).contains(&capped.knee.segmented.expect("agreed")));
            let straight = noisy(loads, 0.03, seed, |n| 80.0 * n);
            assert_ne!(straight.knee.status, KneeStatus::Agree, "seed {seed}: {}", straight.knee.reason);
        }
    }
}

#[test]
fn a_knee_that_is_not_one_has_its_reason() {
    let straight = curve_of(DOUBLING.map(|n| (n, 80.0 * n)));
    assert_eq!(straight.knee.status, KneeStatus::NoKneeInRange);
    assert_eq!(straight.knee.reason, "throughput still pays at the highest load");
    let flat = curve_of(DOUBLING.map(|n| (n, 80.0)));
    assert_eq!(flat.knee.reason, "throughput is saturated already at the lowest load");
    let late = UslParameters { lambda: 80.0, alpha: 0.01, beta: 0.0001 };
    let bent = curve_of(DOUBLING.map(|n| (n, usl(n, &late))));
    assert_eq!((bent.knee.status, bent.signs.len()), (KneeStatus::NoKneeInRange, 0));
    assert!(bent.usl.notes.contains(&UslNote::PeakExtrapolated));
    // Throughput that collapses late: the law, which must be smooth, puts its knee far below the break.
    let cliff = curve_of((1..=16).map(|i| (f64::from(i) * 4.0, if i < 15 { 320.0 * f64::from(i) } else { 100.0 })));
    assert_eq!(cliff.knee.status, KneeStatus::Disagree, "{}", cliff.knee.reason);
    assert!(cliff.knee.usl.is_some() && cliff.knee.segmented.is_some() && cliff.knee.between.is_none());
}

#[test]
fn signs_of_saturation_need_no_fit() {
    let mut levels: Vec<LoadLevel> = DOUBLING.iter().map(|&n| level(n, 80.0 * n.min(16.0))).collect();
    let kinds = |levels: &[LoadLevel]| -> Vec<(SignKind, f64)> {
        let curve = CurveResult::of(LoadAxis::Concurrency, levels, &Rng::root(1));
        curve.signs.iter().map(|sign| (sign.kind, sign.from)).collect()
    };
    assert_eq!(kinds(&levels), [(SignKind::MarginalThroughput, 16.0)]);
    levels[5].ttft = Some(Measured::plain(900.0));
    levels[6].rate_limited = 30;
    levels[4].failures = 4;
    levels[3].failures = 9;
    let expected = [
        (SignKind::MarginalThroughput, 16.0),
        (SignKind::Queueing, 16.0),
        (SignKind::RateLimited, 32.0),
        (SignKind::Failures, 4.0),
    ];
    assert_eq!(kinds(&levels), expected);
    // One poor level amid growth is no saturation.
    let dented: Vec<LoadLevel> = DOUBLING.iter().map(|&n| level(n, if n == 8.0 { 300.0 } else { 80.0 * n })).collect();
    assert_eq!(kinds(&dented), []);
}

#[test]
fn degradation_is_relative_to_the_lowest_load_in_any_order() {
    let curve = curve_of([(16.0, 640.0), (2.0, 160.0), (4.0, 240.0)]);
    let rows: Vec<_> =
        curve.levels.iter().map(|row| (row.level.load, row.efficiency, row.relative_output_speed)).collect();
    let expected = [(2.0, Some(1.0), Some(1.0)), (4.0, Some(0.75), Some(0.75)), (16.0, Some(0.5), Some(0.5))];
    assert_eq!(rows, expected);
    let mut rising = curve_of([(2.0, 160.0), (4.0, 240.0), (16.0, 640.0)]);
    assert_eq!(curve, rising);
    rising.levels.clear();
    assert_ne!(curve, rising);
}

#[test]
fn rates_are_not_put_through_the_scaling_law() {
    let levels: Vec<LoadLevel> = (1..=8).map(|i| level(0.5 * f64::from(i), 200.0 * f64::from(i).min(5.0))).collect();
    let curve = CurveResult::of(LoadAxis::Rate, &levels, &Rng::root(1));
    assert_eq!((curve.usl.status, curve.usl.parameters), (UslStatus::NotApplicable, None));
    assert_eq!((curve.knee.status, curve.knee.usl), (KneeStatus::Agree, None));
    assert!((curve.knee.segmented.expect("agreed") - 2.5).abs() < 1e-9);
}

#[test]
fn the_same_levels_and_seed_give_the_same_curve_and_it_survives_being_written() {
    let truth = |n| usl(n, &UslParameters { lambda: 80.0, alpha: 0.05, beta: 0.0005 });
    let curve = noisy(&DOUBLING, 0.05, 2, truth);
    assert_eq!(curve, noisy(&DOUBLING, 0.05, 2, truth));
    let written = serde_json::to_string(&curve).expect("plain data");
    let read: CurveResult = serde_json::from_str(&written).expect("what was written");
    assert_eq!((read.knee.status, read.levels.len(), read.usl.notes), (curve.knee.status, 7, curve.usl.notes));
    assert!(!serde_json::to_string(&schemars::schema_for!(CurveResult)).expect("plain data").is_empty());
}

#[test]
fn no_finite_input_gives_a_nan_or_a_panic() {
    let special = [0.0, 1.0, -1.0, 0.5, 2.0, 64.0, 1e-300, 1e300, f64::MAX, -0.0, 1e9, 1e-6, 1e15, 1e-9];
    let root = Rng::root(12);
    for round in 0..400 {
        let mut rng = root.nth(round);
        let tame = round % 2 == 0;
        let mut number = || match rng.below(3) {
            0 if !tame => special[rng.below(special.len() as u64) as usize],
            0 => rng.below(3) as f64,
            1 => rng.unit() * 100.0,
            _ => (rng.normal() * 3.0).exp(),
        };
        let mut levels = Vec::new();
        for _ in 0..1 + round % 9 {
            let load = number();
            let mut measured = || Measured { value: number(), low: Some(number()), high: Some(number()) };
            let (throughput, output_speed, ttft) = (Some(measured()), Some(measured()), Some(measured()));
            levels.push(LoadLevel { load, throughput, output_speed, ttft, requests: 3, failures: 9, rate_limited: 5 });
        }
        if round % 5 == 0 {
            levels.iter_mut().for_each(|level| level.throughput = level.throughput.map(|x| Measured::plain(x.value)));
        }
        let curve = CurveResult::of(LoadAxis::Concurrency, &levels, &root);
        let shown = format!("{curve:?}");
        assert!(!shown.contains("NaN") && !shown.contains("inf"), "{shown}");
        assert_eq!(curve.levels.len() as u64 + curve.left_out, levels.len() as u64);
    }
    for points in [vec![], vec![(4.0, 0.0); 6], vec![(4.0, 100.0); 6], DOUBLING.map(|n| (n, 0.0)).to_vec()] {
        let curve = curve_of(points);
        assert!(curve.usl.parameters.is_none() && curve.knee.between.is_none());
    }
    let falling = curve_of(DOUBLING.map(|n| (n, 100.0 / n)));
    assert_eq!(falling.usl.peak.expect("falls").load, 1.0);
}
