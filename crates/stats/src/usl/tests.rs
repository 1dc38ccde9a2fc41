//! Tests of the parts of the fit, against 40 digits of mpmath: the sums of squares, one step, the linear start, the minimum.

use super::*;

const LOADS: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

fn observed(loads: &[f64], throughputs: &[f64], weights: &[f64]) -> Vec<Observation> {
    let each = loads.iter().zip(throughputs).zip(weights);
    each.map(|((&n, &throughput), &weight)| Observation { n, throughput, weight }).collect()
}

/// Seven levels that bend, of different weight.
fn bends() -> Vec<Observation> {
    observed(&LOADS, &[82.0, 150.0, 310.0, 520.0, 830.0, 1_010.0, 900.0], &[1.0, 4.0, 1.0, 0.25, 2.0, 1.0, 1.0])
}

fn rises() -> Vec<Observation> {
    observed(&LOADS[..4], &[100.0, 220.0, 480.0, 1_000.0], &[1.0, 2.0, 1.0, 0.5])
}

fn falls() -> Vec<Observation> {
    observed(&LOADS[..4], &[100.0, 20.0, 4.0, 1.0], &[1.0, 2.0, 1.0, 0.5])
}

fn near(found: f64, expected: f64, tolerance: f64) -> bool {
    (found - expected).abs() <= tolerance * expected.abs()
}

fn assert_near(found: (f64, f64), expected: (f64, f64), tolerance: f64, what: &str) {
    let is_near = near(found.0, expected.0, tolerance) && near(found.1, expected.1, tolerance);
    assert!(is_near, "{what}: {found:?} for {expected:?}");
}

#[test]
fn the_scaled_parameters_have_the_stated_sum_of_squares() {
    let problem = Problem::of(&bends(), Form::Whole).expect("seven loads");
    for (at, mu, sum) in [
        ((1.5, 0.75), 4.268_139_671_451_541, 0.302_716_326_880_727_99),
        ((0.0, 3.0), 4.227_596_217_931_996, 0.206_672_639_364_409_1),
        ((4.0, 0.0), 4.445_462_623_526_598, 0.131_060_796_026_962_52),
        ((64.0, 2.0), 5.753_797_811_843_727, 8.539_345_755_105_29),
    ] {
        assert_near((problem.log_lambda(at), problem.loss(at)), (mu, sum), 1e-12, &format!("{at:?}"));
        let parameters = UslParameters { lambda: mu.exp(), alpha: at.0 / 64.0, beta: at.1 / 4_096.0 };
        assert!(near(loss(&bends(), &parameters), sum, 1e-12), "{at:?}");
    }
    // A load below 1 counts as 1.
    let lone = observed(&[0.25], &[100.0], &[3.0]);
    let parameters = UslParameters { lambda: 50.0, alpha: 0.5, beta: 0.5 };
    assert!(near(loss(&lone, &parameters), 3.0 * 2.0_f64.ln().powi(2), 1e-14));
}

#[test]
fn one_step_solves_the_damped_normal_equations_of_what_is_free() {
    // Slopes by central differences of 1e-15, the equations solved without the closed form. What is held at a bound has 0.
    type Case = (&'static str, Vec<Observation>, Form, (f64, f64), (f64, f64));
    let table: [Case; 13] = [
        ("inside", bends(), Form::Whole, (1.5, 0.75), (0.409_262_735_291_401_6, 1.267_854_772_365_562_1)),
        ("a of 0 that grows", bends(), Form::Whole, (0.0, 3.0), (0.937_088_532_090_299_7, 0.422_505_981_350_981_54)),
        ("both of 0 that grow", bends(), Form::Whole, (0.0, 0.0), (1.093_638_742_840_071, 0.582_137_175_981_225_3)),
        ("b of 0 that grows", bends(), Form::Whole, (4.0, 0.0), (-1.504_638_478_638_171, 1.907_477_065_654_451_3)),
        ("b of 0 that would fall", bends(), Form::Whole, (64.0, 0.0), (-163.831_164_256_476_42, 0.0)),
        ("b is not fitted", bends(), Form::Contention, (1.5, 0.75), (1.255_408_285_066_335, 0.0)),
        (
            "the greatest a, falling",
            bends(),
            Form::Whole,
            (64.0, 2.0),
            (-136.134_936_710_481_06, -55.881_201_602_428_15),
        ),
        ("a of 0 that would fall", rises(), Form::Whole, (0.0, 1.0), (0.0, -1.562_037_781_126_232)),
        ("b of 0 that would fall", rises(), Form::Whole, (1.0, 0.0), (-1.615_359_591_952_319, 0.0)),
        ("inside", rises(), Form::Whole, (1.0, 1.0), (-1.540_974_881_573_076_9, -2.036_893_920_607_395_8)),
        ("the greatest a that would grow", falls(), Form::Whole, (8.0, 2.0), (0.0, 43.252_994_001_481_16)),
        ("the greatest a that would grow", falls(), Form::Whole, (8.0, 0.0), (0.0, 36.524_833_622_133_84)),
        (
            "the greatest a that would fall",
            falls(),
            Form::Whole,
            (8.0, 4_000.0),
            (-1_232.854_428_240_630_5, -4_772.441_574_146_111),
        ),
    ];
    for (what, observations, form, at, expected) in table {
        let problem = Problem::of(&observations, form).expect("enough loads");
        let found = problem.step(at, 0.125).expect("something is free");
        assert_near(found, expected, 1e-10, &format!("{what}, {at:?}"));
    }
    let held =
        |observations: &[Observation], form, at| Problem::of(observations, form).expect("enough loads").step(at, 0.125);
    assert_eq!(held(&rises(), Form::Whole, (0.0, 0.0)), None);
    assert_eq!(held(&rises(), Form::Contention, (0.0, 0.0)), None);
    assert_eq!(held(&falls(), Form::Contention, (8.0, 0.0)), None);
    assert_eq!(held(&bends(), Form::Proportional, (1.0, 1.0)), None);
}

#[test]
fn the_start_is_the_linear_least_squares_solution_within_the_bounds() {
    let start =
        |observations: &[Observation], form| Problem::of(observations, form).expect("enough loads").linear_start();
    // n / X against 1, u and v, errors taken as relative; by mpmath's `lu_solve`.
    let found = start(&bends(), Form::Whole).expect("independent columns");
    assert_near(found, (1.380_038_523_615_377_2, 3.315_070_768_275_091), 1e-12, "bends");
    assert_eq!(start(&bends(), Form::Contention), None);
    // n / X falls: neither parameter is below 0.
    let (a, b) = start(&rises(), Form::Whole).expect("independent columns");
    assert!(a == 0.0 && b >= 0.0, "{a} {b}");
    let problem = Problem::of(&bends(), Form::Whole).expect("seven loads");
    assert_eq!(problem.within((-1.0, -1.0)), (0.0, 0.0));
    assert_eq!(problem.within((65.0, 2e18)), (64.0, 1e18));
    assert_eq!(Problem::of(&bends(), Form::Contention).expect("seven loads").within((3.0, 3.0)), (3.0, 0.0));
    assert_eq!(Problem::of(&bends(), Form::Proportional).expect("seven loads").within((3.0, 3.0)), (0.0, 0.0));
}

#[test]
fn each_form_is_fitted_at_its_minimum() {
    // Roots of both slopes in 40 digits. A sum of squares tells its minimum to half of the digits.
    let table = [
        (Form::Proportional, (54.938_523_728_469_826, 0.0, 0.0)),
        (Form::Contention, (83.696_423_305_949_37, 0.058_528_369_842_873_36, 0.0)),
        (Form::Whole, (78.559_717_547_707_56, 0.021_417_113_254_381_216, 0.000_808_931_980_564_487_7)),
    ];
    for (form, (lambda, alpha, beta)) in table {
        let found = fit(&bends(), form).expect("seven loads");
        assert!(near(found.lambda, lambda, 1e-9), "{found:?}");
        assert!(near(found.alpha, alpha, 1e-8) && near(found.beta, beta, 1e-8), "{found:?}");
    }
    // From any start the same minimum is found.
    let problem = Problem::of(&bends(), Form::Whole).expect("seven loads");
    for start in [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (10.0, 10.0), (0.0, 1_000.0), (64.0, 1e6)] {
        let (at, least) = problem.descend(start);
        let expected = (0.021_417_113_254_381_216 * 64.0, 0.000_808_931_980_564_487_7 * 4_096.0);
        assert_near(at, expected, 1e-7, &format!("from {start:?}"));
        assert!(near(least, 0.007_536_069_103_288_74, 1e-12), "from {start:?}: {least}");
    }
    // Without contention or coherency there is nothing but lambda, to the last bit.
    assert_eq!(fit(&rises(), Form::Whole).map(|found| (found.alpha, found.beta)), Some((0.0, 0.0)));
    let straight = LOADS.map(|n| 80.0 * n);
    let found = fit(&observed(&LOADS, &straight, &[1.0; 7]), Form::Whole).expect("seven loads");
    assert_eq!((found.alpha, found.beta), (0.0, 0.0));
    assert!(near(found.lambda, 80.0, 1e-14));
}

#[test]
fn a_parameter_that_moves_no_level_by_a_billionth_is_0() {
    // a = alpha N and b = beta N^2 of the levels, and what is found of them.
    for (a, b, found_a, found_b) in [
        (5e-10, 0.75, 0.0, 0.75),
        (1.5, 5e-10, 1.5, 0.0),
        (5e-10, 5e-10, 0.0, 0.0),
        (2e-9, 0.75, 2e-9, 0.75),
        (1.5, 2e-9, 1.5, 2e-9),
    ] {
        let truth = UslParameters { lambda: 80.0, alpha: a / 64.0, beta: b / 4_096.0 };
        let found =
            fit(&observed(&LOADS, &LOADS.map(|n| usl(n, &truth)), &[1.0; 7]), Form::Whole).expect("seven loads");
        let (alpha, beta) = (found_a / 64.0, found_b / 4_096.0);
        assert!(near(found.alpha, alpha, 0.01) && near(found.beta, beta, 0.01), "{a} {b}: {found:?}");
    }
}

#[test]
fn as_many_loads_as_parameters_are_needed() {
    let of = |loads: &[f64], form| {
        let throughputs: Vec<f64> = loads.iter().map(|n| 100.0 * n / (1.0 + 0.05 * (n - 1.0))).collect();
        fit(&observed(loads, &throughputs, &[1.0; 4]), form)
    };
    assert_eq!(of(&[], Form::Proportional), None);
    assert!(of(&[2.0], Form::Proportional).is_some());
    assert_eq!(of(&[2.0, 2.0], Form::Contention), None);
    // Below 1 loads count as 1, so that these are one; not so where nothing but a proportion is fitted.
    assert_eq!(of(&[0.25, 0.5], Form::Contention), None);
    let slow = observed(&[0.25, 0.5], &[25.0, 50.0], &[1.0, 1.0]);
    assert!(near(fit(&slow, Form::Proportional).expect("a load").lambda, 100.0, 1e-14));
    assert!(of(&[2.0, 4.0], Form::Contention).is_some());
    assert_eq!(of(&[2.0, 4.0, 4.0], Form::Whole), None);
    assert!(of(&[2.0, 4.0, 8.0], Form::Whole).is_some());
    let empty = observed(&LOADS[..4], &[100.0, 0.0, 300.0, 400.0], &[1.0; 4]);
    // One request alone would have 7.1e308 tok/s.
    let law = UslParameters { lambda: 1.0, alpha: 0.0, beta: 1.0 };
    let vast = [8.0, 16.0, 32.0].map(|n| 1e308 * (usl(n, &law) / usl(8.0, &law)));
    assert_eq!(fit(&observed(&[8.0, 16.0, 32.0], &vast, &[1.0; 3]), Form::Whole), None);
    for form in [Form::Proportional, Form::Contention, Form::Whole] {
        assert_eq!(fit(&empty, form), None);
    }
    assert_eq!([Form::Proportional, Form::Contention, Form::Whole].map(Form::parameters), [1, 2, 3]);
}

#[test]
fn peak_ceiling_and_saturation_by_hand() {
    let law = |alpha, beta| UslParameters { lambda: 100.0, alpha, beta };
    // sqrt(0.64 / 0.01) = 8: 800 / (1 + 2.52 + 0.56).
    let both = law(0.36, 0.01);
    assert!(near(both.peak().expect("beta > 0"), 8.0, 1e-14));
    assert!(near(usl(8.0, &both), 800.0 / 4.08, 1e-14));
    assert!(near(both.ceiling().expect("beta > 0"), 800.0 / 4.08, 1e-14));
    assert!(near(both.saturation().expect("beta > 0"), 8.0 / 4.08, 1e-14));
    // sqrt(0.25 / 4) is below 1.
    assert_eq!((law(0.75, 4.0).peak(), law(0.75, 4.0).ceiling()), (Some(1.0), Some(100.0)));
    assert_eq!(
        (law(0.5, 0.0).peak(), law(0.5, 0.0).ceiling(), law(0.5, 0.0).saturation()),
        (None, Some(200.0), Some(2.0))
    );
    assert_eq!((law(0.0, 0.0).ceiling(), law(0.0, 0.0).saturation()), (None, None));
    assert_eq!((law(1.0, 0.0).peak(), law(1.0, 0.0).ceiling()), (None, Some(100.0)));
    assert_eq!(usl(0.0, &both), 0.0);
}
