//! Ranks and ratios of samples listed one by one.

use super::super::rank::{rank_targets, speed_ratio};
use super::*;
use crate::compare::CompareVerdict;
use crate::comparison::Comparison;
use tokrate_record::{PhaseFigures, Samples};

fn rising(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// A level with these times to first token, and the same for each token, of a single round.
fn level(ttft: &[f64], tpot: &[f64]) -> LevelSamples {
    LevelSamples {
        name: "concurrency 1".to_owned(),
        load: Load::Closed { concurrency: 1 },
        times: [(Metric::Ttft, Samples::exact(ttft.to_vec())), (Metric::Tpot, Samples::exact(tpot.to_vec()))].into(),
        failed: 0,
        ended: ttft.len() as u64,
        throughput: None,
        of_phases: PhaseFigures::default(),
    }
}

fn ranks_of<const M: usize>(metrics: [Metric; M], levels: &[LevelSamples]) -> ([Vec<RankedMedian>; M], u64) {
    let ranks = rank_targets(metrics, &levels.iter().map(Some).collect::<Vec<_>>(), &[], 0.05);
    (ranks.ranked, ranks.family)
}

/// The places of each by one metric, at 5 %.
fn ranked(samples: &[&[f64]]) -> Vec<Option<(u32, u32)>> {
    let levels: Vec<LevelSamples> = samples.iter().map(|values| level(values, values)).collect();
    let ([ranks], _) = ranks_of([Metric::Ttft], &levels);
    super::places(ranks.into_iter())
}

#[test]
fn every_metric_has_places_of_its_own() {
    // One starts first and writes slowly.
    let (starts, writes) = (target(100, &[(1, 40)], 12), target(300, &[(1, 10)], 12));
    let card = Scorecard::of(&[("starts", &starts), ("writes", &writes)]);
    assert_eq!(super::places(card.rows.iter().map(|row| row.ttft.clone())), [Some((1, 1)), Some((2, 2))]);
    assert_eq!(super::places(card.rows.iter().map(|row| row.output_speed.clone())), [Some((2, 2)), Some((1, 1))]);
}

#[test]
fn a_metric_in_which_targets_are_alike_takes_no_place_from_another() {
    let (same, slow): (Vec<f64>, Vec<f64>) = ((0..30).map(f64::from).collect(), (100..130).map(f64::from).collect());
    let levels = [level(&same, &same), level(&slow, &same)];
    let ([first, second, third], tests) = ranks_of([Metric::OutputSpeed, Metric::Ttft, Metric::Tpot], &levels);
    assert_eq!(tests, 3);
    let shared = [Some((1, 2)), Some((1, 2))];
    assert_eq!(super::places(first.into_iter()), shared);
    assert_eq!(super::places(second.into_iter()), [Some((1, 1)), Some((2, 2))]);
    assert_eq!(super::places(third.into_iter()), shared);
}

#[test]
fn a_difference_of_single_rounds_within_five_percent_takes_no_place() {
    let around = |middle: f64| (0..40).map(|i| middle + 0.001 * f64::from(i)).collect::<Vec<f64>>();
    let shared = vec![Some((1, 2)), Some((1, 2))];
    assert_eq!(ranked(&[&around(100.0), &around(104.0)]), shared, "every request of one is slower, by 4 %");
    assert_eq!(ranked(&[&around(100.0), &around(106.0)]), [Some((1, 1)), Some((2, 2))]);
}

/// A target of several rounds at one load, whose requests start after these times (ms).
fn in_rounds(ttfts: &[u64]) -> Record {
    let round = |ttft: &u64| {
        let requests: Vec<RequestNumbers> = (0..10).map(|i| steady_request(i, i * 4_000, *ttft, 10, 40)).collect();
        fixtures::phase(&closed(1), &requests)
    };
    fixtures::record(ttfts.iter().map(round).collect())
}

#[test]
fn a_shared_rank_says_which_difference_would_have_been_seen() {
    let card = |a: &[u64], b: &[u64]| {
        let judged = Comparison::of(vec![in_rounds(a), in_rounds(b)]).judged(&["a".into(), "b".into()], true);
        judged.scorecard.expect("asked for")
    };
    let ttft =
        |card: &Scorecard| card.detectable.iter().find(|seen| seen.metric == Metric::Ttft).map(|seen| seen.change);
    let two = card(&[100, 102], &[105, 107]);
    assert_eq!(two.rounds, Some(2));
    // The comparison has five tests: t quantiles 9.925 and 1.061 at two degrees of freedom, of an error of 1.4 % in two rounds.
    assert!(ttft(&two).is_some_and(|change| (0.10..0.20).contains(&change)), "{:?}", two.detectable);
    let four = card(&[100, 102, 100, 102], &[105, 107, 105, 107]);
    assert_eq!((four.rounds, ttft(&four)), (Some(4), None), "told apart, so nothing is left to detect");
    assert_eq!(super::places(four.rows.iter().map(|row| row.ttft.clone())), [Some((1, 1)), Some((2, 2))]);
    let same = card(&[100, 102, 100, 102], &[101, 102, 100, 101]);
    assert!(ttft(&same).is_some_and(|change| change < 0.06), "{:?}", same.detectable);
}

#[test]
fn no_rank_is_apart_that_the_comparison_does_not_call_different() {
    let (quick, slow) = (target(100, &[(1, 10)], 30), target(200, &[(1, 10)], 30));
    let targets = [("quick", &quick), ("slow", &slow)];
    let judged = Comparison::of(vec![quick.clone(), slow.clone()]).judged(&["quick".into(), "slow".into()], true);
    let card = judged.scorecard.expect("asked for");
    assert_eq!(super::places(card.rows.iter().map(|row| row.ttft.clone())), [Some((1, 1)), Some((2, 2))]);
    let mut report = judged.against_first[0].report.clone();
    report.rows[0].verdict = CompareVerdict::Undecided;
    let card = Scorecard::beside(&targets, &[None, Some(&report)]);
    assert_eq!(super::places(card.rows.iter().map(|row| row.ttft.clone())), [Some((1, 2)), Some((1, 2))]);
}

#[test]
fn the_lower_is_the_one_that_is_more_often_below_though_not_always() {
    // Of 40 the slow one has 8 that are quicker than everything of the other: below in 320 pairs of 1,600, above in 1,280.
    let quick: Vec<f64> = (0..40).map(|i| 100.0 + f64::from(i)).collect();
    let slow: Vec<f64> = (0..40).map(|i| if i < 8 { f64::from(i) } else { 200.0 + f64::from(i) }).collect();
    assert_eq!(ranked(&[&slow, &quick]), [Some((2, 2)), Some((1, 1))]);
    assert_eq!(ranked(&[&quick, &slow]), [Some((1, 1)), Some((2, 2))]);
}

#[test]
fn distributions_that_differ_around_equal_medians_take_no_place() {
    // 32 of 40 are the same; the other 8 are lower on one side and higher on the other.
    let with = |other: f64| rising((0..40).map(|i| if i < 8 { other } else { 50.0 }).collect());
    assert_eq!(ranked(&[&with(90.0), &with(10.0)]), [Some((1, 2)), Some((1, 2))]);
}

#[test]
fn tokens_that_take_no_time_have_no_speed() {
    let levels = [0.0, 10.0].map(|time| level(&[time; 10], &[time; 10]));
    let ([mut ranks], _) = ranks_of([Metric::Tpot], &levels);
    let timed = ranks.pop().expect("two").into_speed().median.expect("ten of 10 ms");
    assert_eq!((timed.value, timed.low, timed.high), (100.0, Some(100.0), Some(100.0)));
    let instant = ranks.pop().expect("two");
    assert_eq!(instant.median.map(|median| median.value), Some(0.0));
    let instant = instant.into_speed();
    assert_eq!((instant.n, instant.median), (10, None));
}

#[test]
fn the_interval_of_a_speed_kept_is_wider_by_what_sketches_leave_open() {
    let equal = |n: usize, value: f64, resolution: f64| Samples { resolution, ..Samples::exact(vec![value; n]) };
    let kept = |alone: &Samples, crowded: &Samples| speed_ratio(alone, crowded, &Rng::root(1));
    // 10 ms a token alone and 16 ms in a crowd: 0.625 is left; 1.01 * 1.02 = 1.0302 is what the two leave open.
    let seen = kept(&equal(20, 10.0, 0.01), &equal(20, 16.0, 0.02)).expect("both have times");
    let near = |seen: Option<f64>, expected: f64| (seen.expect("20 on each side") - expected).abs() < 1e-9;
    assert_eq!(seen.value, 0.625);
    assert!(near(seen.low, 0.625 / 1.0302) && near(seen.high, 0.625 * 1.0302), "{seen:?}");
    for (alone, crowded) in [(5, 20), (20, 5)] {
        let few = kept(&equal(alone, 10.0, 0.0), &equal(crowded, 16.0, 0.0)).expect("both have times");
        assert_eq!((few.value, few.low, few.high), (0.625, None, None), "five are too few for an interval");
    }
    for (alone, crowded) in [(0.0, 16.0), (10.0, 0.0), (0.0, 0.0)] {
        assert_eq!(kept(&equal(20, alone, 0.0), &equal(20, crowded, 0.0)), None, "{alone} to {crowded} is no ratio");
    }
    assert_eq!(kept(&equal(0, 0.0, 0.0), &equal(20, 16.0, 0.0)), None);
}
