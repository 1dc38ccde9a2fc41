//! `cargo xtask soak gateway`: an hour of load on the gateway under faults of every kind, with every answer and every row checked.
//!
//! Speed is not measured here: the load leaves the machine idle most of the time. Invariant: engines, gateway and clients are
//! processes of their own over loopback; what clients do follows from the seed; anything that breaks the promise fails
//! the run.

mod archive;
mod audit;
mod client;
mod engines;
mod event_stream;
mod gateway;
mod ledger;
mod load;
mod plan;
pub mod process;
mod report;
mod response;
mod trend;

use crate::bench::clock::now;
use crate::bench::conditions;
use crate::bench::stream::Tls;
use anyhow::{Context, Result, bail, ensure};
use archive::Archive;
use audit::Audit;
use client::Door;
use engines::{Engine, PROFILES};
use gateway::Gateway;
use ledger::Ledger;
use load::Load;
use plan::Plan;
use process::ResourceUsage;
use report::{Report, Sample};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tokrate_store::{Attempt, Query, Sqlite, Store};
use xtask::tools;

/// How it is called.
pub const USAGE: &str = "\
usage: cargo xtask soak gateway [--minutes 60] [--rate 25] [--seed 1] [--plain] [--tokrate BINARY [--commit NAME]] [--write]
       RATE is clients a second; --plain: clients speak HTTP without TLS; --write puts the figures into docs/soak.md;
       NAME is the commit that BINARY was built from, if it is not the one checked out
";

/// How often the gateway's resources are sampled and its settings changed; a short soak does both more often.
const SAMPLE_EVERY: Duration = Duration::from_secs(10);
const CHANGE_EVERY: Duration = Duration::from_secs(60);
/// How long open calls and drains may take after the last client: longer than the gateway's `total` and `drain`.
const IDLE_TIMEOUT: Duration = Duration::from_secs(40);
/// The page with the figures.
const PAGE: &str = "docs/soak.md";

#[derive(Clone, Debug)]
struct Options {
    minutes: f64,
    rate: f64,
    seed: u64,
    tokrate: Option<PathBuf>,
    /// The commit that the binary was built from.
    commit: Option<String>,
    /// Whether clients speak HTTP without TLS.
    plain: bool,
    write: bool,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Options> {
        let mut options =
            Options { minutes: 60.0, rate: 25.0, seed: 1, tokrate: None, commit: None, plain: false, write: false };
        let mut words = arguments.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("read what follows {word}\n{USAGE}"));
            let number = |text: &str| -> Result<f64> {
                let number: f64 = text.parse().with_context(|| format!("read the number after {word}"))?;
                ensure!(number.is_finite() && number > 0.0, "read the number after {word}: it is not above 0");
                Ok(number)
            };
            match word {
                "--minutes" => options.minutes = number(value()?)?,
                "--rate" => options.rate = number(value()?)?,
                "--seed" => options.seed = value()?.parse().context("read the seed")?,
                "--tokrate" => options.tokrate = Some(std::path::absolute(value()?)?),
                "--commit" => options.commit = Some(value()?.to_owned()),
                "--plain" => options.plain = true,
                "--write" => options.write = true,
                other => bail!("understand {other}\n{USAGE}"),
            }
        }
        Ok(options)
    }
}

/// Runs the soak named by the arguments.
pub fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let Some(("gateway", rest)) = arguments.split_first().map(|(name, rest)| (name.as_str(), rest)) else {
        bail!("know what to soak\n{USAGE}");
    };
    let options = Options::parse(rest)?;
    let tokrate = match &options.tokrate {
        Some(tokrate) => tokrate.clone(),
        None => {
            let flags = ["build", "--quiet", "--package", "tokrate", "--release"];
            tools::run(Command::new(env!("CARGO")).args(flags).current_dir(root))?;
            root.join("target/release/tokrate")
        }
    };
    soak(root, &tokrate, &options)
}

/// Runs a soak of this binary.
pub fn with(root: &Path, tokrate: &Path, arguments: &[String]) -> Result<()> {
    soak(root, tokrate, &Options::parse(arguments)?)
}

fn soak(root: &Path, tokrate: &Path, options: &Options) -> Result<()> {
    ensure!(!options.write || root.join(PAGE).is_file(), "find {PAGE}, where the figures are to be written");
    let folder = std::env::temp_dir().join(format!("tokrate-soak-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("make the folder {}", folder.display()))?;
    let report = play(root, tokrate, &folder, options);
    let report = report
        .with_context(|| format!("soak the gateway; what it and the engines wrote is in {}", folder.display()))?;
    println!("{}", report.text());
    if options.write {
        report.write(&root.join(PAGE))?;
    }
    let (broken, grows) = (report.all_violations().len(), report.memory_verdict().1);
    if broken == 0 && !grows {
        return std::fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()));
    }
    ensure!(
        broken == 0,
        "keep the gateway's promise: {broken} violations; logs and ledgers are in {}",
        folder.display()
    );
    bail!("keep the gateway's memory flat; logs and ledgers are in {}", folder.display())
}

/// Starts engines, gateway and clients, waits for their end, and checks everything.
fn play(root: &Path, tokrate: &Path, folder: &Path, options: &Options) -> Result<Report> {
    let mut conditions = conditions(root, tokrate);
    if let Some(commit) = &options.commit {
        conditions.push(format!("the binary was built from commit {commit}, whatever is checked out"));
    }
    let engines = (0..PROFILES.len()).map(|place| Engine::start(tokrate, folder, place, options.seed));
    let engines = engines.collect::<Result<Vec<_>>>()?;
    let archive = Archive::start()?;
    let tls = if options.plain { None } else { Some(Tls::make(folder).context("make certificates")?) };
    let mut gateway = Gateway::start(tokrate, folder, &engines, archive.address, tls.as_ref())?;
    let before = gateway.resources()?;
    let duration = Duration::from_secs_f64(options.minutes * 60.0);
    let load = Load::start(Plan::new(options.seed, options.rate), Door { address: gateway.address, tls }, duration)?;
    let watched = watch(&mut gateway, &engines, &load, duration);
    if watched.is_err() {
        load.stop_early();
    }
    let late = load.shared.late.load(std::sync::atomic::Ordering::Relaxed);
    let seen = load.finish()?;
    let samples = watched?;
    let mut violations = Vec::new();
    let (after, rows_lost) = wait_until_idle(&gateway, &mut violations)?;
    let changes = (gateway.settings_sent, gateway.settings_acknowledged());
    if changes.0 != changes.1 {
        violations.push(format!("settings: (valid, invalid) sent {:?}, acknowledged {:?}", changes.0, changes.1));
    }
    gateway.stop()?;
    violations.extend(gateway.logged_errors());
    for engine in &engines {
        ensure!(engine.is_alive(), "find {} alive at the end", engine.profile.name);
        engine.stop()?;
    }
    let rows = rows(&gateway.log)?;
    let seeds: Vec<u64> = engines.iter().map(|engine| engine.seed).collect();
    let audit = Audit::run(&seen, rows, &Ledger::read(&engines)?, &archive.uploads(), &seeds);
    conditions.push(format!(
        "{} minutes, {} clients a second on average, seed {}, {} engines and the gateway as processes of their own",
        options.minutes,
        options.rate,
        options.seed,
        engines.len()
    ));
    let over = if options.plain { "plain HTTP" } else { "TLS" };
    conditions.push(format!("clients speak {over}; forms go to a provider of files in the clients' process"));
    conditions.push(format!("begun {}", begun(root, options)));
    let log_bytes = gateway.log_bytes();
    let (minutes, rest) = (options.minutes, (before, after));
    Ok(Report { conditions, minutes, seen, late, samples, rest, audit, rows_lost, log_bytes, changes, violations })
}

/// Samples the gateway's resources and changes its settings as long as clients start.
fn watch(gateway: &mut Gateway, engines: &[Engine], load: &Load, duration: Duration) -> Result<Vec<Sample>> {
    // A short soak needs several changes and samples, too.
    let (every, change_every) = (SAMPLE_EVERY.min(duration / 9), CHANGE_EVERY.min(duration / 6));
    let from = now();
    let (mut samples, mut next_change, mut next_word) = (Vec::new(), change_every, Duration::from_secs(60));
    while load.is_running() {
        std::thread::sleep(every);
        let elapsed = Duration::from_nanos(now() - from);
        let resources = gateway.resources()?;
        samples.push(Sample { seconds: elapsed.as_secs_f64(), resources });
        for engine in engines {
            ensure!(engine.is_alive(), "find {} alive", engine.profile.name);
        }
        if elapsed >= next_change && elapsed < duration {
            next_change += change_every;
            gateway.change_settings()?;
        }
        if elapsed >= next_word {
            next_word += Duration::from_secs(60);
            print_progress(gateway, load, elapsed, resources)?;
        }
    }
    Ok(samples)
}

/// Prints a line each minute.
fn print_progress(gateway: &Gateway, load: &Load, elapsed: Duration, resources: ResourceUsage) -> Result<()> {
    let counters = gateway.counters()?;
    let seen = load.shared.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let broken = seen.iter().filter(|seen| seen.outcome.is_err()).count();
    eprintln!(
        "minute {}: {} clients done, {broken} violations, {} rows, {} lost, {} calls open, {} KiB ({} anonymous), {} descriptors, {} threads",
        elapsed.as_secs() / 60,
        seen.len(),
        counters.rows_written,
        counters.rows_lost,
        counters.calls_open,
        resources.resident_kib,
        resources.anonymous_kib,
        resources.descriptors,
        resources.threads
    );
    Ok(())
}

/// Waits until no call is open; the gateway's resources then, and how many rows it has lost.
fn wait_until_idle(gateway: &Gateway, violations: &mut Vec<String>) -> Result<(ResourceUsage, u64)> {
    let from = now();
    loop {
        let counters = gateway.counters()?;
        if counters.calls_open == 0 {
            if counters.rows_lost > 0 {
                violations.push(format!("{} rows of the log were lost", counters.rows_lost));
            }
            return Ok((gateway.resources()?, counters.rows_lost));
        }
        if now() - from > IDLE_TIMEOUT.as_nanos() as u64 {
            violations.push(format!(
                "{} calls are open {} s after the last client",
                counters.calls_open,
                IDLE_TIMEOUT.as_secs()
            ));
            return Ok((gateway.resources()?, counters.rows_lost));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn rows(log: &Path) -> Result<Vec<Attempt>> {
    let store = Sqlite::open_reader(log).context("open the gateway's log")?;
    store.attempts(&Query::default()).context("read the gateway's log")
}

/// The wall time of the start, in the format of `date`.
fn begun(root: &Path, options: &Options) -> String {
    let ago = format!("-{} seconds", (options.minutes * 60.0) as u64);
    let output = Command::new("date").args(["-u", "-d", &ago, "+%Y-%m-%d %H:%M UTC"]).current_dir(root).output();
    output.map_or_else(|_| "unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
