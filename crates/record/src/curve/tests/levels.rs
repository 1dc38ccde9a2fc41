//! Levels before any fit: which values and levels count, and with which weight.

use super::*;

#[test]
fn an_interval_of_95_percent_speaks_of_a_standard_error() {
    let deviation = |low, high| Measured { value: 10.0, low, high }.deviation();
    let wide = deviation(Some(8.0), Some(11.0)).expect("both ends");
    assert!((wide - 3.0 / 3.919_927_969_080_108).abs() < 1e-15, "{wide}");
    assert_eq!([deviation(None, Some(11.0)), deviation(Some(8.0), None), deviation(None, None)], [None; 3]);
    assert_eq!([deviation(Some(10.0), Some(10.0)), deviation(Some(11.0), Some(8.0))], [None; 2]);
    assert_eq!(deviation(Some(8.0), Some(f64::INFINITY)), None);
    assert_eq!(Measured::plain(10.0), Measured { value: 10.0, low: None, high: None });
}

#[test]
fn numbers_that_cannot_be_are_left_out_of_their_level() {
    let number = |value| Some(Measured { value, low: Some(f64::NEG_INFINITY), high: Some(7.0) });
    let kept = |value| Some(Measured { value, low: None, high: Some(7.0) });
    let with = |of: &dyn Fn(f64) -> Option<Measured>, values: [f64; 5]| LoadLevel {
        throughput: of(values[0]),
        output_speed: of(values[1]),
        ttft: of(values[2]),
        mean_ttft: of(values[3]),
        mean_e2e: of(values[4]),
        ..level(4.0, 80.0)
    };
    let values = [0.0, 1.0, 2.0, 3.0, 1e15];
    assert_eq!(plausible(&with(&number, values)), with(&kept, values));
    let impossible = [-1.0, 1.1e15, f64::NAN, f64::INFINITY, -1e-9];
    assert_eq!(plausible(&with(&number, impossible)), with(&|_| None, impossible));
    let open = Measured { value: 5.0, low: Some(3.0), high: Some(f64::INFINITY) };
    let plain = plausible(&LoadLevel { ttft: Some(open), ..level(4.0, 80.0) }).ttft;
    assert_eq!(plain, Some(Measured { high: None, ..open }));
}

#[test]
fn a_point_weighs_as_its_error_is_small_and_not_more_than_at_a_thousandth() {
    let seen = |load, value: f64, error: f64| {
        let reach = 1.959_963_984_540_054 * error * value;
        let throughput = Some(Measured { value, low: Some(value - reach), high: Some(value + reach) });
        LoadLevel { throughput, ..level(load, value) }
    };
    let zero = level(3.0, 0.0);
    let points = Points::of(&[seen(1.0, 80.0, 0.02), seen(2.0, 150.0, 1e-5), zero, seen(4.0, 300.0, 20.0)]);
    let found: Vec<_> = points.observations.iter().map(|o| (o.n, o.throughput)).collect();
    assert_eq!((found, points.without), (vec![(1.0, 80.0), (2.0, 150.0), (4.0, 300.0)], 1));
    let noise = points.noise.expect("all are known");
    for ((noise, observation), expected) in noise.iter().zip(&points.observations).zip([0.02, 1e-3, 10.0]) {
        assert!((noise / expected - 1.0).abs() < 1e-9, "{noise} for {expected}");
        assert!((observation.weight * noise.powi(2) - 1.0).abs() < 1e-12, "{observation:?}");
    }
    // One that is not known makes all alike.
    let points = Points::of(&[seen(1.0, 80.0, 0.02), level(2.0, 150.0)]);
    assert_eq!((points.noise, points.observations.iter().map(|o| o.weight).sum::<f64>()), (None, 2.0));
}

#[test]
fn a_level_that_loses_more_than_a_twentieth_is_left_out_of_the_models() {
    let lost = |requests, failures, rate_limited| {
        LoadLevel { requests, failures, rate_limited, ..level(4.0, 80.0) }.lost_share()
    };
    assert_eq!([lost(100, 5, 0), lost(100, 0, 5), lost(100, 30, 20), lost(0, 0, 0)], [0.05, 0.05, 0.5, 0.0]);
    for (failures, refused) in [(5, false), (6, true)] {
        let mut levels = DOUBLING.map(|n| level(n, 80.0 * n));
        levels[6].failures = failures;
        let reason = CurveResult::of(LoadAxis::Concurrency, &levels, &Rng::root(1)).capacity.waits.reason;
        assert_eq!(reason.ends_with("at a load of 64, requests fail or are refused"), refused, "{reason}");
    }
}

#[test]
fn loads_outside_a_billion_and_a_millionth_are_counted_and_left_out() {
    let loads = [1e-6, 1e9, 4.0, 9e-7, 1.1e9, f64::NAN];
    let curve = CurveResult::of(LoadAxis::Rate, &loads.map(|n| level(n, 80.0)), &Rng::root(1));
    let kept: Vec<f64> = curve.levels.iter().map(|row| row.level.load).collect();
    assert_eq!((kept, curve.left_out), (vec![1e-6, 4.0, 1e9], 3));
}

#[test]
fn rows_are_shares_of_the_lowest_load() {
    let row = |load, throughput, speed, ttft| LoadLevel {
        output_speed: Some(Measured::plain(speed)),
        ttft: Some(Measured::plain(ttft)),
        ..level(load, throughput)
    };
    let rows = |levels: &[LoadLevel]| -> Vec<[Option<f64>; 3]> {
        let rows = degradation(levels.to_vec()).into_iter();
        rows.map(|row| [row.relative_output_speed, row.efficiency, row.relative_ttft]).collect()
    };
    let levels = [row(2.0, 100.0, 80.0, 100.0), row(8.0, 300.0, 20.0, 250.0)];
    assert_eq!(rows(&levels), [[Some(1.0); 3], [Some(0.25), Some(0.75), Some(2.5)]]);
    // Nothing is a share of nothing.
    assert_eq!(rows(&[row(2.0, 0.0, 0.0, 0.0), row(8.0, 300.0, 20.0, 250.0)]), [[None; 3]; 2]);
    assert_eq!(rows(&[]), Vec::<[Option<f64>; 3]>::new());
}

#[test]
fn the_model_that_is_drawn_is_the_chosen_one() {
    let curve = curve_of(DOUBLING.map(|n| (n, 80.0 * n.min(16.0))));
    let chosen = curve.model().expect("seven levels");
    assert_eq!((chosen.kind, curve.models.iter().filter(|fit| fit.chosen).count()), (ModelKind::Limit, 1));
    assert_eq!(curve_of([]).model(), None);
}
