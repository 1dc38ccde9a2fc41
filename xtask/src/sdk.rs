//! `cargo xtask sdk`: the published SDKs of OpenAI, Anthropic, AWS, Google and Cohere, for Python and Node, against the gateway of this build.
//!
//! Invariant: only pinned versions run, and nothing is installed twice.

use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::cargo::Cargo;
use xtask::tools;

/// The files with the pinned versions, below the workspace.
const REQUIREMENTS: &str = "tests/sdk/requirements.txt";
const NODE_PACKAGE: &str = "tests/sdk/node/package.json";
const NODE_LOCK: &str = "tests/sdk/node/package-lock.json";

/// Installs the SDKs if they are missing.
pub fn ensure(root: &Path) -> Result<()> {
    ensure_python(root)?;
    ensure_node(root).map(drop)
}

/// Installs the SDKs if they are missing, builds the binary, and runs every check; further arguments go to the runner.
pub fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let cargo = Cargo::ready(root)?;
    cargo.run(&["build", "--quiet", "--workspace", "--bin", "tokrate"])?;
    check(root, &cargo.program("tokrate"), arguments)
}

/// Installs the SDKs if they are missing, and runs every check against a binary.
pub fn check(root: &Path, tokrate: &Path, arguments: &[String]) -> Result<()> {
    let python = ensure_python(root)?;
    let node_modules = ensure_node(root)?;
    let mut runner = Command::new(python);
    runner.arg(root.join("tests/sdk/run.py")).arg("--tokrate").arg(tokrate);
    tools::run(runner.arg("--node-modules").arg(node_modules).args(arguments))
}

/// The Python that has the SDKs.
fn ensure_python(root: &Path) -> Result<PathBuf> {
    tools::pinned_python("sdk-python", &root.join(REQUIREMENTS), "the SDKs for Python")
}

/// The folder of Node's packages.
fn ensure_node(root: &Path) -> Result<PathBuf> {
    let files = [root.join(NODE_PACKAGE), root.join(NODE_LOCK)];
    Ok(tools::pinned_node("sdk-node", files.each_ref(), "the SDKs for Node")?.join("node_modules"))
}
