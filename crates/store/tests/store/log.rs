//! The writer thread: what reaches the file, and what happens when the file cannot be written.
//!
//! Invariant: every row passed in is written, lost and counted, or still waiting.

use crate::clock;
use crate::folder::Folder;
use crate::rows::row;
use rusqlite::Connection;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokrate_core::Span;
use tokrate_record::Attempt;
use tokrate_store::{Log, LogConfig, Query, Sqlite, Store, StoreError};

/// Longer than anything here takes; a test that waits so long has failed.
const LONG: Span = Span::from_secs(30);

fn config(folder: &Folder) -> LogConfig {
    LogConfig {
        retry_every: Span::from_millis(5),
        batch_every: Span::from_millis(5),
        ..LogConfig::new(folder.log(), clock::machine())
    }
}

fn calls(folder: &Folder) -> Vec<String> {
    let store = Sqlite::open_reader(&folder.log()).expect("a log");
    store.attempts(&Query::default()).expect("readable").into_iter().map(|row| row.call).collect()
}

/// Waits until something holds, which another thread brings about.
fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LONG.as_duration(), "never: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn rows_of_several_threads_are_written_once_each() {
    let folder = Folder::new("threads");
    let log = Log::open(config(&folder)).expect("a new log");
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let log = log.clone();
            scope.spawn(move || (0..500).for_each(|n| log.write(row(thread * 500 + n))));
        }
    });
    assert!(log.flush(LONG));
    let counts = log.counts();
    assert_eq!((counts.written, counts.lost, counts.waiting), (2_000, 0, 0));
    let rows = log.reader().expect("a log").attempts(&Query::default()).expect("readable");
    assert_eq!(rows, (0..2_000).map(row).collect::<Vec<Attempt>>());
    assert_eq!((log.failure(), log.is_healthy()), (None, true));
}

#[test]
fn the_end_of_the_last_handle_writes_what_waits() {
    let folder = Folder::new("close_timeout");
    let log = Log::open(LogConfig { batch_every: LONG, ..config(&folder) }).expect("a new log");
    let other = log.clone();
    (0..700).for_each(|n| log.write(row(n)));
    drop(log);
    other.write(row(700));
    drop(other);
    assert_eq!(calls(&folder).len(), 701);
}

#[test]
fn rows_whose_batch_is_far_from_due_are_written_at_the_end() {
    let folder = Folder::new("far-from-due");
    let log = Log::open(LogConfig { batch_every: LONG, batch_rows: 1_000, ..config(&folder) }).expect("a new log");
    (0..9).for_each(|n| log.write(row(n)));
    drop(log);
    assert_eq!(calls(&folder).len(), 9);
}

#[test]
fn a_full_batch_does_not_wait_for_its_time() {
    let folder = Folder::new("full-batch");
    let log = Log::open(LogConfig { batch_every: LONG, batch_rows: 50, ..config(&folder) }).expect("a new log");
    (0..50).for_each(|n| log.write(row(n)));
    until("the batch is written", || log.counts().written == 50);
}

#[test]
fn a_locked_database_blocks_nobody_and_loses_nothing_that_fits() {
    let folder = Folder::new("locked");
    let log = Log::open(config(&folder)).expect("a new log");
    let other = Connection::open(folder.log()).expect("a log");
    other.execute_batch("BEGIN EXCLUSIVE").expect("free");
    let begun = Instant::now();
    (0..1_000).for_each(|n| log.write(row(n)));
    assert!(begun.elapsed() < Duration::from_millis(500), "no write waited for the lock");
    until("the lock is noticed", || !log.is_healthy());
    assert!(!log.flush(Span::from_millis(1)));
    let failure = log.take_failure().expect("it is new");
    assert!(failure.contains("another process has locked it"), "{failure}");
    assert_eq!(log.take_failure(), None, "it is reported once");
    assert_eq!(log.failure(), Some(failure), "and kept");
    assert_eq!(log.reader().expect("readers go on").attempts(&Query::default()).expect("readable"), []);
    other.execute_batch("ROLLBACK").expect("locked by it");
    assert!(log.flush(LONG));
    assert_eq!((log.counts().written, log.lost(), log.is_healthy()), (1_000, 0, true));
    assert_eq!(calls(&folder).len(), 1_000);
}

#[test]
fn what_does_not_fit_while_the_database_is_locked_is_counted() {
    let folder = Folder::new("overflow");
    let small = LogConfig { queue_rows: 20, max_held_rows: 30, batch_rows: 10, ..config(&folder) };
    let log = Log::open(small).expect("a new log");
    let other = Connection::open(folder.log()).expect("a log");
    other.execute_batch("BEGIN EXCLUSIVE").expect("free");
    (0..500).for_each(|n| log.write(row(n)));
    let counts = log.counts();
    assert_eq!((counts.waiting + counts.lost, counts.written), (500, 0));
    assert!(counts.waiting <= 50, "{} rows wait in room for 50", counts.waiting);
    other.execute_batch("ROLLBACK").expect("locked by it");
    assert!(log.flush(LONG));
    let counts = log.counts();
    assert_eq!((counts.written + counts.lost, counts.waiting), (500, 0));
    assert_eq!(calls(&folder).len() as u64, counts.written);
    until("the loss is published", || log.failure().is_some_and(|failure| failure.contains("were lost")));
}

#[test]
fn a_log_that_is_locked_when_it_is_opened_begins_when_it_is_free() {
    let folder = Folder::new("locked-at-first");
    drop(Sqlite::open(&folder.log()).expect("a new log"));
    let other = Connection::open(folder.log()).expect("a log");
    // A lock that even readers feel.
    other
        .execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; DELETE FROM attempts; COMMIT")
        .expect("free");
    let log = Log::open(config(&folder)).expect("it waits in the background");
    assert!(!log.is_healthy());
    log.write(row(0));
    drop(other);
    assert!(log.flush(LONG));
    assert_eq!(calls(&folder), ["call-0"]);
}

#[test]
fn a_full_disk_costs_rows_and_nothing_else_until_there_is_room() {
    let folder = Folder::new("full");
    let wall = Arc::new(AtomicU64::new(row(0).sample.started_unix_ms));
    let hands = Arc::clone(&wall);
    let small = LogConfig {
        max_bytes: Some(200_000),
        queue_rows: 100,
        max_held_rows: 100,
        retention: Some(Span::from_secs(60)),
        clock: clock::with_wall(move || hands.load(Ordering::Relaxed)),
        // The clock of this test jumps by hours, and is right.
        clock_settle_time: Span::ZERO,
        ..config(&folder)
    };
    let log = Log::open(small.clone()).expect("a new log");
    for n in 0..3_000 {
        log.write(row(n));
        // Far slower than the writer, so that rows are lost to the full file and not to a short queue.
        if n % 50 == 0 {
            log.flush(Span::from_millis(20));
        }
    }
    until("the file is full", || !log.is_healthy());
    let failure = log.failure().expect("it is published");
    assert!(failure.contains("there is no room left"), "{failure}");
    let counts = log.counts();
    assert!(counts.lost > 1_000 && counts.written > 100, "{counts:?}");
    assert_eq!(counts.written + counts.lost + counts.waiting, 3_000);
    drop(log);
    let kept = calls(&folder).len();
    // Time passes, what is there grows old and makes room.
    wall.store(row(10_000).sample.started_unix_ms, Ordering::Relaxed);
    let log = Log::open(small).expect("a log");
    until("old rows are removed", || log.counts().pruned >= kept as u64);
    log.write(row(10_000));
    assert!(log.flush(LONG));
    assert_eq!((calls(&folder), log.is_healthy()), (vec!["call-10000".to_owned()], true));
    assert_eq!(log.reader().expect("a log").damage().expect("readable"), None);
}

#[test]
fn a_file_that_vanishes_is_made_anew_and_later_rows_are_kept() {
    let folder = Folder::new("vanished");
    let log = Log::open(config(&folder)).expect("a new log");
    log.write(row(0));
    assert!(log.flush(LONG));
    for name in ["tokrate-log.db", "tokrate-log.db-wal", "tokrate-log.db-shm"] {
        let _ = std::fs::remove_file(folder.log().with_file_name(name));
    }
    log.write(row(1));
    assert!(log.flush(LONG));
    assert_eq!((calls(&folder), log.lost()), (vec!["call-1".to_owned()], 1), "what was removed is counted");
    assert!(log.take_failure().expect("it is reported").contains("it was moved or removed"));
}

#[test]
fn a_file_that_becomes_something_else_is_left_alone_and_told() {
    let folder = Folder::new("replaced");
    let log = Log::open(LogConfig { close_timeout: Span::from_millis(50), ..config(&folder) }).expect("a new log");
    for name in ["tokrate-log.db-wal", "tokrate-log.db-shm", "tokrate-log.db"] {
        let _ = std::fs::remove_file(folder.log().with_file_name(name));
    }
    std::fs::write(folder.log(), "a letter").expect("writable");
    log.write(row(0));
    until("it is noticed", || !log.is_healthy());
    assert!(log.failure().expect("published").contains("it is not a SQLite database"));
    drop(log);
    assert_eq!(std::fs::read_to_string(folder.log()).expect("readable"), "a letter");
}

#[test]
fn a_log_is_not_opened_on_another_file() {
    let folder = Folder::new("letter");
    std::fs::write(folder.log(), "a letter").expect("writable");
    assert!(matches!(Log::open(config(&folder)), Err(StoreError::NotADatabase { .. })));
}

#[test]
fn a_clock_that_jumps_back_removes_nothing_and_changes_no_row() {
    let folder = Folder::new("clock");
    let wall = Arc::new(AtomicU64::new(row(100).sample.started_unix_ms));
    let hands = Arc::clone(&wall);
    let keeping = LogConfig {
        retention: Some(Span::from_secs(60)),
        clock: clock::with_wall(move || hands.load(Ordering::Relaxed)),
        ..config(&folder)
    };
    // What the clock says when each row is written: right, back by a minute and a half, at its beginning, right again.
    let times = [row(100).sample.started_unix_ms, row(7).sample.started_unix_ms, 0, row(101).sample.started_unix_ms];
    for (time, row) in times.into_iter().zip([row(100), row(99), row(40), row(101)]) {
        wall.store(time, Ordering::Relaxed);
        let log = Log::open(keeping.clone()).expect("a log");
        log.write(row);
        assert!(log.flush(LONG));
    }
    // At the last opening row 40 was 61 seconds old.
    assert_eq!(calls(&folder), ["call-99", "call-100", "call-101"]);
}

#[test]
fn old_rows_are_removed_in_steps_until_none_is_left() {
    let folder = Folder::new("retention");
    let mut store = Sqlite::open(&folder.log()).expect("a new log");
    store.append(&(0..5_000).map(row).collect::<Vec<_>>()).expect("room");
    let now = row(5_000).sample.started_unix_ms;
    let keeping =
        LogConfig { retention: Some(Span::from_secs(100)), clock: clock::with_wall(move || now), ..config(&folder) };
    let log = Log::open(keeping).expect("a log");
    until("they are removed", || log.counts().pruned == 4_900);
    assert_eq!(calls(&folder).first().map(String::as_str), Some("call-4900"));
}
