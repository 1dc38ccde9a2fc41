//! What is noticed of files that change while they are open, and while they are closed after an error.

use super::*;
use rusqlite::Connection;
use std::path::PathBuf;

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tokrate-watched-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Folder(path)
    }

    fn log(&self) -> PathBuf {
        self.0.join("log.db")
    }

    fn beside(&self, end: &str) -> PathBuf {
        self.0.join(format!("log.db{end}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn rows(count: usize) -> Vec<Attempt> {
    vec![
        Attempt {
            call: "x".repeat(4_000),
            sample: tokrate_record::Sample { started_unix_ms: 1, ..Default::default() },
            ..Attempt::default()
        };
        count
    ]
}

fn lost(done: Result<(), StoreError>) -> Option<u64> {
    match done {
        Ok(()) => None,
        Err(StoreError::Displaced { lost_rows, .. }) => Some(lost_rows),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_wal_that_is_removed_while_the_file_is_closed_is_noticed_when_it_is_opened_again() {
    let folder = Folder::new("closed");
    let mut file = WatchedFile::new(folder.log(), None);
    file.append(&rows(5)).expect("room");
    // Closed as after an error, with its rows in the `-wal` only.
    file.store.take().expect("it is open").abandon();
    assert_eq!(lost(file.open()), None, "all is there");
    file.store.take().expect("it is open").abandon();
    std::fs::remove_file(folder.beside("-wal")).expect("it is there");
    std::fs::remove_file(folder.beside("-shm")).expect("it is there");
    assert_eq!(lost(file.open()), Some(5));
    assert_eq!(lost(file.open()), None, "it is reported once");
}

#[test]
fn rows_in_a_wal_that_is_removed_while_the_file_is_closed_are_missed_though_older_ones_were_checkpointed() {
    let folder = Folder::new("closed-behind-others");
    let mut file = WatchedFile::new(folder.log(), None);
    // More than SQLite leaves in a `-wal`, so that the database has rows of its own.
    file.append(&rows(1_100)).expect("room");
    file.append(&rows(5)).expect("room");
    file.store.take().expect("it is open").abandon();
    std::fs::remove_file(folder.beside("-wal")).expect("it is there");
    std::fs::remove_file(folder.beside("-shm")).expect("it is there");
    assert_eq!(lost(file.open()), Some(5));
}

#[test]
fn a_wal_that_is_begun_when_the_file_is_opened_again_belongs_to_it() {
    let folder = Folder::new("new-wal");
    let mut file = WatchedFile::new(folder.log(), None);
    file.append(&rows(5)).expect("room");
    // Linked elsewhere, so that the next files cannot have the same inodes.
    for end in ["-wal", "-shm"] {
        std::fs::hard_link(folder.beside(end), folder.beside(&format!("{end}-kept"))).expect("it is there");
    }
    // As after an error: the last connection that closes checkpoints the `-wal` and removes it.
    file.store = None;
    assert_eq!(lost(file.open()), None);
    assert_eq!(lost(file.watch()), None, "nothing was displaced");
}

#[test]
fn rows_that_were_carried_over_and_grew_too_old_are_not_missed() {
    let folder = Folder::new("grown-old");
    let mut file = WatchedFile::new(folder.log(), None);
    // More than SQLite leaves in a `-wal`.
    file.append(&rows(1_100)).expect("room");
    assert_eq!(file.last_opened.as_ref().map(|last_opened| (last_opened.rows, last_opened.wal_rows)), Some((1_100, 0)));
    assert_eq!(file.prune(2, 2_000).expect("writable"), 1_100);
    file.store = None;
    assert_eq!(lost(file.open()), None);
}

#[test]
fn a_file_is_closed_after_an_error_unless_it_is_only_locked() {
    let folder = Folder::new("errors");
    let mut file = WatchedFile::new(folder.log(), Some(100_000));
    file.append(&rows(1)).expect("room");
    let other = Connection::open(folder.log()).expect("a log");
    other.execute_batch("BEGIN IMMEDIATE").expect("free");
    assert!(file.append(&rows(1)).expect_err("locked").is_locked());
    assert!(file.store.is_some());
    other.execute_batch("ROLLBACK").expect("locked by it");
    assert!(matches!(file.append(&rows(100)), Err(StoreError::Full { .. })));
    assert!(file.store.is_none());
}

#[test]
fn a_wal_beside_its_own_database_is_left_as_it_is_when_the_file_is_let_go_of() {
    let folder = Folder::new("let-go");
    let mut file = WatchedFile::new(folder.log(), None);
    file.append(&rows(5)).expect("room");
    std::fs::remove_file(folder.beside("-shm")).expect("it is there");
    assert_eq!(lost(file.watch()), Some(5));
    assert!(std::fs::metadata(folder.beside("-wal")).expect("it is there").len() > 0);
    assert_eq!(lost(file.open()), None);
    assert_eq!(file.newest_unix_ms().expect("readable"), Some(1), "the rows are there after all");
}

#[test]
fn a_file_that_goes_while_it_is_closed_is_missed_if_there_were_rows_in_it() {
    for (count, expected) in [(0, None), (5, Some(5))] {
        let folder = Folder::new(&format!("lost-{count}"));
        let mut file = WatchedFile::new(folder.log(), None);
        file.append(&rows(count)).expect("room");
        file.store = None;
        std::fs::remove_file(folder.log()).expect("it is there");
        assert_eq!(lost(file.watch()), expected);
    }
}

/// Files that are displaced between the check before rows are written and the one behind it.
#[test]
fn rows_count_as_written_only_if_the_file_is_still_there_behind_them() {
    use CheckpointState::{Complete, Incomplete};
    // What is removed, where the rows are, how many are lost with it, and how many are counted in the file and in its `-wal`.
    let cases = [
        (&[][..], Incomplete, None, Some((8, 8))),
        (&[], Complete, None, Some((8, 0))),
        (&["-wal", "-shm"], Incomplete, Some(5), None),
        (&["-wal", "-shm"], Complete, None, Some((8, 0))),
        (&[""], Incomplete, Some(5), None),
        (&[""], Complete, Some(5), None),
    ];
    for (number, (removed, checkpoint, expected, counted)) in cases.into_iter().enumerate() {
        let folder = Folder::new(&format!("behind-{number}"));
        let mut file = WatchedFile::new(folder.log(), None);
        file.append(&rows(5)).expect("room");
        removed.iter().for_each(|end| std::fs::remove_file(folder.beside(end)).expect("it is there"));
        assert_eq!(lost(file.confirm(3, checkpoint)), expected, "{removed:?} {checkpoint:?}");
        let opened = file.last_opened.as_ref().map(|opened| (opened.rows, opened.wal_rows));
        assert_eq!(opened, counted, "{removed:?} {checkpoint:?}");
    }
}
