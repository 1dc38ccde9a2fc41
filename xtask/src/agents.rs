//! `cargo xtask agents`: published coding agents (Claude Code, Codex CLI, opencode, aider) do a small task through the gateway of this
//! build, with a simulated engine that answers by a script.
//!
//! It is no part of `cargo xtask test`: the agents are two gigabytes. Invariant: only pinned versions run, nothing is installed twice,
//! and no package runs a script of its own.

use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::cargo::Cargo;
use xtask::tools;

/// The files with the pinned versions, below the workspace.
const REQUIREMENTS: &str = "tests/agents/requirements.txt";
const NODE_PACKAGE: &str = "tests/agents/node/package.json";
const NODE_LOCK: &str = "tests/agents/node/package-lock.json";

/// Installs the agents if they are missing, builds the binary, and runs them; further arguments go to the runner.
pub fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let cargo = Cargo::ready(root)?;
    cargo.run(&["build", "--quiet", "--workspace", "--bin", "tokrate"])?;
    let python = tools::pinned_python("agents-python", &root.join(REQUIREMENTS), "aider")?;
    let node_modules = ensure_node(root)?;
    let mut runner = Command::new(python);
    runner.arg(root.join("tests/agents/run.py")).arg("--tokrate").arg(cargo.program("tokrate"));
    tools::run(runner.arg("--node-modules").arg(node_modules).args(arguments))
}

/// The folder of Node's packages.
fn ensure_node(root: &Path) -> Result<PathBuf> {
    let files = [root.join(NODE_PACKAGE), root.join(NODE_LOCK)];
    Ok(tools::pinned_node("agents-node", files.each_ref(), "the agents of Node")?.join("node_modules"))
}
