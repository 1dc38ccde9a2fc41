//! Capacity of engines with known parameters, and of levels that do not determine it.

use super::super::model::fit_model;
use super::*;
use tokrate_stats::usl::Observation;

/// A level of an engine with so many slots, whose requests take `service` ms each while they run and wait while they do not.
fn queued(load: f64, slots: f64, service: f64) -> LoadLevel {
    let waiting = (load / slots - 1.0).max(0.0) * service;
    let narrow = |value: f64| Some(Measured { value, low: Some(value * 0.995), high: Some(value * 1.005) });
    LoadLevel {
        throughput: narrow(100.0 * load.min(slots) / service * 1e3),
        mean_ttft: narrow(50.0 + waiting),
        mean_e2e: narrow(service + waiting),
        ..level(load, 1.0)
    }
}

fn found(figure: &LoadFigure) -> f64 {
    assert_eq!(figure.status, FigureStatus::Found, "{figure:?}");
    let (load, low, high) = (figure.load.expect("found"), figure.low.expect("found"), figure.high.expect("found"));
    assert!(low <= load && load <= high, "{figure:?}");
    load
}

fn capacity(levels: &[LoadLevel]) -> Capacity {
    CurveResult::of(LoadAxis::Concurrency, levels, &Rng::root(1)).capacity
}

#[test]
fn slots_that_lie_between_two_levels_are_found() {
    for slots in [6.0, 11.0, 20.0, 24.0, 45.0] {
        let loads = [1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 32.0, 48.0, 64.0, 96.0];
        let levels: Vec<LoadLevel> = loads.iter().map(|&n| queued(n, slots, 1_000.0)).collect();
        let capacity = capacity(&levels);
        // Perfect scaling up to the slots: power is greatest, and waiting begins, at the slots.
        assert!((found(&capacity.slows) / slots - 1.0).abs() < 0.02, "{slots}: {:?}", capacity.slows);
        assert!((found(&capacity.waits) / slots - 1.0).abs() < 0.02, "{slots}: {:?}", capacity.waits);
        assert!((found(&capacity.nearly_all) / (0.9 * slots) - 1.0).abs() < 0.02, "{slots}: {:?}", capacity.nearly_all);
    }
}

#[test]
fn the_model_is_the_one_that_made_the_levels() {
    let kind = |truth: fn(f64) -> f64| {
        let loads = [1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0];
        let levels: Vec<LoadLevel> = loads.iter().map(|&n| level(n, truth(n))).collect();
        let curve = CurveResult::of(LoadAxis::Concurrency, &levels, &Rng::root(1));
        let chosen = *curve.model().expect("eleven levels");
        for n in loads {
            assert!((chosen.at(n) / truth(n) - 1.0).abs() < 1e-6, "{chosen:?} at {n}");
        }
        chosen.kind
    };
    assert_eq!(kind(|n| 80.0 * n), ModelKind::Proportional);
    assert_eq!(kind(|n| 80.0 * n.min(20.0)), ModelKind::Limit);
    assert_eq!(kind(|n| 80.0 * n / (1.0 + 0.05 * (n - 1.0))), ModelKind::Contention);
    assert_eq!(kind(|n| 80.0 * n.min(40.0) / (1.0 + 0.05 * (n.min(40.0) - 1.0))), ModelKind::ContentionLimit);
    assert_eq!(kind(|n| 80.0 * n / (1.0 + 0.02 * (n - 1.0) + 0.001 * n * (n - 1.0))), ModelKind::ScalingLaw);
    // The limit lies beyond the peak: throughput falls, and then stands.
    let falls = |n: f64| usl(n.min(60.0), &UslParameters { lambda: 80.0, alpha: 0.02, beta: 0.001 });
    let levels: Vec<Observation> =
        (1..=12).map(|i| 8.0 * f64::from(i)).map(|n| Observation { n, throughput: falls(n), weight: 1.0 }).collect();
    let fitted = fit_model(ModelKind::ScalingLawLimit, &levels).expect("twelve levels");
    assert!((fitted.limit.expect("a limit") - 60.0).abs() < 1e-3, "{fitted:?}");
}

#[test]
fn the_most_power_is_that_of_a_dense_grid() {
    for (alpha, beta) in [(0.05, 0.0), (0.02, 0.0005), (0.0, 0.001), (0.3, 0.01), (0.001, 0.0002)] {
        let truth = UslParameters { lambda: 80.0, alpha, beta };
        let levels: Vec<LoadLevel> = (0..24).map(|i| 1.25_f64.powi(i)).map(|n| level(n, usl(n, &truth))).collect();
        let capacity = capacity(&levels);
        let power = |n: f64| usl(n, &truth).powi(2) / n;
        let grid = (0..30_000).map(|i| 1.0 + 0.005 * f64::from(i)).max_by(|a, b| power(*a).total_cmp(&power(*b)));
        let expected = grid.expect("not empty");
        assert!((found(&capacity.slows) / expected - 1.0).abs() < 0.01, "{alpha} {beta}: {:?}", capacity.slows);
    }
}

#[test]
fn loads_beyond_the_levels_are_not_stated() {
    let straight = capacity(&DOUBLING.map(|n| queued(n, 1e6, 1_000.0)));
    for figure in [&straight.slows, &straight.waits] {
        assert_eq!((figure.status, figure.load), (FigureStatus::Above, None), "{figure:?}");
        assert!(figure.reason.ends_with("at the highest load, 64"), "{}", figure.reason);
    }
    // Within the intervals throughput may end just below the highest load: no more than that is said.
    let nearly_all = &straight.nearly_all;
    assert_eq!((nearly_all.load, nearly_all.high), (None, None));
    assert!(nearly_all.low.is_none_or(|low| low > 0.85 * 64.0), "{nearly_all:?}");
    // One level beyond the slots, none between: the law that bends and the limit that cuts off foretell the others alike.
    let sparse = capacity(&[1.0, 2.0, 4.0, 8.0, 64.0].map(|n| level(n, 80.0 * n.min(24.0))));
    assert_ne!(sparse.slows.status, FigureStatus::Found, "{:?}", sparse.slows);
    let flat = capacity(&DOUBLING.map(|n| level(n, 80.0)));
    assert_eq!(flat.slows.status, FigureStatus::Below, "{:?}", flat.slows);
}

#[test]
fn four_levels_do_not_rule_out_what_they_cannot_judge() {
    // 32 slots, alpha 0.02 and beta 0.0005, of which the most power is at 19.9: seen twice, with the scatter of real runs.
    for seen in [[114.0, 948.0, 1_667.0, 1_805.0], [114.3, 951.0, 1_660.0, 1_812.0], [113.8, 945.0, 1_672.0, 1_801.0]] {
        let levels = [1.0, 10.0, 25.0, 50.0].into_iter().zip(seen).map(|(n, value)| {
            let throughput = Some(Measured { value, low: Some(value * 0.985), high: Some(value * 1.015) });
            LoadLevel { throughput, ..level(n, value) }
        });
        let slows = capacity(&levels.collect::<Vec<_>>()).slows;
        let (low, high) = (slows.low.expect("it bends"), slows.high.unwrap_or(f64::INFINITY));
        assert!(low <= 20.0 && 19.8 <= high, "{slows:?}");
    }
}

#[test]
fn levels_that_refuse_are_left_out_and_named() {
    let mut levels = DOUBLING.map(|n| queued(n, 1e6, 1_000.0));
    (levels[6].rate_limited, levels[6].throughput) = (30, Some(Measured::plain(1.0)));
    let capacity = capacity(&levels);
    assert_eq!(capacity.slows.status, FigureStatus::Above);
    let reason = "a request does not slow yet at the highest load, 32; at a load of 64, requests fail or are refused";
    assert_eq!(capacity.slows.reason, reason);
    assert_eq!((capacity.slows.low, capacity.slows.high), (Some(32.0), Some(64.0)));
}

#[test]
fn waiting_is_distinguished_from_noise_and_from_answers_that_did_not_stream() {
    // One slow level amid quick ones.
    let mut levels = DOUBLING.map(|n| queued(n, 1e6, 1_000.0));
    levels[3].mean_ttft = Some(Measured::plain(500.0));
    assert_eq!(capacity(&levels).waits.status, FigureStatus::Above);
    // Waits that the intervals do not bear out.
    let mut unsure = DOUBLING.map(|n| queued(n, 32.0, 1_000.0));
    unsure[6].mean_ttft = Some(Measured { value: 1_050.0, low: Some(40.0), high: Some(2_000.0) });
    assert_eq!(capacity(&unsure).waits.status, FigureStatus::Above);
    let whole = DOUBLING.map(|n| LoadLevel { mean_ttft: level(n, 1.0).mean_e2e, ..level(n, 80.0 * n) });
    assert_eq!(
        capacity(&whole).waits.reason,
        "answers arrived in one piece, so waiting cannot be separated from decoding"
    );
    // The level above the last that does not wait is the next whole number.
    let near = [1.0, 4.0, 8.0, 9.0, 16.0].map(|n| queued(n, 8.0, 1_000.0));
    assert_eq!(found(&capacity(&near).waits), 8.0);
}

#[test]
fn rates_have_a_limit_and_no_law_of_scaling() {
    // Ten requests a second of 50 tokens are the most; near it they take longer.
    let at = |rate: f64| {
        let busy = (rate / 10.0).min(0.99);
        let time = 1_000.0 / (1.0 - busy);
        let narrow = |value: f64| Some(Measured { value, low: Some(value * 0.99), high: Some(value * 1.01) });
        LoadLevel {
            mean_ttft: narrow(50.0 + time - 1_000.0),
            mean_e2e: narrow(time),
            ..level(rate, 50.0 * rate.min(10.0))
        }
    };
    let levels: Vec<LoadLevel> = [0.5, 1.0, 2.0, 4.0, 4.6, 5.0, 5.4, 6.0, 8.0, 12.0, 16.0].map(at).to_vec();
    let curve = CurveResult::of(LoadAxis::Rate, &levels, &Rng::root(1));
    assert_eq!((curve.usl.status, curve.usl.parameters), (UslStatus::NotApplicable, None));
    assert_eq!(curve.model().expect("eleven levels").kind, ModelKind::Limit);
    // Throughput / time is rate (10 - rate): greatest at half of the most.
    assert!((found(&curve.capacity.slows) - 5.0).abs() < 1e-9);
    assert!((found(&curve.capacity.nearly_all) - 9.0).abs() < 0.1);
    assert_eq!(curve.capacity.waits.status, FigureStatus::Between);
}

#[test]
fn where_the_highest_level_waits_the_advice_is_never_to_measure_higher_ones() {
    // The engine that answers by default, and one without contention; 32 slots each. Noise of up to 4 % in either direction.
    let laws = [
        UslParameters { lambda: 120.0, alpha: 0.02, beta: 0.0005 },
        UslParameters { lambda: 120.0, alpha: 0.0, beta: 0.0 },
    ];
    for law in laws {
        for loads in [[1.0, 10.0, 25.0, 50.0], [1.0, 4.0, 16.0, 40.0], [1.0, 4.0, 16.0, 48.0]] {
            for noise in [[1.0; 4], [0.98, 1.02, 0.98, 1.03], [1.02, 0.97, 1.0, 0.98], [1.0, 0.96, 0.97, 1.03]] {
                let levels: Vec<LoadLevel> = loads
                    .iter()
                    .zip(noise)
                    .map(|(&n, noise)| {
                        let throughput = usl(f64::min(n, 32.0), &law) * noise;
                        let wide =
                            Measured { value: throughput, low: Some(throughput * 0.96), high: Some(throughput * 1.04) };
                        let service = 1e5 * f64::min(n, 32.0) / usl(f64::min(n, 32.0), &law);
                        LoadLevel { throughput: Some(wide), ..queued(n, 32.0, service) }
                    })
                    .collect();
                let capacity = capacity(&levels);
                let (low, high) = (capacity.waits.low.expect("it waits"), capacity.waits.high.expect("it waits"));
                assert!(low <= 32.5 && high >= 31.5, "{:?}", capacity.waits);
                for figure in [&capacity.slows, &capacity.nearly_all] {
                    assert!(
                        !figure.reason.contains("higher") && !figure.reason.contains("highest"),
                        "{loads:?} {figure:?}"
                    );
                    if figure.status == FigureStatus::Between {
                        assert_eq!(figure.reason, "measure levels in between");
                        assert!(figure.high.is_some_and(|end| end <= high.max(32.5)), "{loads:?} {figure:?}");
                    }
                }
            }
        }
    }
}
