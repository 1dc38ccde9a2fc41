//! Statistics equal what was recorded; and what recording costs.

use super::lane::Operation;
use super::*;
use crate::sample::{NOON_UNIX_MS, failed, lost, row};
use proptest::prelude::*;
use std::hint::black_box;
use tokrate_core::FailureKind;
use tokrate_record::Sample;

#[test]
fn missing_embeddings_are_not_held_against_a_lane() {
    let stats = Stats::default();
    let asked = failed(1, "a", FailureKind::NotFound);
    stats.record(&Row { dialect_in: "embeddings".into(), ..asked.clone() });
    let failures = || -> u64 {
        let snapshot = stats.snapshot();
        let lane = snapshot.lane("a", "example", "model-1").expect("it was heard of");
        lane.minutes_since(0).map(|minute| minute.failed.total()).sum()
    };
    assert_eq!(failures(), 0);
    stats.record(&asked);
    stats.record(&Row { dialect_in: "embeddings".into(), ..failed(2, "a", FailureKind::ServerError) });
    assert_eq!(failures(), 2, "what is held against a lane is counted as before");
}

#[test]
fn attempts_of_one_call_stay_together_in_whatever_order_they_are_settled() {
    let stats = Stats::default();
    // A hedge that lost is settled before the winner, a drained one long after.
    stats.record(&lost(1, "b", 1));
    stats.record(&row(1, "a"));
    stats.record(&Row { attempt: 1, role: AttemptRole::Failover, ..row(2, "a") });
    stats.record(&failed(3, "a", FailureKind::Connect));
    stats.record(&lost(2, "b", 0));
    let calls = stats.snapshot().calls(10);
    let seen: Vec<(String, Vec<u32>, bool)> = calls
        .iter()
        .map(|trail| {
            let numbers = trail.attempts.iter().map(|attempt| attempt.number).collect();
            (trail.call.rsplit('-').next().unwrap_or_default().to_owned(), numbers, trail.winner().is_some())
        })
        .collect();
    assert_eq!(
        seen,
        [("2".to_owned(), vec![0, 1], true), ("3".to_owned(), vec![0], false), ("1".to_owned(), vec![0, 1], true)]
    );
}

#[test]
fn attempts_beside_the_needed_one_are_extra() {
    let stats = Stats::default();
    stats.record(&row(1, "a"));
    stats.record(&lost(2, "a", 0));
    stats.record(&Row { role: AttemptRole::Hedge, ..row(2, "b") });
    stats.record(&failed(3, "a", FailureKind::Connect));
    let snapshot = stats.snapshot();
    assert_eq!((snapshot.attempts, snapshot.extra_attempts), (4, 1));
    assert!((snapshot.extra_usd - 0.000_42).abs() < 1e-12);
    assert!((snapshot.cost_usd - 3.0 * 0.000_42).abs() < 1e-12);
}

#[test]
fn an_attempt_that_a_client_left_beside_another_one_is_extra() {
    let stats = Stats::default();
    let left = |attempt, role| Row { attempt, role, end: AttemptEnd::Abandoned, won: false, ..row(1, "a") };
    stats.record(&left(0, AttemptRole::First));
    stats.record_beside(&left(1, AttemptRole::Failover), true);
    let snapshot = stats.snapshot();
    assert_eq!((snapshot.attempts, snapshot.extra_attempts), (2, 1));
    assert_eq!(snapshot.lanes[0].minutes_since(0).map(|minute| minute.extra_attempts).sum::<u64>(), 1);
}

#[test]
fn an_attempt_belongs_to_the_minute_it_started_in() {
    let stats = Stats::default();
    for (started, ended) in [(0, 0), (2, 2), (1, 2), (2, 3), (-59, 3), (59, 59), (-2, 59)] {
        let started_unix_ms = NOON_UNIX_MS.wrapping_add_signed(started * 60_000);
        stats.record(&Row {
            sample: Sample {
                started_unix_ms,
                total_ns: (ended - started) as u64 * 60_000_000_000,
                ..row(1, "a").sample
            },
            ..row(1, "a")
        });
    }
    let snapshot = stats.snapshot();
    let noon = NOON_UNIX_MS / 60_000;
    let seen: Vec<(u64, u64)> =
        snapshot.lanes[0].minutes.since(0).map(|(number, minute)| (number - noon, minute.attempts)).collect();
    // 59 minutes later the 59 before are gone, and late rows for them are dropped.
    assert_eq!(seen, [(0, 1), (1, 1), (2, 2), (59, 1)]);
}

#[test]
fn an_old_minute_keeps_quantiles_and_still_counts_late_attempts() {
    let stats = Stats::default();
    let at = |started: u64, ended: u64, ttft_ns: u64| {
        let started_unix_ms = NOON_UNIX_MS + started * 60_000;
        let total_ns = (ended - started) * 60_000_000_000;
        Row {
            sample: Sample { started_unix_ms, total_ns, ttft_ns: Some(ttft_ns), ..row(1, "a").sample },
            ..row(1, "a")
        }
    };
    let last = OPEN_MINUTES - 1;
    [200, 300, 100].into_iter().for_each(|ttft| stats.record(&at(0, 0, ttft)));
    stats.record(&at(last, last, 500));
    stats.record(&at(0, last, 400));
    let first = |snapshot: &StatsSnapshot| {
        let minute = snapshot.lanes[0].minutes_since(0).next().expect("it was heard of").clone();
        (minute.attempts, minute.ttft.is_open(), minute.ttft.band().map(|band| (band.count, band.median)))
    };
    let before = first(&stats.snapshot());
    assert_eq!((before.0, before.1, before.2.map(|band| band.0)), (4, true, Some(4)), "it is still open");
    stats.record(&at(OPEN_MINUTES, OPEN_MINUTES, 500));
    stats.record(&at(0, OPEN_MINUTES, 9_000));
    assert_eq!(first(&stats.snapshot()), (5, false, before.2));
    assert_eq!(stats.snapshot().overhead_since(0).count(), 7);
}

#[test]
fn times_of_failed_and_cancelled_attempts_are_left_out() {
    let stats = Stats::default();
    stats.record(&row(1, "a"));
    stats.record(&Row {
        sample: Sample { ttft_ns: Some(1), ..failed(2, "a", FailureKind::Truncated).sample },
        ..failed(2, "a", FailureKind::Truncated)
    });
    stats.record(&lost(3, "a", 1));
    let snapshot = stats.snapshot();
    let chat = &snapshot.lanes[0].operations[&Operation::Chat];
    assert_eq!(chat.ttft.count(), 1);
    let durations: Vec<_> = chat.duration.iter().map(|(kind, times)| (*kind, times.count())).collect();
    assert_eq!(durations, [(None, 1), (Some(FailureKind::Truncated), 1)]);
}

#[test]
fn a_lane_with_another_model_is_another_lane() {
    let stats = Stats::default();
    stats.record(&row(1, "a"));
    stats.record(&Row { sample: Sample { model: "model-2".to_owned(), ..row(2, "a").sample }, ..row(2, "a") });
    let snapshot = stats.snapshot();
    assert_eq!(snapshot.lanes.len(), 2);
    assert_eq!(snapshot.lane("a", "example", "model-2").map(|lane| lane.count(|_| true)), Some(1));
    assert!(snapshot.lane("a", "example", "model-3").is_none());
}

/// How often the rows are recorded.
const ROUNDS: u64 = 100;

/// The rows of a call on a lane.
type RowsOf = fn(u64, &str) -> Vec<Row>;

/// Figures, not bars. `cargo nextest run --release -p tokrate-gateway --run-ignored only recording_a_row --no-capture`
#[test]
#[ignore = "prints figures, which only a quiet machine and an optimised build make true"]
#[allow(clippy::print_stdout)]
fn recording_a_row_costs_less_than_a_microsecond() {
    let clock = tokrate_net::Clock::monotonic();
    let lanes = ["anthropic-eu", "groq-1", "local", "openai-1", "together", "vertex"];
    let kinds: [(&str, RowsOf); 3] = [
        ("one attempt a call", |call, lane| vec![row(call, lane)]),
        ("two attempts a call", |call, lane| vec![lost(call, lane, 1), row(call, lane)]),
        ("all fail", |call, lane| vec![failed(call, lane, FailureKind::Connect)]),
    ];
    for (name, rows_of) in kinds {
        let stats = Stats::default();
        // Few enough to stay in the processor's cache, as a row that was just made does; more than are kept.
        let rows: Vec<Row> = (0..2_000u64)
            .flat_map(|call| {
                let mut rows = rows_of(call, lanes[call as usize % lanes.len()]);
                for row in &mut rows {
                    row.sample.ttft_ns = row.sample.ttft_ns.map(|ttft| ttft + call * 977 % 400_000_000);
                    row.sample.started_unix_ms += call / 20;
                }
                rows
            })
            .collect();
        let started_at = clock.now();
        for _ in 0..ROUNDS {
            rows.iter().for_each(|row| stats.record(black_box(row)));
        }
        let took = clock.now() - started_at;
        let started_at = clock.now();
        let snapshot = black_box(stats.snapshot());
        let copied = clock.now() - started_at;
        let each = took.as_nanos() / (ROUNDS * rows.len() as u64);
        println!("{name}: {each} ns a row; a copy of all takes {copied}");
        assert!(each < 1_000, "{name}: {each} ns");
        assert_eq!(snapshot.attempts, ROUNDS * rows.len() as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn the_size_is_bounded_for_any_rows(rows in prop::collection::vec((0u64..2_000, 0u32..40, 0usize..4, any::<bool>(), any::<u64>()), 0..600)) {
        let stats = Stats::default();
        for (call, number, end, won, at) in &rows {
            stats.record(&Row { attempt: *number, end: AttemptEnd::ALL[*end], won: *won, sample: Sample { started_unix_ms: *at, ..row(*call, "a").sample }, ..row(*call, "a") });
        }
        let snapshot = stats.snapshot();
        prop_assert_eq!(snapshot.attempts, rows.len() as u64);
        prop_assert_eq!(snapshot.lanes.iter().map(|lane| lane.count(|_| true)).sum::<u64>(), rows.len() as u64);
        prop_assert!(snapshot.lanes.iter().all(|lane| lane.minutes.since(0).count() <= 60));
        prop_assert!(snapshot.lanes.iter().all(|lane| lane.minutes.since(0).is_sorted_by(|a, b| a.0 < b.0)));
        let calls = snapshot.calls(usize::MAX);
        prop_assert!(calls.len() <= 100 + 256);
        prop_assert!(calls.iter().all(|trail| trail.attempts.len() <= 16));
    }
}
