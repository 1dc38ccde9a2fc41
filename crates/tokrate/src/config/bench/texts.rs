//! The text of a file that a flag names, and what is said of one that cannot be used.
//!
//! Invariant: the flag, the file and the place in it are named.

use anyhow::{Context, Result, anyhow};
use std::path::Path;
use tokrate_bench::BadInput;
use tokrate_targets::reading::{self, MAX_DATA_BYTES};

pub(super) fn refused(flag: &str, path: &Path, bad: &BadInput) -> anyhow::Error {
    anyhow!("read {flag} {}: {bad}", path.display())
}

/// The text of a file, which has to be UTF-8.
pub(super) fn text_of(flag: &str, path: &Path) -> Result<String> {
    let bytes = reading::bytes_of(path, MAX_DATA_BYTES).with_context(|| format!("read {flag} {}", path.display()))?;
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let before = &error.as_bytes()[..good];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
        let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
        anyhow!("read {flag} {}: line {line}, column {column}: expected UTF-8 text", path.display())
    })
}
