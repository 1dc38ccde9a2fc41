//! `cargo xtask clickhouse`: every statement of the store, and the commands that read there, on ClickHouse's own engine (chdb), behind a small HTTP shim.
//!
//! Invariant: only pinned versions run, and nothing is installed twice.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use xtask::cargo::Cargo;
use xtask::tools;

/// The tests that need the engine, by their module.
const TESTS: &str = "package(tokrate-store) and test(/^clickhouse::/) or package(tokrate) and test(/^clickhouse::/)";

/// Installs the engine if it is missing.
pub fn ensure(root: &Path) -> Result<PathBuf> {
    tools::pinned_python(
        "clickhouse-python",
        &root.join("tests/clickhouse/requirements.txt"),
        "ClickHouse's engine (chdb)",
    )
}

/// Installs the engine if it is missing, and runs the tests that need it.
pub fn run(root: &Path) -> Result<()> {
    check(&Cargo::ready(root)?)
}

/// The same with the build folder at hand.
pub fn check(cargo: &Cargo) -> Result<()> {
    let python = ensure(cargo.root())?;
    let python = python.to_str().context("name the engine's Python: its path is no text")?;
    let arguments = ["nextest", "run", "--workspace", "--run-ignored", "only", "--no-fail-fast", "-E", TESTS];
    cargo.run_with(&arguments, &[("TOKRATE_CHDB_PYTHON", python)])
}
