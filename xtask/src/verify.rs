//! `cargo xtask test`: all checks, cheapest first.

use crate::{clickhouse, node_package, sdk, tables, tidy};
use anyhow::Result;
use std::path::Path;
use std::process::Command;
use xtask::cargo::Cargo;
use xtask::tools;

/// Installs what is missing, then runs every check. Stops at the first that fails.
pub fn run(root: &Path) -> Result<()> {
    tools::ensure_system()?;
    std::thread::scope(|scope| {
        // Tools are downloaded while programs are built.
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
    sdk::ensure(root)?;
    tables::ensure(root)?;
    node_package::ensure()?;
    clickhouse::ensure(root).map(drop)
}

/// Checks that need no other programs than the compiler's.
fn checked(cargo: &Cargo) -> Result<()> {
    cargo.run(&["fmt", "--all", "--check"])?;
    tidy::run(cargo.root())?;
    // Advisories change every day and are checked by `cargo xtask advisories`.
    cargo.run(&["deny", "--log-level", "error", "check", "bans", "licenses", "sources"])?;
    cargo.run(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])
}

fn tested(cargo: &Cargo) -> Result<()> {
    // Most tests wait for clocks and sockets, so more run at once than there are cores.
    let threads = (2 * std::thread::available_parallelism().map_or(1, |cores| cores.get())).to_string();
    cargo.run(&["nextest", "run", "--workspace", "--no-fail-fast", "--test-threads", &threads])?;
    clickhouse::check(cargo)?;
    cargo.run(&["test", "--workspace", "--doc", "--quiet"])?;
    // Whole binaries, as the tests' build has made them: others would have other features, and take as long to build.
    let tokrate = cargo.program("tokrate");
    sdk::check(cargo.root(), &tokrate, &[])?;
    tables::check(cargo.root(), &tokrate)?;
    node_package::check(cargo.root(), cargo.target(), &cargo.target().join("node-package"), &[])?;
    for chore in [
        &["soak", "gateway", "--minutes", "0.3", "--rate", "30", "--seed", "5", "--tokrate"][..],
        &["release", "--try"],
    ] {
        println!("xtask: lab {}", chore.join(" "));
        tools::run(Command::new(cargo.program("lab")).args(chore).arg(&tokrate))?;
    }
    Ok(())
}
