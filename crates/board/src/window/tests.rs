//! One number of a window: its interval, its floor, and what counts in it.

use super::*;
use tokrate_core::{FailureKind, Rng};

fn at(index: i64, speed: f32) -> Point {
    Point { at: index, output_speed: Some(speed), ..Point::default() }
}

#[test]
fn the_interval_of_a_median_is_that_of_order_statistics() {
    // Of 24 samples the 7th to the 18th hold the median with at least 95 %.
    let points: Vec<Point> = (1..=24).map(|index| at(index, index as f32)).collect();
    let estimate = Summary::of(&points).median(Metric::OutputSpeed);
    assert_eq!((estimate.value, estimate.low, estimate.high), (Some(12.0), Some(7.0), Some(18.0)));
    let few = Summary::of(&points[..5]).median(Metric::OutputSpeed);
    assert_eq!((few.value, few.low, few.n, few.missing()), (None, None, 5, 1));
}

#[test]
fn the_slow_tail_of_a_speed_mirrors_the_slow_tail_of_a_time() {
    let times: Vec<f64> = (1..=200).map(f64::from).collect();
    let upper = Estimate::of(&times, Level::P95);
    let lower = Estimate::of_lower_tail(&times, Level::P95);
    let mirrored = |value: Option<f64>| value.map(|value| 201.0 - value);
    assert_eq!(upper.value, Some(190.0));
    assert_eq!(
        (lower.value, lower.low, lower.high),
        (mirrored(upper.value), mirrored(upper.high), mirrored(upper.low))
    );
    assert_eq!(Estimate::of_lower_tail(&times[..129], Level::P95).value, None);
}

#[test]
fn failed_quarantined_and_senseless_numbers_are_in_no_median() {
    let mut points: Vec<Point> = (1..=10).map(|index| at(index, 100.0)).collect();
    points.push(Point { failure: Some(FailureKind::Stalled), ..at(11, 9_000.0) });
    points.push(Point { quarantine: Some("prober".into()), ..at(12, 9_000.0) });
    points.extend([at(13, f32::NAN), at(14, 0.0), at(15, -4.0), at(16, f32::INFINITY)]);
    let summary = Summary::of(&points);
    assert_eq!(summary.median(Metric::OutputSpeed).n, 10);
    assert_eq!((summary.errors.hits, summary.errors.n, summary.quarantined), (1, 15, 1));
    assert_eq!(summary.median(Metric::Errors), Estimate::default());
}

#[test]
fn a_slot_counts_once_however_often_it_was_probed() {
    let burst = |index: i64, weight: f32| Point { weight, ..at(index, index as f32) };
    let points = [
        at(1, 1.0),
        burst(2, 0.25),
        burst(3, 0.25),
        burst(4, 0.25),
        burst(5, 0.25),
        burst(6, 0.5),
        burst(7, 0.5),
        at(8, 8.0),
    ];
    let counted: Vec<i64> = slots(&points).map(|point| point.at).collect();
    assert_eq!(counted, [1, 2, 6, 8]);
}

/// Further probes follow a slow one. With all of them the median would be too low; with one a slot its interval holds the truth.
#[test]
fn probes_after_a_suspicion_do_not_move_the_median() {
    let mut rng = Rng::root(3);
    let (rounds, mut held, mut below) = (1_000, 0, 0);
    for _ in 0..rounds {
        let mut points = Vec::new();
        for slot in 0..24 {
            // An hour that is slow as a whole.
            let level = if rng.chance(0.3) { 60.0 } else { 100.0 };
            let mut draw = |index: i64, weight: f32| {
                let speed = (level * (0.2 * rng.normal()).exp()) as f32;
                Point { weight, ..at(slot * 100 + index, speed) }
            };
            let count = if level < 80.0 { 8 } else { 1 };
            points.extend((0..count).map(|index| draw(index, 1.0 / count as f32)));
        }
        let estimate = Summary::of(&points).median(Metric::OutputSpeed);
        // The median of seven parts around 100 and three around 60, both log-normal: from a million draws.
        let truth = 89.8;
        held += u32::from(estimate.low <= Some(truth) && estimate.high >= Some(truth));
        below += u32::from(estimate.value < Some(truth));
    }
    assert!(held >= 940, "{held} of {rounds}");
    assert!((420..=620).contains(&below), "{below} of {rounds}");
}
