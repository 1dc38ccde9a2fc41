//! A child process that cannot outlive the bench, and the resources of its process group.
//!
//! Invariant: a program runs in a process group of its own, under a small guard process that ends the whole group as
//! soon as the bench drops it or exits.

use crate::bench::clock::now;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// The hidden command that guards one program.
pub const GUARD: &str = "__guard";
/// How long a program may take to end after SIGTERM, before SIGKILL.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);
/// The kernel's unit of CPU time in `/proc` (ns): a hundredth of a second on every Linux.
const TICK_NS: u64 = 10_000_000;

/// A program that runs until this is dropped.
pub struct GuardedProcess {
    guard: Child,
    group: u32,
    /// When it was about to be started.
    pub started_at: u64,
    /// Its output.
    pub log: PathBuf,
}

/// Resource use of a process group.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// CPU time so far (ns).
    pub cpu_ns: u64,
    /// Resident memory now (KiB), added up over its processes.
    pub resident_kib: u64,
    /// Peak resident memory (KiB).
    pub peak_kib: u64,
}

impl GuardedProcess {
    /// Starts a program in a folder.
    pub fn start(
        program: &Path,
        arguments: &[String],
        variables: &[(&str, &str)],
        log: PathBuf,
    ) -> Result<GuardedProcess> {
        let myself = std::env::current_exe().context("find this program")?;
        let folder = log.parent().context("find the folder of the log")?;
        let mut command = Command::new(myself);
        command.arg(GUARD).arg(&log).arg(program).args(arguments).current_dir(folder).process_group(0);
        command.envs(variables.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut guard = command.spawn().with_context(|| format!("start {}", program.display()))?;
        let mut line = String::new();
        if let Some(output) = guard.stdout.take() {
            BufReader::new(output).read_line(&mut line).context("read from the guard")?;
        }
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [group, started_at] = numbers[..] else {
            let _ = guard.wait();
            bail!("start {}: it could not be run", program.display());
        };
        Ok(GuardedProcess { guard, group: group as u32, started_at, log })
    }

    /// The process id of its first process.
    pub fn process(&self) -> u32 {
        self.group
    }

    /// Resource use of the group now.
    pub fn usage(&self) -> Usage {
        let mut sum = Usage::default();
        for (process, stat) in processes() {
            if stat.group == self.group {
                sum.cpu_ns += stat.cpu_ticks * TICK_NS;
                let rolled = std::fs::read_to_string(process.join("smaps_rollup")).unwrap_or_default();
                let status = std::fs::read_to_string(process.join("status")).unwrap_or_default();
                sum.resident_kib += kib(&rolled, "Rss:").or(kib(&status, "VmRSS:")).unwrap_or(0);
                sum.peak_kib += kib(&status, "VmHWM:").unwrap_or(0);
            }
        }
        sum
    }

    /// CPU time so far (ns): cheaper than all of `usage`.
    pub fn cpu_ns(&self) -> u64 {
        processes().filter(|(_, stat)| stat.group == self.group).map(|(_, stat)| stat.cpu_ticks * TICK_NS).sum()
    }

    /// Whether its first process still runs.
    pub fn is_alive(&self) -> bool {
        processes().any(|(process, stat)| process.ends_with(self.group.to_string()) && stat.state != 'Z')
    }

    /// The last lines of its output.
    pub fn last_output(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(3)..].join(" / ")
    }
}

impl Drop for GuardedProcess {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// The guard: `__guard LOG PROGRAM ARGUMENTS…`. It ends the program when its standard input ends.
pub fn guard(arguments: &[String]) -> Result<ExitCode> {
    let [log, program, rest @ ..] = arguments else { bail!("guard a program: none named") };
    let log = File::create(log).with_context(|| format!("write {log}"))?;
    let mut command = Command::new(program);
    command.args(rest).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
    let started_at = now();
    let mut child = command.spawn().with_context(|| format!("run {program}"))?;
    // The parent may have exited already: then standard input has ended as well.
    let _ = writeln!(std::io::stdout(), "{} {started_at}", child.id());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    end(&mut child)?;
    Ok(ExitCode::SUCCESS)
}

/// Sends SIGTERM to a group, then SIGKILL to what is left of it.
fn end(child: &mut Child) -> Result<()> {
    let group = Pid::from_raw(child.id() as i32).context("end a program: it has no process id")?;
    let asked_at = now();
    let _ = kill_process_group(group, Signal::TERM);
    while child.try_wait()?.is_none() && now() - asked_at < STOP_TIMEOUT.as_nanos() as u64 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = kill_process_group(group, Signal::KILL);
    child.wait().context("wait for the end of a program")?;
    Ok(())
}

/// The fields of `/proc/N/stat` that are needed here.
struct Stat {
    state: char,
    group: u32,
    cpu_ticks: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Stat> {
        // The name in parentheses may contain anything, so fields are read after the last parenthesis.
        let words: Vec<&str> = text[text.rfind(')')? + 1..].split_whitespace().collect();
        let number = |place: usize| words.get(place)?.parse::<u64>().ok();
        // User and system time of its own and of its children that have ended.
        let cpu_ticks = (11..15).filter_map(number).sum();
        Some(Stat { state: words.first()?.chars().next()?, group: number(2)? as u32, cpu_ticks })
    }
}

fn processes() -> impl Iterator<Item = (PathBuf, Stat)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let is_process = entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit);
        let path = entry.path();
        let text = is_process.then(|| std::fs::read_to_string(path.join("stat")).ok())??;
        Some((path, Stat::parse(&text)?))
    })
}

fn kib(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let text = "71 (a) R 9 (b)) S 1 70 70 0 -1 4194560 100 0 0 0 12 30 5 1 20 0 3 0 100 0 0";
        let stat = Stat::parse(text).expect("a process");
        assert_eq!((stat.state, stat.group, stat.cpu_ticks), ('S', 70, 48));
        assert_eq!(kib("Rss:    12 kB\nVmHWM:\t    345 kB\n", "VmHWM:"), Some(345));
    }
}
