//! Parts of the capacity estimate: loads of hand-made models, and whole figures against an independent program.

use super::*;
use crate::curve::UslParameters;

fn model(alpha: f64, beta: f64, limit: Option<f64>) -> ThroughputModel {
    ThroughputModel { kind: ModelKind::Limit, parameters: UslParameters { lambda: 100.0, alpha, beta }, limit }
}

fn near(found: Option<f64>, expected: Option<f64>, tolerance: f64) -> bool {
    found.is_some() == expected.is_some()
        && found.zip(expected).is_none_or(|(found, expected)| (found - expected).abs() <= tolerance * expected.abs())
}

#[test]
fn an_interval_is_narrow_within_a_tenth_or_about_one_whole_number() {
    use FigureStatus::{Between, Found};
    let table = [
        (LoadAxis::Rate, 11.0, 10.0, 12.0, Found),
        (LoadAxis::Rate, 11.0, 9.9, 12.0, Between),
        (LoadAxis::Rate, 11.0, 10.5, 12.2, Between),
        (LoadAxis::Rate, 10.0, 10.0, 11.0, Found),
        (LoadAxis::Rate, 1.3, 0.6, 1.4, Between),
        (LoadAxis::Concurrency, 1.3, 0.6, 1.4, Found),
        (LoadAxis::Concurrency, 1.3, 0.6, 1.6, Between),
    ];
    for (axis, load, low, high, status) in table {
        let figure = LoadFigure::with_interval(axis, load, low, high);
        assert_eq!(figure.status, status, "{load} {low} {high}");
        assert_eq!((figure.low, figure.high), (Some(low), Some(high)));
        assert_eq!((figure.load, figure.reason.is_empty()), (Some(load).filter(|_| status == Found), status == Found));
    }
}

#[test]
fn refusals_bound_what_lies_above_and_are_named_where_no_bound_is() {
    let without = |status| LoadFigure::without(status, "so it is");
    let found = LoadFigure::with_interval(LoadAxis::Rate, 8.0, 7.9, 8.1);
    let mut capacity = Capacity {
        slows: without(FigureStatus::Above),
        nearly_all: LoadFigure { low: Some(4.0), ..without(FigureStatus::Between) },
        waits: without(FigureStatus::Below),
    };
    let mut other = Capacity { slows: found.clone(), nearly_all: without(FigureStatus::Unknown), ..capacity.clone() };
    capacity.bound_by_refusals(Some(8.0), 16.0);
    assert_eq!((capacity.slows.low, capacity.slows.high), (Some(8.0), Some(16.0)));
    assert_eq!((capacity.nearly_all.low, capacity.nearly_all.high), (Some(4.0), None));
    for figure in [&capacity.slows, &capacity.nearly_all] {
        assert_eq!(figure.reason, "so it is; at a load of 16, requests fail or are refused");
    }
    assert_eq!(capacity.waits, without(FigureStatus::Below));
    other.bound_by_refusals(Some(8.0), 16.0);
    assert_eq!(other.slows, found);
    assert_eq!(other.nearly_all.reason, "so it is; at a load of 16, requests fail or are refused");
    // Refused at a load at which other levels were not.
    for (last, low) in [(Some(16.0), Some(16.0)), (None, None)] {
        let mut capacity = Capacity { slows: without(FigureStatus::Above), ..Capacity::unknown() };
        capacity.bound_by_refusals(last, 16.0);
        assert_eq!((capacity.slows.low, capacity.slows.high), (low, None));
    }
}

#[test]
fn the_most_power_by_hand() {
    let table = [
        // Without contention power grows up to the limit.
        (model(0.0, 0.0, None), None),
        (model(0.0, 0.0, Some(12.0)), Some(12.0)),
        // (1 - alpha) / alpha.
        (model(0.25, 0.0, None), Some(3.0)),
        (model(0.25, 0.0, Some(2.0)), Some(2.0)),
        (model(0.25, 0.0, Some(12.0)), Some(3.0)),
        (model(0.25, 0.0, Some(0.5)), Some(0.5)),
        (model(0.8, 0.0, None), Some(1.0)),
        (model(0.8, 0.0, Some(12.0)), Some(1.0)),
        (model(1.0, 0.0, None), Some(1.0)),
        // 3 beta n^2 + (alpha - beta) n = 1 - alpha: 0.03 n^2 + 0.35 n = 0.64 and 0.15 n^2 - 0.03 n = 0.98.
        (model(0.36, 0.01, None), Some((-0.35 + 0.1993_f64.sqrt()) / 0.06)),
        (model(0.02, 0.05, None), Some((0.03 + 0.5889_f64.sqrt()) / 0.3)),
        (model(0.0, 0.0025, None), Some((0.0025 + 0.030_006_25_f64.sqrt()) / 0.015)),
    ];
    for (model, expected) in table {
        assert!(near(max_power_load(&model, 64.0), expected, 1e-12), "{model:?}: {:?}", max_power_load(&model, 64.0));
    }
}

#[test]
fn nearly_all_is_stated_where_throughput_has_come_to_its_end() {
    let table = [
        (model(0.0, 0.0, None), 64.0, None),
        // 0.9 of the limit; the levels reach 0.98, 0.97 and 0.95 of it.
        (model(0.0, 0.0, Some(10.0)), 64.0, Some(9.0)),
        (model(0.0, 0.0, Some(10.0)), 9.8, Some(9.0)),
        (model(0.0, 0.0, Some(10.0)), 9.75, Some(9.0)),
        (model(0.0, 0.0, Some(100.0)), 97.0, Some(90.0)),
        (model(0.0, 0.0, Some(10.0)), 9.5, None),
        // At most 200: 180 at 9, and 197 of it at 64, but 188 at 16.
        (model(0.5, 0.0, None), 64.0, Some(9.0)),
        (model(0.5, 0.0, None), 16.0, None),
        // Its peak is 8: 720 / 4.08 = 100 n / (0.64 + 0.35 n + 0.01 n^2).
        (
            model(0.36, 0.01, None),
            64.0,
            Some({
                let most: f64 = 7.2 / 4.08;
                let b: f64 = 1.0 - 0.35 * most;
                (b - (b * b - 4.0 * 0.01 * most * 0.64 * most).sqrt()) / (2.0 * 0.01 * most)
            }),
        ),
    ];
    for (model, last, expected) in table {
        assert!(near(nearly_all(&model, last), expected, 1e-12), "{model:?}: {:?}", nearly_all(&model, last));
    }
}

/// Models whose loads are as given, 0 for none.
fn drawn(loads: impl IntoIterator<Item = f64>) -> Vec<ThroughputModel> {
    loads.into_iter().map(|load| model(0.0, 0.0, Some(load).filter(|load| *load > 0.0))).collect()
}

fn of(chosen: f64, others: &[Vec<ThroughputModel>], range: (f64, f64)) -> LoadFigure {
    let limit: fn(&ThroughputModel, f64) -> Option<f64> = |model, _| model.limit;
    figure(LoadAxis::Rate, (&drawn([chosen])[0], others), range, limit, "it goes on")
}

#[test]
fn a_figure_holds_the_ranks_of_all_that_is_admitted() {
    // 2.5 % of 80 are 2, 97.5 % are 78: of loads from 10 on, in steps of 0.01, 10.02 and 10.78.
    let hundredths = |first: f64| drawn((0..80).rev().map(move |i| first + 0.01 * f64::from(i)));
    let one = of(10.4, &[hundredths(10.0)], (1.0, 64.0));
    assert_eq!((one.status, one.load), (FigureStatus::Found, Some(10.4)));
    assert!(near(one.low, Some(10.02), 1e-12) && near(one.high, Some(10.78), 1e-12), "{one:?}");
    let two = of(10.4, &[hundredths(10.0), vec![], hundredths(9.9)], (1.0, 64.0));
    assert!(near(two.low, Some(9.92), 1e-12) && near(two.high, Some(10.78), 1e-12), "{two:?}");
    // The model that is drawn lies in its interval, whatever the others say.
    for (chosen, low, high) in [(9.5, 9.5, 10.78), (11.0, 10.02, 11.0)] {
        let figure = of(chosen, &[hundredths(10.0)], (1.0, 64.0));
        assert!(near(figure.low, Some(low), 1e-12) && near(figure.high, Some(high), 1e-12), "{figure:?}");
    }
    // Nothing is stated below the lowest load.
    let low = of(4.2, &[drawn([3.9; 40]), drawn([4.3; 40])], (4.0, 64.0));
    assert_eq!((low.status, low.load, low.low), (FigureStatus::Found, Some(4.2), Some(4.0)));
    let lower = of(3.9, &[drawn([4.3; 40])], (4.0, 64.0));
    assert_eq!((lower.load, lower.low, lower.high), (Some(4.0), Some(4.0), Some(4.3)));
}

#[test]
fn a_figure_that_levels_do_not_reach_says_on_which_side_it_lies() {
    let lies = |chosen, others: &[f64]| of(chosen, &[drawn(others.iter().copied())], (4.0, 64.0));
    let above = lies(0.0, &[0.0, 0.0]);
    assert_eq!((above.status, above.low, above.high), (FigureStatus::Above, None, None));
    assert_eq!(above.reason, "it goes on at the highest load, 64");
    // 59 is within a tenth of 64, 58 is not; 64 itself counts as beyond.
    assert_eq!(lies(0.0, &[59.0]).status, FigureStatus::Above);
    assert_eq!((lies(64.0, &[64.0]).status, lies(65.0, &[70.0]).status), (FigureStatus::Above, FigureStatus::Above));
    let open = lies(0.0, &[58.0]);
    assert_eq!((open.status, open.low, open.high), (FigureStatus::Between, Some(58.0), None));
    assert_eq!(open.reason, "it may lie beyond the highest load, 64: measure higher ones");
    assert_eq!(of(0.0, &[drawn([10.0])], (4.0, 10.0 * MAX_INTERVAL_FACTOR)).status, FigureStatus::Between);
    let open = lies(20.0, &[3.0, 0.0]);
    assert_eq!((open.status, open.load, open.low, open.high), (FigureStatus::Between, None, Some(4.0), None));
    // A model that is drawn and ends below leaves it open, however near to the highest load.
    assert_eq!(lies(63.0, &[0.0]).status, FigureStatus::Between);
    for (high, status) in [(3.0, FigureStatus::Below), (4.004, FigureStatus::Below), (4.005, FigureStatus::Found)] {
        let figure = lies(high, &[high]);
        assert_eq!(figure.status, status, "{high}");
        let reason = if status == FigureStatus::Below { "it is so at the lowest load, 4, already" } else { "" };
        assert_eq!(figure.reason, reason);
    }
}

fn observed(loads: &[f64], throughputs: &[f64], noise: Option<&[f64]>) -> Vec<Observation> {
    let each = loads.iter().zip(throughputs).enumerate();
    let weight = |i: usize| noise.map_or(1.0, |noise| noise[i].powi(-2));
    each.map(|(i, (&n, &throughput))| Observation { n, throughput, weight: weight(i) }).collect()
}

#[test]
fn whole_figures_are_those_of_another_program() {
    // Python: the generator, the models that are admitted and their resamples as stated; fits by scipy's `least_squares` and
    // Newton's steps, power by the roots of its slope, 90 % by `brentq`.
    let loads = [1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0];
    let noise = [0.02, 0.01, 0.02, 0.04, 0.02, 0.03, 0.02, 0.02, 0.02, 0.02].map(|reach| reach / 1.959_963_984_540_054);
    let bends = [82.0, 150.0, 295.0, 520.0, 720.0, 830.0, 1_000.0, 1_080.0, 1_100.0, 1_060.0];
    let stands = [82.0, 157.0, 322.0, 655.0, 950.0, 1_230.0, 1_290.0, 1_260.0, 1_275.0, 1_282.0];
    let of = |observations: &[Observation], noise: Option<&[f64]>| {
        let (_, slows, nearly_all) = fit_throughput(LoadAxis::Concurrency, observations, noise, &Rng::root(1));
        [slows, nearly_all]
    };
    let assert_is = |found: [LoadFigure; 2], expected: [(Option<f64>, f64, Option<f64>); 2]| {
        for (found, (load, low, high)) in found.iter().zip(expected) {
            let is_near =
                near(found.load, load, 1e-6) && near(found.low, Some(low), 1e-6) && near(found.high, high, 1e-6);
            assert!(is_near, "{found:?} for {load:?} {low} {high:?}");
        }
    };
    let expected = [
        (None, 17.143_928_387_421_283, Some(21.199_241_463_963_045)),
        (None, 19.297_419_453_996_6, Some(24.888_933_914_887_442)),
    ];
    assert_is(of(&observed(&loads, &bends, Some(&noise)), Some(&noise)), expected);
    let expected = [
        (Some(15.762_246_065_164_629), 15.435_865_616_630_588, Some(17.255_550_654_619_3)),
        (Some(14.186_021_458_648_165), 13.892_279_054_967_53, Some(15.286_671_901_283_018)),
    ];
    assert_is(of(&observed(&loads, &stands, None), None), expected);
    let few = observed(&[1.0, 2.0, 4.0, 8.0, 16.0], &[80.0, 150.0, 270.0, 420.0, 600.0], None);
    let expected = [(None, 9.743_613_529_798_344, Some(14.207_591_785_197_945)), (None, 10.560_776_252_656_293, None)];
    assert_is(of(&few, None), expected);
}

#[test]
fn four_different_loads_are_needed() {
    let statuses = |loads: &[f64]| {
        let throughputs: Vec<f64> = loads.iter().map(|n: &f64| 80.0 * n.min(4.0)).collect();
        let observations = observed(loads, &throughputs, None);
        let (models, slows, nearly_all) = fit_throughput(LoadAxis::Concurrency, &observations, None, &Rng::root(1));
        (models.is_empty(), slows.reason, nearly_all.reason)
    };
    let none = "no level is left that has a throughput".to_owned();
    assert_eq!(statuses(&[]), (true, none.clone(), none));
    let few = "too few levels; 4 different loads are needed".to_owned();
    assert_eq!(statuses(&[1.0, 2.0, 4.0, 4.0, 4.0]), (false, few.clone(), few.clone()));
    assert_ne!(statuses(&[1.0, 2.0, 4.0, 8.0]).1, few);
}
