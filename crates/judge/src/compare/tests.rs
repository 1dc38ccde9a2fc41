//! Worked examples of every test, and whole comparisons of synthetic measurements.

mod rows;
mod worked;

use super::*;
use std::collections::BTreeMap;
use tokrate_core::Rng;
use tokrate_meter::fixtures::steady_request;
use tokrate_record::Record;
use tokrate_record::fixtures::{self, closed, phase};
use tokrate_record::run::Load;
use tokrate_record::{AnswerLength, LevelSamples, ObservedThroughput, PhaseFigures, RunSamples, Samples};
use tokrate_stats::{fisher_p, holm, permutation_p, ratio_of_medians, share_difference};

fn spread(n: u64, middle: f64, relative: f64, seed: u64) -> Vec<f64> {
    let mut rng = Rng::root(seed);
    let mut values: Vec<f64> = (0..n).map(|_| middle * (relative * rng.normal()).exp()).collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

fn level(ttft: Vec<f64>, tpot: Vec<f64>, failed: u64) -> LevelSamples {
    let ended = ttft.len() as u64 + failed;
    LevelSamples {
        name: "concurrency 4".into(),
        load: Load::Closed { concurrency: 4 },
        times: BTreeMap::from([
            (Metric::E2e, Samples::exact(ttft.clone())),
            (Metric::Ttft, Samples::exact(ttft)),
            (Metric::Tpot, Samples::exact(tpot)),
        ]),
        failed,
        ended,
        throughput: Some(ObservedThroughput {
            tokens_per_second: 400.0,
            standard_error: Some(2.0),
            seconds: 30.0,
            computed: None,
        }),
        of_phases: PhaseFigures::default(),
    }
}

fn side(level: LevelSamples) -> RunSamples {
    RunSamples {
        conditions: Conditions { model: "m".into(), ..Conditions::default() },
        levels: vec![level],
        cut_rounds: 0,
        looks: None,
    }
}

fn verdicts(a: LevelSamples, b: LevelSamples) -> Vec<(Metric, CompareVerdict, bool)> {
    let report = compare(&side(a), &side(b), &CompareOptions::default()).expect("like conditions");
    report.rows.iter().map(|row| (row.metric, row.verdict, row.regression)).collect()
}

#[test]
fn fishers_test_gives_the_textbook_values() {
    // The lady tasting tea (Fisher 1935): 3 of 4 right, two-sided 0.4857; all right, 0.0286.
    assert!((fisher_p(3, 4, 1, 4) - 0.485_714).abs() < 1e-6);
    assert!((fisher_p(4, 4, 0, 4) - 0.028_571).abs() < 1e-6);
    assert!((fisher_p(0, 10, 0, 12) - 1.0).abs() < 1e-9);
}

#[test]
fn newcombes_interval_gives_the_published_one() {
    // Newcombe (1998), "Interval estimation for the difference", example (a): 56/70 and 48/80, method 10: 0.0524 to 0.3339.
    let interval = share_difference(48, 80, 56, 70).expect("draws");
    assert!((interval.low - 0.0524).abs() < 5e-5 && (interval.high - 0.3339).abs() < 5e-5, "{interval:?}");
}

#[test]
fn holms_correction_steps_down_and_never_falls() {
    assert_eq!(holm(&[0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02]);
    assert_eq!(holm(&[0.5, 0.9]), [1.0, 1.0]);
    assert_eq!(holm(&[]), Vec::<f64>::new());
}

#[test]
fn a_permutation_test_agrees_with_counting_every_split() {
    // Sides that do not overlap much: of the 252 splits of ten ranks few have sums as far apart as these.
    let (a, b) = ([1.0, 2.0, 3.0, 4.0, 7.0], [5.0, 6.0, 8.0, 9.0, 10.0]);
    let (mut as_far, mut all) = (0, 0);
    for mask in 0_i32..1 << 10 {
        if mask.count_ones() == 5 {
            let sum: i32 = (0..10).filter(|bit| mask >> bit & 1 == 1).map(|bit| bit + 1).sum();
            all += 1;
            // The mean sum is 27.5; that of `a` is 17.
            as_far += i32::from((2 * sum - 55).abs() >= 21);
        }
    }
    let exact = f64::from(as_far) / f64::from(all);
    let drawn = permutation_p(&a, &b, &Rng::root(1));
    assert!((drawn - exact).abs() < 0.008, "{drawn} for {exact}");
    assert_eq!(permutation_p(&a, &a, &Rng::root(1)), 1.0);
}

#[test]
fn sides_that_do_not_overlap_differ_for_certain() {
    let (fast, slow) = (spread(40, 20.0, 0.01, 1), spread(40, 120.0, 0.01, 2));
    assert!(permutation_p(&fast, &slow, &Rng::root(1)) < 0.001);
}

#[test]
fn under_no_difference_p_is_uniform_and_intervals_hold_the_truth() {
    let rounds = 200;
    let (mut low, mut covered) = (0, 0);
    for seed in 0..rounds {
        let (a, b) = (spread(60, 200.0, 0.2, seed), spread(60, 200.0, 0.2, seed + 10_000));
        low += u32::from(permutation_p(&a, &b, &Rng::root(seed)) < 0.1);
        let (interval, _) = ratio_of_medians(&a, &b, &Rng::root(seed)).expect("samples");
        covered += u32::from(interval.holds(1.0));
    }
    // 20 of 200 are expected below 0.1, and 190 intervals hold 1: five standard errors of room each way.
    assert!((2..=41).contains(&low), "{low} of {rounds}");
    assert!((174..=200).contains(&covered), "{covered} of {rounds}");
}

#[test]
fn a_slower_first_token_is_a_regression_and_a_faster_one_is_better() {
    use CompareVerdict::*;
    let base = level(spread(200, 200.0, 0.1, 1), spread(200, 10.0, 0.05, 2), 0);
    let slow = level(spread(200, 240.0, 0.1, 3), spread(200, 10.0, 0.05, 4), 0);
    let found = verdicts(base.clone(), slow.clone());
    assert_eq!(found[0], (Metric::Ttft, Worse, true));
    assert_eq!(found[1], (Metric::OutputSpeed, NoDifference, false));
    assert_eq!(found[3], (Metric::Throughput, NoDifference, false));
    assert_eq!(verdicts(slow, base)[0], (Metric::Ttft, Better, false));
}

#[test]
fn a_slower_stream_is_worse_though_its_time_per_token_is_higher() {
    let base = level(spread(200, 200.0, 0.1, 1), spread(200, 10.0, 0.05, 2), 0);
    let slow = level(spread(200, 200.0, 0.1, 3), spread(200, 12.5, 0.05, 4), 0);
    let report = compare(&side(base), &side(slow), &CompareOptions::default()).expect("like conditions");
    let row = &report.rows[1];
    let (a, b, change) = (row.a.expect("known"), row.b.expect("known"), row.change.expect("known"));
    assert!((a - 100.0).abs() < 2.0 && (b - 80.0).abs() < 2.0 && (change - 0.8).abs() < 0.03, "{row:?}");
    assert!(row.interval.expect("known").holds(0.8), "{row:?}");
    assert_eq!(
        (row.verdict, row.regression, report.outcome),
        (CompareVerdict::Worse, true, CompareOutcome::Regression)
    );
}

#[test]
fn a_small_change_is_worse_but_no_regression_below_the_threshold() {
    let base = level(spread(2_000, 200.0, 0.02, 1), spread(200, 10.0, 0.05, 2), 0);
    let slower = level(spread(2_000, 204.0, 0.02, 3), spread(200, 10.0, 0.05, 4), 0);
    assert_eq!(verdicts(base, slower)[0], (Metric::Ttft, CompareVerdict::Worse, false));
}

#[test]
fn few_or_noisy_samples_decide_nothing_and_say_what_would_be_seen() {
    let few = |seed| level(spread(5, 200.0, 0.1, seed), spread(5, 10.0, 0.05, seed), 0);
    let options = CompareOptions { metrics: vec![Metric::Ttft], ..CompareOptions::default() };
    let report = compare(&side(few(1)), &side(few(2)), &options).expect("like conditions");
    assert_eq!((report.outcome, report.rows[0].p), (CompareOutcome::NothingCompared, None));
    assert_eq!(report.rows[0].note.as_deref(), Some("not enough samples (n = 5 and 5), needs 6 on each side"));
    let noisy = |seed| level(spread(20, 200.0, 0.5, seed), spread(20, 10.0, 0.05, seed), 0);
    let report = compare(&side(noisy(3)), &side(noisy(4)), &options).expect("like conditions");
    let row = &report.rows[0];
    assert_eq!((row.verdict, report.outcome), (CompareVerdict::Undecided, CompareOutcome::NoRegression));
    assert!(row.smallest_visible.expect("tested") > 0.05 && row.note.is_some(), "{row:?}");
}

#[test]
fn more_failures_are_a_regression() {
    let base = level(spread(200, 200.0, 0.1, 1), Vec::new(), 0);
    let failing = level(spread(200, 200.0, 0.1, 1), Vec::new(), 30);
    let found = verdicts(base.clone(), failing);
    assert_eq!(found[4], (Metric::FailureShare, CompareVerdict::Worse, true));
    assert_eq!(verdicts(base.clone(), base)[4].1, CompareVerdict::Undecided, "400 requests cannot rule out 1 % more");
}

#[test]
fn differing_conditions_are_refused_unless_ignored() {
    let a = side(level(spread(20, 200.0, 0.1, 1), Vec::new(), 0));
    let mut b = a.clone();
    (b.conditions.model, b.conditions.input_tokens, b.conditions.seed) = ("n".into(), 7, 9);
    let with = |ignore: &[&str]| {
        let ignore = ignore.iter().map(|name| (*name).to_owned()).collect();
        compare(&a, &b, &CompareOptions { ignore, ..CompareOptions::default() })
    };
    insta::assert_snapshot!("differing_conditions", with(&[]).expect_err("two differ").to_string());
    insta::assert_snapshot!("misspelt", with(&["modle"]).expect_err("no such condition").to_string());
    assert!(matches!(with(&["model"]), Err(CompareError::DifferingConditions(left)) if left.len() == 1));
    let names = |report: CompareReport| report.unlike.into_iter().map(|it| it.name).collect::<Vec<_>>();
    assert_eq!(with(&["model", "input_tokens"]).map(names), Ok(vec!["model".to_owned(), "input_tokens".to_owned()]));
    assert!(with(&["all"]).is_ok());
}

#[test]
fn levels_are_matched_by_load_and_the_others_are_named() {
    let base = level(spread(20, 200.0, 0.1, 1), Vec::new(), 0);
    let other = |concurrency| LevelSamples {
        name: format!("concurrency {concurrency}"),
        load: Load::Closed { concurrency },
        ..base.clone()
    };
    let with = |levels: Vec<LevelSamples>| RunSamples { levels, ..side(base.clone()) };
    let report =
        compare(&with(vec![other(1), base.clone()]), &with(vec![base.clone(), other(9)]), &CompareOptions::default());
    let report = report.expect("one level is in both");
    assert_eq!(
        (report.only_in_a, report.only_in_b),
        (vec!["concurrency 1".to_owned()], vec!["concurrency 9".to_owned()])
    );
    assert!(report.rows.iter().all(|row| row.level == "concurrency 4"));
    let none = compare(&with(vec![other(1)]), &with(vec![other(9)]), &CompareOptions::default());
    assert!(matches!(none, Err(CompareError::NoCommonLevel { .. })));
}

fn record(ttft: u64) -> (Record, Vec<Vec<tokrate_meter::RequestNumbers>>) {
    let requests: Vec<_> = (0..40).map(|i| steady_request(i, i * 2_000, ttft + i % 7, 10, 40)).collect();
    let phases = (0..2).map(|_| phase(&closed(1), &requests)).collect();
    (fixtures::record(phases), vec![requests.clone(), requests])
}

#[test]
fn sketches_and_rows_of_one_record_agree_within_the_stated_error() {
    let (record, rows) = record(100);
    let (coarse, exact) = (RunSamples::of_record(&record), RunSamples::of_rows(&record, &rows));
    assert_eq!((coarse.levels.len(), exact.levels.len()), (1, 1), "two rounds of one load are one level");
    let (coarse, exact) = (coarse.levels[0].times(Metric::Ttft), exact.levels[0].times(Metric::Ttft));
    assert_eq!((coarse.n(), exact.n()), (80, 80));
    assert_eq!((exact.resolution, coarse.resolution), (0.0, tokrate_core::Sketch::RELATIVE_ERROR));
    for (coarse, exact) in coarse.sorted.iter().zip(&exact.sorted) {
        assert!((coarse / exact - 1.0).abs() <= 0.0055 * 2.0, "{coarse} for {exact}");
    }
    let cut = RunSamples::of_rows(&record, &[rows[0].clone(), Vec::new()]);
    assert!(cut.levels[0].times(Metric::Ttft).resolution > 0.0, "rows that are not all there are not used");
}

#[test]
fn rounds_that_were_cut_off_are_not_compared_and_that_is_said() {
    let (whole, _) = record(100);
    let mut cut = whole.clone();
    // A third round, of which the quick answers are there.
    cut.phases.push(record(20).0.phases.remove(0));
    cut.phases[2].interrupted = true;
    let report = |a: &Record, b: &Record| {
        compare(&RunSamples::of_record(a), &RunSamples::of_record(b), &CompareOptions::default())
    };
    let (with, without) = (report(&whole, &cut).expect("two rounds"), report(&whole, &whole).expect("two rounds"));
    assert_eq!(with.cut_rounds, CutRounds { a: 0, b: 1 });
    assert_eq!(with.cut_rounds.sentences("x", "y"), ["1 round of y was cut short and is not compared"]);
    assert_eq!(with.rows, without.rows);
    let text = serde_json::to_string(&without).expect("no key is odd");
    assert!(!text.contains("cut_rounds"), "nothing is said of none");
    cut.phases.iter_mut().for_each(|phase| phase.interrupted = true);
    let refused = report(&whole, &cut).expect_err("no whole round").to_string();
    assert_eq!(
        refused,
        "compare the two, which have no load level in common (concurrency 1 and none but 3 rounds that were cut short); \
         measure both at the same loads, to their end"
    );
}

#[test]
fn a_record_is_no_different_from_itself() {
    let (record, rows) = record(100);
    for side in [RunSamples::of_record(&record), RunSamples::of_rows(&record, &rows)] {
        let report = compare(&side, &side, &CompareOptions::default()).expect("like conditions");
        assert_eq!(report.outcome, CompareOutcome::NoRegression);
        assert!(report.rows.iter().all(|row| row.p.is_none_or(|p| p > 0.9)), "{:?}", report.rows);
        let text = serde_json::to_string(&report).expect("no key is odd");
        assert!(!text.contains("NaN"));
    }
}
