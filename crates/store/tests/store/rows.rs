//! Rows to write: plain ones, and any at all.
//!
//! Invariant: the property draws every column from all that a row can hold.

use crate::folder::Folder;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rusqlite::Connection;
use std::cell::RefCell;
use tokrate_core::{FailureKind, FinishReason};
use tokrate_record::{Attempt, AttemptEnd, AttemptRole, CostBasis, Sample, SampleConditions};
use tokrate_store::{Order, Query, Sqlite, Store};

/// The `n`-th of many plain rows, begun `n` seconds after the first.
pub fn row(n: u64) -> Attempt {
    Attempt {
        call: format!("call-{n}"),
        won: true,
        alias: "chat".to_owned(),
        lane: "north".to_owned(),
        dialect_in: "openai-chat".into(),
        sample: Sample {
            started_unix_ms: 1_800_000_000_000 + n * 1_000,
            provider: "north".to_owned(),
            model: "large".to_owned(),
            dialect: "openai-chat".into(),
            stream: true,
            in_flight: 1,
            status: Some(200),
            finish: Some(FinishReason::Stop),
            ttft_ns: Some(100_000_000 + n * 1_000_000),
            total_ns: 2_000_000_000,
            output_speed: Some(50.0),
            gaps: [20_000_000, 21_000_000].into_iter().collect(),
            output_tokens_std: 100,
            cost_usd: Some(0.001),
            cost_basis: CostBasis::Reported,
            conditions: SampleConditions { version: "0.1.0".to_owned(), ..SampleConditions::default() }.into(),
            ..Sample::default()
        },
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

fn text() -> impl Strategy<Value = String> {
    ".{0,8}"
}

fn maybe<S: Strategy>(strategy: S) -> impl Strategy<Value = Option<S::Value>> {
    proptest::option::of(strategy)
}

prop_compose! {
    fn conditions()(
        region in maybe(text()), host in maybe(text()), tokenizer in maybe(text()), fingerprint in maybe(text()),
        version in "[0-9.]{0,8}",
    ) -> SampleConditions {
        SampleConditions { region, host, tokenizer, fingerprint, version }
    }
}

prop_compose! {
    /// The names of a call and of its request.
    fn names()(
        call in ".{0,20}", key in maybe(text()), alias in text(), lane in text(), dialect_in in "[a-z]{0,8}",
        role in proptest::sample::select(AttemptRole::ALL.to_vec()), end in proptest::sample::select(AttemptEnd::ALL.to_vec()),
        provider in text(), model in text(), model_answered in maybe(text()), dialect in "[a-z]{0,8}",
        reasons in proptest::array::uniform2(maybe(text())),
    ) -> Attempt {
        let [ttft_missing, output_speed_missing] = reasons.map(|reason| reason.map(Into::into));
        let dialect = dialect.into();
        let sample = Sample { provider, model, model_answered, dialect, ttft_missing, output_speed_missing, ..Sample::default() };
        Attempt { call, key, alias, lane, dialect_in: dialect_in.into(), role, end, sample, ..Attempt::default() }
    }
}

prop_compose! {
    /// Any row at all.
    pub fn any_row()(
        names in names(), conditions in conditions(),
        whole in proptest::collection::vec(count(), 6), maybe in proptest::collection::vec(maybe(count()), 19),
        truths in proptest::array::uniform3(any::<bool>()), small in proptest::array::uniform2(any::<u32>()), responses in maybe(any::<u32>()),
        limit in maybe(any::<u32>()), status in maybe(any::<u16>()),
        gaps in proptest::collection::vec(any::<u64>(), 0..40), numbers in (number(), number()),
        finish in maybe(proptest::sample::select(vec![FinishReason::Stop, FinishReason::Other])),
        failure in maybe(proptest::sample::select(FailureKind::ALL.to_vec())),
        cost_basis in proptest::sample::select(CostBasis::ALL.to_vec()),
    ) -> Attempt {
        let (output_speed, cost_usd) = numbers;
        let sample = Sample {
            in_flight: small[1], output_limit: limit, status, finish, failure, stream: truths[1], connection_new: truths[2],
            started_unix_ms: whole[0], request_bytes: Some(whole[1]).filter(|bytes| *bytes > 0), total_ns: whole[2], text_events: whole[3], chunks: whole[4],
            output_tokens_std: whole[5], wait_ns: maybe[0], ttfb_ns: maybe[1], ttft_ns: maybe[2], ttfat_ns: maybe[13],
            dns_ns: maybe[14], connect_ns: maybe[15], tls_ns: maybe[16], gap_p50_ns: maybe[4], gap_p99_ns: maybe[5],
            gap_max_ns: maybe[6], input_tokens_std: maybe[7], input_tokens: maybe[8], output_tokens: maybe[9],
            reasoning_tokens: maybe[10], cached_tokens: maybe[11], cache_write_tokens: maybe[12],
            gaps: gaps.into_iter().collect(), output_speed, cost_usd, cost_basis, conditions: conditions.into(),
            ..names.sample
        };
        Attempt { attempt: small[0], won: truths[0], overhead_ns: maybe[3], responses, response_bytes: maybe[17], hold_ns: maybe[16], expected_cached_tokens: maybe[18], sample, ..names }
    }
}

/// A row with numbers that can be added up, and times of these decades.
pub fn moderate(mut row: Attempt) -> Attempt {
    let sample = &mut row.sample;
    sample.started_unix_ms = 1_700_000_000_000 + sample.started_unix_ms % 100_000_000_000;
    for count in
        [&mut sample.input_tokens, &mut sample.input_tokens_std, &mut sample.output_tokens, &mut sample.cached_tokens]
    {
        *count = count.map(|count| count % 1_000_000);
    }
    row.expected_cached_tokens = row.expected_cached_tokens.map(|count| count % 1_000_000);
    sample.output_tokens_std %= 1_000_000;
    // Sums are the same in any order.
    sample.cost_usd = sample.cost_usd.map(|cost| (cost % 1_024.0).trunc() / 64.0);
    row
}

#[test]
fn what_is_appended_is_what_is_read() {
    let folder = Folder::new("appended");
    let store = RefCell::new(filled(&folder, &[]));
    let reader = Sqlite::open_reader(&folder.log()).expect("a log");
    // One file for all cases: making one takes longer than everything else.
    let emptier = Connection::open(folder.log()).expect("a log");
    let rows = proptest::collection::vec(any_row(), 0..20);
    let outcome = TestRunner::new(ProptestConfig::with_cases(256)).run(&rows, |rows| {
        emptier.execute("DELETE FROM attempts", []).expect("writable");
        store.borrow_mut().append(&rows).expect("room");
        let mut oldest = rows;
        oldest.sort_by_key(|row| row.sample.started_unix_ms);
        prop_assert_eq!(&store.borrow().attempts(&Query::default()).expect("readable"), &oldest);
        let newest = Query { order: Order::Newest, limit: Some(3), ..Query::default() };
        let starts = |rows: &[Attempt]| rows.iter().map(|row| row.sample.started_unix_ms).collect::<Vec<_>>();
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
        sample: Sample {
            total_ns: u64::MAX,
            ttft_ns: Some(u64::MAX),
            output_speed: Some(f64::NAN),
            cost_usd: Some(f64::INFINITY),
            ..row(0).sample
        },
        ..row(0)
    };
    let store = filled(&folder, &[extreme]);
    let read = store.attempts(&Query::default()).expect("readable").remove(0);
    assert_eq!((read.sample.total_ns, read.sample.ttft_ns), (i64::MAX as u64, Some(i64::MAX as u64)));
    assert_eq!((read.sample.output_speed, read.sample.cost_usd), (None, None));
}
