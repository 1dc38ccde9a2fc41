//! The software bill of materials of a release (CycloneDX, JSON), by cargo-cyclonedx.
//!
//! Invariant: it names what the binary was built from and no path of the machine that built it.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::tools;

/// Version of CycloneDX's format.
const FORMAT: &str = "1.5";
/// What cargo-cyclonedx writes beside each manifest whose package has a binary.
const WRITTEN: &str = "crates/tokrate/tokrate_bin.cdx.json";
const BESIDE: [&str; 2] = ["lab/lab_bin.cdx.json", "xtask/xtask_bin.cdx.json"];

/// Writes `tokrate.cdx.json` into a folder; its path.
pub fn write(root: &Path, folder: &Path) -> Result<PathBuf> {
    let tool = tools::built_from_source("cargo-cyclonedx", "0.5.9")?;
    let mut command = Command::new(tool);
    command.args(["cyclonedx", "--quiet", "--format", "json", "--spec-version", FORMAT, "--describe", "binaries"]);
    let written = tools::run(command.current_dir(root)).and_then(|()| {
        let path = root.join(WRITTEN);
        fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    });
    for path in BESIDE.iter().chain([&WRITTEN]) {
        // Not all of them are written by every version.
        let _ = fs::remove_file(root.join(path));
    }
    let path = folder.join("tokrate.cdx.json");
    fs::write(&path, without_place(&written?, root)).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

/// The text without the folder that the workspace lies in.
fn without_place(text: &str, root: &Path) -> String {
    text.replace(&format!("file://{}", root.display()), "file://").replace(&root.display().to_string(), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_the_workspace_is_not_named() {
        let text = "{\"bom-ref\": \"path+file:///build/tokrate/crates/core#0.1.0\", \"at\": \"/build/tokrate/lab\"}";
        let expected = "{\"bom-ref\": \"path+file:///crates/core#0.1.0\", \"at\": \"/lab\"}";
        assert_eq!(without_place(text, Path::new("/build/tokrate")), expected);
    }
}
