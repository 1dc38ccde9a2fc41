//! What the chores share: the programs that they need, how one is run, where the workspace lies and how a chore ends.

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

/// What a chore's program exits with; a failure is told under the program's name.
pub fn exit_code(program: &str, result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: failed to {error:#}");
            ExitCode::FAILURE
        }
    }
}
