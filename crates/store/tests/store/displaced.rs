//! The log's files are moved, removed or replaced while they are written, or are damaged, or the disk is full.
//!
//! It knows no insides of the crate. Files are only renamed, removed and put there, never opened: opening one in this process
//! would itself drop the locks. Invariant: what is called written is in the file that stands at the path, and the rest is counted
//! as lost and reported.

use crate::clock;
use crate::folder::Folder;
use crate::rows::{filled, row};
use rusqlite::Connection;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokrate_core::Span;
use tokrate_store::{Log, LogConfig, Query, Sqlite, Store, StoreError};

const LONG: Span = Span::from_secs(60);

fn open(folder: &Folder) -> Log {
    let every = Span::from_millis(5);
    Log::open(LogConfig { retry_every: every, batch_every: every, ..LogConfig::new(folder.log(), clock::machine()) })
        .expect("a log")
}

/// Hands in these rows and waits until they are written.
fn write(log: &Log, rows: std::ops::Range<u64>) {
    rows.for_each(|n| log.write(row(n)));
    assert!(log.flush(LONG), "{:?}", log.failure());
}

fn beside(folder: &Folder, end: &str) -> std::path::PathBuf {
    let mut name = folder.log().into_os_string();
    name.push(end);
    name.into()
}

fn names(path: &Path) -> Vec<String> {
    let store = Sqlite::open_reader(path).expect("a log");
    assert_eq!(store.damage().expect("readable"), None);
    store.attempts(&Query::default()).expect("readable").into_iter().map(|row| row.call).collect()
}

fn calls(rows: std::ops::Range<u64>) -> Vec<String> {
    rows.map(|n| format!("call-{n}")).collect()
}

/// What was reported, with a name for the log that does not depend on where the tests run.
fn reported(folder: &Folder, log: &Log) -> String {
    let reported: Vec<String> = std::iter::from_fn(|| log.take_failure()).collect();
    reported.join("\n").replace(&folder.log().display().to_string(), "LOG")
}

#[test]
fn a_wal_that_is_removed_is_said_and_its_rows_are_counted_as_lost() {
    let folder = Folder::new("wal-removed");
    let log = open(&folder);
    write(&log, 0..10);
    std::fs::remove_file(beside(&folder, "-wal")).expect("it is there");
    write(&log, 10..15);
    assert_eq!((log.counts().written, log.lost(), log.is_healthy()), (5, 10, true));
    assert_eq!(names(&folder.log()), calls(10..15));
    insta::assert_snapshot!(reported(&folder, &log), @"write the database LOG: its -wal or -shm was removed or replaced while it was written; up to 10 rows went with it, and later ones go to the file that is there now; stop what writes the log before you touch its files (docs/throughput-log.md)");
    write(&log, 15..20);
    drop(log);
    assert_eq!(names(&folder.log()), calls(10..20));
}

#[test]
fn a_wal_that_is_removed_costs_no_row_that_was_carried_over() {
    let folder = Folder::new("wal-carried-over");
    let log = open(&folder);
    write(&log, 0..10);
    let other = Connection::open(folder.log()).expect("a log");
    other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("nobody reads");
    drop(other);
    write(&log, 10..11);
    let other = Connection::open(folder.log()).expect("a log");
    other.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).expect("nobody reads");
    drop(other);
    std::fs::remove_file(beside(&folder, "-wal")).expect("it is there");
    write(&log, 11..15);
    assert_eq!(names(&folder.log()), calls(0..15));
    assert!(log.counts().written + log.lost() == 15, "{:?}", log.counts());
    assert!(!reported(&folder, &log).is_empty(), "it is reported all the same");
}

#[test]
fn a_file_that_is_moved_takes_all_its_rows_with_it_and_a_new_one_is_begun() {
    let folder = Folder::new("moved");
    let log = open(&folder);
    write(&log, 0..10);
    let old = folder.log().with_file_name("old.db");
    std::fs::rename(folder.log(), &old).expect("movable");
    write(&log, 10..15);
    assert_eq!((log.counts().written, log.lost()), (5, 10));
    assert_eq!(names(&folder.log()), calls(10..15));
    assert_eq!(names(&old), calls(0..10), "whole without the -wal that stayed behind");
    insta::assert_snapshot!(reported(&folder, &log), @"write the database LOG: it was moved or removed while it was written; up to 10 rows went with it, and later ones go to the file that is there now; stop what writes the log before you touch its files (docs/throughput-log.md)");
}

#[test]
fn a_copy_that_is_put_over_the_file_is_not_mixed_with_it() {
    let folder = Folder::new("put-over");
    let log = open(&folder);
    write(&log, 0..10);
    let kept = folder.log().with_file_name("kept.db");
    let other = Connection::open(folder.log()).expect("a log");
    other.execute("VACUUM INTO ?", [kept.to_str().expect("a plain name")]).expect("room");
    drop(other);
    write(&log, 10..20);
    std::fs::rename(&kept, folder.log()).expect("movable");
    write(&log, 20..25);
    assert_eq!((log.counts().written, log.lost()), (5, 20));
    assert_eq!(names(&folder.log()), [calls(0..10), calls(20..25)].concat());
    insta::assert_snapshot!(reported(&folder, &log), @"write the database LOG: another file was put in its place while it was written; up to 20 rows went with it, and later ones go to the file that is there now; stop what writes the log before you touch its files (docs/throughput-log.md)");
    drop(log);
    assert_eq!(names(&folder.log()), [calls(0..10), calls(20..25)].concat());
}

#[test]
fn while_somebody_reads_the_file_that_was_replaced_rows_wait_and_none_is_mixed_or_lost() {
    let folder = Folder::new("put-over-read");
    let log = open(&folder);
    write(&log, 0..10);
    let kept = folder.log().with_file_name("kept.db");
    let other = Connection::open(folder.log()).expect("a log");
    other.execute("VACUUM INTO ?", [kept.to_str().expect("a plain name")]).expect("room");
    other.execute_batch("BEGIN; SELECT count(*) FROM attempts").expect("readable");
    std::fs::rename(&kept, folder.log()).expect("movable");
    (10..15).for_each(|n| log.write(row(n)));
    assert!(!log.flush(Span::from_millis(300)), "the -wal of the old file lies there still");
    other.execute_batch("COMMIT").expect("it reads");
    drop(other);
    assert!(log.flush(LONG));
    assert_eq!(names(&folder.log()), calls(0..15));
}

#[test]
fn files_that_are_all_moved_together_stay_whole() {
    let folder = Folder::new("moved-together");
    let log = open(&folder);
    write(&log, 0..10);
    let old = folder.log().with_file_name("old.db");
    for end in ["", "-wal", "-shm"] {
        let mut name = old.clone().into_os_string();
        name.push(end);
        std::fs::rename(beside(&folder, end), name).expect("movable");
    }
    write(&log, 10..15);
    assert_eq!(names(&folder.log()), calls(10..15));
    assert_eq!(names(&old), calls(0..10));
}

#[test]
fn a_file_that_is_cut_off_or_garbled_is_refused_and_left_as_it_is() {
    let folder = Folder::new("corrupt");
    drop(filled(&folder, &(0..400).map(row).collect::<Vec<_>>()));
    let sound = std::fs::read(folder.log()).expect("readable");
    let cut = sound[..sound.len() / 2].to_vec();
    let mut garbled = sound.clone();
    garbled[4_096..].iter_mut().step_by(3).for_each(|byte| *byte ^= 0xa5);
    for damaged in [cut, garbled] {
        std::fs::write(folder.log(), &damaged).expect("writable");
        let error = Log::open(LogConfig::new(folder.log(), clock::machine())).map(|_| ()).expect_err("it is damaged");
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        let reported = error.to_string().replace(&folder.log().display().to_string(), "LOG");
        insta::allow_duplicates! { insta::assert_snapshot!(reported, @"use the database LOG: it is damaged (database disk image is malformed) and is left as it is; stop what writes it, move it away together with its -wal and -shm (a new one is begun), and read what is left of it with the .recover of sqlite3") };
        assert!(std::fs::read(folder.log()).expect("readable") == damaged, "left as it was");
    }
}

const SECOND: &str = "TOKRATE_STORE_SECOND_WRITER";
const FULL: &str = "TOKRATE_STORE_FULL_DISK";

/// Runs a test of this program again as another process, with a variable that tells it its part.
fn again(test: &str, variable: &str, path: &Path, shell: &str) -> std::process::Child {
    let program = std::env::current_exe().expect("this program");
    Command::new("sh")
        .args(["-c", shell, "sh"])
        .arg(program)
        .args(["--exact", test, "--nocapture"])
        .env(variable, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs")
}

fn passed(child: std::process::Child) {
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

const ELSEWHERE: &str = "TOKRATE_STORE_ELSEWHERE";

/// What `/api/summary` does beside the writer: were a file opened and closed there by another way than SQLite's, every lock of
/// the process would be gone (POSIX), and the next other process that closes the log would take the live `-wal` away.
#[test]
fn readers_in_the_writers_process_leave_its_locks_alone() {
    if let Some(path) = std::env::var_os(ELSEWHERE) {
        return drop(names(Path::new(&path)));
    }
    let folder = Folder::new("locks");
    let log = open(&folder);
    let mut written = 0;
    for _ in 0..3 {
        write(&log, written..written + 5);
        written += 5;
        drop(log.reader().expect("a log").attempts(&Query::default()).expect("readable"));
        drop(Sqlite::open(&folder.log()).expect("a log"));
        let name = "displaced::readers_in_the_writers_process_leave_its_locks_alone";
        passed(again(name, ELSEWHERE, &folder.log(), r#"exec "$@""#));
        assert!(beside(&folder, "-wal").exists(), "another process took it away after {written} rows");
    }
    assert_eq!((names(&folder.log()), log.failure()), (calls(0..written), None));
}

#[test]
fn two_processes_may_write_one_log() {
    let write_all = |path: &Path| {
        let log = Log::open(LogConfig { batch_rows: 16, ..LogConfig::new(path, clock::machine()) }).expect("a log");
        for n in 0..100 {
            write(&log, n * 10..n * 10 + 10);
        }
        assert_eq!((log.counts().written, log.lost()), (1_000, 0));
    };
    if let Some(path) = std::env::var_os(SECOND) {
        return write_all(Path::new(&path));
    }
    let folder = Folder::new("two-writers");
    let other = again("displaced::two_processes_may_write_one_log", SECOND, &folder.log(), r#"exec "$@""#);
    write_all(&folder.log());
    passed(other);
    assert_eq!(names(&folder.log()).len(), 2_000);
}

/// A file that may not grow any more is as a full disk is; the signal that comes with it is ignored, as shells can ask for.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_is_full_costs_rows_is_said_once_and_passes() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let most = |bytes: Option<u64>| {
        let maximum = getrlimit(Resource::Fsize).maximum;
        setrlimit(Resource::Fsize, Rlimit { current: bytes, maximum }).expect("a soft limit may be set");
    };
    let Some(path) = std::env::var_os(FULL) else {
        let folder = Folder::new("full-disk");
        let name = "displaced::a_disk_that_is_full_costs_rows_is_said_once_and_passes";
        return passed(again(name, FULL, &folder.log(), r#"trap "" XFSZ; exec "$@""#));
    };
    let every = Span::from_millis(5);
    // The writer looks at the wall clock once a step, after it has written and published.
    let looks = Arc::new(AtomicU64::new(0));
    let looked = Arc::clone(&looks);
    let clock = clock::with_wall(move || looked.fetch_add(1, Ordering::Relaxed));
    // So many that the last two began after this was called.
    let steps = || {
        let last = looks.load(Ordering::Relaxed) + 3;
        while looks.load(Ordering::Relaxed) < last {
            std::thread::yield_now();
        }
    };
    let small = LogConfig { queue_rows: 50, max_held_rows: 50, batch_rows: 20, ..LogConfig::new(&path, clock) };
    let log = Log::open(LogConfig { retry_every: every, batch_every: every, ..small }).expect("a log");
    write(&log, 0..40);
    most(Some(120_000));
    let mut n = 40;
    // Rows are lost to a queue that is full as well, before the writer has met the full disk.
    while log.lost() < 500 || log.is_healthy() {
        log.write(row(n));
        n += 1;
        if n % 20 == 0 {
            log.flush(Span::from_millis(2));
        }
    }
    let written = log.counts().written;
    assert!(names(Path::new(&path)).len() as u64 >= written, "readers go on, and what was called written is there");
    // Near the limit it may work for a moment and fail again; from here on nothing can be written, and there is a row to try it with.
    // The first step that does may fail with another error than later ones, which have to open the file again.
    most(Some(0));
    log.write(row(n));
    n += 1;
    steps();
    assert!(!log.is_healthy());
    let full = log.counts();
    assert_eq!(full.written + full.lost + full.waiting, n);
    let reported: Vec<String> = std::iter::from_fn(|| log.take_failure()).collect();
    let is_known = |reported: &String| {
        reported.contains("check that the disk is sound")
            || reported.contains("arrived faster than they could be written")
    };
    assert!(!reported.is_empty() && reported.iter().all(is_known), "{reported:?}");
    let lost = log.lost();
    while log.lost() < lost + 100 {
        log.write(row(n));
        n += 1;
    }
    steps();
    assert_eq!(log.take_failure(), None, "not reported again while it lasts");
    let full = log.counts();
    most(None);
    assert!(log.flush(LONG));
    write(&log, n..n + 10);
    let after = log.counts();
    assert_eq!((after.lost, after.written, after.waiting, log.is_healthy()), (full.lost, n + 10 - full.lost, 0, true));
    drop(log);
    let kept = names(Path::new(&path));
    assert_eq!(kept.len() as u64, after.written, "no row is written twice either");
}
