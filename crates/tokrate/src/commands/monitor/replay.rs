//! `tokrate monitor replay`: the detector over a file of samples.

use crate::commands::Verdict;
use crate::flags::monitor::ReplayFlags;
use crate::out::monitor::counted;
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write;
use std::io::{BufRead, BufReader, Read, stdin};
use tokrate_detect::{Detector, Event, FalseAlarms, Sample};
use tokrate_targets::reading::MAX_DATA_BYTES;

/// Longest line that is read (bytes); no sample is as long.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// Broken lines that are named; of more it is said how many.
const MAX_NAMED_LINES: usize = 5;

/// Prints the events of a file of samples.
pub fn run(flags: &ReplayFlags) -> Result<Verdict> {
    let allowed = flags.false_alarms;
    ensure!((0.0001..=10.0).contains(&allowed), "read --false-alarms {allowed}: a number from 0.0001 to 10");
    let read = read_samples(flags)?;
    for broken in &read.broken {
        anstream::eprintln!("tokrate: {broken}");
    }
    if read.broken_lines > read.broken.len() {
        anstream::eprintln!("tokrate: {} further lines are no samples", read.broken_lines - read.broken.len());
    }
    if read.samples.is_empty() {
        bail!("find a sample in {}; see `tokrate monitor replay --help` for the form of a line", flags.file.display());
    }
    let count = read.samples.len();
    let events = detect(read.samples, FalseAlarms { worse_in_month: allowed, ..FalseAlarms::default() });
    let mut text = String::new();
    for event in &events {
        let line = serde_json::to_string(event).context("write an event as JSON")?;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{line}");
    }
    crate::out::stdout::write(&text)?;
    let left_out = if read.broken_lines > 0 {
        format!("; left out {}", counted(read.broken_lines, "line"))
    } else {
        String::new()
    };
    anstream::eprintln!("tokrate: {} in {}{left_out}", counted(events.len(), "event"), counted(count, "sample"));
    Ok(Verdict::Good)
}

fn detect(samples: Vec<Sample>, allowed: FalseAlarms) -> Vec<Event> {
    let mut detector = Detector::new(allowed);
    let mut events: Vec<Event> = samples.into_iter().flat_map(|sample| detector.push(sample)).collect();
    events.extend(detector.end_hour());
    events
}

/// What stands in a file.
#[derive(Default)]
struct ReadSamples {
    /// By time.
    samples: Vec<Sample>,
    /// The first broken lines, and what is wrong with them.
    broken: Vec<String>,
    broken_lines: usize,
}

fn read_samples(flags: &ReplayFlags) -> Result<ReadSamples> {
    let path = flags.file.display();
    let from_stdin = flags.file.as_os_str() == "-";
    let input: Box<dyn Read> = if from_stdin {
        Box::new(stdin().lock())
    } else {
        Box::new(std::fs::File::open(&flags.file).with_context(|| format!("read the samples {path}"))?)
    };
    let mut input = BufReader::new(input.take(MAX_DATA_BYTES + 1));
    let (mut read, mut line, mut number, mut bytes) = (ReadSamples::default(), Vec::new(), 0_u64, 0_u64);
    loop {
        line.clear();
        let length = input.by_ref().take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut line);
        let length = length.with_context(|| format!("read the samples {path}"))? as u64;
        bytes += length;
        ensure!(
            bytes <= MAX_DATA_BYTES,
            "read the samples {path}: more than {MAX_DATA_BYTES} bytes; give fewer days at a time"
        );
        if length == 0 {
            break;
        }
        number += 1;
        ensure!(
            length <= MAX_LINE_BYTES,
            "read the samples {path}: line {number} has more than {MAX_LINE_BYTES} bytes"
        );
        let text = String::from_utf8_lossy(&line);
        if text.trim().is_empty() {
            continue;
        }
        match Sample::parse(&text) {
            Ok(sample) => read.samples.push(sample),
            Err(error) => {
                read.broken_lines += 1;
                if read.broken.len() < MAX_NAMED_LINES {
                    read.broken.push(format!("line {number} of {path} is no sample: {error}"));
                }
            }
        }
    }
    // In the order of the file where times are equal.
    read.samples.sort_by_key(|sample| sample.at);
    Ok(read)
}
