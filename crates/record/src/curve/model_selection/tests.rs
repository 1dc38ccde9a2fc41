//! Model selection, against an independent program and by hand.

use super::*;
use crate::curve::{LoadAxis, UslParameters};

const LOADS: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0];

fn observed(loads: &[f64], throughputs: &[f64], noise: Option<&[f64]>) -> Vec<Observation> {
    let each = loads.iter().zip(throughputs).enumerate();
    let weight = |i: usize| noise.map_or(1.0, |noise| noise[i].powi(-2));
    each.map(|(i, (&n, &throughput))| Observation { n, throughput, weight: weight(i) }).collect()
}

/// Kind, held-out error, admitted, in the order of what they cost; and which is drawn.
#[track_caller]
fn assert_judged(fits: &[ModelFit], expected: &[(ModelKind, Option<f64>, bool)], chosen: ModelKind) {
    assert_eq!(fits.len(), expected.len());
    for (fit, (kind, error, admitted)) in fits.iter().zip(expected) {
        assert_eq!((fit.model.kind, fit.admitted, fit.chosen), (*kind, *admitted, *kind == chosen), "{fit:?}");
        assert_eq!(fit.held_out_error.is_some(), error.is_some(), "{fit:?}");
        let is_near = fit.held_out_error.zip(*error).is_none_or(|(found, known)| (found / known - 1.0).abs() < 1e-6);
        assert!(is_near, "{fit:?} for {error:?}");
    }
}

#[test]
fn held_out_errors_and_what_is_admitted_are_those_of_another_program() {
    // Python: each level left out, fits by scipy's `least_squares` and Newton's steps, the rule as stated.
    use ModelKind::*;
    let kinds = ModelKind::of(LoadAxis::Concurrency);
    let noise = [0.02, 0.01, 0.02, 0.04, 0.02, 0.03, 0.02, 0.02, 0.02, 0.02].map(|reach| reach / 1.959_963_984_540_054);
    let bends = [82.0, 150.0, 295.0, 520.0, 720.0, 830.0, 1_000.0, 1_080.0, 1_100.0, 1_060.0];
    let fits = choose(kinds, &observed(&LOADS, &bends, Some(&noise)), Some(&noise));
    let expected = [
        (Proportional, Some(0.583_876_490_280_229_1), false),
        (Limit, Some(0.126_650_550_559_441_66), false),
        (Contention, Some(0.114_516_673_218_937_12), false),
        (ScalingLaw, Some(0.030_132_120_227_314_794), true),
        (ContentionLimit, Some(0.052_089_971_536_522_47), false),
        (ScalingLawLimit, Some(0.031_863_342_926_426_64), true),
    ];
    assert_judged(&fits, &expected, ScalingLaw);
    let stands = [82.0, 157.0, 322.0, 655.0, 950.0, 1_230.0, 1_290.0, 1_260.0, 1_275.0, 1_282.0];
    let fits = choose(kinds, &observed(&LOADS, &stands, None), None);
    let expected = [
        (Proportional, Some(0.554_943_253_177_030_6), false),
        (Limit, Some(0.021_440_221_186_949_614), true),
        (Contention, Some(0.210_023_937_024_988_67), false),
        (ScalingLaw, Some(0.096_212_586_650_066_68), false),
        (ContentionLimit, Some(0.023_044_683_989_333_13), true),
        (ScalingLawLimit, Some(0.020_424_491_111_685_573), true),
    ];
    assert_judged(&fits, &expected, Limit);
    // Too few levels to judge the last: what costs least by Akaike (11.6 against 12.1, 13.1 and 13.6) is drawn.
    let fits = choose(kinds, &observed(&[1.0, 2.0, 4.0, 8.0, 16.0], &[80.0, 150.0, 270.0, 420.0, 600.0], None), None);
    let expected = [
        (Proportional, Some(0.346_876_765_604_556_05), false),
        (Limit, Some(0.249_814_018_021_161_07), false),
        (Contention, Some(0.019_427_577_160_255_647), true),
        (ScalingLaw, Some(0.071_232_669_969_501_27), true),
        (ContentionLimit, Some(0.162_729_366_372_031_8), true),
        (ScalingLawLimit, None, true),
    ];
    assert_judged(&fits, &expected, ScalingLaw);
    assert_eq!(choose(kinds, &[], None), []);
}

#[test]
fn a_model_is_judged_when_what_is_left_has_a_load_more_than_it_has_parameters() {
    let of = |kind, loads: &[f64]| {
        let throughputs: Vec<f64> = loads.iter().map(|n| 80.0 * n).collect();
        leave_one_out_errors(kind, &observed(loads, &throughputs, None)).map(|errors| errors.len())
    };
    assert_eq!(of(ModelKind::Proportional, &[1.0, 2.0]), None);
    assert_eq!(of(ModelKind::Proportional, &[1.0, 2.0, 2.0]), None);
    assert_eq!(of(ModelKind::Proportional, &[1.0, 2.0, 4.0]), Some(3));
    assert_eq!(of(ModelKind::Contention, &[1.0, 2.0, 4.0]), None);
    assert_eq!(of(ModelKind::Contention, &[1.0, 2.0, 4.0, 4.0, 8.0]), Some(5));
    // Of equal loads all are left out: 80 and 160 foretell 320, not what was seen there.
    let errors = leave_one_out_errors(
        ModelKind::Proportional,
        &observed(&[1.0, 2.0, 4.0, 4.0], &[80.0, 160.0, 160.0, 640.0], None),
    );
    let errors = errors.expect("three loads");
    assert!((errors[2] + 2.0_f64.ln()).abs() < 1e-12 && (errors[3] - 2.0_f64.ln()).abs() < 1e-12, "{errors:?}");
}

#[test]
fn the_rules_by_hand() {
    assert_eq!([mean(&[]), mean(&[3.0]), mean(&[1.0, 2.0, 6.0])], [0.0, 3.0, 3.0]);
    // Differences 1, 2, 3, 4: their mean 2.5 has the standard error sqrt(5 / 3 / 4) = 0.645.
    assert!(!is_within_two_standard_errors(&[2.0, 4.0, 6.0, 8.0], &[1.0, 2.0, 3.0, 4.0]));
    // Differences 0, 0, 0, 4: mean 1, standard error 1.
    assert!(is_within_two_standard_errors(&[1.0, 2.0, 3.0, 8.0], &[1.0, 2.0, 3.0, 4.0]));
    // Differences 1, 1, 1, 4: mean 1.75, standard error 0.75.
    assert!(!is_within_two_standard_errors(&[2.0, 3.0, 4.0, 8.0], &[1.0, 2.0, 3.0, 4.0]));
    // Differences 0, 0, 1, 4: mean 1.25, standard error 0.946.
    assert!(is_within_two_standard_errors(&[1.0, 2.0, 4.0, 8.0], &[1.0, 2.0, 3.0, 4.0]));
    // Differences 1, 4: mean 2.5, standard error 1.5.
    assert!(is_within_two_standard_errors(&[2.0, 6.0], &[1.0, 2.0]));
    assert!(
        is_within_two_standard_errors(&[1.0, 2.0], &[1.0, 2.0])
            && is_within_two_standard_errors(&[1.0], &[1.0])
            && !is_within_two_standard_errors(&[2.0], &[1.0])
    );
    // ln 2 / 0.5 and ln 4 / 0.25, squared, and 2 for each of four parameters.
    let parameters = UslParameters { lambda: 100.0, alpha: 0.0, beta: 0.0 };
    let model = ThroughputModel { kind: ModelKind::ScalingLawLimit, parameters, limit: Some(2.0) };
    let observations = observed(&[1.0, 4.0], &[200.0, 50.0], None);
    let expected = 2.0_f64.ln().powi(2) * (4.0 + 64.0) + 8.0;
    assert!((akaike(&model, &observations, &[0.5, 0.25]) - expected).abs() < 1e-12);
}
