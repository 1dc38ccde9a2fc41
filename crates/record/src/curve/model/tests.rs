//! The models: parameters, peaks, and fits against an independent program.

use super::*;

const LOADS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 32.0, 64.0];
const WEIGHTS: [f64; 8] = [1.0, 4.0, 1.0, 0.25, 2.0, 1.0, 1.0, 0.5];

fn observed(loads: &[f64], throughputs: &[f64], weights: &[f64]) -> Vec<Observation> {
    let each = loads.iter().zip(throughputs).zip(weights);
    each.map(|((&n, &throughput), &weight)| Observation { n, throughput, weight }).collect()
}

fn law(alpha: f64, beta: f64) -> UslParameters {
    UslParameters { lambda: 100.0, alpha, beta }
}

fn model(alpha: f64, beta: f64, limit: Option<f64>) -> ThroughputModel {
    ThroughputModel { kind: ModelKind::ScalingLawLimit, parameters: law(alpha, beta), limit }
}

fn near(found: f64, expected: f64, tolerance: f64) -> bool {
    (found - expected).abs() <= tolerance * expected.abs()
}

#[test]
fn each_kind_has_its_parameters_and_its_axis() {
    let all = ModelKind::of(LoadAxis::Concurrency);
    let actual: Vec<_> = all.iter().map(|kind| (*kind, kind.form(), kind.has_limit(), kind.parameters())).collect();
    let expected = [
        (ModelKind::Proportional, Form::Proportional, false, 1),
        (ModelKind::Limit, Form::Proportional, true, 2),
        (ModelKind::Contention, Form::Contention, false, 2),
        (ModelKind::ContentionLimit, Form::Contention, true, 3),
        (ModelKind::ScalingLaw, Form::Whole, false, 3),
        (ModelKind::ScalingLawLimit, Form::Whole, true, 4),
    ];
    assert_eq!(actual, expected);
    assert_eq!(ModelKind::of(LoadAxis::Rate), [ModelKind::Proportional, ModelKind::Limit]);
}

#[test]
fn top_and_ceiling_are_those_of_the_peak_or_of_the_limit() {
    // Of alpha 0.36 and beta 0.01 the peak is 8, where throughput is 800 / 4.08.
    let table = [
        (model(0.36, 0.01, None), Some(8.0), Some(800.0 / 4.08)),
        (model(0.36, 0.01, Some(5.0)), Some(5.0), Some(500.0 / 2.64)),
        (model(0.36, 0.01, Some(12.0)), Some(8.0), Some(800.0 / 4.08)),
        (model(0.5, 0.0, Some(3.0)), Some(3.0), Some(150.0)),
        (model(0.5, 0.0, None), None, Some(200.0)),
        (model(0.0, 0.0, None), None, None),
    ];
    for (model, top, ceiling) in table {
        for (found, expected) in [(model.top(), top), (model.ceiling(), ceiling)] {
            assert_eq!(found.is_some(), expected.is_some(), "{model:?}");
            assert!(found.zip(expected).is_none_or(|(found, expected)| near(found, expected, 1e-14)), "{model:?}");
        }
    }
    let limited = model(0.5, 0.0, Some(3.0));
    assert_eq!([limited.at(1.0), limited.at(3.0), limited.at(9.0)], [100.0, 150.0, 150.0]);
}

#[test]
fn a_law_meets_a_throughput_before_its_peak_or_beyond_it() {
    // 100 n / (0.5 + 0.5 n) = 150 at 3.
    assert!(near(reached(&law(0.5, 0.0), 150.0, 1.0, 9.0).expect("between"), 3.0, 1e-15));
    for (low, high) in [(3.5, 9.0), (1.0, 2.5)] {
        assert_eq!(reached(&law(0.5, 0.0), 150.0, low, high), None);
        assert_eq!(met(&law(0.5, 0.0), 150.0, low, high), None);
    }
    // With alpha 0.36 and beta 0.01, 100 n = 180 (0.64 + 0.35 n + 0.01 n^2) at (37 - 20.4...) / 3.6 and (37 + 20.4...) / 3.6.
    let bends = law(0.36, 0.01);
    let root = (37.0_f64.powi(2) - 4.0 * 1.8 * 115.2).sqrt();
    let (before, beyond) = ((37.0 - root) / 3.6, (37.0 + root) / 3.6);
    let table = [
        ((1.0, 7.0), Some(before)),
        ((1.0, 30.0), Some(before)),
        // From here on throughput is above it up to the peak, and falls to it.
        ((6.0, 30.0), Some(beyond)),
        ((8.0, 30.0), Some(beyond)),
        ((9.0, 30.0), Some(beyond)),
        ((1.0, 3.5), None),
        ((6.0, 7.5), None),
        ((9.0, 12.0), None),
        ((20.0, 30.0), None),
    ];
    for ((low, high), expected) in table {
        let found = met(&bends, 180.0, low, high);
        assert_eq!(found.is_some(), expected.is_some(), "{low} to {high}: {found:?}");
        assert!(found.zip(expected).is_none_or(|(found, expected)| near(found, expected, 1e-13)), "{found:?}");
    }
}

#[test]
fn fits_are_those_of_another_program() {
    // Python: every gap and level tried as stated, each by scipy's `least_squares` and Newton's steps, the limit by `brentq`.
    let stands = [82.0, 150.0, 310.0, 520.0, 830.0, 900.0, 885.0, 910.0];
    let falls = [82.0, 150.0, 310.0, 520.0, 830.0, 1_010.0, 900.0, 890.0];
    use ModelKind::*;
    type Case = (ModelKind, [f64; 8], [f64; 3], Option<f64>, f64);
    let table: [Case; 12] = [
        (Proportional, stands, [55.829_204_014_721_83, 0.0, 0.0], None, 2.207_627_293_266_413),
        (Limit, stands, [76.042_122_702_850_34, 0.0, 0.0], Some(11.388_612_183_513_928), 0.019_754_364_585_313_124),
        (Contention, stands, [83.115_489_987_788_12, 0.056_249_297_998_767_66, 0.0], None, 0.099_280_677_457_545_46),
        (
            ContentionLimit,
            stands,
            [79.492_412_309_165_2, 0.034_810_815_317_605_305, 0.0],
            Some(17.902_521_898_896_005),
            0.009_180_948_001_025_504,
        ),
        (
            ScalingLaw,
            stands,
            [79.274_581_746_819_12, 0.026_313_676_054_745_206, 0.000_828_751_289_579_515_4],
            None,
            0.021_881_062_900_310_912,
        ),
        (
            ScalingLawLimit,
            stands,
            [77.918_310_478_114_35, 0.012_989_287_268_117_577, 0.001_280_135_061_429_761_8],
            Some(19.749_644_492_390_587),
            0.007_461_018_907_729_968,
        ),
        (Proportional, falls, [56.461_190_644_538_29, 0.0, 0.0], None, 2.135_097_085_268_916_4),
        (Limit, falls, [76.042_122_702_850_34, 0.0, 0.0], Some(11.699_010_144_427_401), 0.038_831_845_616_036_76),
        (Contention, falls, [83.013_382_154_384_52, 0.053_704_922_047_507_88, 0.0], None, 0.120_626_501_763_319_59),
        (
            ContentionLimit,
            falls,
            [79.492_412_309_165_2, 0.034_810_815_317_605_305, 0.0],
            Some(19.411_956_846_071),
            0.017_431_587_504_267_362,
        ),
        (
            ScalingLaw,
            falls,
            [78.653_521_375_920_32, 0.020_778_163_706_067_488, 0.000_907_004_127_937_162_5],
            None,
            0.021_225_725_929_910_115,
        ),
        // The limit lies beyond the peak.
        (
            ScalingLawLimit,
            falls,
            [77.526_984_541_221_1, 0.008_982_839_316_813_814, 0.001_391_374_215_522_796_8],
            Some(38.787_047_157_167_79),
            0.014_006_931_521_384_691,
        ),
    ];
    for (kind, throughputs, parameters, limit, loss) in table {
        let observations = observed(&LOADS, &throughputs, &WEIGHTS);
        let found = fit_model(kind, &observations).expect("eight loads");
        let UslParameters { lambda, alpha, beta } = found.parameters;
        let is_near = [lambda, alpha, beta].iter().zip(parameters).all(|(found, known)| near(*found, known, 1e-6));
        assert!(is_near && found.kind == kind, "{found:?}");
        assert_eq!(found.limit.is_some(), limit.is_some());
        assert!(found.limit.zip(limit).is_none_or(|(found, limit)| near(found, limit, 1e-6)), "{found:?}");
        assert!(near(model_loss(&observations, &found), loss, 1e-9), "{found:?}");
    }
}

#[test]
fn a_limit_may_lie_at_a_level_and_needs_levels_below_it() {
    let fitted = |throughputs: &[f64]| {
        let count = throughputs.len();
        fit_model(ModelKind::Limit, &observed(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0][..count], throughputs, &[1.0; 6]))
    };
    let at_level = fitted(&[80.0, 165.0, 310.0, 660.0, 640.0, 645.0]).expect("six loads");
    assert_eq!(at_level.limit, Some(8.0));
    assert!(near(at_level.parameters.lambda, 80.502_595_643_021_35, 1e-12), "{at_level:?}");
    let in_gap = fitted(&[80.0, 165.0, 310.0, 646.0, 640.0, 655.0]).expect("six loads");
    assert!(near(in_gap.limit.expect("a limit"), 8.076_321_422_512_349, 1e-12), "{in_gap:?}");
    // Nothing stands: the limit is the highest load.
    assert_eq!(fitted(&[80.0, 160.0, 320.0]).and_then(|model| model.limit), Some(4.0));
    assert_eq!(fitted(&[]), None);
    assert_eq!(fit_model(ModelKind::ScalingLawLimit, &observed(&LOADS[..2], &[80.0, 160.0], &WEIGHTS)), None);
}
