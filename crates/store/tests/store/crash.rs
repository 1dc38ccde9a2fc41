//! A process that is killed while it writes.
//!
//! It refuses to know how SQLite recovers. Invariant: what a flush had confirmed is there, in order and without a hole, and
//! the file is sound.

use crate::folder::Folder;
use crate::rows::row;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tokrate_core::Span;
use tokrate_store::{Log, LogConfig, Query, Sqlite, Store};

const CHILD: &str = "TOKRATE_STORE_CRASH_CHILD";

/// The child's part: writes without end, and says after each hundred rows how many are sure to be in the file.
fn write_for_ever(path: PathBuf) {
    let log = Log::open(LogConfig { batch_rows: 64, ..LogConfig::new(path) }).expect("a log");
    for n in 0.. {
        log.write(row(n));
        if n % 100 == 99 {
            assert!(log.flush(Span::from_secs(30)));
            writeln!(std::io::stdout(), "sure {}", n + 1).expect("a reader");
        }
    }
}

#[test]
fn a_killed_process_leaves_a_sound_file_with_all_but_its_last_batch() {
    if let Some(path) = std::env::var_os(CHILD) {
        return write_for_ever(PathBuf::from(path));
    }
    let folder = Folder::new("killed");
    let mut least = 0;
    for round in 0..4 {
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program)
            .args(["--exact", "crash::a_killed_process_leaves_a_sound_file_with_all_but_its_last_batch", "--nocapture"])
            .env(CHILD, folder.log())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let sure =
            output.lines().map_while(Result::ok).filter_map(|line| line.strip_prefix("sure ")?.parse::<u64>().ok());
        let sure = sure.take(3 + round).last().expect("it writes");
        // SIGKILL: no destructor, no flush, in the middle of whatever it does.
        child.kill().expect("it runs");
        child.wait().expect("it was killed");
        let store = Sqlite::open(&folder.log()).expect("a sound log");
        assert_eq!(store.damage().expect("readable"), None);
        let query = Query::default();
        let found = store.attempts(&query).expect("readable").len() as u64;
        least += sure;
        assert!(found >= least, "{found} rows of {least} that were confirmed");
        least = found;
    }
}
