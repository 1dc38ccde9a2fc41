//! The property tests with cases that no run before has drawn.
//!
//! It does not know what they check. Invariant: each round's seed is printed before it runs, with the command that draws the same
//! cases again; the tests keep what failed beside their sources, from where every later run draws it first.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Cases of a test that names no number of its own.
const CASES: &str = "1024";

/// Runs rounds until the time is over, at least one; tells how many failed.
pub fn run(root: &Path, time: Duration, seed: u64) -> Result<usize> {
    let names = names(root)?;
    ensure!(!names.is_empty(), "find the property tests: no file has any");
    let chosen = format!("test(/(^|::)({})$/)", names.join("|"));
    let (end, mut failed) = (Instant::now() + time, 0);
    for round in 0.. {
        let seed = seed.wrapping_add(round).to_string();
        println!(
            "xtask: {} property tests, round {}; again: PROPTEST_RNG_SEED={seed} cargo nextest run",
            names.len(),
            round + 1
        );
        let mut command = Command::new(env!("CARGO"));
        command.args(["nextest", "run", "--workspace", "--no-fail-fast", "--status-level", "fail", "-E", &chosen]);
        command.current_dir(root).env("PROPTEST_RNG_SEED", seed).env("PROPTEST_CASES", CASES);
        let status = command.status().context("run cargo nextest")?;
        failed += usize::from(!status.success());
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
