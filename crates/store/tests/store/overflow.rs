//! Rows that are too many for memory wait on disk, and are in the database once, whatever comes between.

use crate::clock;
use crate::folder::Folder;
use crate::rows::row;
use rusqlite::Connection;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokrate_core::Span;
use tokrate_record::Attempt;
use tokrate_store::{Log, LogConfig, Query, Sqlite, Store};

/// Longer than anything here takes; a test that waits so long has failed.
const LONG: Span = Span::from_secs(60);
/// More than fit into memory: 24,576 in the queue and 8,192 in the writer.
const MANY: u64 = 40_000;

fn config(folder: &Folder) -> LogConfig {
    LogConfig {
        retry_every: Span::from_millis(5),
        batch_every: Span::from_millis(5),
        ..LogConfig::new(folder.log(), clock::machine())
    }
}

fn overflow(folder: &Folder) -> PathBuf {
    let mut path = folder.log().into_os_string();
    path.push("-overflow");
    path.into()
}

/// Writes rows as fast as they are taken from the queue.
pub(crate) fn write(log: &Log, numbers: std::ops::Range<u64>) {
    for n in numbers {
        log.write(row(n));
        let begun = Instant::now();
        while log.counts().waiting - log.counts().on_disk.min(log.counts().waiting) > 6_000 {
            assert!(begun.elapsed() < Duration::from_secs(60), "they are not taken");
            std::thread::yield_now();
        }
    }
}

/// Takes the write lock of the database until it is dropped.
pub(crate) fn lock(folder: &Folder) -> Connection {
    let other = Connection::open(folder.log()).expect("a log");
    other.busy_timeout(LONG.as_duration()).expect("open");
    other.execute_batch("BEGIN IMMEDIATE").expect("free in the end");
    other
}

/// All rows of the file in the order of their numbers.
pub(crate) fn rows(folder: &Folder) -> Vec<Attempt> {
    let store = Sqlite::open_reader(&folder.log()).expect("a log");
    let mut rows = store.attempts(&Query::default()).expect("readable");
    rows.sort_by_key(|row| row.sample.started_unix_ms);
    rows
}

fn all(count: u64) -> Vec<Attempt> {
    let mut rows: Vec<Attempt> = (0..count).map(row).collect();
    rows.sort_by_key(|row| row.sample.started_unix_ms);
    rows
}

#[test]
fn while_another_process_has_locked_the_file_more_rows_wait_than_fit_into_memory() {
    let folder = Folder::new("overflow-locked");
    let log = Log::open(config(&folder)).expect("a new log");
    let other = lock(&folder);
    write(&log, 0..MANY);
    let counts = log.counts();
    assert_eq!((counts.lost, counts.written, counts.waiting), (0, 0, MANY));
    assert!(counts.on_disk >= MANY - 6_000, "{counts:?}");
    drop(other);
    assert!(log.flush(LONG));
    let counts = log.counts();
    assert_eq!((counts.written, counts.lost, counts.waiting, counts.on_disk), (MANY, 0, 0, 0));
    assert!(rows(&folder) == all(MANY));
    assert!(!overflow(&folder).exists());
}

#[test]
fn what_cannot_be_written_before_the_end_is_written_by_the_next_start_before_anything_is_read() {
    let folder = Folder::new("overflow-end");
    let config = || LogConfig { close_timeout: Span::from_secs(1), ..config(&folder) };
    let log = Log::open(config()).expect("a new log");
    let other = lock(&folder);
    write(&log, 0..3_000);
    drop(log);
    let left = std::fs::File::open(overflow(&folder)).expect("rows are left in it");
    // On a busy machine the log has let go of its writer before that has ended, which another process would not see.
    left.lock().expect("the writer ends");
    drop((left, other));
    let log = Log::open(config()).expect("a log");
    assert!(rows(&folder) == all(3_000), "those that were in memory as well");
    assert_eq!((log.counts().written, log.counts().waiting, log.failure()), (3_000, 0, None));
    assert!(!overflow(&folder).exists());
}

#[test]
fn a_row_that_was_written_just_before_a_kill_is_not_written_again() {
    let folder = Folder::new("overflow-twice");
    let log = Log::open(config(&folder)).expect("a new log");
    let other = lock(&folder);
    write(&log, 0..MANY);
    let copy = std::fs::read(overflow(&folder)).expect("rows wait in it");
    drop(other);
    assert!(log.flush(LONG));
    drop(log);
    // As a kill between the commit and the file's removal leaves it.
    std::fs::write(overflow(&folder), copy).expect("room");
    let log = Log::open(config(&folder)).expect("a log");
    assert!(log.flush(LONG));
    assert!(rows(&folder) == all(MANY));
}

#[test]
fn a_file_that_is_none_of_ours_is_said_and_left_and_rows_wait_in_memory() {
    let folder = Folder::new("overflow-foreign");
    std::fs::write(overflow(&folder), "a diary").expect("room");
    let log = Log::open(config(&folder)).expect("a new log");
    let said = log.take_failure().expect("said");
    assert!(said.contains("-overflow: it is no file of tokrate's; rows in it are not written"), "{said}");
    (0..3_000).for_each(|n| log.write(row(n)));
    assert!(log.flush(LONG));
    assert_eq!((log.counts().written, log.counts().lost), (3_000, 0));
    assert_eq!(std::fs::read(overflow(&folder)).expect("there"), b"a diary");
}

#[test]
fn rows_that_lack_what_a_row_must_have_are_counted_as_lost_and_the_file_stays() {
    let folder = Folder::new("overflow-unreadable");
    // The form of the file with one column only, and a row whose call is "a": a length, a CRC-32, a tag, a length, a byte.
    let row = [6, 0, 0, 0, 0x0a, 0x96, 0xa4, 0x26, b't', 1, 0, 0, 0, b'a'];
    let bytes = [b"tokrate overflow 1\ncall\n".as_slice(), &row].concat();
    std::fs::write(overflow(&folder), &bytes).expect("room");
    let log = Log::open(config(&folder)).expect("a new log");
    (0..10).for_each(|n| log.write(crate::rows::row(n)));
    assert!(log.flush(LONG));
    let counts = log.counts();
    assert_eq!((counts.written, counts.lost, counts.waiting), (10, 1, 0));
    let said = log.take_failure().expect("said");
    assert!(said.contains("column attempt; 1 rows that waited there are not written"), "{said}");
    assert_eq!(std::fs::read(overflow(&folder)).expect("there"), bytes);
}
