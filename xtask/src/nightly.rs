//! `cargo xtask nightly`: tests that take too long for every change, with new seeds each day.
//!
//! Invariant: the seeds are printed before anything runs, and the same seeds give the same run.

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::time::SystemTime;
use xtask::cargo::Cargo;

/// Gateways, and other worlds, in virtual time.
const WORLDS: u64 = 10_000;
/// Moments at which the log's writer is killed, and a prober or its hub.
const KILLS: &str = "200";
const SECONDS_OF_A_DAY: u64 = 86_400;
/// The tests to run, by the ends of their names.
const TESTS: &str = "test(/(^|::)(gateways_of_named_seeds|worlds_of_named_seeds|\
                     rows_that_were_called_written_outlive_a_kill_at_any_moment|\
                     nothing_that_a_prober_kept_is_lost_or_doubled_over_kills_of_both)$/)";

/// Runs all of it; fails if anything does.
pub fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let first = first_seed(arguments)?;
    let (seeds, kill_seed) = (format!("{first}..{}", first + WORLDS), first.to_string());
    println!("xtask: worlds of TOKRATE_SEEDS={seeds}, {KILLS} kills each of TOKRATE_KILL_SEED={kill_seed}");
    Cargo::ready(root)?.run_with(
        &["nextest", "run", "--workspace", "--run-ignored", "all", "--no-fail-fast", "-E", TESTS],
        &[("TOKRATE_SEEDS", &seeds), ("TOKRATE_KILL_ROUNDS", KILLS), ("TOKRATE_KILL_SEED", &kill_seed)],
    )
}

/// The seed of `--seed`, or the first of today's.
fn first_seed(arguments: &[String]) -> Result<u64> {
    match arguments {
        [] => {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).context("read the clock")?;
            Ok(since.as_secs() / SECONDS_OF_A_DAY * WORLDS)
        }
        [flag, seed] if flag == "--seed" => match seed.parse() {
            Ok(seed) if seed <= u64::MAX - WORLDS => Ok(seed),
            _ => bail!("read --seed {seed}: write a whole number"),
        },
        _ => bail!("read {arguments:?}: use --seed N"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_read_and_what_makes_no_sense_is_refused() {
        let read = |arguments: &[&str]| first_seed(&arguments.iter().map(|&part| part.to_owned()).collect::<Vec<_>>());
        assert_eq!(read(&["--seed", "0"]).expect("a seed"), 0);
        assert_eq!(read(&[]).expect("a day") % WORLDS, 0);
        for wrong in [&["--seed"][..], &["--seed", "x"], &["--seed", "18446744073709551615"], &["--sed", "1"]] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
