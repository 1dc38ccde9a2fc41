//! A process that is killed while it writes, and another that reads, copies, vacuums and checkpoints meanwhile.
//!
//! Two programs take part, both this test's own: the writer holds a log as a gateway does, asks it through readers of the same
//! process as `/api/summary` does, and prints how many rows it called written; the meddler does what docs/throughput-log.md
//! allows to any other process. Both are killed (SIGKILL: no destructor, no flush) at drawn moments. Invariant: every row that
//! was called written is there, in order and without a hole, and the file is sound.
//!
//! `TOKRATE_KILL_ROUNDS=200` asks for so many moments; `TOKRATE_KILL_SEED` for others.

use crate::clock;
use crate::folder::Folder;
use crate::overflow;
use crate::rows::row;
use rusqlite::{Connection, OpenFlags};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tokrate_core::{Rng, Span};
use tokrate_store::{Grouping, Log, LogConfig, Query, Sqlite, Store};

const NAME: &str = "crash::rows_that_were_called_written_outlive_a_kill_at_any_moment";
const WRITER: &str = "TOKRATE_STORE_WRITER";
const MEDDLER: &str = "TOKRATE_STORE_MEDDLER";
const FLOODED: &str = "crash::rows_that_wait_on_disk_outlive_a_kill";
const FLOOD: &str = "TOKRATE_STORE_FLOOD";
/// Moments in the usual run of the tests; 200 by hand.
const ROUNDS: u64 = 10;
/// So many of them share one file, so that most begin with the remains of a kill, and none has to read a long one.
const ROUNDS_EACH_FILE: u64 = 8;
/// Longer than anything here takes; a process that says nothing for so long has failed.
const LONG: Duration = Duration::from_secs(60);

/// The writer's part: rows without end, and after each commit how many it called written.
fn write_for_ever(path: PathBuf) {
    let config =
        LogConfig { batch_rows: 64, batch_every: Span::from_millis(2), ..LogConfig::new(path, clock::machine()) };
    let log = Log::open(config).expect("a log");
    let mut published = 0;
    for n in 0.. {
        log.write(row(n));
        let counts = log.counts();
        if counts.written > published {
            published = counts.written;
            writeln!(std::io::stdout(), "\nwritten {published}").expect("a reader");
        }
        assert_eq!((counts.lost, log.take_failure().filter(|failure| !failure.contains("has locked it"))), (0, None));
        if counts.waiting > 400 {
            assert!(log.flush(Span::from(LONG)));
        }
        if n % 150 == 0 {
            let reader = log.reader().expect("readers never wait");
            reader.summarise(&Query::default(), Grouping::default()).expect("readable");
        }
    }
}

/// The meddler's part: anything that another process may do, in a drawn order.
fn meddle_for_ever(path: &Path, seed: u64) {
    let mut draws = Rng::root(seed);
    let copy = path.with_extension("copy");
    for n in 0_u64.. {
        let _ = std::fs::remove_file(&copy);
        // Each time anew: it is the opening and closing that a live `-wal` must outlive.
        let open = |flags| {
            let other = Connection::open_with_flags(path, flags).expect("a log");
            other.busy_timeout(LONG).expect("open");
            other
        };
        match draws.below(5) {
            0 => drop(std::fs::copy(path, &copy).expect("room")),
            1 => {
                let other = open(OpenFlags::SQLITE_OPEN_READ_ONLY);
                other.query_row("SELECT sum(total_ns) FROM attempts", [], |_| Ok(())).expect("readable");
            }
            2 => {
                let into = copy.to_str().expect("the tests' folder has a plain name");
                open(OpenFlags::SQLITE_OPEN_READ_WRITE).execute("VACUUM INTO ?", [into]).expect("room");
            }
            3 => {
                let other = open(OpenFlags::SQLITE_OPEN_READ_WRITE);
                other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("readable");
            }
            _ => drop(open(OpenFlags::SQLITE_OPEN_READ_WRITE).query_row("PRAGMA quick_check(1)", [], |_| Ok(()))),
        }
        writeln!(std::io::stdout(), "\ndone {n}").expect("a reader");
    }
}

/// Starts this program again in another part, and hands on the numbers behind a word that it prints.
fn part(variable: &str, value: String, word: &'static str) -> (Child, Receiver<u64>) {
    part_of(NAME, variable, value, word)
}

/// The same in a test of that name.
fn part_of(name: &str, variable: &str, value: String, word: &'static str) -> (Child, Receiver<u64>) {
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program)
        .args(["--exact", name, "--nocapture"])
        .env(variable, value)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for number in lines.map_while(Result::ok).filter_map(|line| line.strip_prefix(word)?.trim().parse().ok()) {
            if sender.send(number).is_err() {
                return;
            }
        }
    });
    (child, receiver)
}

/// Waits until a part has printed a number of at least so many.
fn reach(who: &str, numbers: &Receiver<u64>, least: u64) -> u64 {
    loop {
        let number = numbers.recv_timeout(LONG).unwrap_or_else(|_| panic!("the {who} has failed or hangs"));
        if number >= least {
            return number;
        }
    }
}

/// One moment: both at work, both killed. Says how many rows the writer had called written.
fn round(path: &Path, draws: &mut Rng) -> u64 {
    let (mut writer, written) = part(WRITER, path.display().to_string(), "written ");
    let at_first = reach("writer", &written, 1);
    let (mut meddler, done) = part(MEDDLER, format!("{}:{}", draws.next_u64(), path.display()), "done ");
    reach("meddler", &done, draws.below(6));
    let at_last = reach("writer", &written, at_first + draws.below(400));
    // Not to wait for anything: the kill is to come at any point of what they do.
    std::thread::sleep(Duration::from_micros(draws.below(6_000)));
    let meddler_first = draws.below(2) == 0;
    let mut kill = |first: bool| {
        let child = if first == meddler_first { &mut meddler } else { &mut writer };
        child.kill().expect("it runs");
        child.wait().expect("it was killed");
    };
    kill(true);
    kill(false);
    // What it had printed and nobody had read yet.
    written.iter().last().unwrap_or(at_last)
}

/// The calls of all rows but so many of the first, in the order of their writing.
fn names_after(path: &Path, before: u64) -> Vec<String> {
    let other = Connection::open(path).expect("a log");
    let mut statement = other.prepare("SELECT call FROM attempts WHERE id > ? ORDER BY id").expect("sound");
    let names = statement.query_map([before as i64], |row| row.get(0)).expect("readable");
    names.map(|name| name.expect("readable")).collect()
}

#[test]
fn rows_that_were_called_written_outlive_a_kill_at_any_moment() {
    if let Some(path) = std::env::var_os(WRITER) {
        return write_for_ever(PathBuf::from(path));
    }
    if let Ok(meddle) = std::env::var(MEDDLER) {
        let (seed, path) = meddle.split_once(':').expect("a seed and a path");
        return meddle_for_ever(Path::new(path), seed.parse().expect("a number"));
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let rounds = number("TOKRATE_KILL_ROUNDS").unwrap_or(ROUNDS);
    let mut draws = Rng::root(number("TOKRATE_KILL_SEED").unwrap_or(1));
    let (mut folder, mut before, mut all_written, mut all_found) = (Folder::new("killed"), 0, 0, 0);
    for moment in 0..rounds {
        if moment % ROUNDS_EACH_FILE == 0 {
            drop(folder);
            (folder, before) = (Folder::new("killed"), 0);
        }
        let written = round(&folder.log(), &mut draws);
        // What waited on disk, because the other process had the lock, is written now.
        drop(Log::open(LogConfig::new(folder.log(), clock::machine())).expect("a sound log"));
        let store = Sqlite::open(&folder.log()).expect("a sound log");
        assert_eq!(store.damage().expect("readable"), None);
        drop(store);
        let found = names_after(&folder.log(), before);
        let mine = found.len() as u64;
        assert!(mine >= written, "moment {moment}: {mine} rows of {written} that were called written");
        let holes = (0..).zip(&found).find(|(n, name)| **name != format!("call-{n}"));
        assert_eq!(holes, None, "moment {moment}");
        before += mine;
        all_written += written;
        all_found += mine;
    }
    writeln!(std::io::stdout(), "{rounds} kills: {all_written} rows called written, {all_found} found")
        .expect("stdout");
}

/// Rows without end into a log whose file is locked, and how many of them wait on disk.
fn flood(path: PathBuf) {
    let log = Log::open(LogConfig::new(path, clock::machine())).expect("a log");
    for n in 0.. {
        overflow::write(&log, n * 100..(n + 1) * 100);
        writeln!(std::io::stdout(), "\non disk {}", log.counts().on_disk).expect("a reader");
    }
}

#[test]
fn rows_that_wait_on_disk_outlive_a_kill() {
    if let Some(path) = std::env::var_os(FLOOD) {
        return flood(path.into());
    }
    let folder = Folder::new("flood");
    drop(Log::open(LogConfig::new(folder.log(), clock::machine())).expect("a new log"));
    let other = overflow::lock(&folder);
    let (mut writer, on_disk) = part_of(FLOODED, FLOOD, folder.log().display().to_string(), "on disk ");
    reach("writer", &on_disk, 5_000);
    writer.kill().expect("it runs");
    writer.wait().expect("it was killed");
    let at_least = on_disk.iter().last().unwrap_or(5_000);
    drop(other);
    drop(Log::open(LogConfig::new(folder.log(), clock::machine())).expect("a log"));
    let rows = overflow::rows(&folder);
    assert!(rows.len() as u64 >= at_least, "{} of {at_least}", rows.len());
    let first = (0..rows.len() as u64).map(crate::rows::row).collect::<Vec<_>>();
    assert!(rows == first, "without a hole, each once");
}
