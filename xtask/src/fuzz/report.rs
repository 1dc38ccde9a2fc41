//! The report of a fuzz run: a table, and the failures.
//!
//! Invariant: executions are those that libFuzzer counted, over all slices of the run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use xtask::corpus;

/// Failed inputs up to this length are printed in the report (bytes).
const MAX_SHOWN_BYTES: usize = 400;

/// The result of one slice.
pub struct Ran {
    pub executions: u64,
    /// What libFuzzer calls features: branches and how often they were taken.
    pub features: u64,
    /// Inputs that together reach them.
    pub inputs: u64,
    pub time: Duration,
    pub crash: Option<Crash>,
}

/// An input that broke a property, took too long or too much memory.
pub struct Crash {
    pub input: PathBuf,
    pub output: String,
}

/// The results of all slices of a target.
pub struct Tally {
    pub name: String,
    pub executions: u64,
    pub features: u64,
    pub inputs: u64,
    pub time: Duration,
    pub crash: Option<Crash>,
}

impl Tally {
    pub fn new(name: &str) -> Tally {
        Tally { name: name.to_owned(), executions: 0, features: 0, inputs: 0, time: Duration::ZERO, crash: None }
    }

    pub fn add(&mut self, ran: Ran) {
        self.executions += ran.executions;
        self.features = self.features.max(ran.features);
        self.inputs = self.inputs.max(ran.inputs);
        self.time += ran.time;
        self.crash = self.crash.take().or(ran.crash);
    }

    fn per_second(&self) -> u64 {
        (self.executions as f64 / self.time.as_secs_f64().max(1e-9)) as u64
    }
}

/// A row a target, in Markdown.
pub fn table(tallies: &[Tally]) -> String {
    let mut lines = vec![
        format!(
            "| {:16} | {:>11} | {:>8} | {:>8} | {:>6} | crashes |",
            "target", "executions", "exec/s", "features", "inputs"
        ),
        format!("|{0:-<18}|{0:->12}:|{0:->9}:|{0:->9}:|{0:->7}:|--------:|", ""),
    ];
    lines.extend(tallies.iter().map(|tally| {
        let Tally { name, executions, features, inputs, crash, .. } = tally;
        let (speed, crashes) = (tally.per_second(), usize::from(crash.is_some()));
        format!("| {name:16} | {executions:>11} | {speed:>8} | {features:>8} | {inputs:>6} | {crashes:>7} |")
    }));
    lines.join("\n")
}

/// A summary in one line.
pub fn sum(tallies: &[Tally]) -> String {
    let executions: u64 = tallies.iter().map(|tally| tally.executions).sum();
    let crashes = tallies.iter().filter(|tally| tally.crash.is_some()).count();
    format!("{executions} executions over {} targets, {crashes} of which failed,", tallies.len())
}

/// How a target failed, if it did, and what to do about it.
pub fn failure(root: &Path, tally: &Tally) -> Option<String> {
    let Crash { input, output } = tally.crash.as_ref()?;
    let name = &tally.name;
    let shown = input.strip_prefix(root).unwrap_or(input).display();
    let kept = fs::read(input).map(|input| corpus::write(&[input])).unwrap_or_default();
    let kept = if kept.len() <= MAX_SHOWN_BYTES { format!(":\n  {}", kept.trim_end()) } else { String::new() };
    Some(format!(
        "\n{name} failed on {shown}:\n{output}\nagain: cargo run -p tokrate-fuzz -- {name} {shown}\n\
         to keep it, add its line to fuzz/data/seeds/{name}.txt{kept}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_added_up_and_a_crash_says_how_to_see_it_again() {
        let ran =
            |executions, features| Ran { executions, features, inputs: 3, time: Duration::from_secs(2), crash: None };
        let mut tally = Tally::new("frame");
        tally.add(ran(1_000, 20));
        tally.add(Ran { crash: Some(Crash { input: "/r/x".into(), output: "not so".to_owned() }), ..ran(3_000, 15) });
        assert_eq!((tally.executions, tally.features, tally.per_second()), (4_000, 20, 1_000));
        let table = table(&[tally]);
        let row = table.lines().last().expect("a row");
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells[1..7], ["frame", "4000", "1000", "20", "3", "1"]);
    }

    #[test]
    fn a_failure_names_its_input_and_the_commands() {
        let crash = Crash { input: "/r/target/fuzz/artifacts/frame/crash-1".into(), output: "not so".to_owned() };
        let report = failure(Path::new("/r"), &Tally { crash: Some(crash), ..Tally::new("frame") }).expect("it failed");
        assert!(report.contains("cargo run -p tokrate-fuzz -- frame target/fuzz/artifacts/frame/crash-1"), "{report}");
        assert!(report.contains("not so") && report.contains("fuzz/data/seeds/frame.txt"), "{report}");
        assert!(failure(Path::new("/r"), &Tally::new("frame")).is_none());
    }
}
