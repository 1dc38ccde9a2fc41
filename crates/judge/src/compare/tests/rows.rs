//! Rows of a comparison, worked out by hand.

use super::*;

/// The row of one metric, the only one of its comparison.
fn row(metric: Metric, a: LevelSamples, b: LevelSamples) -> CompareRow {
    row_with(a, b, &CompareOptions { metrics: vec![metric], ..CompareOptions::default() })
}

fn row_with(a: LevelSamples, b: LevelSamples, options: &CompareOptions) -> CompareRow {
    compare(&side(a), &side(b), options).expect("like conditions").rows.remove(0)
}

fn near(seen: Option<f64>, expected: f64) {
    let seen = seen.expect("a number");
    assert!((seen - expected).abs() <= expected.abs() * 1e-5, "{seen} for {expected}");
}

/// Equal samples, each known to within this share of it.
fn equal(n: usize, value: f64, resolution: f64) -> Samples {
    Samples { resolution, ..Samples::exact(vec![value; n]) }
}

fn writing(tokens_per_second: f64, standard_error: Option<f64>, seconds: f64) -> LevelSamples {
    let throughput = Some(ObservedThroughput { tokens_per_second, standard_error, seconds, computed: None });
    LevelSamples { throughput, ..level(Vec::new(), Vec::new(), 0) }
}

fn failing(failed: u64, ended: u64) -> LevelSamples {
    LevelSamples { failed, ended, ..level(Vec::new(), Vec::new(), 0) }
}

#[test]
fn what_a_sketch_cannot_tell_apart_widens_the_interval_and_what_would_be_seen() {
    let with = |ttft, tpot| LevelSamples {
        times: BTreeMap::from([(Metric::Ttft, ttft), (Metric::Tpot, tpot)]),
        ..level(Vec::new(), Vec::new(), 0)
    };
    let before = with(equal(20, 100.0, 0.01), equal(20, 10.0, 0.01));
    let after = with(equal(30, 110.0, 0.02), equal(30, 12.5, 0.02));
    // Equal samples have no spread, so all that is left is what the two sketches leave open: 1.01 * 1.02 = 1.0302.
    let times = row(Metric::Ttft, before.clone(), after.clone());
    assert_eq!((times.n_a, times.n_b, times.a, times.b), (20, 30, Some(100.0), Some(110.0)));
    near(times.change, 1.1);
    let ends = times.interval.map(|interval| (interval.low, interval.high)).expect("tested");
    near(Some(ends.0), 1.1 / 1.0302);
    near(Some(ends.1), 1.1 * 1.0302);
    near(times.smallest_visible, 0.0302);
    // 10 and 12.5 ms a token are 100 and 80 tokens a second, and the ends change places.
    let speeds = row(Metric::OutputSpeed, before, after);
    assert_eq!((speeds.a, speeds.b), (Some(100.0), Some(80.0)));
    near(speeds.change, 0.8);
    let ends = speeds.interval.map(|interval| (interval.low, interval.high)).expect("tested");
    near(Some(ends.0), 0.8 / 1.0302);
    near(Some(ends.1), 0.8 * 1.0302);
    near(speeds.smallest_visible, 0.0302);
}

#[test]
fn six_samples_on_each_side_are_enough_for_a_median_and_five_are_not() {
    let with = |n| level(spread(n, 200.0, 0.1, n), Vec::new(), 0);
    assert!(row(Metric::Ttft, with(6), with(6)).p.is_some());
    for (a, b) in [(5, 6), (6, 5)] {
        let row = row(Metric::Ttft, with(a), with(b));
        assert_eq!((row.n_a, row.n_b, row.p, row.change), (a, b, None, None));
        assert!(row.a.is_some() && row.b.is_some(), "the medians are shown all the same: {row:?}");
    }
}

#[test]
fn a_median_that_has_no_ratio_is_not_compared_and_says_why() {
    let with = |value: f64| level(vec![value; 20], vec![value; 20], 0);
    let note = |row: &CompareRow| row.note.clone().expect("a reason");
    for metric in [Metric::Ttft, Metric::OutputSpeed] {
        let zero = row(metric, with(100.0), with(0.0));
        assert_eq!((zero.b, zero.change, zero.p), (None, None, None), "{zero:?}");
        assert_eq!(note(&zero), "a median of 0 has no ratio");
    }
    // 1e300 / 1e-300 is beyond every number.
    let endless = row(Metric::Ttft, with(1e-300), with(1e300));
    assert_eq!((endless.change, endless.p), (None, None));
    assert_eq!(note(&endless), "the ratio of the medians cannot be resampled");
}

#[test]
fn throughput_is_compared_by_the_errors_of_its_windows() {
    // 1 % and 2 % of relative error are sqrt(5) % together: ln 0.95 is 2.294 of them from none, p = 0.0218. The interval is
    // 0.95 * exp(-+1.96 * 0.02236); (1.96 + 0.8416) * 0.02236 would be seen with 80 % probability.
    let (before, after) = (writing(400.0, Some(4.0), 30.9), writing(380.0, Some(7.6), 20.0));
    let worse = row(Metric::Throughput, before.clone(), after.clone());
    assert_eq!((worse.n_a, worse.n_b, worse.a, worse.b), (30, 20, Some(400.0), Some(380.0)));
    assert_eq!(worse.change, Some(0.95));
    let interval = worse.interval.expect("both have errors");
    near(Some(interval.low), 0.909_264);
    near(Some(interval.high), 0.992_561);
    near(worse.p, 0.021_796);
    near(worse.smallest_visible, 0.064_649);
    assert_eq!((worse.verdict, worse.note), (CompareVerdict::Worse, None));
    let better = row(Metric::Throughput, after, before);
    near(better.p, 0.021_796);
    assert_eq!((better.verdict, better.regression), (CompareVerdict::Better, false));
}

#[test]
fn throughputs_of_rounds_are_compared_by_their_differences_however_short_each_was() {
    let side = |rounds: &[f64]| {
        let mean = rounds.iter().sum::<f64>() / rounds.len() as f64;
        let of_phases =
            PhaseFigures { rounds: [(Metric::Throughput, rounds.to_vec())].into(), ..PhaseFigures::default() };
        LevelSamples { of_phases, ..writing(mean, None, 3.0) }
    };
    // Logarithms 0 and ±0.01 around 400 and 380: each side has a variance of 0.0002 / 3, so the error is sqrt(0.0002 / 3 / 2)
    // and t = 0.0513 / 0.00577 = 8.88 with six degrees of freedom.
    let around = |middle: f64| [1.0, 1.0, (0.01f64).exp(), (-0.01f64).exp()].map(|factor| middle * factor);
    let slower = row(Metric::Throughput, side(&around(400.0)), side(&around(380.0)));
    assert_eq!((slower.verdict, slower.rounds), (CompareVerdict::Worse, Some(4)));
    assert!(slower.p.is_some_and(|p| (p / 1.13e-4 - 1.0).abs() < 0.05), "{:?}", slower.p);
    let noisy = row(Metric::Throughput, side(&[380.0, 420.0]), side(&[370.0, 400.0]));
    assert_eq!((noisy.verdict, noisy.rounds), (CompareVerdict::Undecided, Some(2)));
}

#[test]
fn less_throughput_is_a_regression_only_beyond_the_threshold() {
    let regression = |threshold| {
        let options = CompareOptions { metrics: vec![Metric::Throughput], threshold, ..CompareOptions::default() };
        let row = row_with(writing(400.0, Some(0.4), 30.0), writing(384.0, Some(0.4), 30.0), &options);
        assert_eq!(row.verdict, CompareVerdict::Worse, "4 % less with errors of 0.1 %");
        row.regression
    };
    assert_eq!((regression(0.05), regression(0.03)), (false, true));
}

#[test]
fn equal_throughputs_without_any_error_are_no_different() {
    let same = row(Metric::Throughput, writing(400.0, Some(0.0), 30.0), writing(400.0, Some(0.0), 30.0));
    assert_eq!((same.p, same.change, same.verdict), (Some(1.0), Some(1.0), CompareVerdict::NoDifference));
    let other = row(Metric::Throughput, writing(400.0, Some(0.0), 30.0), writing(404.0, Some(0.0), 30.0));
    assert_eq!(other.verdict, CompareVerdict::Better, "1 % more is much where nothing varies");
}

#[test]
fn throughput_that_cannot_be_compared_says_why() {
    let compared = |a: &LevelSamples, b: &LevelSamples| {
        let row = row(Metric::Throughput, a.clone(), b.clone());
        assert_eq!((row.p, row.verdict), (None, CompareVerdict::Undecided), "{row:?}");
        (row.a, row.b, row.change, row.note.expect("a reason"))
    };
    let (none, silent) = (LevelSamples { throughput: None, ..writing(0.0, None, 0.0) }, writing(0.0, Some(0.0), 30.0));
    let (some, short) = (writing(400.0, Some(4.0), 30.0), writing(300.0, None, 5.0));
    for (a, b) in [(&none, &some), (&some, &none)] {
        assert_eq!(compared(a, b), (None, None, None, "a side has no steady window".to_owned()));
    }
    let zero = "a throughput of 0 has no ratio".to_owned();
    assert_eq!(compared(&silent, &some), (Some(0.0), Some(400.0), None, zero.clone()));
    assert_eq!(compared(&some, &silent), (Some(400.0), Some(0.0), None, zero));
    let brief = "a steady window shorter than 10 s has no interval; several rounds of both sides have one (--rounds 4)"
        .to_owned();
    assert_eq!(compared(&some, &short), (Some(400.0), Some(300.0), Some(0.75), brief));
}

#[test]
fn shares_of_failures_are_compared_by_their_difference() {
    // 2 of 100 and 12 of 150. Fisher's p sums C(100,k) C(150,14-k) / C(250,14) over the tables that are no more likely;
    // Newcombe's ends are 0.06 - sqrt(0.0346^2 + 0.0500^2) and so on; the error is that of 15 in 252.
    let row = row(Metric::FailureShare, failing(2, 100), failing(12, 150));
    assert_eq!((row.n_a, row.n_b, row.a, row.b), (100, 150, Some(0.02), Some(0.08)));
    near(row.change, 0.06);
    near(row.p, 0.050_723_2);
    let interval = row.interval.expect("both have requests");
    near(Some(interval.low), -0.000_276_502);
    near(Some(interval.high), 0.116_513);
    near(row.smallest_visible, 0.085_575_1);
    assert_eq!(row.note.as_deref(), Some("only changes from 8.6 percentage points on would be seen"));
}

#[test]
fn a_hundredth_more_failures_is_worse_and_more_than_that_is_a_regression() {
    // By Fisher's test p is 0.0019 and 0.0009.
    let seen = |failed| {
        let row = row(Metric::FailureShare, failing(0, 1_000), failing(failed, 1_000));
        (row.change, row.verdict, row.regression)
    };
    assert_eq!(seen(10), (Some(0.01), CompareVerdict::Worse, false));
    assert_eq!(seen(11), (Some(0.011), CompareVerdict::Worse, true));
}

#[test]
fn a_side_without_any_request_has_no_share_of_failures() {
    for (a, b) in [(failing(0, 0), failing(1, 10)), (failing(1, 10), failing(0, 0))] {
        let (n_a, n_b) = (a.ended, b.ended);
        let row = row(Metric::FailureShare, a, b);
        assert_eq!((row.n_a, row.n_b, row.a, row.b, row.change, row.p), (n_a, n_b, None, None, None, None));
        assert_eq!(row.note.as_deref(), Some("a side has no request that ended"));
    }
}

#[test]
fn what_would_be_seen_is_what_the_first_of_all_tests_of_the_comparison_would_see() {
    // Two levels and three metrics are six tests, the strictest at 0.05 / 6: z = 2.6383 + 0.8416. The standard error of
    // 13 in 302 is 0.024858.
    let with = |seed, failed, ended| {
        let one = LevelSamples { failed, ended, ..level(spread(20, 200.0, 0.1, seed), Vec::new(), 0) };
        let other = LevelSamples { load: Load::Closed { concurrency: 9 }, ..one.clone() };
        RunSamples { levels: vec![one.clone(), other], ..side(one) }
    };
    let metrics = vec![Metric::Ttft, Metric::Throughput, Metric::FailureShare];
    let options = CompareOptions { metrics, ..CompareOptions::default() };
    let report = compare(&with(1, 3, 100), &with(2, 9, 200), &options).expect("like conditions");
    assert_eq!((report.family, report.rows.len()), (6, 6));
    near(report.rows[2].smallest_visible, 0.086_501_4);
}

#[test]
fn samples_from_sketches_on_either_side_are_noted() {
    let exact = level(spread(20, 200.0, 0.1, 1), Vec::new(), 0);
    let coarse = LevelSamples { times: BTreeMap::from([(Metric::Ttft, equal(20, 200.0, 0.005))]), ..exact.clone() };
    let options = CompareOptions { metrics: vec![Metric::FailureShare], ..CompareOptions::default() };
    let notes = |a: &LevelSamples, b: &LevelSamples| {
        compare(&side(a.clone()), &side(b.clone()), &options).expect("like conditions").notes
    };
    let plain = notes(&exact, &exact);
    assert!(plain.len() == 1 && plain[0].contains("(Holm)"), "{plain:?}");
    for (a, b) in [(&coarse, &exact), (&exact, &coarse), (&coarse, &coarse)] {
        let actual = notes(a, b);
        assert_eq!((actual.len(), &actual[0]), (2, &plain[0]));
        assert!(actual[1].contains("within 0.55 %"), "{actual:?}");
    }
}

#[test]
fn a_metric_is_found_by_its_name_and_a_misspelt_one_by_the_nearest() {
    for metric in comparable() {
        assert_eq!(comparable_from_name(metric.name()), Ok(metric));
    }
    assert_eq!(comparable_from_name("tpot"), Ok(Metric::OutputSpeed));
    let refused = comparable_from_name("e2").expect_err("no such metric");
    assert!(refused.starts_with("`e2` cannot be compared") && refused.contains("e2e"), "{refused}");
}

#[test]
fn the_conditions_that_are_refused_are_those_that_were_not_to_be_ignored() {
    let with = |model: &str, input_tokens| Conditions { model: model.into(), input_tokens, ..Conditions::default() };
    let (ignored, refused) =
        differing_conditions(&with("m", 0), &with("n", 7), &["model".to_owned()]).expect("a known name");
    let actual = |name: &str, a: &str, b: &str| DifferingCondition { name: name.into(), a: a.into(), b: b.into() };
    assert_eq!(ignored, [actual("model", "m", "n")]);
    assert_eq!(refused, [actual("input_tokens", "0", "7")]);
}

#[test]
fn ranks_that_differ_while_medians_do_not_are_no_verdict() {
    let half = |rest: f64| [vec![100.0; 51], vec![rest; 49]].concat();
    let with = |times: Vec<f64>| level(times, Vec::new(), 0);
    let seen = row(Metric::Ttft, with(half(101.0)), with(half(200.0)));
    assert_eq!(seen.change, Some(1.0));
    assert!(seen.p.expect("tested") < 0.05, "{seen:?}");
    assert!(matches!(seen.verdict, CompareVerdict::Undecided | CompareVerdict::NoDifference), "{seen:?}");
    assert_eq!(seen.note.as_deref(), Some("the distributions differ, the figure itself does not show it"));
}

#[test]
fn the_whole_time_of_answers_of_different_lengths_is_not_judged() {
    let with = |e2e: f64, tokens: f64| {
        let base = level(spread(40, e2e, 0.01, 1), Vec::new(), 0);
        let answer_length = Some(AnswerLength { mean: tokens, error: 0.0 });
        LevelSamples { of_phases: PhaseFigures { answer_length, ..PhaseFigures::default() }, ..base }
    };
    let shorter = row(Metric::E2e, with(600.0, 60.0), with(360.0, 36.0));
    assert_eq!(shorter.note.as_deref(), Some("answers differ in length: 60 against 36 tokens"));
    assert_eq!((shorter.verdict, shorter.p, shorter.regression), (CompareVerdict::Undecided, None, false));
    assert!(
        shorter.change.is_some_and(|change| (change - 0.6).abs() < 0.02),
        "what was measured is shown all the same"
    );
    let started = row(Metric::Ttft, with(600.0, 60.0), with(360.0, 36.0));
    assert_eq!(started.verdict, CompareVerdict::Better, "the first token does not wait for the last");
    assert_eq!(row(Metric::E2e, with(600.0, 60.0), with(360.0, 60.0)).verdict, CompareVerdict::Better);
}
