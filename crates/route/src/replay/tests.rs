//! Tests of the replay: known lanes, calls that are not covered, and that the future is not seen.

use super::percentile::quantile_of_sorted;
use super::*;
use tokrate_core::{Price, Rng};

mod exact;

fn at(seconds: f64) -> Tick {
    Tick::ZERO + Span::from_secs_f64(seconds)
}

fn lanes(count: usize) -> Vec<LaneConfig> {
    let lane = |number: usize| LaneConfig {
        price: Price::from_usd_per_million(1.0 + number as f64, 10.0),
        max_in_flight: None,
    };
    (0..count).map(lane).collect()
}

/// One call a second, to the lanes in turn: each with its time to first token (log-normal) and 100 tokens at its speed.
fn log(calls: u64, lanes: &[(f64, f64, f64)]) -> Vec<LoggedAttempt> {
    let mut rng = Rng::root(4);
    let row = |call: u64| {
        let lane = (call % lanes.len() as u64) as usize;
        let (mean, variation, speed) = lanes[lane];
        let ttft = mean * rng.log_normal(variation);
        LoggedAttempt {
            call,
            lane: LaneId(lane as u32),
            started: at(call as f64),
            stream: true,
            ttft: Some(Span::from_secs_f64(ttft)),
            total: Span::from_secs_f64(ttft + 100.0 / speed),
            prompt_tokens: 1_000,
            output_tokens: 100,
            output_speed: Some(speed),
            usd: Some((1_000.0 * (1.0 + lane as f64) + 1_000.0) / 1e6),
            failure: None,
            won: true,
        }
    };
    (0..calls).map(row).collect()
}

fn run(rows: &[LoggedAttempt], count: usize, alternative: Alternative) -> Report {
    replay(rows, &lanes(count), &alternative, &ReplayConfig::default(), 1)
}

#[test]
fn replaying_the_logged_choices_gives_the_measured_figures() {
    let rows = log(600, &[(0.5, 0.2, 50.0)]);
    let report = run(&rows, 1, Alternative::Single(Policy::Fixed));
    assert_eq!((report.calls, report.covered, report.same_choice), (600, 600, 600));
    assert!((report.estimated.completion / report.measured.completion - 1.0).abs() < 0.01, "{report:?}");
    assert!((report.estimated.ttft / report.measured.ttft - 1.0).abs() < 0.02, "{report:?}");
    let (actual, would) = (report.measured.usd.expect("priced"), report.estimated.usd.expect("priced"));
    assert!((actual - would).abs() < 1e-12 && (actual - 0.002).abs() < 1e-12);
}

#[test]
fn a_faster_lane_is_found_and_the_saving_has_an_error() {
    let rows = log(800, &[(0.5, 0.3, 25.0), (0.5, 0.3, 100.0)]);
    let report = run(&rows, 2, Alternative::Single(Policy::OwnCompletion));
    // Half the calls took 4.5 s and the others 1.5 s; all of them would have taken 1.5 s, less the first few.
    assert!(report.coverage() > 0.98, "{report:?}");
    assert!(
        (report.measured.completion - 3.0).abs() < 0.05 && (report.estimated.completion - 1.5).abs() < 0.1,
        "{report:?}"
    );
    let saved = report.measured.completion - report.estimated.completion;
    assert!(report.completion_error > 0.0 && saved > 10.0 * report.completion_error);
    assert!((380..=410).contains(&report.same_choice), "{}", report.same_choice);
}

#[test]
fn a_race_has_the_minimum_of_two_times_and_pays_both_prompts() {
    let rows = log(1_000, &[(1.0, 1.0, 50.0), (1.0, 1.0, 50.0)]);
    let race = run(&rows, 2, Alternative::Race { policy: Policy::Fixed, lanes: 2 });
    // The mean of the lesser of two log-normal draws of mean 1 and variation 1, by numerical integration: 0.556.
    assert!((race.estimated.ttft - 0.556).abs() < 0.05, "{race:?}");
    assert!((race.estimated.usd.expect("priced") - (1_000.0 + 2_000.0 + 1_000.0) / 1e6).abs() < 1e-9);
    assert_eq!((race.estimated.attempts, race.same_choice), (2.0, 0));
    let hedge = run(&rows, 2, Alternative::Hedge { policy: Policy::Fixed });
    let alone = run(&rows, 2, Alternative::Single(Policy::Fixed));
    assert!((hedge.estimated.attempts - 1.1).abs() < 0.01, "{hedge:?}");
    assert!(hedge.estimated.ttft < alone.estimated.ttft && hedge.estimated.ttft > race.estimated.ttft);
    let (hedged, single) = (hedge.estimated.usd.expect("priced"), alone.estimated.usd.expect("priced"));
    assert!(hedged > single && hedged < single + 0.1 * 0.003, "{hedged} and {single}");
}

#[test]
fn a_lane_that_was_not_measured_near_the_time_is_not_covered() {
    let mut rows = log(600, &[(0.5, 0.2, 50.0), (0.5, 0.2, 500.0)]);
    // The second lane was used only in the first hundred seconds.
    rows.retain(|row| row.lane.0 == 0 || row.started < at(100.0));
    let config = ReplayConfig { window: Span::from_secs(60), ..ReplayConfig::default() };
    let report = replay(&rows, &lanes(2), &Alternative::Single(Policy::OwnCompletion), &config, 1);
    assert!(report.covered < report.calls && report.covered > 90, "{report:?}");
    assert_eq!(replay(&[], &lanes(1), &Alternative::Single(Policy::Fixed), &config, 1), Report::default());
}

#[test]
fn a_choice_does_not_see_what_came_after_it() {
    let rows = log(400, &[(0.5, 0.3, 25.0), (0.5, 0.3, 100.0)]);
    let mut longer = rows.clone();
    // Another future, so late that no neighbour of the first calls is in it.
    longer.extend(log(2_000, &[(9.0, 0.3, 400.0), (9.0, 0.3, 1.0)]).into_iter().map(|row| LoggedAttempt {
        call: row.call + 10_000,
        started: row.started + Span::from_secs(10_000),
        ..row
    }));
    let first = run(&rows, 2, Alternative::Single(Policy::OwnCompletion));
    let both = run(&longer, 2, Alternative::Single(Policy::OwnCompletion));
    let late = both.covered - first.covered;
    let late_as_done = both.same_choice - first.same_choice;
    assert!(late > 1_900 && late_as_done > 0);
    assert!(first.same_choice > 150, "{first:?}");
}

#[test]
fn without_a_price_the_cost_is_unknown_and_not_zero() {
    let rows = log(100, &[(0.5, 0.2, 50.0)]);
    let report =
        replay(&rows, &[LaneConfig::default()], &Alternative::Single(Policy::Fixed), &ReplayConfig::default(), 1);
    assert!(report.estimated.usd.is_none() && report.measured.usd.is_some() && report.covered == 100);
}

/// Two lanes in turns, answers of 50 to 150 tokens; the time to the first token and the time per token vary by attempt.
fn known(rng: &mut Rng, calls: u64) -> Vec<LoggedAttempt> {
    let row = |call: u64| {
        let lane = call % 2;
        let (ttft, completion, tokens) = drawn(rng, lane);
        LoggedAttempt {
            call,
            lane: LaneId(lane as u32),
            started: at(call as f64 * 5.0),
            stream: true,
            ttft: Some(Span::from_secs_f64(ttft)),
            total: Span::from_secs_f64(completion),
            prompt_tokens: 1_000,
            output_tokens: tokens,
            output_speed: Some(tokens as f64 / (completion - ttft)),
            usd: Some(0.001 * tokens as f64),
            failure: None,
            won: true,
        }
    };
    (0..calls).map(row).collect()
}

fn drawn(rng: &mut Rng, lane: u64) -> (f64, f64, u64) {
    let tokens = 50 + rng.below(101);
    let ttft = 0.5 * rng.log_normal(0.8);
    let tpot = [0.02, 0.01][lane as usize] * rng.log_normal(0.3);
    (ttft, ttft + tokens as f64 * tpot, tokens)
}

/// What truly comes of a way to ask: times to the first token and to the end, sorted, of many calls.
fn truth(alternative: &Alternative, late: f64) -> [Vec<f64>; 2] {
    let mut rng = Rng::root(99);
    let call = |_| {
        let (first, second) = (drawn(&mut rng, 0), drawn(&mut rng, 1));
        let answer = |(ttft, completion, tokens): (f64, f64, u64), after: f64, own: u64| {
            (after + ttft, after + ttft + own as f64 * (completion - ttft) / tokens as f64)
        };
        let (alone, other) = (answer(first, 0.0, first.2), answer(second, 0.0, first.2));
        let hedge = answer(second, late, first.2);
        match alternative {
            Alternative::Single(_) => alone,
            Alternative::Race { .. } if other.0 < alone.0 => other,
            Alternative::Hedge { .. } if alone.0 > late && hedge.0 < alone.0 => hedge,
            _ => alone,
        }
    };
    let (mut ttfts, mut completions): (Vec<f64>, Vec<f64>) = (0..200_000).map(call).unzip();
    ttfts.sort_by(f64::total_cmp);
    completions.sort_by(f64::total_cmp);
    [ttfts, completions]
}

/// How many of `logs` random logs have the true value inside the interval of the replay: the three percentiles of both
/// times, then the difference of the means.
fn held(alternative: &Alternative, logs: u64, calls: u64) -> [[u64; 4]; 2] {
    let alone = truth(&Alternative::Single(Policy::Fixed), 0.0);
    let truth = truth(alternative, quantile_of_sorted(&alone[0], 0.9));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    // Half the calls were on either lane; the second one writes twice as fast.
    let actual = [mean(&alone[0]), (mean(&alone[1]) + mean(&alone[0]) + 100.0 * 0.01) / 2.0];
    let mut held = [[0; 4]; 2];
    for seed in 0..logs {
        let report = run(&known(&mut Rng::root(seed), calls), 2, *alternative);
        let means = [
            (report.estimated.ttft - report.measured.ttft, report.ttft_error),
            (report.estimated.completion - report.measured.completion, report.completion_error),
        ];
        for (time, percentiles) in [report.ttft, report.completion].iter().enumerate() {
            for (place, found) in percentiles.iter().enumerate() {
                let value = quantile_of_sorted(&truth[time], found.level);
                held[time][place] += u64::from((found.low..=found.high).contains(&value));
            }
            let (difference, error) = means[time];
            held[time][3] += u64::from((difference - (mean(&truth[time]) - actual[time])).abs() <= 1.96 * error);
        }
    }
    held
}

const WAYS: [Alternative; 3] = [
    Alternative::Single(Policy::Fixed),
    Alternative::Race { policy: Policy::Fixed, lanes: 2 },
    Alternative::Hedge { policy: Policy::Fixed },
];

#[test]
fn intervals_have_their_nominal_coverage() {
    for alternative in WAYS {
        let held = held(&alternative, 100, 400);
        for [p50, p90, _, mean] in held {
            for held in [p50, p90, mean] {
                assert!((85..=100).contains(&held), "{alternative:?}: {held} of 100 logs");
            }
        }
    }
}

/// Of few attempts the interval of the 99th percentile is too narrow. So it is of a hedge: when that begins is itself uncertain.
#[test]
fn the_interval_of_a_high_percentile_covers_with_enough_calls() {
    for alternative in &WAYS[..2] {
        for [_, _, p99, _] in held(alternative, 20, 1_600) {
            assert!(p99 >= 17, "{alternative:?}: {p99} of 20 logs");
        }
    }
}
