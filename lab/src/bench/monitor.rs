//! `cargo xtask bench monitor`: the bars of monitor and board, each with what was reached, measured on release builds.
//!
//! It runs the binary and the examples that measure one thing each, and judges nothing itself. Invariant: every bar is printed, also one
//! that is missed; what was not measured says so.

use super::table::{MachineTime, conditions};
use super::tempfolder;
use anyhow::{Context, Result, bail, ensure};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How it is called.
pub const USAGE: &str = "\
usage: cargo xtask bench monitor [--quick] [--tokrate BINARY] [demo | detector | board | ingest | months | memory | week]…
";

const PARTS: [&str; 7] = ["demo", "board", "ingest", "months", "detector", "memory", "week"];
/// Rounds of the demo; their median counts.
const DEMO_ROUNDS: usize = 3;
/// No demo takes as long.
const DEMO_PATIENCE: Duration = Duration::from_secs(120);
/// How often the demo's board is asked for: a hundredth of the bar.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// A bar with what was reached.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Outcome {
    what: String,
    bar: String,
    figure: String,
    verdict: String,
}

/// Measures and prints a table.
pub fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let (mut parts, mut is_quick, mut tokrate) = (Vec::new(), false, None);
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--quick" => is_quick = true,
            "--tokrate" => {
                tokrate = Some(std::path::absolute(words.next().context("read what follows --tokrate")?)?);
            }
            part if PARTS.contains(&part) => parts.push(part),
            other => bail!("read the argument {other}\n{USAGE}"),
        }
    }
    if parts.is_empty() {
        parts.extend(PARTS);
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let tokrate = match tokrate {
        Some(tokrate) => tokrate,
        None => {
            cargo(root, &["build", "--release", "--quiet", "--package", "tokrate"])?;
            target.join("release/tokrate")
        }
    };
    let machine = MachineTime::now();
    let conditions = conditions(root, &tokrate);
    let folder = tempfolder()?;
    let mut outcomes = Vec::new();
    for part in &parts {
        eprintln!("{part} …");
        outcomes.extend(measure(part, root, &tokrate, &folder, is_quick)?);
    }
    drop(std::fs::remove_dir_all(folder));
    for condition in conditions {
        println!("- {condition}");
    }
    println!("- {}\n", machine.summary_since());
    print!("{}", table(&outcomes));
    if parts.len() == PARTS.len() {
        println!("\nNot measured here: the Turing Change Point Dataset (docs/monitor.md says how), Lighthouse.");
    }
    Ok(())
}

fn measure(part: &str, root: &Path, tokrate: &Path, folder: &Path, is_quick: bool) -> Result<Vec<Outcome>> {
    let (endpoints, year, week) = if is_quick { ("20", "90", "1") } else { ("200", "365", "7") };
    match part {
        "demo" => demo(tokrate, folder),
        "detector" => example(root, "tokrate-detect", "power", &[endpoints]),
        "ingest" => {
            let binary = tokrate.to_str().context("name the binary")?;
            example(root, "tokrate-monitor", "ingest", &[binary, folder.to_str().context("name the folder")?])
        }
        "months" => example(root, "tokrate-dst", "monitor_months", &["200", "60"]),
        "memory" => example(root, "tokrate-dst", "monitor_months", &["200", year, "memory"]),
        "week" => example(root, "tokrate-monitor", "week", &["1440", week]),
        _ => board(root, tokrate, folder),
    }
}

/// From the start of the binary to the first whole page of its board.
fn demo(tokrate: &Path, folder: &Path) -> Result<Vec<Outcome>> {
    let mut seconds = Vec::new();
    for _ in 0..DEMO_ROUNDS {
        let address = free_address()?;
        let begun = Instant::now();
        let child = Command::new(tokrate)
            .args(["monitor", "--demo", "--board", &address.to_string()])
            .env("TMPDIR", folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut child = Ended(child.with_context(|| format!("run {}", tokrate.display()))?);
        loop {
            if page(address).is_some_and(|page| page.contains("northwind")) {
                break;
            }
            ensure!(child.0.try_wait()?.is_none(), "run the demo: it ended before its board was there");
            ensure!(begun.elapsed() < DEMO_PATIENCE, "run the demo: no board after {DEMO_PATIENCE:?}");
            std::thread::sleep(ASK_EVERY);
        }
        seconds.push(begun.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    let (least, median, most) = (seconds[0], seconds[DEMO_ROUNDS / 2], seconds[DEMO_ROUNDS - 1]);
    let figure = format!("{median:.1} s ({least:.1}..{most:.1})");
    Ok(vec![outcome("demo: start to a full board", "<= 20 s", figure, median <= 20.0)])
}

/// A process that does not outlive its measurement.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// The first page of a board, if one answers.
fn page(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(DEMO_PATIENCE)).ok()?;
    write!(stream, "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.starts_with("HTTP/1.1 200").then_some(answer)
}

/// Queries and pages over a year in SQLite, and the export of its board.
fn board(root: &Path, tokrate: &Path, folder: &Path) -> Result<Vec<Outcome>> {
    let database = folder.join("year.db");
    let path = database.to_str().context("name the database")?;
    let mut outcomes = example(root, "tokrate-monitor", "year", &[path])?;
    let begun = Instant::now();
    let export = Command::new(tokrate)
        .args(["monitor", "export", "--static", "site", "--db", path])
        .current_dir(folder)
        .output()
        .context("run the export")?;
    ensure!(export.status.success(), "export the board: {}", String::from_utf8_lossy(&export.stderr).trim());
    let seconds = begun.elapsed().as_secs_f64();
    eprintln!("{}", String::from_utf8_lossy(&export.stderr).trim());
    outcomes.push(outcome("static export of 200 endpoints", "<= 10 s", format!("{seconds:.1} s"), seconds <= 10.0));
    Ok(outcomes)
}

/// Runs an example that measures; the lines that are no bars are shown as they are.
fn example(root: &Path, package: &str, name: &str, arguments: &[&str]) -> Result<Vec<Outcome>> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--release", "--quiet", "--package", package, "--example", name, "--"]).args(arguments);
    let output = command.current_dir(root).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("run the example {name} of {package}"))?;
    let text = String::from_utf8(output.stdout).with_context(|| format!("read what {name} printed"))?;
    let outcomes: Vec<Outcome> = text.lines().filter_map(read).collect();
    // One that is missed may end as a failure.
    let is_missed = outcomes.iter().any(|outcome| outcome.verdict == "missed");
    ensure!(output.status.success() || is_missed, "run the example {name} of {package}: {}", output.status);
    ensure!(!outcomes.is_empty(), "read what {name} printed: there is no bar in it");
    text.lines().filter(|line| read(line).is_none()).for_each(|line| eprintln!("{line}"));
    Ok(outcomes)
}

/// A line of an example: `BAR|what|bar|figure|verdict`.
fn read(line: &str) -> Option<Outcome> {
    let mut fields = line.strip_prefix("BAR|")?.split('|').map(str::to_owned);
    Some(Outcome { what: fields.next()?, bar: fields.next()?, figure: fields.next()?, verdict: fields.next()? })
}

fn outcome(what: &str, bar: &str, figure: String, is_met: bool) -> Outcome {
    let verdict = if is_met { "met" } else { "missed" };
    Outcome { what: what.to_owned(), bar: bar.to_owned(), figure, verdict: verdict.to_owned() }
}

fn table(outcomes: &[Outcome]) -> String {
    let mut text = "| what | bar | reached | |\n|---|---|---|---|\n".to_owned();
    for Outcome { what, bar, figure, verdict } in outcomes {
        let verdict = if verdict == "missed" { "**missed**" } else { verdict };
        text += &format!("| {what} | {bar} | {figure} | {verdict} |\n");
    }
    text
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<()> {
    let status = Command::new(env!("CARGO")).args(arguments).current_dir(root).status().context("run cargo")?;
    ensure!(status.success(), "run cargo {}: {status}", arguments.join(" "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_bar_is_in_the_table() {
        let read = read("BAR|a drop|>= 85 %|43.5 %|missed").expect("a bar");
        assert_eq!(read, outcome("a drop", ">= 85 %", "43.5 %".to_owned(), false));
        let shown = table(&[read, outcome("demo", "<= 20 s", "3 s".to_owned(), true)]);
        assert!(
            shown.contains("| a drop | >= 85 % | 43.5 % | **missed** |")
                && shown.contains("| demo | <= 20 s | 3 s | met |")
        );
        assert_eq!(super::read("| 0.10 | false | 0.045 |"), None);
        assert_eq!(super::read("BAR|half a line"), None);
    }
}
