//! Runs a program as a child process and measures its cost by the kernel's accounting.
//!
//! Invariant: each run is the only child of a small wrapper process, so the costs of one run are never mixed with
//! another's.

use super::clock::now;
use anyhow::{Context, Result, bail};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// The hidden command that runs one program and writes its costs to a file.
pub const WRAPPER: &str = "__measure";

/// The cost of a run.
#[derive(Clone, Debug)]
pub struct Cost {
    /// From before its start until its exit (ns).
    pub wall_ns: u64,
    /// CPU time, user and system (ns).
    pub cpu_ns: u64,
    /// Largest resident memory (KiB).
    pub peak_kib: u64,
    /// Exit code; `None` when a signal ended it.
    pub exit: Option<i32>,
    /// Its standard error.
    pub stderr: String,
}

/// Runs a program to its end.
pub fn run(program: &Path, arguments: &[String], folder: &Path) -> Result<Cost> {
    let report = folder.join("cost.json");
    let myself = std::env::current_exe().context("find this program")?;
    let output = Command::new(myself)
        .arg(WRAPPER)
        .arg(&report)
        .arg(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {}", program.display()))?;
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if !output.status.success() {
        bail!("run {}: {stderr}", program.display());
    }
    let text = std::fs::read_to_string(&report).context("read what the run cost")?;
    let cost: Value = serde_json::from_str(&text).context("read what the run cost")?;
    let number = |name: &str| cost[name].as_u64().with_context(|| format!("read what the run cost: {name}"));
    Ok(Cost {
        wall_ns: number("wall_ns")?,
        cpu_ns: number("cpu_ns")?,
        peak_kib: number("peak_kib")?,
        exit: cost["exit"].as_i64().map(|code| code as i32),
        stderr,
    })
}

/// CPU time of this program and of its children that have ended (ns).
pub fn own_cpu() -> u64 {
    [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN]
        .into_iter()
        .filter_map(|who| Some(cpu(&getrusage(who).ok()?)))
        .sum()
}

/// The wrapper: `__measure REPORT PROGRAM ARGUMENTS…`.
pub fn wrap(arguments: &[String]) -> Result<ExitCode> {
    let [report, program, rest @ ..] = arguments else { bail!("measure a run: no program named") };
    let started_at = now();
    let status = Command::new(program).args(rest).status().with_context(|| format!("run {program}"))?;
    let wall_ns = now() - started_at;
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("measure what the run cost")?;
    let cost = json!({
        "wall_ns": wall_ns,
        "cpu_ns": cpu(&usage),
        "peak_kib": usage.max_rss(),
        "exit": status.code(),
    });
    std::fs::write(report, cost.to_string()).with_context(|| format!("write {report}"))?;
    Ok(ExitCode::SUCCESS)
}

fn cpu(usage: &Usage) -> u64 {
    let micros = |time: TimeVal| time.tv_sec() as u64 * 1_000_000 + time.tv_usec() as u64;
    (micros(usage.user_time()) + micros(usage.system_time())) * 1000
}
