//! `cargo xtask soak gateway`: the gateway for an hour behind faults of every kind, with every answer and every row checked.
//!
//! It does not measure speed: the machine is to be idle most of the time. Invariant: engines, gateway and clients are
//! processes of their own over loopback; what clients do follows from the seed; anything that breaks the promise fails
//! the run.

mod books;
mod client;
mod crowd;
mod fleet;
mod house;
mod ledger;
mod plan;
pub mod process;
mod report;
mod said;
mod trend;

use crate::bench::clock::now;
use crate::bench::conditions;
use anyhow::{Context, Result, bail, ensure};
use books::Books;
use crowd::Crowd;
use fleet::{CHARACTERS, Engine};
use house::House;
use ledger::Ledger;
use plan::Plan;
use process::Vitals;
use report::{Report, Sample};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tokrate_store::{Attempt, Query, Sqlite, Store};
use xtask::tools;

/// How it is called.
pub const USAGE: &str = "\
usage: cargo xtask soak gateway [--minutes 60] [--rate 25] [--seed 1] [--tokrate BINARY [--commit NAME]] [--write]
       RATE is clients a second; --write puts the figures into docs/soak.md;
       NAME is the commit that BINARY was built from, if it is not the one checked out
";

/// How often the gateway is looked at, and its settings are changed; of a short soak, more often.
const SAMPLE_EVERY: Duration = Duration::from_secs(10);
const CHANGE_EVERY: Duration = Duration::from_secs(60);
/// How long open calls and drains may go on behind the last client.
const SETTLE: Duration = Duration::from_secs(40);
/// The page with the figures.
const PAGE: &str = "docs/soak.md";

#[derive(Clone, Debug)]
struct Options {
    minutes: f64,
    rate: f64,
    seed: u64,
    tokrate: Option<PathBuf>,
    /// What that was built from.
    commit: Option<String>,
    write: bool,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Options> {
        let mut options = Options { minutes: 60.0, rate: 25.0, seed: 1, tokrate: None, commit: None, write: false };
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
                "--write" => options.write = true,
                other => bail!("understand {other}\n{USAGE}"),
            }
        }
        Ok(options)
    }
}

/// Soaks what is named.
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

/// A soak of this binary.
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

/// Everything that runs, from its start to its end.
fn play(root: &Path, tokrate: &Path, folder: &Path, options: &Options) -> Result<Report> {
    let mut conditions = conditions(root, tokrate);
    if let Some(commit) = &options.commit {
        conditions.push(format!("the binary was built from commit {commit}, whatever is checked out"));
    }
    let engines = (0..CHARACTERS.len()).map(|place| Engine::start(tokrate, folder, place, options.seed));
    let engines = engines.collect::<Result<Vec<_>>>()?;
    let mut house = House::start(tokrate, folder, &engines)?;
    let before = house.vitals()?;
    let lasting = Duration::from_secs_f64(options.minutes * 60.0);
    let crowd = Crowd::start(Plan::new(options.seed, options.rate), house.address, lasting)?;
    let watched = watch(&mut house, &engines, &crowd, lasting);
    if watched.is_err() {
        crowd.end_early();
    }
    let late = crowd.witness.late.load(std::sync::atomic::Ordering::Relaxed);
    let seen = crowd.finish()?;
    let samples = watched?;
    let mut violations = Vec::new();
    let (after, rows_lost) = settle(&house, &mut violations)?;
    let changes = (house.told, house.heard());
    if changes.0 != changes.1 {
        violations.push(format!("settings: told (good, bad) {:?}, spoken of {:?}", changes.0, changes.1));
    }
    house.stop()?;
    violations.extend(house.complaints());
    for engine in &engines {
        ensure!(engine.is_alive(), "find {} alive at the end", engine.character.name);
        engine.stop()?;
    }
    let rows = rows(&house.log)?;
    let seeds: Vec<u64> = engines.iter().map(|engine| engine.seed).collect();
    let books = Books::balance(&seen, &rows, &Ledger::read(&engines)?, &seeds);
    conditions.push(format!(
        "{} minutes, {} clients a second on average, seed {}, {} engines and the gateway as processes of their own",
        options.minutes,
        options.rate,
        options.seed,
        engines.len()
    ));
    conditions.push(format!("begun {}", begun(root, options)));
    let log_bytes = house.log_bytes();
    let (minutes, rest) = (options.minutes, (before, after));
    Ok(Report { conditions, minutes, seen, late, samples, rest, books, rows_lost, log_bytes, changes, violations })
}

/// Looks at the gateway and changes its settings for as long as clients come.
fn watch(house: &mut House, engines: &[Engine], crowd: &Crowd, lasting: Duration) -> Result<Vec<Sample>> {
    // A short soak has its changes and samples as well.
    let (every, change_every) = (SAMPLE_EVERY.min(lasting / 9), CHANGE_EVERY.min(lasting / 6));
    let from = now();
    let (mut samples, mut next_change, mut next_word) = (Vec::new(), change_every, Duration::from_secs(60));
    while crowd.is_coming() {
        std::thread::sleep(every);
        let elapsed = Duration::from_nanos(now() - from);
        let vitals = house.vitals()?;
        samples.push(Sample { seconds: elapsed.as_secs_f64(), vitals });
        for engine in engines {
            ensure!(engine.is_alive(), "find {} alive", engine.character.name);
        }
        if elapsed >= next_change && elapsed < lasting {
            next_change += change_every;
            house.change()?;
        }
        if elapsed >= next_word {
            next_word += Duration::from_secs(60);
            tell(house, crowd, elapsed, vitals)?;
        }
    }
    Ok(samples)
}

/// A line each minute.
fn tell(house: &House, crowd: &Crowd, elapsed: Duration, vitals: Vitals) -> Result<()> {
    let told = house.told()?;
    let seen = crowd.witness.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let broken = seen.iter().filter(|seen| seen.outcome.is_err()).count();
    eprintln!(
        "minute {}: {} clients done, {broken} violations, {} rows, {} lost, {} calls open, {} KiB ({} of its own), {} descriptors, {} threads",
        elapsed.as_secs() / 60,
        seen.len(),
        told.rows_written,
        told.rows_lost,
        told.calls_open,
        vitals.resident_kib,
        vitals.own_kib,
        vitals.descriptors,
        vitals.threads
    );
    Ok(())
}

/// Waits until nothing is open; how the gateway then is, and how many rows it has lost.
fn settle(house: &House, violations: &mut Vec<String>) -> Result<(Vitals, u64)> {
    let from = now();
    loop {
        let told = house.told()?;
        if told.calls_open == 0 {
            if told.rows_lost > 0 {
                violations.push(format!("{} rows of the log were lost", told.rows_lost));
            }
            return Ok((house.vitals()?, told.rows_lost));
        }
        if now() - from > SETTLE.as_nanos() as u64 {
            violations.push(format!(
                "{} calls are open {} s behind the last client",
                told.calls_open,
                SETTLE.as_secs()
            ));
            return Ok((house.vitals()?, told.rows_lost));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn rows(log: &Path) -> Result<Vec<Attempt>> {
    let store = Sqlite::open_reader(log).context("open the gateway's log")?;
    store.attempts(&Query::default()).context("read the gateway's log")
}

/// The wall time of the start, as `date` says it.
fn begun(root: &Path, options: &Options) -> String {
    let ago = format!("-{} seconds", (options.minutes * 60.0) as u64);
    let output = Command::new("date").args(["-u", "-d", &ago, "+%Y-%m-%d %H:%M UTC"]).current_dir(root).output();
    output.map_or_else(|_| "unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
