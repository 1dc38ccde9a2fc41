//! Ranks by simulation: how often identical endpoints are separated, and whether the true places are in the ranges.

use super::*;
use crate::data::Point;
use tokrate_core::{FailureKind, Rng};

const DAY_MS: i64 = 86_400_000;

/// 72 hours of eight probes a day at random times of their slots: log-normal around `median`, with a daily cycle.
fn summary(rng: &mut Rng, median: f64, spread: f64) -> Summary {
    let point = |index: i64| {
        let slot = DAY_MS / 8;
        let at = index * slot + (rng.unit() * slot as f64) as i64;
        let hour = (at % DAY_MS) as f64 / DAY_MS as f64 * std::f64::consts::TAU;
        let speed = median * (1.0 + 0.3 * hour.sin()) * (spread * rng.normal()).exp();
        Point { at, output_speed: Some(speed as f32), ..Point::default() }
    };
    Summary::of(&(0..24).map(point).collect::<Vec<Point>>())
}

fn ranges(summaries: &[Summary]) -> Vec<String> {
    let all: Vec<&Summary> = summaries.iter().collect();
    let shown = |ranks: Option<Ranks>| ranks.map_or_else(|| "-".to_owned(), |ranks| ranks.to_string());
    ranks(&all, Metric::OutputSpeed).into_iter().map(shown).collect()
}

/// Share of rounds in which any of `count` identical endpoints is given another place than the others.
fn separated(count: usize, rounds: u32, spread: f64) -> f64 {
    let mut rng = Rng::root(7).child("identical").nth(count as u64);
    let shared = format!("1–{count}");
    let is_separated = |_: &u32| {
        let all: Vec<Summary> = (0..count).map(|_| summary(&mut rng, 100.0, spread)).collect();
        ranges(&all).iter().any(|range| *range != shared)
    };
    f64::from((0..rounds).filter(is_separated).count() as u32) / f64::from(rounds)
}

/// Three standard deviations of a share of 5 % seen in so many rounds.
fn bound(rounds: u32) -> f64 {
    SIGNIFICANCE + 3.0 * (SIGNIFICANCE * (1.0 - SIGNIFICANCE) / f64::from(rounds)).sqrt()
}

#[test]
fn identical_endpoints_are_separated_in_at_most_one_window_of_twenty() {
    for spread in [0.1, 0.2, 0.4] {
        let share = separated(2, 1_500, spread);
        assert!(share <= bound(1_500), "two at spread {spread}: {share}");
    }
    let share = separated(6, 600, 0.2);
    assert!(share <= bound(600), "any of six: {share}");
}

#[test]
fn the_true_place_is_in_every_range_at_once() {
    let mut rng = Rng::root(11);
    let medians = [130.0, 120.0, 110.0, 100.0, 60.0];
    let rounds = 500;
    let mut wrong = 0;
    for _ in 0..rounds {
        let all: Vec<Summary> = medians.iter().map(|median| summary(&mut rng, *median, 0.15)).collect();
        let all: Vec<&Summary> = all.iter().collect();
        let ranks = ranks(&all, Metric::OutputSpeed);
        let holds = |(index, ranks): (usize, &Option<Ranks>)| {
            ranks.is_some_and(|ranks| (ranks.best..=ranks.worst).contains(&(index as u32 + 1)))
        };
        wrong += u32::from(!ranks.iter().enumerate().all(holds));
    }
    assert!(f64::from(wrong) / f64::from(rounds) <= bound(rounds), "{wrong} of {rounds}");
}

#[test]
fn a_large_difference_is_found_in_nearly_every_window() {
    let mut rng = Rng::root(13);
    let found = (0..200).filter(|_| {
        let all = [summary(&mut rng, 100.0, 0.15), summary(&mut rng, 160.0, 0.15)];
        ranges(&all) == ["2", "1"]
    });
    assert!(found.count() >= 190);
}

#[test]
fn the_same_samples_share_a_place_and_too_few_have_none() {
    let mut rng = Rng::root(17);
    let one = summary(&mut rng, 100.0, 0.2);
    let few = Summary::of(&[Point { output_speed: Some(900.0), ..Point::default() }]);
    assert_eq!(ranges(&[one.clone(), few, one]), ["1–2", "-", "1–2"]);
    assert!(ranges(&[]).is_empty());
}

#[test]
fn shares_of_failures_are_ranked_by_counts() {
    let of = |failed: usize, n: usize| {
        let point = |index| Point { failure: (index < failed).then_some(FailureKind::Overloaded), ..Point::default() };
        Summary::of(&(0..n).map(point).collect::<Vec<Point>>())
    };
    let all = [of(0, 200), of(1, 200), of(60, 200), of(0, 3)];
    let all: Vec<&Summary> = all.iter().collect();
    let shown: Vec<Option<String>> =
        ranks(&all, Metric::Errors).into_iter().map(|ranks| Some(ranks?.to_string())).collect();
    assert_eq!(shown.iter().map(Option::as_deref).collect::<Vec<_>>(), [Some("1–2"), Some("1–2"), Some("3"), None]);
}
