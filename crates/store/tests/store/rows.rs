//! Rows to write: plain ones, and any at all.
//!
//! Invariant: the property draws every column from all that a row can hold.

use crate::folder::Folder;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rusqlite::Connection;
use std::cell::RefCell;
use tokrate_core::{FailureKind, FinishReason};
use tokrate_record::{Attempt, AttemptEnd, AttemptRole, CostBasis};
use tokrate_store::{Order, Query, Sqlite, Store};

/// The `n`-th of many plain rows, begun `n` seconds after the first.
pub fn row(n: u64) -> Attempt {
    Attempt {
        call: format!("call-{n}"),
        won: true,
        started_unix_ms: 1_800_000_000_000 + n * 1_000,
        alias: "chat".to_owned(),
        lane: "north".to_owned(),
        provider: "north".to_owned(),
        model: "large".to_owned(),
        dialect_in: "openai-chat".to_owned(),
        dialect_out: "openai-chat".to_owned(),
        stream: true,
        in_flight: 1,
        version: "0.1.0".to_owned(),
        status: Some(200),
        finish: Some(FinishReason::Stop),
        ttft_ns: Some(100_000_000 + n * 1_000_000),
        total_ns: 2_000_000_000,
        output_speed: Some(50.0),
        gaps: [20_000_000, 21_000_000].into_iter().collect(),
        output_tokens_std: 100,
        cost_usd: Some(0.001),
        cost_basis: CostBasis::Reported,
        ..Attempt::default()
    }
}

/// Writes rows into a new log.
pub fn filled(folder: &Folder, rows: &[Attempt]) -> Sqlite {
    let mut store = Sqlite::open(&folder.log()).expect("a new log");
    store.append(rows).expect("room");
    store
}

fn count() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..10_000_u64, 0..=i64::MAX as u64]
}

fn number() -> impl Strategy<Value = Option<f64>> {
    proptest::option::of(prop_oneof![Just(0.0), proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL])
}

prop_compose! {
    fn names()(
        call in ".{0,20}", key in proptest::option::of(".{0,8}"), alias in ".{0,8}", lane in ".{0,8}", provider in ".{0,8}",
        model in ".{0,8}", model_answered in proptest::option::of(".{0,8}"), dialect_in in "[a-z]{0,8}",
        dialect_out in "[a-z]{0,8}", version in "[0-9.]{0,8}",
        role in proptest::sample::select(AttemptRole::ALL.to_vec()), end in proptest::sample::select(AttemptEnd::ALL.to_vec()),
    ) -> Attempt {
        Attempt {
            call, key, alias, lane, provider, model, model_answered, dialect_in, dialect_out, version, role, end,
            ..Attempt::default()
        }
    }
}

prop_compose! {
    fn counts()(
        whole in proptest::collection::vec(count(), 6), maybe in proptest::collection::vec(proptest::option::of(count()), 13),
        truths in proptest::array::uniform3(any::<bool>()), small in proptest::array::uniform2(any::<u32>()),
        limit in proptest::option::of(any::<u32>()), status in proptest::option::of(any::<u16>()),
        gaps in proptest::collection::vec(any::<u64>(), 0..40), output_speed in number(), cost_usd in number(),
        finish in proptest::option::of(proptest::sample::select(vec![FinishReason::Stop, FinishReason::Other])),
        failure in proptest::option::of(proptest::sample::select(FailureKind::ALL.to_vec())),
        cost_basis in proptest::sample::select(CostBasis::ALL.to_vec()),
    ) -> Attempt {
        Attempt {
            attempt: small[0], in_flight: small[1], output_limit: limit, status, finish, failure,
            won: truths[0], stream: truths[1], connection_new: truths[2],
            started_unix_ms: whole[0], request_bytes: whole[1], total_ns: whole[2], text_events: whole[3], chunks: whole[4],
            output_tokens_std: whole[5],
            wait_ns: maybe[0], ttfb_ns: maybe[1], ttft_ns: maybe[2], overhead_ns: maybe[3], gap_p50_ns: maybe[4],
            gap_p99_ns: maybe[5], gap_max_ns: maybe[6], input_tokens_std: maybe[7], input_tokens: maybe[8],
            output_tokens: maybe[9], reasoning_tokens: maybe[10], cached_tokens: maybe[11], cache_write_tokens: maybe[12],
            gaps: gaps.into_iter().collect(), output_speed, cost_usd, cost_basis,
            ..Attempt::default()
        }
    }
}

fn any_row() -> impl Strategy<Value = Attempt> {
    (names(), counts()).prop_map(|(names, counts)| Attempt {
        call: names.call,
        key: names.key,
        alias: names.alias,
        lane: names.lane,
        provider: names.provider,
        model: names.model,
        model_answered: names.model_answered,
        dialect_in: names.dialect_in,
        dialect_out: names.dialect_out,
        version: names.version,
        role: names.role,
        end: names.end,
        ..counts
    })
}

#[test]
fn what_is_appended_is_what_is_read() {
    let folder = Folder::new("appended");
    let store = RefCell::new(filled(&folder, &[]));
    let reader = Sqlite::open_reader(&folder.log()).expect("a log");
    // One file for all cases: making one takes longer than everything else.
    let emptier = Connection::open(folder.log()).expect("a log");
    let rows = proptest::collection::vec(any_row(), 0..12);
    let outcome = TestRunner::new(ProptestConfig::with_cases(256)).run(&rows, |rows| {
        emptier.execute("DELETE FROM attempts", []).expect("writable");
        store.borrow_mut().append(&rows).expect("room");
        let mut oldest = rows;
        oldest.sort_by_key(|row| row.started_unix_ms);
        prop_assert_eq!(&store.borrow().attempts(&Query::default()).expect("readable"), &oldest);
        let newest = Query { order: Order::Newest, limit: Some(3), ..Query::default() };
        let starts = |rows: &[Attempt]| rows.iter().map(|row| row.started_unix_ms).collect::<Vec<_>>();
        let mut expected = starts(&oldest);
        expected.reverse();
        expected.truncate(3);
        prop_assert_eq!(starts(&reader.attempts(&newest).expect("readable")), expected);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn what_sqlite_cannot_hold_is_kept_as_the_most_or_as_absent() {
    let folder = Folder::new("extremes");
    let extreme = Attempt {
        total_ns: u64::MAX,
        ttft_ns: Some(u64::MAX),
        output_speed: Some(f64::NAN),
        cost_usd: Some(f64::INFINITY),
        ..row(0)
    };
    let store = filled(&folder, &[extreme]);
    let read = store.attempts(&Query::default()).expect("readable").remove(0);
    assert_eq!((read.total_ns, read.ttft_ns), (i64::MAX as u64, Some(i64::MAX as u64)));
    assert_eq!((read.output_speed, read.cost_usd), (None, None));
}
