//! Shared code of the chores: installing and running programs, the workspace's folder, and exit codes.

pub mod cache;
pub mod cargo;
pub mod corpus;
pub mod tools;

use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The folder that holds the workspace's Cargo.toml: of the checkout that cargo runs the chore in, which need not be the one that the program
/// was built in where two share a target folder.
pub fn workspace_root() -> PathBuf {
    let running = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    root_of(running.as_deref(), Path::new(env!("CARGO_MANIFEST_DIR")))
}

/// The workspace of the package that is run, or of the one that was built where it is run without cargo.
fn root_of(running: Option<&Path>, built: &Path) -> PathBuf {
    let running = running.and_then(Path::parent).filter(|root| root.join("Cargo.lock").is_file());
    running.unwrap_or_else(|| built.parent().expect("xtask lies in the workspace")).to_path_buf()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_the_one_that_the_chore_is_run_in() {
        let root = workspace_root();
        let elsewhere = Path::new("elsewhere/xtask");
        assert_eq!(root_of(Some(&root.join("lab")), elsewhere), root, "built in another checkout");
        for no_package in [None, Some(root.join("crates/core")), Some(PathBuf::from("nowhere/xtask"))] {
            assert_eq!(root_of(no_package.as_deref(), elsewhere), Path::new("elsewhere"), "{no_package:?}");
        }
    }
}
