//! `cargo xtask docs`: writes anew what lies in `docs` and is made from the code: JSON Schemas, and the reference of the settings.
//!
//! It refuses to know what is in them. Invariant: the tests that compare them with the code pass afterwards.

use anyhow::Result;
use std::path::Path;
use std::process::Command;
use xtask::tools;

/// Has each crate write what it is the source of.
pub fn run(root: &Path) -> Result<()> {
    let cargo = |arguments: &[&str], variables: &[(&str, &str)]| -> Result<()> {
        println!("xtask: cargo {}", arguments.join(" "));
        tools::run(Command::new(env!("CARGO")).args(arguments).envs(variables.iter().copied()).current_dir(root))
    };
    cargo(&["run", "--quiet", "-p", "tokrate-meter", "--example", "schema", "--", "docs"], &[])?;
    let reference = "config::reference::tests::the_files_in_docs_are_those_of_the_code";
    let test = ["test", "--quiet", "-p", "tokrate", "--bin", "tokrate", "--", "--exact", reference];
    cargo(&test, &[("TOKRATE_WRITE_DOCS", "1")])
}
