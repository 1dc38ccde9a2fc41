//! `cargo xtask test`: everything that must hold, cheapest first.

use crate::{sdk, tidy};
use anyhow::Result;
use std::path::Path;
use std::process::Command;
use xtask::cargo::Cargo;
use xtask::tools;

/// Installs what is missing, then runs every check. Stops at the first that fails.
pub fn run(root: &Path) -> Result<()> {
    tools::ensure_system()?;
    std::thread::scope(|scope| {
        // What tests need comes from far away while programs are built here.
        let packages = scope.spawn(|| packages(root));
        let cargo = Cargo::ready(root)?;
        checked(&cargo)?;
        packages.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        tested(&cargo)
    })
}

/// Only installs what is missing.
pub fn install(root: &Path) -> Result<()> {
    tools::ensure_system()?;
    tools::ensure_cargo()?;
    packages(root)
}

fn packages(root: &Path) -> Result<()> {
    tools::ensure_browser()?;
    tools::ensure_clients()?;
    sdk::ensure(root)
}

/// What needs no program to run but the compiler's.
fn checked(cargo: &Cargo) -> Result<()> {
    cargo.run(&["fmt", "--all", "--check"])?;
    tidy::run(cargo.root())?;
    // Advisories come from a database that changes every day: `cargo xtask advisories` looks into it.
    cargo.run(&["deny", "--log-level", "error", "check", "bans", "licenses", "sources"])?;
    cargo.run(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])
}

fn tested(cargo: &Cargo) -> Result<()> {
    // Most tests wait for clocks and sockets more than they compute.
    let threads = (2 * std::thread::available_parallelism().map_or(1, |cores| cores.get())).to_string();
    cargo.run(&["nextest", "run", "--workspace", "--no-fail-fast", "--test-threads", &threads])?;
    cargo.run(&["test", "--workspace", "--doc", "--quiet"])?;
    // Whole binaries, as the tests' build has made them: others would have other features, and take as long to build.
    let tokrate = cargo.program("tokrate");
    sdk::check(cargo.root(), &tokrate, &[])?;
    for chore in [
        &["soak", "gateway", "--minutes", "0.3", "--rate", "30", "--seed", "5", "--tokrate"][..],
        &["release", "--try"],
    ] {
        println!("xtask: lab {}", chore.join(" "));
        tools::run(Command::new(cargo.program("lab")).args(chore).arg(&tokrate))?;
    }
    Ok(())
}
