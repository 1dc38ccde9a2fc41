//! `cargo xtask sdk`: the published SDKs of OpenAI and Anthropic, for Python and Node, against the gateway of this build.
//!
//! Invariant: only pinned versions run, and nothing is installed twice.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::cargo::Cargo;
use xtask::{cache, tools};

/// The files with the pinned versions, below the workspace.
const REQUIREMENTS: &str = "tests/sdk/requirements.txt";
const NODE_PACKAGE: &str = "tests/sdk/node/package.json";
const NODE_LOCK: &str = "tests/sdk/node/package-lock.json";

/// Context of a failed installation.
const UNREACHABLE: &str =
    "install the published SDKs (the package registries must be reachable once; see the output above)";

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
    python(root, "sdk-python", REQUIREMENTS, "the SDKs for Python")
}

/// A Python in a folder of its own with pinned packages, installed if they are missing.
pub fn python(root: &Path, name: &str, requirements: &str, what: &str) -> Result<PathBuf> {
    let folder = cache::tool(name)?;
    let pinned = read(&root.join(requirements))?;
    let is_recent = succeeds("python3", &["-c", "import sys; sys.exit(sys.version_info < (3, 10))"]);
    ensure!(is_recent, "find Python 3.10 or later as `python3`, which {what} need; install it");
    tools::fill(&folder, &pinned, what, |folder| {
        tools::run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
        let flags = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
        tools::run(Command::new(folder.join("bin/python")).args(flags).arg(root.join(requirements))).with_context(
            || format!("install {what} (the package registries must be reachable once; see the output above)"),
        )
    })?;
    Ok(folder.join("bin/python"))
}

/// The folder of Node's packages.
fn ensure_node(root: &Path) -> Result<PathBuf> {
    let folder = cache::tool("sdk-node")?;
    let pinned = read(&root.join(NODE_LOCK))?;
    let is_recent = succeeds("node", &["-e", "process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)"]);
    ensure!(is_recent, "find Node 20 or later as `node`, which checks published SDKs; install it, with npm");
    tools::fill(&folder, &pinned, "the SDKs for Node", |folder| {
        for file in [NODE_PACKAGE, NODE_LOCK] {
            let name = Path::new(file).file_name().expect("it is a file");
            std::fs::copy(root.join(file), folder.join(name)).with_context(|| format!("copy {file}"))?;
        }
        let flags = ["ci", "--no-fund", "--no-audit", "--loglevel=error", "--ignore-scripts"];
        tools::run(Command::new("npm").args(flags).current_dir(folder)).context(UNREACHABLE)
    })?;
    Ok(folder.join("node_modules"))
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).status().is_ok_and(|status| status.success())
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}
