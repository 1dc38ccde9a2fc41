//! `cargo xtask test`: everything that must hold, cheapest first.

use crate::{sdk, tidy};
use anyhow::Result;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::tools;

/// Installs what is missing, then runs every check. Stops at the first that fails.
pub fn run(root: &Path) -> Result<()> {
    tools::ensure_system()?;
    std::thread::scope(|scope| {
        // Packages come from far away while programs are built here.
        let packages = scope.spawn(|| packages(root));
        let cargo = Cargo { root, path: path_with(tools::ensure_cargo(root)?)? };
        checked(&cargo)?;
        packages.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        tested(&cargo)
    })
}

/// Only installs what is missing.
pub fn install(root: &Path) -> Result<()> {
    tools::ensure_system()?;
    tools::ensure_cargo(root)?;
    packages(root)
}

fn packages(root: &Path) -> Result<()> {
    tools::ensure_clients(root)?;
    sdk::ensure(root)
}

fn path_with(bin: PathBuf) -> Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    Ok(std::env::join_paths([bin].into_iter().chain(std::env::split_paths(&path)))?)
}

struct Cargo<'a> {
    root: &'a Path,
    path: OsString,
}

impl Cargo<'_> {
    fn run(&self, arguments: &[&str]) -> Result<()> {
        println!("xtask: cargo {}", arguments.join(" "));
        let mut command = Command::new(env!("CARGO"));
        tools::run(command.args(arguments).current_dir(self.root).env("PATH", &self.path))
    }
}

/// What needs no program to run but the compiler's.
fn checked(cargo: &Cargo) -> Result<()> {
    cargo.run(&["fmt", "--all", "--check"])?;
    tidy::run(cargo.root)?;
    // Advisories need a network beyond the package registry, so they are left to scheduled runs.
    cargo.run(&["deny", "--log-level", "error", "check", "bans", "licenses", "sources"])?;
    cargo.run(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])?;
    cargo.run(&["test", "--workspace", "--doc", "--quiet"])
}

fn tested(cargo: &Cargo) -> Result<()> {
    cargo.run(&["nextest", "run", "--workspace", "--no-fail-fast"])?;
    with_the_tests_build(cargo.root)
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
