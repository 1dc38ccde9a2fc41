//! Which files are opened, and as what: new ones, older ones, newer ones, others.
//!
//! Invariant: a rejected file is left byte for byte as it was.

use crate::folder::Folder;
use crate::rows::{filled, row};
use rusqlite::Connection;
use std::path::PathBuf;
use tokrate_store::{Query, SCHEMA_VERSION, Sqlite, Store, StoreError};

/// A name for the message that does not depend on where the tests run.
fn message(folder: &Folder, error: &StoreError) -> String {
    error.to_string().replace(&folder.log().display().to_string(), "LOG")
}

fn refused(folder: &Folder) -> String {
    let before = std::fs::read(folder.log()).expect("readable");
    let errors = [Sqlite::open(&folder.log()), Sqlite::open_reader(&folder.log())].map(|opened| {
        let error = opened.expect_err("no log");
        message(folder, &error)
    });
    assert_eq!(errors[0], errors[1]);
    assert_eq!(std::fs::read(folder.log()).expect("readable"), before, "left as it was");
    errors[0].clone()
}

#[test]
fn a_file_of_something_else_is_refused_and_left_as_it_was() {
    let folder = Folder::new("garbage");
    for garbage in ["x", "not a database at all, but a text of some length\n"] {
        std::fs::write(folder.log(), garbage.repeat(100)).expect("writable");
        let refused = refused(&folder);
        assert_eq!(
            refused,
            "open the database LOG: it is not a SQLite database; name another file, or move this one away"
        );
    }
    std::fs::write(folder.log(), "SQLite format 3\0 and then nothing of the kind".repeat(200)).expect("writable");
    assert_eq!(
        refused(&folder),
        "open the database LOG: it is not a SQLite database; name another file, or move this one away"
    );
}

#[test]
fn a_database_of_something_else_is_refused_and_left_as_it_was() {
    let folder = Folder::new("foreign");
    let other = Connection::open(folder.log()).expect("a new database");
    other.execute_batch("CREATE TABLE attempts (id INTEGER PRIMARY KEY)").expect("room");
    drop(other);
    insta::assert_snapshot!(refused(&folder), @"open the database LOG: it is not a log of tokrate; name another file");
}

#[test]
fn a_newer_form_is_refused_and_left_as_it_was() {
    let folder = Folder::new("newer");
    drop(Sqlite::open(&folder.log()).expect("a new log"));
    let other = Connection::open(folder.log()).expect("a log");
    other.pragma_update(None, "user_version", SCHEMA_VERSION + 1).expect("writable");
    drop(other);
    insta::assert_snapshot!(refused(&folder), @"open the database LOG: its schema is version 11 and this tokrate supports versions up to 10; use the tokrate that wrote it");
}

#[test]
fn a_file_that_is_not_there_is_made_by_a_writer_and_missed_by_a_reader() {
    let folder = Folder::new("missing");
    let error = Sqlite::open_reader(&folder.log()).expect_err("no file");
    insta::assert_snapshot!(message(&folder, &error), @"open the database LOG: there is no such file; name one that tokrate has written");
    assert!(!folder.log().exists());
    let nowhere = folder.log().join("deeper").join("log.db");
    let error = Sqlite::open(&nowhere).expect_err("no folder");
    assert!(error.to_string().contains("there is no such folder"), "{error}");
    let store = Sqlite::open(&folder.log()).expect("a new log");
    assert_eq!(store.version().expect("readable"), SCHEMA_VERSION);
    assert_eq!(Sqlite::open_reader(&folder.log()).expect("a log").version().expect("readable"), SCHEMA_VERSION);
}

/// Files as every version of tokrate made them, each with the row that it could hold. They are never made anew.
#[cfg(unix)]
#[test]
fn folders_and_sockets_are_no_logs() {
    let folder = Folder::new("places");
    let errors = || {
        let opened = [Sqlite::open(&folder.log()), Sqlite::open_reader(&folder.log())];
        opened.map(|opened| message(&folder, &opened.expect_err("no log")))
    };
    std::fs::create_dir(folder.log()).expect("it can be made");
    assert!(
        errors().iter().all(|errors| errors.starts_with("open the database LOG: it is a folder")),
        "{:?}",
        errors()
    );
    std::fs::remove_dir(folder.log()).expect("it is empty");
    let _socket = std::os::unix::net::UnixListener::bind(folder.log()).expect("it can be made");
    assert!(
        errors().iter().all(|errors| errors.starts_with("open the database LOG: it is not a regular file")),
        "{:?}",
        errors()
    );
}

#[test]
fn what_is_wrong_within_a_file_is_told() {
    let folder = Folder::new("damage");
    drop(filled(&folder, &(0..400).map(row).collect::<Vec<_>>()));
    let index: i64 = {
        let raw = Connection::open(folder.log()).expect("a database");
        raw.query_row("SELECT rootpage FROM sqlite_master WHERE name = 'attempts_by_call'", [], |row| row.get(0))
            .expect("an index")
    };
    let mut bytes = std::fs::read(folder.log()).expect("readable");
    let page = usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));
    let from = (index as usize - 1) * page + 12;
    bytes[from..from + 100].fill(0);
    std::fs::write(folder.log(), bytes).expect("writable");
    let store = Sqlite::open_reader(&folder.log()).expect("its head is sound");
    assert!(store.damage().map_or(true, |found| found.is_some()), "an index without its entries");
}

/// A link can lead to where nothing can be made.
#[cfg(unix)]
#[test]
fn a_link_into_a_folder_that_is_not_there_is_refused_as_a_log_that_cannot_be_opened() {
    let folder = Folder::new("dangling");
    std::os::unix::fs::symlink(folder.log().with_extension("none").join("x"), folder.log()).expect("it can be made");
    let error = Sqlite::open(&folder.log()).expect_err("there is no such folder");
    assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
}

fn older_files() -> Vec<(u32, PathBuf)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/store/forms");
    (1..=SCHEMA_VERSION).map(|version| (version, folder.join(format!("version-{version}.sql")))).collect()
}

#[test]
fn every_older_form_is_opened_with_its_rows() {
    for (version, file) in older_files() {
        let folder = Folder::new(&format!("older-{version}"));
        let sql = std::fs::read_to_string(&file).expect("a form for every version");
        let old = Connection::open(folder.log()).expect("a new database");
        old.execute_batch(&sql).expect("a whole form");
        drop(old);
        // Once by reading only, once by writing: both bring it up to date.
        let rows = Sqlite::open_reader(&folder.log()).expect("a log").attempts(&Query::default()).expect("readable");
        assert_eq!(rows.iter().map(|row| row.call.as_str()).collect::<Vec<_>>(), ["kept"]);
        let sample = &rows[0].sample;
        assert_eq!((&*sample.dialect, sample.cost_usd, sample.gaps.count()), ("anthropic", Some(0.0125), 4));
        // What an earlier version did not keep is absent.
        let known = (version >= 3).then_some(("eu", "gate-1", "o200k_base"));
        let conditions = &sample.conditions;
        let named = [&conditions.region, &conditions.host, &conditions.tokenizer].map(Option::as_deref);
        assert_eq!(named, known.map_or([None; 3], |(region, host, tokenizer)| [region, host, tokenizer].map(Some)));
        assert_eq!((sample.tls_ns, sample.ttfat_ns), if version < 3 { (None, None) } else { (Some(300), Some(3_500)) });
        assert_eq!(sample.answer_ns, (version >= 4).then_some(3_900));
        assert_eq!(rows[0].session.as_deref(), (version >= 5).then_some("run-17"));
        let of_session = (version >= 7).then_some((3, 4_100)).unzip();
        assert_eq!((rows[0].responses, rows[0].response_bytes), of_session);
        assert_eq!(rows[0].hold_ns, (version >= 8).then_some(250));
        assert_eq!(rows[0].expected_cached_tokens, (version >= 10).then_some(2));
        let mut store = Sqlite::open(&folder.log()).expect("a log");
        let refusals = store.refusals(&Query::default()).expect("readable");
        assert_eq!(
            refusals.iter().map(|row| row.count).collect::<Vec<_>>(),
            if version < 2 { vec![] } else { vec![7] }
        );
        let objects = store.objects().expect("readable").into_iter().map(|object| (object.id, object.key));
        let kept = (version >= 7).then(|| ("file-1".to_owned(), Some("ada".to_owned())));
        assert_eq!(objects.collect::<Vec<_>>(), Vec::from_iter(kept));
        assert_eq!(store.spent_since(0).expect("readable"), [("ada".to_owned(), 0.0125)].into());
        store.append(&[row(1)]).expect("room");
        assert_eq!(store.attempts(&Query::default()).expect("readable").len(), 2);
        assert_eq!(store.version().expect("readable"), SCHEMA_VERSION);
        assert_eq!(store.damage().expect("readable"), None);
    }
}

#[test]
fn a_whole_answers_time_is_no_time_to_first_token_in_older_logs_either() {
    for (version, file) in older_files().into_iter().filter(|(version, _)| *version < 4) {
        let folder = Folder::new(&format!("whole-{version}"));
        let old = Connection::open(folder.log()).expect("a new database");
        old.execute_batch(&std::fs::read_to_string(&file).expect("a form for every version")).expect("a whole form");
        old.execute("UPDATE attempts SET stream = 0", []).expect("writable");
        drop(old);
        let rows = Sqlite::open(&folder.log()).expect("a log").attempts(&Query::default()).expect("readable");
        let sample = &rows[0].sample;
        assert_eq!((sample.ttft_ns, sample.ttfat_ns, sample.answer_ns), (None, None, Some(3_000)), "version {version}");
        assert!(sample.ttft_missing.as_deref().is_some_and(|why| why.starts_with("not streamed")));
    }
}

#[test]
fn a_row_that_no_version_writes_is_named() {
    let folder = Folder::new("damaged");
    crate::rows::filled(&folder, &[row(0), row(1)]);
    let other = Connection::open(folder.log()).expect("a log");
    other.execute("UPDATE attempts SET end = 'vanished' WHERE id = 2", []).expect("writable");
    let store = Sqlite::open_reader(&folder.log()).expect("a log");
    let error = store.attempts(&Query::default()).expect_err("damaged");
    insta::assert_snapshot!(message(&folder, &error), @r#"read the database LOG: row 2 has the invalid value "vanished" in column end"#);
}

/// Closing a file drops every lock of SQLite's that the process holds on it (POSIX): none is opened here, they are looked at only. The file
/// of rows that wait on disk is none of SQLite's.
#[test]
fn no_source_of_the_crate_opens_a_file_but_through_sqlite() {
    let mut folders = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut read = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the sources") {
            let path = entry.expect("the sources").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.ends_with("log/overflow.rs") || path.ends_with("log/overflow/tests.rs") {
                continue;
            }
            let source = std::fs::read_to_string(&path).expect("text");
            for opening in ["fs::File", "fs::read", "fs::write", "fs::copy", "OpenOptions"] {
                assert!(!source.contains(opening), "{} has {opening}", path.display());
            }
            read += 1;
        }
    }
    assert!(read > 8, "{read} sources");
}
