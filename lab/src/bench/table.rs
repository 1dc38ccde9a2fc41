//! What the bench prints: its conditions and one Markdown table.
//!
//! Invariant: every line shows its bar and whether it was met.

use super::clock::now;
use super::process::own_cpu;
use std::fmt;
use std::path::Path;
use std::process::Command;

/// One measured bar.
pub struct Line {
    /// What was measured.
    pub what: String,
    /// What the floor showed in the same run.
    pub floor: String,
    /// What tokrate showed.
    pub tokrate: String,
    /// tokrate against the floor.
    pub against: String,
    /// The bar.
    pub bar: String,
    /// Whether it was met; `None` where there is none or nothing to hold against it.
    pub met: Option<bool>,
}

/// A table in the making.
#[derive(Default)]
pub struct Table {
    lines: Vec<Line>,
    notes: Vec<String>,
}

impl Table {
    /// Adds lines.
    pub fn extend(&mut self, lines: Vec<Line>) {
        self.lines.extend(lines);
    }

    /// Adds a sentence below the table.
    pub fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "| what | floor | tokrate | tokrate against floor | bar | |")?;
        writeln!(formatter, "|---|---|---|---|---|---|")?;
        for line in &self.lines {
            let Line { what, floor, tokrate, against, bar, met } = line;
            let verdict = match met {
                Some(true) => "met",
                Some(false) => "**MISSED**",
                None => "-",
            };
            writeln!(formatter, "| {what} | {floor} | {tokrate} | {against} | {bar} | {verdict} |")?;
        }
        if !self.notes.is_empty() {
            writeln!(formatter)?;
        }
        for note in &self.notes {
            writeln!(formatter, "- {note}")?;
        }
        Ok(())
    }
}

/// CPU time of the whole machine so far, in the kernel's units, and that of this program with its ended children.
#[derive(Clone, Copy)]
pub struct MachineTime {
    total: u64,
    idle: u64,
    stolen: u64,
    own_ns: u64,
    at: u64,
}

impl MachineTime {
    /// As it is now; zero where the kernel does not say.
    pub fn now() -> MachineTime {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let first = text.lines().next().unwrap_or_default();
        let numbers: Vec<u64> = first.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
        let number = |index: usize| numbers.get(index).copied().unwrap_or(0);
        // user nice system idle iowait irq softirq steal; what follows is contained in the first two.
        MachineTime {
            total: numbers.iter().take(8).sum(),
            idle: number(3) + number(4),
            stolen: number(7),
            own_ns: own_cpu(),
            at: now(),
        }
    }

    /// What else took CPU time since then, in a sentence.
    pub fn summary_since(self) -> String {
        let (programs, machines) = self.others_since();
        format!(
            "of the CPU time meanwhile, other programs took {:.1} % and other machines {:.1} %",
            programs * 100.0,
            machines * 100.0
        )
    }

    /// The shares of the machine's CPU time since then that other programs took, and that other machines took.
    fn others_since(self) -> (f64, f64) {
        let now = MachineTime::now();
        let total = (now.total - self.total).max(1) as f64;
        let stolen = (now.stolen - self.stolen) as f64 / total;
        let idle = (now.idle - self.idle) as f64 / total;
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let own = (now.own_ns - self.own_ns) as f64 / ((now.at - self.at).max(1) as f64 * cores);
        ((1.0 - idle - stolen - own).max(0.0), stolen)
    }
}

/// Where and with what this was measured, as lines of a list.
pub fn conditions(root: &Path, tokrate: &Path) -> Vec<String> {
    let first_line = |command: &mut Command| -> String {
        let output = command.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        output.ok().and_then(|text| text.lines().next().map(str::to_owned)).unwrap_or_else(|| "unknown".to_owned())
    };
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':')).map_or("unknown", |pair| pair.1);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Vec<&str> = load.split_whitespace().take(3).collect();
    let commit = first_line(Command::new("git").args(["describe", "--always", "--dirty"]).current_dir(root));
    vec![
        format!("{}, {cores} cores, Linux {}, loopback", model.trim(), kernel.trim()),
        format!("{}, commit {commit}, {}", first_line(Command::new(tokrate).arg("--version")), rustc(first_line)),
        format!("load average before: {}", load.join(" ")),
    ]
}

fn rustc(first_line: impl Fn(&mut Command) -> String) -> String {
    first_line(Command::new("rustc").arg("--version"))
}
