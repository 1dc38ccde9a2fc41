//! The curve: known parameters recovered, minima against brute force, arbitrary input.

use super::*;
use tokrate_stats::usl::{Form, Observation, fit, loss};

mod capacity;
mod levels;
mod saturation;
mod waiting;

const DOUBLING: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

fn level(load: f64, throughput: f64) -> LoadLevel {
    LoadLevel {
        load,
        throughput: Some(Measured::plain(throughput)),
        output_speed: Some(Measured::plain(throughput / load)),
        ttft: Some(Measured::plain(100.0)),
        mean_ttft: Some(Measured::plain(100.0)),
        mean_e2e: Some(Measured::plain(1_000.0)),
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
            let found = fit(&observe(loads, &truth, || 1.0), Form::Whole).expect("three loads");
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
        let found = fit(&data, Form::Whole).expect("seven loads");
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
        let holds = |interval: Option<tokrate_stats::Interval>, value| interval.expect("seven loads").holds(value);
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
    assert_eq!(
        (two.capacity.slows.status, two.capacity.nearly_all.status),
        (FigureStatus::Unknown, FigureStatus::Unknown)
    );
    let repeated = curve_of([(1.0, 50.0), (1.0, 51.0), (1.0, 52.0), (2.0, 90.0)]);
    assert_eq!(repeated.usl.status, UslStatus::NotEnoughLevels);
    let three = curve_of([(1.0, 50.0), (8.0, 300.0), (32.0, 500.0)]);
    assert_eq!((three.usl.status, three.usl.alpha_interval), (UslStatus::Exact, None));
    assert!(three.usl.notes.contains(&UslNote::NoIntervalsFromThreeLevels));
    assert!(three.usl.relative_error.expect("fitted") < 1e-6);
    assert_eq!(three.usl.peak.expect("bends").high, None);
}

fn noisy(loads: &[f64], deviation: f64, seed: u64, truth: impl Fn(f64) -> f64) -> CurveResult {
    let mut rng = Rng::root(seed);
    curve_of(loads.iter().map(|&n| (n, truth(n) * (deviation * rng.normal()).exp())))
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
fn the_same_levels_and_seed_give_the_same_curve_and_it_survives_being_written() {
    let truth = |n| usl(n, &UslParameters { lambda: 80.0, alpha: 0.05, beta: 0.0005 });
    let curve = noisy(&DOUBLING, 0.05, 2, truth);
    assert_eq!(curve, noisy(&DOUBLING, 0.05, 2, truth));
    let written = serde_json::to_string(&curve).expect("plain data");
    let read: CurveResult = serde_json::from_str(&written).expect("what was written");
    assert_eq!((read.capacity, read.levels.len(), read.usl.notes), (curve.capacity, 7, curve.usl.notes));
    let mut older: serde_json::Value = serde_json::from_str(&written).expect("what was written");
    older.as_object_mut().expect("an object").retain(|name, _| name != "models" && name != "capacity");
    let older: CurveResult = serde_json::from_value(older).expect("a record of an earlier version");
    assert_eq!((older.models.len(), older.capacity.waits.status), (0, FigureStatus::Unknown));
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
            levels.push(LoadLevel {
                load,
                throughput: Some(measured()),
                output_speed: Some(measured()),
                ttft: Some(measured()),
                mean_ttft: Some(measured()),
                mean_e2e: Some(measured()),
                requests: 300,
                failures: 9,
                rate_limited: 5,
            });
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
        assert!(curve.usl.parameters.is_none() && curve.capacity.slows.load.is_none());
    }
    let falling = curve_of(DOUBLING.map(|n| (n, 100.0 / n)));
    assert_eq!(falling.usl.peak.expect("falls").load, 1.0);
}
