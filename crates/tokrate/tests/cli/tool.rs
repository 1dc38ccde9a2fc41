//! Runs the built binary with a clean environment, and reads what it leaves behind.
//!
//! It does not wait for ever. Invariant: a process that outlives its bound is killed and fails the test.

use crate::folder::Folder;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tokrate_record::{PhaseResult, Record};

/// What has not come by then hangs: the longest run of a test takes 30 seconds beside others, and a busy machine may be several times slower.
pub const BOUND: Duration = Duration::from_secs(240);

/// A process that has ended.
#[derive(Debug)]
pub struct Finished {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// The binary, to be run in the folder, with nothing of the environment but what it takes to find programs.
pub fn tokrate(folder: &Folder, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tokrate"));
    command.args(arguments).current_dir(folder.path()).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("HOME", folder.path()).env("XDG_CACHE_HOME", folder.join("cache"));
    command.env("XDG_DATA_HOME", folder.join("data"));
    command
}

/// Starts a command with its output piped.
pub fn start(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Waits until a process has closed its output and ended.
pub fn finish(mut child: Child) -> Finished {
    let stdout = child.stdout.take().map(read_all);
    let stderr = child.stderr.take().map(read_all);
    let mut text = |output: Option<Receiver<Vec<u8>>>| {
        let Some(output) = output else { return String::new() };
        let bytes = output.recv_timeout(BOUND).unwrap_or_else(|_| {
            let _ = child.kill();
            panic!("still running after {BOUND:?}")
        });
        String::from_utf8(bytes).expect("UTF-8")
    };
    let (stdout, stderr) = (text(stdout), text(stderr));
    let code = child.wait().expect("it has ended").code();
    Finished { code, stdout, stderr }
}

/// Runs the binary to its end.
pub fn run(folder: &Folder, arguments: &[&str]) -> Finished {
    finish(start(&mut tokrate(folder, arguments)))
}

/// A text on one line: sentences are wrapped to the terminal.
pub fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}

fn read_all(mut output: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // A pipe of our own child: an error here ends in less text, which the test sees.
        let _ = output.read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    receiver
}

/// A bench that has ended, with its files.
pub struct Bench {
    pub folder: Folder,
    pub finished: Finished,
    pub record: Record,
    pub rows: Vec<Value>,
}

/// Arguments of a bench of `requests` requests at `concurrency`, everything small; `record.json` and `rows.jsonl` are
/// written.
pub fn bench_arguments(url: &str, concurrency: u32, requests: u32) -> Vec<String> {
    let words = format!(
        "bench --url {url} --model sim --concurrency {concurrency} --requests {requests} --warmup 0 --input-tokens 50 \
         --output-tokens 40 --calibration off --no-probe --json record.json --jsonl rows.jsonl"
    );
    words.split_whitespace().map(str::to_owned).collect()
}

/// Runs a bench against an endpoint.
pub fn bench(name: &str, url: &str, concurrency: u32, requests: u32, further: &[&str]) -> Bench {
    let folder = Folder::new(name);
    let mut arguments = bench_arguments(url, concurrency, requests);
    arguments.extend(further.iter().map(|&argument| argument.to_owned()));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let finished = run(&folder, &arguments);
    Bench::read(folder, finished)
}

impl Bench {
    /// Reads the files of a bench.
    pub fn read(folder: Folder, finished: Finished) -> Bench {
        assert!(folder.join("record.json").is_file(), "no record was written: {finished:?}");
        let record = Record::parse(&folder.read("record.json")).unwrap_or_else(|error| panic!("failed to {error}"));
        let rows = folder.read("rows.jsonl");
        assert!(rows.is_empty() || rows.ends_with('\n'), "the last line is whole");
        let rows = rows.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
        Bench { folder, finished, record, rows }
    }

    /// The only phase.
    pub fn phase(&self) -> &PhaseResult {
        assert_eq!(self.record.phases.len(), 1);
        &self.record.phases[0]
    }

    /// Requests that failed in each way, rate-limited and cancelled ones included, as the rows tell it; held against the
    /// record's own counts.
    pub fn failures(&self) -> BTreeMap<String, u64> {
        let mut by_kind = BTreeMap::new();
        for row in &self.rows {
            if let Some(kind) = row["failure"]["kind"].as_str() {
                *by_kind.entry(kind.to_owned()).or_insert(0) += 1;
            }
        }
        let counts = &self.phase().counts;
        assert_eq!(counts.started, self.rows.len() as u64, "every request has a row");
        assert_eq!(counts.started, counts.answered + counts.failed + counts.rate_limited + counts.cancelled);
        let mut counted: BTreeMap<String, u64> =
            self.phase().failures.iter().map(|failure| (failure.kind.name().to_owned(), failure.count)).collect();
        for (name, count) in [("rate_limited", counts.rate_limited), ("cancelled", counts.cancelled)] {
            if count > 0 {
                counted.insert(name.to_owned(), count);
            }
        }
        assert_eq!(counted, by_kind, "the record counts what the rows say");
        let violations: Vec<String> = self.phase().gate.iter().map(|violation| format!("{violation:?}")).collect();
        assert_eq!(violations, [""; 0], "the numbers contradict each other");
        by_kind
    }

    /// Asserts the exit code and that all requests failed in the same way, or none.
    #[track_caller]
    pub fn expect(&self, code: i32, failures: &[(&str, u64)]) {
        let expected: BTreeMap<String, u64> =
            failures.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        assert_eq!(self.failures(), expected, "{:#?}", self.finished);
        assert_eq!(self.finished.code, Some(code), "{:#?}", self.finished);
        self.expect_no_panic();
    }

    /// Asserts that the binary did not break down.
    #[track_caller]
    pub fn expect_no_panic(&self) {
        assert!(!self.finished.stderr.contains("panicked"), "{}", self.finished.stderr);
    }

    /// The row of the request with that index.
    pub fn row(&self, index: u64) -> &Value {
        self.rows.iter().find(|row| row["index"] == index).unwrap_or_else(|| panic!("no row {index}"))
    }

    /// Sums of an anomaly over the rows.
    pub fn anomalies(&self, name: &str) -> u64 {
        let rows: u64 = self.rows.iter().filter_map(|row| row["oddities"][name].as_u64()).sum();
        assert_eq!(self.phase().anomalies.get(name).copied().unwrap_or(0), rows, "the record sums up the rows");
        rows
    }
}

/// A whole number of a row; fails with the row if it is missing.
#[track_caller]
pub fn number(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap_or_else(|| panic!("{name} is {}: {row}", row[name]))
}
