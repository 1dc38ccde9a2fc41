//! Rows that wait on disk: the same after a restart, whatever the file went through.

use super::*;
use proptest::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};
use tokrate_record::Sample;

/// A folder of its own for each test, gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tokrate-overflow-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("room");
        Folder(path)
    }

    fn log(&self) -> PathBuf {
        self.0.join("log.db")
    }

    fn file(&self) -> PathBuf {
        self.0.join("log.db-overflow")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn rows(numbers: std::ops::Range<u64>) -> Vec<Attempt> {
    let row = |n: u64| Attempt {
        call: format!("call-{n}"),
        key: n.is_multiple_of(2).then(|| "ada".to_owned()),
        sample: Sample {
            started_unix_ms: n,
            output_speed: n.is_multiple_of(3).then_some(n as f64 / 7.0),
            gaps: (0..n % 5).collect(),
            model: "ünïcode ✓".to_owned(),
            ..Sample::default()
        },
        ..Attempt::default()
    };
    numbers.map(row).collect()
}

/// All rows that wait, taken in batches of three.
fn drained(overflow: &mut Overflow) -> Vec<Attempt> {
    let mut all = Vec::new();
    loop {
        let rows = overflow.take(3).expect("readable");
        if rows.is_empty() {
            return all;
        }
        all.extend(rows);
        overflow.written().expect("removable");
    }
}

#[test]
fn rows_come_back_in_their_order_and_the_file_is_there_only_while_rows_wait() {
    let folder = Folder::new();
    let mut overflow = Overflow::beside(&folder.log());
    assert_eq!((overflow.recover().expect("nothing there"), overflow.rows(), folder.file().exists()), (0, 0, false));
    overflow.push(&rows(0..5)).expect("room");
    overflow.push(&rows(5..8)).expect("room");
    assert_eq!((overflow.rows(), overflow.is_left_over()), (8, false));
    assert_eq!(overflow.take(2).expect("readable"), rows(0..2));
    assert_eq!(overflow.take(2).expect("readable"), rows(0..2), "not written, so taken again");
    assert_eq!(drained(&mut overflow), rows(0..8));
    assert!(!folder.file().exists());
    overflow.push(&rows(8..9)).expect("room");
    assert_eq!(drained(&mut overflow), rows(8..9));
}

#[test]
fn what_a_killed_process_left_is_read_again_from_the_beginning_and_later_rows_behind_it() {
    let folder = Folder::new();
    let mut killed = Overflow::beside(&folder.log());
    killed.push(&rows(0..6)).expect("room");
    killed.take(3).expect("readable");
    killed.written().expect("rows are left");
    drop(killed);
    let mut overflow = Overflow::beside(&folder.log());
    assert_eq!(overflow.recover().expect("its own"), 0);
    overflow.push(&rows(6..8)).expect("room");
    let left_over = overflow.take(100).expect("readable");
    assert_eq!((left_over, overflow.is_left_over()), (rows(0..6), true), "those that may be written already, alone");
    overflow.written().expect("rows are left");
    assert!(!overflow.is_left_over());
    assert_eq!(drained(&mut overflow), rows(6..8));
}

#[test]
fn a_second_process_neither_reads_nor_writes_a_file_that_is_in_use() {
    let folder = Folder::new();
    let mut first = Overflow::beside(&folder.log());
    first.push(&rows(0..2)).expect("room");
    let mut second = Overflow::beside(&folder.log());
    assert_eq!((second.recover().expect("left alone"), second.rows()), (0, 0));
    assert_eq!(second.push(&rows(2..3)).expect_err("in use").to_string(), "another process uses it");
    assert_eq!(drained(&mut first), rows(0..2));
    second.push(&rows(2..3)).expect("free again");
}

#[test]
fn a_file_of_something_else_is_left_as_it_is() {
    let folder = Folder::new();
    std::fs::write(folder.file(), "a diary").expect("room");
    let mut overflow = Overflow::beside(&folder.log());
    assert_eq!(overflow.recover().expect_err("not ours").to_string(), "it is no file of tokrate's");
    overflow.push(&rows(0..1)).expect_err("not ours");
    assert_eq!(std::fs::read(folder.file()).expect("there"), b"a diary");
}

/// A pipe would be waited for without end.
#[test]
#[cfg(target_os = "linux")]
fn a_pipe_is_no_file_of_rows() {
    let folder = Folder::new();
    let made = std::process::Command::new("mkfifo").arg(folder.file()).status().expect("it runs");
    assert!(made.success());
    let mut overflow = Overflow::beside(&folder.log());
    assert_eq!(overflow.recover().expect_err("not ours").to_string(), "it is no file of tokrate's");
}

#[test]
fn an_earlier_version_had_fewer_columns_and_a_later_one_has_others() {
    let folder = Folder::new();
    let mut bytes = [MAGIC, b"call,attempt,of_a_later_version\n"].concat();
    let start = bytes.len();
    bytes.extend([0; FRAME]);
    let mut encoder = Encoder(&mut bytes);
    for value in [Value::Text("a".to_owned()), Value::Integer(1), Value::Real(0.5)] {
        encoder.put(ToSqlOutput::Owned(value)).expect("a value");
    }
    let (length, sum) = ((bytes.len() - start - FRAME) as u32, crc32fast::hash(&bytes[start + FRAME..]));
    bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
    bytes[start + 4..start + FRAME].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(folder.file(), bytes).expect("room");
    let mut overflow = Overflow::beside(&folder.log());
    assert_eq!((overflow.recover().expect("known form"), overflow.rows()), (0, 1));
    // A column that a row must have is missing: said, and not guessed.
    let error = overflow.take(1).expect_err("no role");
    assert!(error.to_string().contains("role"), "{error}");
}

proptest! {
    #[test]
    fn a_file_cut_or_changed_anywhere_gives_the_whole_rows_before_that_place(
        count in 1_u64..12, place in 0_usize..4_000, value in any::<u8>(), is_cut in any::<bool>()
    ) {
        let folder = Folder::new();
        let mut overflow = Overflow::beside(&folder.log());
        overflow.push(&rows(0..count)).expect("room");
        drop(overflow);
        let mut bytes = std::fs::read(folder.file()).expect("there");
        let place = place % bytes.len();
        if is_cut { bytes.truncate(place); } else { bytes[place] = value; }
        std::fs::write(folder.file(), &bytes).expect("room");
        let mut overflow = Overflow::beside(&folder.log());
        // The first lines may be what was hit: then it says so, or finds no row.
        if overflow.recover().is_ok() && place > MAGIC.len() + COLUMNS.join(",").len() {
            let found = drained(&mut overflow);
            prop_assert!(found.len() as u64 <= count);
            prop_assert_eq!(found.clone(), rows(0..found.len() as u64));
        }
    }
}
