//! `cargo xtask docs`: writes anew what lies in `docs` and is made from the code: JSON Schemas, and the reference of the settings.
//!
//! It refuses to know what is in them. Invariant: the tests that compare them with the code pass afterwards.

use anyhow::Result;
use std::path::Path;
use xtask::cargo::Cargo;

/// Tests that write the files they compare with the code when this variable is set.
const WRITES: &str = "TOKRATE_WRITE_DOCS";
const TESTS: &str = "test(the_files_in_docs_are_those_of_the_code) or test(the_schemas_in_docs_are_those_of_the_types)";

/// Has each crate write what it is the source of. The whole workspace is named, so that nothing is built with other features
/// than for the tests.
pub fn run(root: &Path) -> Result<()> {
    let build = ["nextest", "run", "--workspace", "--lib", "--bins", "-E", TESTS];
    Cargo::ready(root)?.run_with(&build, &[(WRITES, "1")])
}
