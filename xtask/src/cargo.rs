//! Runs Cargo for the checks: with the tools that they need, in the shared build folder.
//!
//! Invariant: every build uses the features of the whole workspace, so that nothing is built twice.

use crate::cache::BuildFolder;
use crate::tools;
use anyhow::Result;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs commands of Cargo.
pub struct Cargo {
    root: PathBuf,
    path: OsString,
    target: BuildFolder,
}

impl Cargo {
    /// Installs what is missing, and waits for the build folder.
    ///
    /// # Errors
    /// When a tool cannot be installed or the folder cannot be had.
    pub fn ready(root: &Path) -> Result<Cargo> {
        let bin = tools::ensure_cargo()?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths([bin].into_iter().chain(std::env::split_paths(&path)))?;
        Ok(Cargo { root: root.to_owned(), path, target: BuildFolder::claim(root)? })
    }

    /// The workspace.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder that everything is built in.
    pub fn target(&self) -> &Path {
        &self.target.path
    }

    /// A program of the debug build.
    pub fn program(&self, name: &str) -> PathBuf {
        self.target.path.join("debug").join(name)
    }

    /// Prints and runs a `cargo` command.
    ///
    /// # Errors
    /// When it cannot be run or fails.
    pub fn run(&self, arguments: &[&str]) -> Result<()> {
        self.run_with(arguments, &[])
    }

    /// The same with further variables of the environment.
    ///
    /// # Errors
    /// When it cannot be run or fails.
    pub fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Result<()> {
        println!("xtask: cargo {}", arguments.join(" "));
        let mut command = Command::new(env!("CARGO"));
        command.args(arguments).current_dir(&self.root).env("PATH", &self.path);
        command.env("CARGO_TARGET_DIR", &self.target.path).envs(variables.iter().copied());
        // Kept between runs of one checkout only, it would cost a third more time and room in a first one.
        tools::run(command.env("CARGO_INCREMENTAL", "0"))
    }
}
