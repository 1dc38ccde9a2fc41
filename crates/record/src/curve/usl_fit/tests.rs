//! The USL fit: intervals against an independent program, derived points and notes by hand.

use super::super::{LoadLevel, Measured, UslParameters};
use super::*;
use tokrate_stats::IntervalMethod;

const LOADS: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
const SEEN: [f64; 7] = [82.0, 150.0, 310.0, 520.0, 830.0, 1_010.0, 900.0];

/// Levels whose intervals reach as given to either side, as a share; without intervals if there are no shares.
fn points(loads: &[f64], seen: &[f64], reach: &[f64]) -> Points {
    let level = |(i, (&load, &value)): (usize, (&f64, &f64))| {
        let end = |sign: f64| reach.get(i).map(|reach| value * (1.0 + sign * reach));
        let throughput = Some(Measured { value, low: end(-1.0), high: end(1.0) }).filter(|x| x.value > 0.0);
        LoadLevel {
            load,
            throughput,
            output_speed: None,
            ttft: None,
            mean_ttft: None,
            mean_e2e: None,
            requests: 100,
            failures: 0,
            rate_limited: 0,
        }
    };
    Points::of(&loads.iter().zip(seen).enumerate().map(level).collect::<Vec<_>>())
}

/// What another program found: lambda, alpha, beta, the relative error, the three intervals, peak and saturation with theirs.
struct Reference {
    parameters: [f64; 3],
    relative_error: f64,
    intervals: [(f64, f64); 3],
    peak: [f64; 4],
    saturation: [f64; 4],
}

#[track_caller]
fn assert_is(fit: &UslFit, expected: &Reference) {
    let near = |found: f64, expected: f64| (found - expected).abs() <= 1e-6 * expected.abs() + 1e-12;
    let parameters = fit.parameters.expect("fitted");
    let found = [parameters.lambda, parameters.alpha, parameters.beta];
    assert!(found.iter().zip(expected.parameters).all(|(found, expected)| near(*found, expected)), "{parameters:?}");
    assert!(near(fit.relative_error.expect("fitted"), expected.relative_error), "{:?}", fit.relative_error);
    for (found, (low, high)) in
        [fit.lambda_interval, fit.alpha_interval, fit.beta_interval].iter().zip(expected.intervals)
    {
        let found = found.expect("resampled");
        assert!(near(found.low, low) && near(found.high, high), "{found:?} for {low} {high}");
    }
    for (found, expected) in [(&fit.peak, expected.peak), (&fit.saturation, expected.saturation)] {
        let found = found.expect("it bends");
        let numbers = [found.load, found.throughput, found.low.expect("bounded"), found.high.expect("bounded")];
        assert!(numbers.iter().zip(expected).all(|(found, expected)| near(*found, expected)), "{found:?}");
        assert!(found.in_range);
    }
}

/// Every figure here was worked out again in Python: the generator and the resamples as stated, each least squares by
/// scipy's `least_squares` from several starts and Newton's steps on what is not at a bound.
#[test]
fn fits_and_intervals_are_those_of_another_program() {
    let rng = Rng::root(1);
    // The law misses the levels by 4.2 times as much as their intervals allow: those are widened.
    let narrow = fit(&points(&LOADS, &SEEN, &[0.02, 0.01, 0.02, 0.04, 0.02, 0.03, 0.02]), &rng);
    assert_is(
        &narrow,
        &Reference {
            parameters: [78.519_059_825_981_02, 0.021_088_024_483_953_22, 0.000_811_298_165_744_212],
            relative_error: 0.029_346_715_040_145_445,
            intervals: [
                (75.286_002_556_134_1, 81.690_198_401_569_45),
                (0.009_322_135_476_112_652, 0.035_337_509_694_096_77),
                (0.000_575_957_852_359_670_5, 0.001_035_003_221_801_351),
            ],
            peak: [34.736_141_376_416_81, 1_024.525_197_516_905_8, 30.942_338_331_007_143, 41.024_566_218_494_634],
            saturation: [13.048_108_316_471_495, 741.543_918_675_538_7, 11.918_449_873_877_279, 14.308_396_331_733_244],
        },
    );
    assert_eq!((narrow.status, narrow.intervals_from), (UslStatus::Fitted, Some(UslInterval::MeasuredNoise)));
    assert_eq!(narrow.notes, []);
    // It misses by less than they allow: they are taken as they are.
    let wide = fit(&points(&LOADS, &SEEN, &[0.2, 0.1, 0.2, 0.2, 0.15, 0.2, 0.3]), &rng);
    assert_is(
        &wide,
        &Reference {
            parameters: [78.516_620_976_487_4, 0.021_495_065_172_776_686, 0.000_810_428_818_182_662_7],
            relative_error: 0.029_381_196_882_024_598,
            intervals: [
                (71.309_873_643_664_77, 85.903_059_187_399_9),
                (0.0, 0.050_813_835_738_024_78),
                (0.000_260_053_027_470_103_2, 0.001_388_709_641_359_162),
            ],
            peak: [34.747_540_695_678_4, 1_019.624_167_910_287, 27.049_874_439_085_07, 60.948_700_062_403_26],
            saturation: [12.986_093_329_406_316, 736.835_984_892_224_2, 10.986_278_470_109_701, 15.776_858_587_571_438],
        },
    );
    assert_eq!(wide.notes, [UslNote::AlphaNotDistinct]);
    let from_residuals = fit(&points(&LOADS, &SEEN, &[]), &rng);
    assert_is(
        &from_residuals,
        &Reference {
            parameters: [80.550_860_781_077_56, 0.024_761_672_440_909_894, 0.000_786_482_870_824_520_9],
            relative_error: 0.025_266_916_883_271_97,
            intervals: [
                (77.290_935_751_506_56, 84.260_289_876_507_84),
                (0.016_445_088_593_718_578, 0.034_734_866_689_816_16),
                (0.000_632_509_735_800_978_6, 0.000_949_518_342_825_382_7),
            ],
            peak: [35.213_625_919_298_95, 1_014.941_646_191_187_4, 32.164_990_493_098_25, 39.277_245_800_550_55],
            saturation: [12.600_009_935_953_537, 723.826_991_671_497, 11.697_770_112_532_298, 13.474_416_158_925_06],
        },
    );
    assert_eq!(from_residuals.intervals_from, Some(UslInterval::Residuals));
    // A load below 1 counts as 1.
    let four = fit(&points(&[0.5, 4.0, 16.0, 50.0], &[70.0, 300.0, 800.0, 1_000.0], &[]), &rng);
    let parameters = four.parameters.expect("four loads");
    assert!((parameters.lambda / 73.777_858_548_458_45 - 1.0).abs() < 1e-6, "{parameters:?}");
    let interval = four.lambda_interval.expect("resampled");
    assert!((interval.low / 66.380_675_355_679_33 - 1.0).abs() < 1e-6, "{interval:?}");
    assert!((interval.high / 88.006_251_532_723_11 - 1.0).abs() < 1e-6, "{interval:?}");
    let high = four.peak.and_then(|peak| peak.high).expect("bounded");
    assert!((high / 92.305_514_514_364_72 - 1.0).abs() < 1e-6, "{high}");
}

#[test]
fn the_number_of_levels_decides_what_is_stated() {
    let rng = Rng::root(1);
    let of = |count: usize, reach: f64| {
        fit(&points(&LOADS[..count], &SEEN[..count], &[reach; 7][..if reach > 0.0 { count } else { 0 }]), &rng)
    };
    let two = of(2, 0.0);
    assert_eq!((two.status, two.at(4.0)), (UslStatus::NotEnoughLevels, None));
    assert_eq!(two.notes, [UslNote::NeedsThreeLevels]);
    let three = of(3, 0.01);
    assert_eq!((three.status, three.intervals_from), (UslStatus::Exact, None));
    assert!(three.notes.contains(&UslNote::NoIntervalsFromThreeLevels));
    let rough = |fit: &UslFit| fit.notes.contains(&UslNote::RoughIntervals);
    assert_eq!([rough(&of(4, 0.0)), rough(&of(4, 0.01)), rough(&of(5, 0.0))], [true, false, false]);
    let seven = of(7, 0.0);
    assert_eq!((seven.status, seven.at(f64::INFINITY)), (UslStatus::Fitted, None));
    let parameters = seven.parameters.expect("seven levels");
    assert_eq!(seven.at(4.0), Some(throughput_at(4.0, &parameters)));
    // Levels without throughput are told of, whether or not the others suffice.
    let mut seen = SEEN;
    seen[3] = 0.0;
    let lacking = fit(&points(&LOADS, &seen, &[]), &rng);
    assert!(lacking.notes.contains(&UslNote::LevelsWithoutThroughput) && lacking.parameters.is_some());
    let none = fit(&points(&LOADS[..4], &[82.0, 0.0, 0.0, 520.0], &[]), &rng);
    assert_eq!(none.notes, [UslNote::LevelsWithoutThroughput, UslNote::NeedsThreeLevels]);
}

#[test]
fn a_point_has_the_ranks_of_the_resampled_ones_and_is_unbounded_where_they_are() {
    // sqrt(0.64 / beta) is the peak.
    let law = |peak: f64| UslParameters { lambda: 100.0, alpha: 0.36, beta: 0.64 / peak.powi(2) };
    let never = UslParameters { lambda: 100.0, alpha: 0.36, beta: 0.0 };
    let of =
        |resampled: &[UslParameters], top| point(&law(8.0), resampled, top, UslParameters::peak).expect("it bends");
    // 2.5 % of 80 are 2, 97.5 % are 78.
    let eighty: Vec<UslParameters> = (1..=80).rev().map(|peak| law(f64::from(peak))).collect();
    let found = of(&eighty, 64.0);
    assert!((found.load - 8.0).abs() < 1e-12 && (found.throughput - 800.0 / 4.08).abs() < 1e-9, "{found:?}");
    assert!((found.low.expect("bounded") - 3.0).abs() < 1e-12, "{found:?}");
    assert!((found.high.expect("bounded") - 79.0).abs() < 1e-12, "{found:?}");
    let mut unbounded = eighty.clone();
    (unbounded[0], unbounded[1]) = (never, never);
    assert_eq!(of(&unbounded, 64.0).high, None);
    assert!(of(&unbounded, 64.0).low.is_some());
    assert_eq!(of(&[never; 80], 64.0).low, None);
    assert_eq!((of(&[], 64.0).low, of(&[], 64.0).high), (None, None));
    assert_eq!(point(&never, &eighty, 64.0, UslParameters::peak), None);
    // A throughput that no number holds is none.
    assert_eq!(point(&UslParameters { lambda: 1e308, ..law(8.0) }, &[], 64.0, UslParameters::peak), None);
    let flat = UslParameters { lambda: 100.0, alpha: 1.0, beta: 0.5 };
    let in_range = |top| point(&flat, &[], top, UslParameters::peak).map(|point| point.in_range);
    assert_eq!([in_range(0.5), in_range(1.0), in_range(2.0)], [Some(false), Some(true), Some(true)]);
}

#[test]
fn what_weakens_a_fit_is_noted() {
    let interval =
        |low: f64| Some(Interval { low, high: 1.0, confidence: CONFIDENCE, method: IntervalMethod::Percentile });
    let point = |in_range| Some(CurvePoint { load: 8.0, throughput: 100.0, low: None, high: None, in_range });
    let sound = UslFit {
        parameters: Some(UslParameters { lambda: 100.0, alpha: 0.1, beta: 0.01 }),
        alpha_interval: interval(0.01),
        beta_interval: interval(0.001),
        peak: point(true),
        saturation: point(true),
        relative_error: Some(0.1),
        ..UslFit::without(UslStatus::Fitted)
    };
    let notes = |mut fit: UslFit, rough: bool| {
        let parameters = fit.parameters.expect("given");
        judge(&mut fit, &parameters, rough);
        fit.notes
    };
    let parameters = |alpha, beta| Some(UslParameters { lambda: 100.0, alpha, beta });
    let table = [
        (sound.clone(), vec![]),
        (UslFit { status: UslStatus::Exact, ..sound.clone() }, vec![UslNote::NoIntervalsFromThreeLevels]),
        (UslFit { alpha_interval: interval(0.0), ..sound.clone() }, vec![UslNote::AlphaNotDistinct]),
        (UslFit { parameters: parameters(0.0, 0.01), ..sound.clone() }, vec![UslNote::AlphaNotDistinct]),
        (UslFit { beta_interval: interval(0.0), ..sound.clone() }, vec![UslNote::BetaNotDistinct]),
        (
            UslFit { parameters: parameters(0.1, 0.0), beta_interval: None, ..sound.clone() },
            vec![UslNote::BetaNotDistinct],
        ),
        (UslFit { peak: point(false), ..sound.clone() }, vec![UslNote::PeakExtrapolated]),
        (UslFit { saturation: point(false), ..sound.clone() }, vec![UslNote::SaturationExtrapolated]),
        (UslFit { relative_error: Some(0.11), ..sound.clone() }, vec![UslNote::PoorFit]),
    ];
    for (fit, expected) in table {
        assert_eq!(notes(fit, false), expected);
    }
    assert_eq!(notes(sound, true), [UslNote::RoughIntervals]);
}
