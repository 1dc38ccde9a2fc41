//! `cargo xtask tables`: DuckDB and pandas open the exports of `tokrate monitor export`.
//!
//! Invariant: only pinned versions run, and nothing is installed twice.

use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::cargo::Cargo;
use xtask::tools;

/// Installs the readers if they are missing.
pub fn ensure(root: &Path) -> Result<PathBuf> {
    tools::pinned_python("tables-python", &root.join("tests/tables/requirements.txt"), "DuckDB and pandas")
}

/// Installs the readers if they are missing, builds the binary, and checks it.
pub fn run(root: &Path) -> Result<()> {
    let cargo = Cargo::ready(root)?;
    cargo.run(&["build", "--quiet", "--workspace", "--bin", "tokrate"])?;
    check(root, &cargo.program("tokrate"))
}

/// Installs the readers if they are missing, and lets them open what a binary exports.
pub fn check(root: &Path, tokrate: &Path) -> Result<()> {
    let python = ensure(root)?;
    tools::run(Command::new(python).arg(root.join("tests/tables/check.py")).arg("--tokrate").arg(tokrate))
}
