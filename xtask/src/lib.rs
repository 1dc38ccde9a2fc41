//! Shared code of the chores: installing and running programs, the workspace's folder, and exit codes.

pub mod cache;
pub mod cargo;
pub mod corpus;
pub mod tools;

use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The folder that holds the workspace's Cargo.toml.
pub fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_path_buf()
}

/// The exit code of a chore; a failure is printed with the program's name.
pub fn exit_code(program: &str, result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: failed to {error:#}");
            ExitCode::FAILURE
        }
    }
}
