//! `cargo xtask test`: everything that must hold, cheapest first.

use crate::{sdk, tidy};
use anyhow::Result;
use std::path::Path;
use std::process::Command;
use xtask::tools;

/// Installs what is missing, then runs every check. Stops at the first that fails.
pub fn run(root: &Path) -> Result<()> {
    let bin = tools::ensure(root)?;
    sdk::ensure(root)?;
    let path = std::env::join_paths(
        [bin].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    )?;
    let cargo = |arguments: &[&str]| -> Result<()> {
        println!("xtask: cargo {}", arguments.join(" "));
        tools::run(Command::new(env!("CARGO")).args(arguments).current_dir(root).env("PATH", &path))
    };
    cargo(&["fmt", "--all", "--check"])?;
    tidy::run(root)?;
    // Advisories need a network beyond the package registry, so they are left to scheduled runs.
    cargo(&["deny", "--log-level", "error", "check", "bans", "licenses", "sources"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])?;
    cargo(&["test", "--workspace", "--doc", "--quiet"])?;
    cargo(&["nextest", "run", "--workspace", "--no-fail-fast"])?;
    with_the_tests_build(root)?;
    exported(&cargo)
}

/// Checks of whole binaries, with those that the tests' build has made: another one would have other features, and take as long.
fn with_the_tests_build(root: &Path) -> Result<()> {
    let (tokrate, lab) = (root.join("target/debug/tokrate"), root.join("target/debug/lab"));
    sdk::check(root, &tokrate, &[])?;
    for chore in [
        &["soak", "gateway", "--minutes", "0.3", "--rate", "30", "--seed", "5", "--tokrate"][..],
        &["release", "--try"],
    ] {
        println!("xtask: lab {}", chore.join(" "));
        tools::run(Command::new(&lab).args(chore).arg(&tokrate))?;
    }
    Ok(())
}

/// What only a build with the feature `otel` has. Of the whole workspace, so that no dependency is built with other features
/// than before.
fn exported(cargo: &impl Fn(&[&str]) -> Result<()>) -> Result<()> {
    let feature = ["--workspace", "--features", "tokrate/otel"];
    cargo(&[&["clippy", "--all-targets", "--quiet"][..], &feature, &["--", "-D", "warnings"]].concat())?;
    let tests = ["--lib", "--test", "otel", "-E", "package(tokrate-gateway)", "--no-fail-fast"];
    cargo(&[&["nextest", "run"][..], &feature, &tests].concat())
}
