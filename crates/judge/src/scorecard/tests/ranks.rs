//! Ranks and ratios of samples listed one by one.

use super::super::rank::{rank_targets, speed_ratio};
use super::*;
use tokrate_record::Samples;

fn rising(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// The places of each by one metric, at 5 %.
fn ranked(samples: &[&[f64]]) -> Vec<Option<(u32, u32)>> {
    let samples: Vec<Samples> = samples.iter().map(|values| Samples::exact(values.to_vec())).collect();
    let samples: Vec<&Samples> = samples.iter().collect();
    let ([ranks], _) = rank_targets([&samples], 0.05, &Rng::root(1));
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
    let (same, slow) = (Samples::exact(same), Samples::exact(slow));
    let alike = [&same, &same];
    let apart = [&same, &slow];
    let ([first, second, third], tests) = rank_targets([&alike, &apart, &alike], 0.05, &Rng::root(1));
    assert_eq!(tests, 3);
    let shared = [Some((1, 2)), Some((1, 2))];
    assert_eq!(super::places(first.into_iter()), shared);
    assert_eq!(super::places(second.into_iter()), [Some((1, 1)), Some((2, 2))]);
    assert_eq!(super::places(third.into_iter()), shared);
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
fn equal_samples_speak_for_neither() {
    // 32 of 40 are the same; the other 8 are lower on one side and higher on the other, which two in 2^16 splits are.
    let with = |other: f64| rising((0..40).map(|i| if i < 8 { other } else { 50.0 }).collect());
    let (lower, higher) = (with(10.0), with(90.0));
    assert_eq!(ranked(&[&higher, &lower]), [Some((2, 2)), Some((1, 1))]);
    assert_eq!(ranked(&[&lower, &higher]), [Some((1, 1)), Some((2, 2))]);
}

#[test]
fn tokens_that_take_no_time_have_no_speed() {
    let (none, ten) = (Samples::exact(vec![0.0; 10]), Samples::exact(vec![10.0; 10]));
    let ([mut ranks], _) = rank_targets([&[&none, &ten]], 0.05, &Rng::root(1));
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
