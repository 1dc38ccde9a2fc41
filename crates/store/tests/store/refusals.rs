//! The table of refusals: what is added up, what a query finds, what grows too old.

use crate::clock;
use crate::folder::Folder;
use crate::rows::row;
use tokrate_core::{FailureKind, Span};
use tokrate_store::{Log, LogConfig, Query, Refusal, RefusalReason, Sqlite, Store};

/// The beginning of a minute.
const MINUTE: u64 = 1_800_000_000_000;

fn refusal(second: u64, key: Option<&str>) -> Refusal {
    let key = key.map(str::to_owned);
    Refusal { key, ..Refusal::new(MINUTE + second * 1_000, RefusalReason::TooManyRequests, 429) }
}

fn all(store: &Sqlite) -> Vec<Refusal> {
    store.refusals(&Query::default()).expect("readable")
}

#[test]
fn refusals_of_a_minute_that_are_alike_are_one_row_however_often_they_are_written() {
    let folder = Folder::new("refusals");
    let mut store = Sqlite::open(&folder.log()).expect("a new log");
    let more = Refusal { count: 5, last_unix_ms: MINUTE + 59_000, ..refusal(20, None) };
    for rows in [vec![refusal(30, None), refusal(30, Some("ada"))], vec![more], vec![refusal(60, None)]] {
        store.append_refusals(&rows).expect("room");
    }
    let added =
        Refusal { first_unix_ms: MINUTE + 20_000, last_unix_ms: MINUTE + 59_000, count: 6, ..refusal(20, None) };
    assert_eq!(all(&store), [added, refusal(30, Some("ada")), refusal(60, None)]);
    assert_eq!(store.damage().expect("readable"), None);
}

#[test]
fn a_query_finds_refusals_by_time_key_and_alias() {
    let folder = Folder::new("refusals-query");
    let mut store = Sqlite::open(&folder.log()).expect("a new log");
    let asked = Refusal { alias: Some("chat".to_owned()), ..refusal(200, Some("ada")) };
    store.append_refusals(&[refusal(0, None), refusal(90, Some("ada")), asked.clone()]).expect("room");
    let found = |query: &Query| store.refusals(query).expect("readable");
    let from = |ms| Query { from_unix_ms: Some(ms), ..Query::default() };
    let until = |ms| Query { until_unix_ms: Some(ms), ..Query::default() };
    assert_eq!(found(&from(MINUTE + 90_000)), [refusal(90, Some("ada")), asked.clone()]);
    assert_eq!(found(&from(MINUTE + 90_001)), std::slice::from_ref(&asked));
    assert_eq!(found(&until(MINUTE + 90_000)), [refusal(0, None)]);
    assert_eq!(found(&Query { key: Some("ada".to_owned()), ..Query::default() }).len(), 2);
    assert_eq!(found(&Query { alias: Some("chat".to_owned()), ..Query::default() }), [asked]);
}

#[test]
fn refused_requests_are_counted_by_reason_within_a_query_and_not_for_a_lane() {
    let folder = Folder::new("refusals-reasons");
    let mut store = Sqlite::open(&folder.log()).expect("a new log");
    let unknown = Refusal { count: 4, ..Refusal::new(MINUTE + 90_000, RefusalReason::Unauthorized, 401) };
    let other = Refusal { status: 404, reason: RefusalReason::NotFound, ..refusal(0, Some("ada")) };
    let rows = [refusal(0, None), refusal(90, Some("ada")), unknown, other];
    store.append_refusals(&rows).expect("room");
    let counted = |query: Query| store.refused_by_reason(&query).expect("readable").into_iter().collect::<Vec<_>>();
    assert_eq!(counted(Query::default()), [("not_found", 1), ("too_many_requests", 2), ("unauthorized", 4)]);
    let later = Query { from_unix_ms: Some(MINUTE + 60_000), ..Query::default() };
    assert_eq!(counted(later), [("too_many_requests", 1), ("unauthorized", 4)]);
    let ada = Query { key: Some("ada".to_owned()), ..Query::default() };
    assert_eq!(counted(ada), [("not_found", 1), ("too_many_requests", 1)]);
    assert_eq!(
        counted(Query { lane: Some("north".to_owned()), ..Query::default() }),
        [],
        "no lane has part in a refusal"
    );
    assert_eq!(counted(Query { failure: Some(FailureKind::Stalled), ..Query::default() }), []);
}

#[test]
fn refusals_grow_old_after_the_attempts_and_within_the_same_step() {
    let folder = Folder::new("refusals-old");
    let mut store = Sqlite::open(&folder.log()).expect("a new log");
    store.append(&[row(0), row(1)]).expect("room");
    store.append_refusals(&[refusal(0, None), refusal(60, None), refusal(7_200, None)]).expect("room");
    let before = MINUTE + 3_600_000;
    assert_eq!(store.prune(before, 3).expect("writable"), 3);
    assert_eq!(all(&store), [refusal(60, None), refusal(7_200, None)]);
    assert_eq!(store.prune(before, 3).expect("writable"), 1);
    assert_eq!((all(&store), store.prune(before, 3).expect("writable")), (vec![refusal(7_200, None)], 0));
}

#[test]
fn a_flush_covers_refusals_and_so_does_the_end() {
    let folder = Folder::new("refusals-flush");
    let log = Log::open(LogConfig::new(folder.log(), clock::machine())).expect("a new log");
    log.refuse(refusal(0, Some("ada")));
    assert!(log.flush(Span::from_secs(30)));
    assert_eq!(all(&log.reader().expect("a log")), [refusal(0, Some("ada"))]);
    log.refuse(refusal(1, Some("ada")));
    log.write(row(0));
    let counts = log.counts();
    assert_eq!((counts.lost, counts.lost_refusals), (0, 0));
    drop(log);
    let store = Sqlite::open_reader(&folder.log()).expect("a log");
    assert_eq!(all(&store), [Refusal { last_unix_ms: MINUTE + 1_000, count: 2, ..refusal(0, Some("ada")) }]);
}
