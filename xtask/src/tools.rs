//! Programs that the tests need and a bare machine may lack. Each is looked for first, and installed only when missing,
//! with a line that says so.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Cargo programs and the versions that are installed when they are missing.
const CARGO_TOOLS: &[(&str, &str)] = &[("cargo-nextest", "0.9.143"), ("cargo-deny", "0.20.2")];

/// Names under which a Chromium-like browser may be found.
const BROWSERS: &[&str] = &["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Makes sure that every tool is there; returns the folder to put in front of PATH.
pub fn ensure(root: &Path) -> Result<PathBuf> {
    let bin = root.join(".tools/cargo/bin");
    for (tool, version) in CARGO_TOOLS {
        if find(tool).is_none() && !bin.join(tool).is_file() {
            println!("xtask: {tool} is missing; installing {version} into .tools (some minutes, once)");
            run(Command::new(env!("CARGO"))
                .args(["install", tool, "--version", version, "--locked", "--quiet", "--root"])
                .arg(root.join(".tools/cargo")))?;
        }
    }
    if browser().is_none() {
        install_browser()?;
    }
    Ok(bin)
}

/// A Chromium-like browser, if one is installed.
pub fn browser() -> Option<PathBuf> {
    BROWSERS.iter().find_map(|name| find(name))
}

fn install_browser() -> Result<()> {
    println!(
        "xtask: no Chromium found; installing the system package `chromium` (the report is looked at in a real browser)"
    );
    let apt = |arguments: &[&str]| -> Result<()> {
        let mut command = if find("sudo").is_some() && !is_root() {
            let mut sudo = Command::new("sudo");
            sudo.arg("apt-get");
            sudo
        } else {
            Command::new("apt-get")
        };
        run(command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    if find("apt-get").is_none() {
        bail!("install Chromium: this system has no apt-get; install Chromium or Chrome by hand and run this again");
    }
    apt(&["update", "-qq"])?;
    apt(&["install", "-y", "-qq", "--no-install-recommends", "chromium", "fonts-dejavu-core"])?;
    browser().map(|_| ()).context("find Chromium after its installation")
}

fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

/// The path of a program on PATH.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

/// Runs a command to its end; its failure is an error that names it.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}").replace('"', "");
    let status = command.status().with_context(|| format!("run {shown}"))?;
    if !status.success() {
        bail!("run {shown}: {status}");
    }
    Ok(())
}
