//! Runs a script of `sdk/`, which talks to the binary through a published client, and reads what the client made of it.
//!
//! It does not install anything. Invariant: a script that does not end well ends the test with all it said.

use crate::tool::finish;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs a script with Node.
pub fn node(name: &str, input: &Value) -> Value {
    script(Path::new("node"), name, input)
}

/// Runs a script with Python.
pub fn python(name: &str, input: &Value) -> Value {
    script(&tools().join("python/bin/python"), name, input)
}

/// Where `cargo xtask tools` puts the clients.
pub fn tools() -> PathBuf {
    xtask::cache::folder().expect("a cache").join("tools")
}

fn script(program: &Path, name: &str, input: &Value) -> Value {
    let installed = |part: &str| tools().join(part).join("installed-by-xtask").is_file();
    assert!(installed("node") && installed("python"), "the clients are not there; `cargo xtask tools` installs them");
    let mut command = Command::new(program);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/sdk").join(name));
    command.env("NODE_PATH", tools().join("node/node_modules"));
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    child.stdin.take().expect("piped").write_all(input.to_string().as_bytes()).expect("taken");
    let finished = finish(child);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished:?}"))
}
