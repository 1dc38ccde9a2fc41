//! `cargo xtask fuzz`: searches for inputs that break a property, for a given time.
//!
//! Invariant: every target gets the same time; inputs are written below `target/fuzz`, and the repository changes only with
//! `--keep`.

mod engine;
mod inputs;
mod properties;
mod report;

use anyhow::{Context, Result, bail, ensure};
use engine::{Engine, Slice};
use report::Tally;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

/// Longest slice of a target's time, so that all targets progress together.
const MAX_SLICE: Duration = Duration::from_secs(60);
/// Shortest slice: less would be spent on reading the corpus alone.
const MIN_SLICE: Duration = Duration::from_secs(5);
/// Share of the time for the property tests.
const PROPERTIES_SHARE: u32 = 10;

/// The parsed arguments.
#[derive(PartialEq, Debug)]
struct Flags {
    time: Duration,
    only: Option<String>,
    keep: bool,
}

/// Searches for failures; fails if there are any.
pub fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let flags = Flags::read(arguments)?;
    let names = inputs::targets(root)?;
    let chosen: Vec<String> = match &flags.only {
        Some(only) => names.iter().filter(|name| *name == only).cloned().collect(),
        None => names.clone(),
    };
    ensure!(!chosen.is_empty(), "find the target that --only names; there are {}", names.join(", "));
    let started = Instant::now();
    let broken = match flags.only {
        Some(_) => 0,
        None => properties::run(root, flags.time / PROPERTIES_SHARE, fresh_seed())?,
    };
    let engine = Engine::build(root, &chosen)?;
    let left = match flags.only {
        Some(_) => flags.time,
        None => flags.time - flags.time / PROPERTIES_SHARE,
    };
    let mut targets = Vec::new();
    for name in &chosen {
        targets.push((name.as_str(), inputs::unpack(root, name)?));
    }
    let tallies = search(&engine, &targets, left)?;
    if flags.keep {
        for name in &chosen {
            inputs::pack(root, name, |out, found| engine.merge(name, out, found))?;
        }
    }
    println!("{}", report::table(&tallies));
    println!("{} in {} s", report::sum(&tallies), started.elapsed().as_secs());
    let failures: Vec<String> = tallies.iter().filter_map(|tally| report::failure(root, tally)).collect();
    failures.iter().for_each(|failure| eprintln!("{failure}"));
    if broken > 0 || !failures.is_empty() {
        bail!(
            "hold every property: {} of the targets and {broken} runs of the property tests and gateways did not",
            failures.len()
        );
    }
    Ok(())
}

impl Flags {
    fn read(arguments: &[String]) -> Result<Flags> {
        let mut flags = Flags { time: Duration::from_secs(300), only: None, keep: false };
        let mut left = arguments.iter();
        while let Some(argument) = left.next() {
            let mut value = || left.next().with_context(|| format!("read {argument}: it needs a value"));
            match argument.as_str() {
                "--minutes" => {
                    let minutes = value()?.parse::<f64>().ok().filter(|minutes| (0.01..=10_000.0).contains(minutes));
                    flags.time = Duration::from_secs_f64(60.0 * minutes.context("read --minutes: write a number")?);
                }
                "--only" => flags.only = Some(value()?.clone()),
                "--keep" => flags.keep = true,
                _ => bail!("read `{argument}`: use --minutes N, --only TARGET and --keep"),
            }
        }
        Ok(flags)
    }
}

/// A seed that no earlier run had.
fn fresh_seed() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    // Whole nanoseconds of this century fit.
    since.map_or(1, |since| since.as_nanos() as u64)
}

/// State that the workers share.
struct Board {
    tallies: Vec<Tally>,
    is_busy: Vec<bool>,
}

impl Board {
    /// The target with the least time so far, of those that no worker is running and that have not failed.
    fn next(&mut self) -> Option<usize> {
        let free = (0..self.tallies.len()).filter(|&at| !self.is_busy[at] && self.tallies[at].crash.is_none());
        let next = free.min_by_key(|&at| self.tallies[at].time)?;
        self.is_busy[next] = true;
        Some(next)
    }
}

/// Runs the targets, each with the length of its longest input, on all cores, slice by slice.
fn search(engine: &Engine, targets: &[(&str, usize)], time: Duration) -> Result<Vec<Tally>> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get()).min(targets.len());
    let share = time.mul_f64(cores as f64 / targets.len() as f64);
    let slice = (share / 4).clamp(MIN_SLICE, MAX_SLICE);
    println!(
        "xtask: {} targets on {cores} cores for {} s, {} s each in slices of {} s",
        targets.len(),
        time.as_secs(),
        share.as_secs(),
        slice.as_secs()
    );
    let tallies: Vec<Tally> = targets.iter().map(|(name, _)| Tally::new(name)).collect();
    let board = Mutex::new(Board { is_busy: vec![false; tallies.len()], tallies });
    let end = Instant::now() + time;
    let locked = || board.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let work = || -> Result<()> {
        while Instant::now() < end {
            let Some(at) = locked().next() else { break };
            let length = slice.min(end.saturating_duration_since(Instant::now())).max(Duration::from_secs(1));
            let (name, input_bytes_most) = targets[at];
            let ran = engine.run(name, &Slice { length, seed: fresh_seed() as u32, input_bytes_most });
            let mut board = locked();
            board.is_busy[at] = false;
            board.tallies[at].add(ran?);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let ended =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.collect::<Result<Vec<()>>>()
    })?;
    Ok(board.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).tallies)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Flags> {
        Flags::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<String>>())
    }

    #[test]
    fn flags_are_read_and_what_makes_no_sense_is_refused() {
        let flags = read("--minutes 0.5 --only frame --keep").expect("good");
        assert_eq!(flags, Flags { time: Duration::from_secs(30), only: Some("frame".to_owned()), keep: true });
        for (bad, named) in [("--minutes", "--minutes"), ("--minutes -1", "--minutes"), ("--fast", "--fast")] {
            let error = read(bad).expect_err(bad).to_string();
            assert!(error.contains(named), "{bad}: {error}");
        }
    }

    #[test]
    fn the_target_with_the_least_time_comes_next_and_one_that_failed_never() {
        let mut tallies: Vec<Tally> = ["a", "b", "c"].into_iter().map(Tally::new).collect();
        tallies[0].time = Duration::from_secs(9);
        tallies[1].crash = Some(report::Crash { input: "x".into(), output: String::new() });
        let mut board = Board { is_busy: vec![false; 3], tallies };
        assert_eq!([board.next(), board.next(), board.next()], [Some(2), Some(0), None]);
    }
}
