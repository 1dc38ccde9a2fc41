//! `cargo xtask tidy`: the project's rules that a program can check. Each rule returns its findings as text; the
//! run fails when there is any.

mod cycles;
pub mod edges;
mod sources;

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Checks every rule and prints what is wrong.
pub fn run(root: &Path) -> Result<()> {
    let files = tracked_files(root)?;
    let mut findings = edges::check(root)?;
    findings.extend(edges::documented(root)?);
    findings.extend(sources::check(root, &files)?);
    findings.extend(cycles::check(root, &files)?);
    for finding in &findings {
        eprintln!("tidy: {finding}");
    }
    if !findings.is_empty() {
        bail!("keep the rules: {} findings above", findings.len());
    }
    println!("tidy: {} files, dependency table and sources are in order", files.len());
    Ok(())
}

/// Files that git tracks or would track, relative to the root.
pub fn tracked_files(root: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("list the project's files with git")?;
    if !output.status.success() {
        bail!("list the project's files with git: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let listed = String::from_utf8_lossy(&output.stdout);
    Ok(listed.lines().map(PathBuf::from).filter(|path| root.join(path).is_file()).collect())
}
