//! `cargo xtask packages`: builds the merge engine as a wheel for Python and as an npm package, installs them as users do, and runs
//! the shared cases.
//!
//! The wheel is no part of `cargo xtask test`: every grammar is compiled once more for it. Invariant: only pinned tools build.

use crate::node_package;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::tools;

/// Builds, installs and tests.
pub fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let folder = root.join("target/packages");
    let only_node = match arguments {
        [] => false,
        [flag, name] if flag == "--only" && name == "node" => true,
        _ => bail!("understand {}; write `cargo xtask packages [--only node]`", arguments.join(" ")),
    };
    if !only_node {
        wheel(root, &folder)?;
    }
    node_package::ensure()?;
    node_package::check(root, &folder.join("build"), &folder.join("node"), &node_package::nameless(root)?)
}

/// The wheel for Python.
fn wheel(root: &Path, folder: &Path) -> Result<()> {
    let package = root.join("packages/python");
    let python = tools::pinned_python("packages-python", &package.join("requirements.txt"), "maturin")?;
    let wheels = folder.join("wheels");
    if wheels.exists() {
        std::fs::remove_dir_all(&wheels).with_context(|| format!("empty {}", wheels.display()))?;
    }
    let mut build = Command::new(python);
    build.args(["-m", "maturin", "build", "--release", "--locked", "--quiet", "--out"]).arg(&wheels);
    build.arg("--manifest-path").arg(package.join("Cargo.toml"));
    tools::run(build.env("CARGO_TARGET_DIR", folder.join("build")))?;
    let wheel = only_wheel(&wheels)?;
    let environment = folder.join("environment");
    tools::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
    let python = environment.join("bin/python");
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"];
    tools::run(Command::new(&python).args(install).arg(&wheel))?;
    tools::run(Command::new(&python).arg(package.join("tests/test_cases.py")))?;
    println!("xtask: {} is built and does what the library does", wheel.display());
    Ok(())
}

fn only_wheel(folder: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    let files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    ensure!(files.len() == 1, "build one wheel in {}: there are {}", folder.display(), files.len());
    Ok(files[0].clone())
}
