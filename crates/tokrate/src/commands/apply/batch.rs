//! Cases from lines of JSON, merged on all cores; one result a line, in the order of the cases.
//!
//! The file is not held in memory: lines are read as results are written. Invariant: every line that is not blank has
//! exactly one result, and a line that is broken costs only itself.

mod window;

use super::Merger;
use crate::commands::Verdict;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write, stdin, stdout};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use tokrate_apply::{Format, Language, Options, Refused};
use tokrate_apply_host::MergeResult;
use tokrate_net::Clock;
use window::Window;

/// Lines beyond this length are not read (bytes).
const MAX_LINE_BYTES: usize = 160 << 20;
/// Lines in work together, beyond one (bytes).
const MAX_WORK_BYTES: usize = 64 << 20;
/// Lines in work for each thread.
const LINES_PER_THREAD: usize = 16;

/// One case, as far as it could be read.
#[derive(Deserialize)]
struct Case {
    #[serde(default)]
    id: Value,
    path: Option<String>,
    original: Option<String>,
    update: Option<String>,
    instruction: Option<String>,
    language: Option<String>,
    format: Option<String>,
}

/// One result.
#[derive(Serialize, Default)]
struct Row {
    id: Value,
    status: &'static str,
    by: &'static str,
    output: Option<String>,
    code: Option<&'static str>,
    message: Option<String>,
    candidates: Vec<(usize, usize)>,
    hint: Option<String>,
    micros: u64,
}

/// A line with its number, counted from 1, or its length if that is too much.
struct Line {
    /// Its place among those that have a result.
    place: u64,
    number: u64,
    text: Result<Vec<u8>, usize>,
    weight: usize,
}

/// A result that waits for its turn.
struct Done {
    weight: usize,
    code: Option<&'static str>,
    text: Vec<u8>,
}

#[derive(Default)]
struct Counts {
    merged: u64,
    refused: BTreeMap<&'static str, u64>,
}

/// Merges the cases of a file.
pub fn run(cases: &Path, output: Option<&Path>, merger: &Merger) -> Result<Verdict> {
    let reading = || format!("read --batch {}; check the path", cases.display());
    let input: Box<dyn Read + Send> = match cases == Path::new("-") {
        true => Box::new(stdin()),
        false => Box::new(File::open(cases).with_context(reading)?),
    };
    let output: Box<dyn Write> = match output {
        None => Box::new(stdout().lock()),
        Some(path) => {
            let same = path.canonicalize().ok().zip(cases.canonicalize().ok()).is_some_and(|(one, other)| one == other);
            ensure!(!same, "write --output {}: it is the file of the cases; name another", path.display());
            Box::new(File::create(path).with_context(|| format!("write --output {}", path.display()))?)
        }
    };
    let clock = Clock::monotonic();
    let begun = clock.now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let counts = merge_all(BufReader::with_capacity(1 << 20, input), output, merger, threads).with_context(reading)?;
    anstream::eprintln!("{}", counts.summary_line((clock.now() - begun).as_secs_f64()));
    Ok(Verdict::Good)
}

fn merge_all(input: impl BufRead + Send, output: impl Write, merger: &Merger, threads: usize) -> Result<Counts> {
    let window = Window::new(threads * LINES_PER_THREAD, MAX_WORK_BYTES);
    let (lines, taken) = channel::<Line>();
    let taken = Mutex::new(taken);
    let (done, results) = channel::<(u64, Done)>();
    std::thread::scope(|scope| {
        let (window, taken) = (&window, &taken);
        let reader = scope.spawn(move || read_lines(input, window, &lines));
        for _ in 0..threads {
            let done = done.clone();
            scope.spawn(move || work(taken, &done, merger));
        }
        drop(done);
        let written = write_all(&results, BufWriter::with_capacity(1 << 16, output), window);
        // The reader may wait for results that are not read any more.
        window.close();
        let read = reader.join().expect("reading does not panic");
        let counts = written.context("write the results")?;
        read.map(|()| counts)
    })
}

/// Hands out lines while the window has room.
fn read_lines(mut input: impl BufRead, window: &Window, lines: &Sender<Line>) -> Result<()> {
    let mut place = 0;
    for number in 1.. {
        let Some(text) = next_line(&mut input).context("read a line of cases")? else { break };
        if text.as_ref().is_ok_and(|text| text.trim_ascii().is_empty()) {
            continue;
        }
        let weight = text.as_ref().map_or(0, Vec::len);
        if !window.admit(weight) || lines.send(Line { place, number, text, weight }).is_err() {
            break;
        }
        place += 1;
    }
    Ok(())
}

/// The next line without its end, or how long it was if that is too much; `None` at the end.
fn next_line(input: &mut impl BufRead) -> std::io::Result<Option<Result<Vec<u8>, usize>>> {
    let mut line = Vec::new();
    let most = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX);
    let count = input.by_ref().take(most + 1).read_until(b'\n', &mut line)?;
    if count == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if count > MAX_LINE_BYTES {
        return Ok(Some(Err(count + input.skip_until(b'\n')?)));
    }
    Ok(Some(Ok(line)))
}

fn work(taken: &Mutex<Receiver<Line>>, done: &Sender<(u64, Done)>, merger: &Merger) {
    loop {
        let line = taken.lock().expect("nobody panics while it holds this").recv();
        let Ok(line) = line else { return };
        let row = catch_unwind(AssertUnwindSafe(|| row(&line, merger))).unwrap_or_else(|_| Row {
            code: Some("internal"),
            message: Some("the engine broke down over this case; this is a bug, please report it".to_owned()),
            ..Row::refused(Value::Null)
        });
        let mut text = serde_json::to_vec(&row).expect("strings and numbers are always JSON");
        text.push(b'\n');
        if done.send((line.place, Done { weight: line.weight, code: row.code, text })).is_err() {
            return;
        }
    }
}

impl Row {
    fn refused(id: Value) -> Row {
        Row { id, status: "refused", by: "refused", ..Row::default() }
    }

    /// The result of a line that is no case.
    fn bad_line(id: Value, number: u64, column: usize, what: &str) -> Row {
        Row {
            code: Some("bad_line"),
            message: Some(format!("line {number}, column {column}: {what}")),
            hint: Some("write one JSON object a line with the strings `original` and `update`".to_owned()),
            ..Row::refused(id)
        }
    }
}

fn row(line: &Line, merger: &Merger) -> Row {
    let text = match &line.text {
        Ok(text) => text,
        Err(length) => {
            let what = format!("the line has {length} bytes, and at most {MAX_LINE_BYTES} are read");
            return Row::bad_line(Value::Null, line.number, 1, &what);
        }
    };
    let case: Case = match serde_json::from_slice(text) {
        // An array with the fields in order would be read as well.
        Ok(_) if !text.trim_ascii_start().starts_with(b"{") => {
            return Row::bad_line(Value::Null, line.number, 1, "a case is a JSON object");
        }
        Ok(case) => case,
        Err(error) => {
            // What is JSON but no case may still say which one it is.
            let id = serde_json::from_slice::<Value>(text).ok().and_then(|mut value| Some(value.get_mut("id")?.take()));
            let what = error.to_string().replace("struct Case", "a case");
            let what = what.rsplit_once(" at line ").map_or(what.as_str(), |(what, _)| what);
            return Row::bad_line(id.unwrap_or_default(), line.number, error.column().max(1), what);
        }
    };
    let Case { id, path, original, update, instruction, language, format } = case;
    let missing = |name: &str| format!("the case has no `{name}`");
    let Some(original) = original else { return Row::bad_line(id, line.number, 1, &missing("original")) };
    let Some(update) = update else { return Row::bad_line(id, line.number, 1, &missing("update")) };
    let language = match language.as_deref().map(|name| (name, Language::from_name(name))) {
        Some((name, None)) => {
            return Row::bad_line(id, line.number, 1, &format!("`{name}` is no language with a grammar"));
        }
        named => named.and_then(|(_, language)| language),
    };
    let format = match format.as_deref().map(|name| (name, Format::from_name(name))) {
        Some((name, None)) => return Row::bad_line(id, line.number, 1, &format!("`{name}` is no format of an update")),
        named => named.and_then(|(_, format)| format),
    };
    let options = Options { path, language, format, instruction, ..Options::default() };
    let clock = Clock::monotonic();
    let begun = clock.now();
    let settled = merger.settle(original.as_bytes(), update.as_bytes(), options);
    let micros = (clock.now() - begun).as_nanos() / 1_000;
    let by = settled.word();
    match settled {
        MergeResult::Merged { merged, .. } => {
            let status = if merged.is_unchanged() { "no_change" } else { "merged" };
            Row { id, status, by, output: Some(merged.text), micros, ..Row::default() }
        }
        MergeResult::Refused { refused: Refused { code, message, candidates, hint }, .. } => Row {
            code: Some(code.name()),
            message: Some(message),
            candidates,
            hint: Some(hint),
            micros,
            ..Row::refused(id)
        },
    }
}

/// Writes results in the order of their lines; what is written is handed on when nothing more is there yet.
fn write_all(results: &Receiver<(u64, Done)>, mut output: impl Write, window: &Window) -> std::io::Result<Counts> {
    let mut counts = Counts::default();
    let mut waiting: BTreeMap<u64, Done> = BTreeMap::new();
    let mut next = 0;
    loop {
        let (place, done) = match results.try_recv() {
            Ok(result) => result,
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) => {
                output.flush()?;
                let Ok(result) = results.recv() else { break };
                result
            }
        };
        waiting.insert(place, done);
        while let Some(done) = waiting.remove(&next) {
            output.write_all(&done.text)?;
            counts.add(done.code);
            window.release(done.weight);
            next += 1;
        }
    }
    output.flush()?;
    Ok(counts)
}

impl Counts {
    fn add(&mut self, code: Option<&'static str>) {
        match code {
            None => self.merged += 1,
            Some(code) => *self.refused.entry(code).or_insert(0) += 1,
        }
    }

    fn summary_line(&self, seconds: f64) -> String {
        let refused: u64 = self.refused.values().sum();
        let by_code: Vec<String> = self.refused.iter().map(|(code, count)| format!("{code} {count}")).collect();
        let by_code = if by_code.is_empty() { String::new() } else { format!(": {}", by_code.join(", ")) };
        let count = self.merged + refused;
        format!("{count} cases in {seconds:.2} s: {} merged, {refused} refused{by_code}", self.merged)
    }
}

#[cfg(test)]
mod tests;
