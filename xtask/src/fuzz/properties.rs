//! The property tests and the gateways in virtual time, with new cases and seeds.
//!
//! Invariant: each round's seed is printed before it runs, with the command that repeats it. A failed case of a property test
//! is kept beside its source, from where every later run draws it first; a seed of a gateway that failed
//! is named by the failure.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use xtask::cargo::Cargo;

/// Cases of a test that names no number of its own.
const CASES: &str = "1024";
/// Gateways in virtual time that a round runs.
const GATEWAYS: u64 = 200;
/// Seeds of gateways are drawn below this, so that they are short to write.
const GATEWAY_SEEDS: u64 = 1_000_000_000;

/// Runs rounds until the time is over, at least one; the number that failed.
pub fn run(root: &Path, time: Duration, first_seed: u64) -> Result<usize> {
    let names = names(root)?;
    ensure!(!names.is_empty(), "find the property tests: no file has any");
    let chosen = format!("test(/(^|::)({})$/)", names.join("|"));
    let cargo = Cargo::ready(root)?;
    let test = ["nextest", "run", "--workspace", "--no-fail-fast", "--status-level", "fail"];
    let (end, mut failed) = (Instant::now() + time, 0);
    for round in 0.. {
        let seed = first_seed.wrapping_add(round);
        let from = seed % GATEWAY_SEEDS;
        let (seed, gateways) = (seed.to_string(), format!("{from}..{}", from + GATEWAYS));
        println!(
            "xtask: round {} of {} property tests with PROPTEST_RNG_SEED={seed} and of gateways with TOKRATE_SEEDS={gateways}",
            round + 1,
            names.len()
        );
        let properties = cargo.run_with(
            &[&test[..], &["-E", &chosen]].concat(),
            &[("PROPTEST_RNG_SEED", &seed), ("PROPTEST_CASES", CASES)],
        );
        let ignored = ["--run-ignored", "only", "-E", "test(/(^|::)gateways_of_named_seeds$/)"];
        let worlds = cargo.run_with(&[&test[..], &ignored].concat(), &[("TOKRATE_SEEDS", &gateways)]);
        for error in [properties.err(), worlds.err()].into_iter().flatten() {
            eprintln!("xtask: failed to {error:#}");
            failed += 1;
        }
        if Instant::now() >= end {
            break;
        }
    }
    Ok(failed)
}

/// The names of all property tests.
fn names(root: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for file in crate::tidy::tracked_files(root)? {
        if file.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(root.join(&file)).with_context(|| format!("read {}", file.display()))?;
            names.extend(names_in(&text));
        }
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// The tests within `proptest! { ... }`, as rustfmt lays them out.
fn names_in(text: &str) -> Vec<String> {
    let (mut names, mut end, mut is_test) = (Vec::new(), None, false);
    for line in text.lines() {
        let trimmed = line.trim_start();
        match &end {
            None if trimmed == "proptest! {" => end = Some(format!("{}}}", &line[..line.len() - trimmed.len()])),
            Some(end_line) if line == end_line => end = None,
            Some(_) if trimmed == "#[test]" => is_test = true,
            Some(_) if is_test && trimmed.starts_with("fn ") => {
                names.extend(trimmed["fn ".len()..].split('(').next().map(str::to_owned));
                is_test = false;
            }
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn property_tests_are_found_and_others_are_not() {
        let text = "#[test]\nfn plain() {}\n\nproptest! {\n    #[test]\n    fn one(a in 0..3) {\n    }\n\n    #[test]\n    #[ignore]\n    \
                    fn two(\n        a in 0..3,\n    ) {\n    }\n}\n\nfn after() {}\n";
        assert_eq!(names_in(text), ["one", "two"]);
        let all = names(&xtask::workspace_root()).expect("the sources are there");
        assert!(all.len() > 50, "{all:?}");
    }
}
