//! `cargo xtask docs`: regenerates pages from the code: JSON Schemas, the reference of the settings and the catalogue of metrics
//! in `docs`, the list of recorded exchanges, and the table of edges in ARCHITECTURE.md.
//!
//! Invariant: the tests that compare them with the code pass afterwards.

use anyhow::Result;
use std::path::Path;
use xtask::cargo::Cargo;

/// Tests that write the files they compare with the code when this variable is set.
const WRITES: &str = "TOKRATE_WRITE_DOCS";
const TESTS: &str = "test(the_files_in_docs_are_those_of_the_code) or test(the_schemas_in_docs_are_those_of_the_types)";

/// Runs those tests for the whole workspace, so that nothing is built with other features than for the tests.
pub fn run(root: &Path) -> Result<()> {
    crate::tidy::edges::write(root)?;
    let build = ["nextest", "run", "--workspace", "--lib", "--bins", "--test", "wire", "-E", TESTS];
    Cargo::ready(root)?.run_with(&build, &[(WRITES, "1")])
}
