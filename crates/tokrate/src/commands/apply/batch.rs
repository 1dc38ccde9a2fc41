//! Many merges: one JSON object a line in, one a line out, in the same order.
//!
//! It refuses to stop at a bad line. Invariant: every line that is not blank has a result, and only so many lines are held
//! at a time.

use crate::commands::Verdict;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tokrate_apply::{Options, Outcome, merge};

/// Lines that are held for each thread.
const LINES_EACH: usize = 64;

#[derive(Deserialize)]
struct Case {
    #[serde(default)]
    id: serde_json::Value,
    #[serde(default)]
    path: Option<String>,
    original: String,
    update: String,
    #[serde(default)]
    instruction: Option<String>,
}

#[derive(Serialize, Default)]
struct Answer {
    id: serde_json::Value,
    /// `merged` or `refused`.
    status: &'static str,
    /// The merged text.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    candidates: Vec<(usize, usize)>,
    micros: u64,
}

/// Merges every case of a file. A line that is no case makes the exit code 2, after all lines are answered.
pub fn run(path: &Path, without_tree: bool) -> Result<Verdict> {
    let file = File::open(path).with_context(|| format!("read --batch {}", path.display()))?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut lines = BufReader::new(file).lines().enumerate();
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut verdict = Verdict::Good;
    loop {
        let mut held: Vec<(usize, String)> = Vec::new();
        for (number, line) in lines.by_ref() {
            let line = line.with_context(|| format!("read line {} of {}", number + 1, path.display()))?;
            if !line.trim().is_empty() {
                held.push((number + 1, line));
            }
            if held.len() == threads * LINES_EACH {
                break;
            }
        }
        if held.is_empty() {
            out.flush().context("write to standard output")?;
            return Ok(verdict);
        }
        for answer in answers(&held, threads, without_tree) {
            if answer.code == Some("bad_line") {
                verdict = Verdict::NotMeasured;
            }
            serde_json::to_writer(&mut out, &answer).context("write to standard output")?;
            out.write_all(b"\n").context("write to standard output")?;
        }
    }
}

/// One answer for each line, in their order; threads take the next line as they come free.
fn answers(held: &[(usize, String)], threads: usize, without_tree: bool) -> Vec<Answer> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((number, line)) = held.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push((*number, answer(*number, line, without_tree)));
        }
        done
    };
    let mut done: Vec<(usize, Answer)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a merge does not panic")).collect()
    });
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, answer)| answer).collect()
}

fn answer(number: usize, line: &str, without_tree: bool) -> Answer {
    let case: Case = match serde_json::from_str(line) {
        Ok(case) => case,
        Err(error) => {
            let message = format!(
                "line {number}, column {}: {error}; expected an object with id, path, original, update",
                error.column()
            );
            return Answer { status: "refused", code: Some("bad_line"), message: Some(message), ..Answer::default() };
        }
    };
    let options = Options { path: case.path, instruction: case.instruction, without_tree, ..Options::default() };
    let begun = Instant::now();
    let outcome = merge(case.original.as_bytes(), case.update.as_bytes(), &options);
    let micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
    match outcome {
        Outcome::Merged(merged) => {
            Answer { id: case.id, status: "merged", output: Some(merged.text), micros, ..Answer::default() }
        }
        Outcome::Refused(refused) => Answer {
            id: case.id,
            status: "refused",
            code: Some(refused.code.name()),
            message: Some(format!("{refused}")),
            candidates: refused.candidates,
            micros,
            ..Answer::default()
        },
    }
}
