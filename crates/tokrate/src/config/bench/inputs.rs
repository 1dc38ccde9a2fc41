//! The files that a bench reads what it sends from: traces and prompts.
//!
//! Invariant: what cannot be read is named by its file, line and column.

use crate::config::file::File;
use crate::flags::bench::Flags;
use anyhow::{Context, Result, anyhow, ensure};
use std::path::Path;
use std::sync::Arc;
use tokrate_bench::BadInput;
use tokrate_bench::prompts::{FileKind, PromptFile};
use tokrate_bench::trace::Trace;
use tokrate_targets::reading::{self, MAX_DATA_BYTES};

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    pub trace: Option<Arc<Trace>>,
    pub prompts: Option<Arc<PromptFile>>,
}

/// Reads the files that the flags name.
pub(super) fn inputs(flags: &Flags, file: &File) -> Result<Inputs> {
    let limit = flags.load.trace_limit;
    ensure!(limit != Some(0), "read --trace-limit: at least one request is needed");
    let trace = flags.load.trace.as_deref().map(|path| {
        let text = text_of("--trace", path)?;
        Trace::parse(&text, limit).map(Arc::new).map_err(|bad| refused("--trace", path, &bad))
    });
    let length = flags.request.input_tokens.is_some() || flags.load.trace.is_some();
    let named = flags.request.prompts.as_ref().or(file.bench.prompts.as_ref().filter(|_| !length));
    ensure!(named.is_some() || !flags.request.prompts_whole, "read --prompts-whole: name the file with --prompts");
    let prompts = named.map(|path| {
        let kind =
            if flags.request.prompts_whole { FileKind::Whole } else { FileKind::of_name(&path.to_string_lossy()) };
        let text = text_of("--prompts", path)?;
        PromptFile::parse(&text, kind).map(Arc::new).map_err(|bad| refused("--prompts", path, &bad))
    });
    Ok(Inputs { trace: trace.transpose()?, prompts: prompts.transpose()? })
}

fn refused(flag: &str, path: &Path, bad: &BadInput) -> anyhow::Error {
    anyhow!("read {flag} {}: {bad}", path.display())
}

/// The text of a file, which has to be UTF-8.
fn text_of(flag: &str, path: &Path) -> Result<String> {
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
