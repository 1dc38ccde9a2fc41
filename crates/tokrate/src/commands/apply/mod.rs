//! `tokrate apply`: an edit merged into a file, files of a patch, cases of a batch, or edits that come over HTTP.

mod attributes;
mod batch;
pub mod confine;
pub mod expect;
pub mod file;
mod patch;
pub mod place;
pub mod replace;
mod serve;

use super::Verdict;
use crate::config::apply as config;
use crate::flags::apply::Flags;
use crate::out::apply::Refusal;
use crate::out::os_error::in_words;
use anyhow::{Context, Result};
use attributes::Attributes;
use place::Place;
use std::io::Write;
use std::path::Path;
use tokrate_apply::Options;
use tokrate_apply_host::{Fallback, MergeResult};
use tokrate_targets::reading::{bytes_from, bytes_of};

/// More of a file is not read (bytes): the engine's own limit.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// Runs the mode that was chosen; the flags allow one of them.
pub fn run(flags: &Flags) -> Result<Verdict> {
    run_mode(flags).map_err(in_words)
}

fn run_mode(flags: &Flags) -> Result<Verdict> {
    if let Some(address) = &flags.serve {
        return serve::run(config::host(flags, address)?);
    }
    let merger = Merger { fallback: config::fallback(&flags.fallback)?, without_tree: flags.no_tree };
    match (&flags.file, &flags.patch, &flags.batch) {
        (Some(path), ..) => file::run(flags, path, &merger),
        (_, Some(patch), _) => patch::run(flags, patch, &merger),
        (.., Some(cases)) => batch::run(cases, flags.output.as_deref(), &merger),
        _ => unreachable!("one of them is required"),
    }
}

/// What merges: the engine, and a model behind it if there is one.
#[derive(Clone, Debug, Default)]
pub struct Merger {
    pub fallback: Option<Fallback>,
    pub without_tree: bool,
}

impl Merger {
    /// Merges.
    pub fn settle(&self, original: &[u8], update: &[u8], options: Options) -> MergeResult {
        let options = Options { without_tree: self.without_tree, ..options };
        match &self.fallback {
            None => MergeResult::by_engine(original, update, &options),
            Some(fallback) => fallback.settle_blocking(original, update, &options),
        }
    }
}

/// The bytes of a file, or why the engine would not read them.
pub fn read_file(path: &Path) -> Result<Result<Vec<u8>, Refusal>> {
    let reading = || format!("read {}; check the path", path.display());
    let metadata = std::fs::metadata(path).with_context(reading)?;
    anyhow::ensure!(metadata.is_file(), "read {}: it is no regular file", path.display());
    if metadata.len() > MAX_FILE_BYTES {
        return Ok(Err(Refusal::too_large("the original", metadata.len(), MAX_FILE_BYTES)));
    }
    Ok(Ok(bytes_of(path, MAX_FILE_BYTES).with_context(reading)?))
}

/// The same of a place, with the file's attributes.
pub fn read_place(place: &Place) -> Result<Result<(Vec<u8>, Attributes), Refusal>> {
    let read = place.read(MAX_FILE_BYTES).with_context(|| format!("read {}", place.path().display()))?;
    let (bytes, attributes) = read;
    let length = attributes.metadata().len();
    match length > MAX_FILE_BYTES || bytes.len() as u64 > MAX_FILE_BYTES {
        true => Ok(Err(Refusal::too_large("the original", length, MAX_FILE_BYTES))),
        false => Ok(Ok((bytes, attributes))),
    }
}

/// The bytes of what `flag` names, `-` being standard input.
fn read_named(flag: &str, path: &Path) -> Result<Vec<u8>> {
    if path != Path::new("-") {
        return bytes_of(path, MAX_FILE_BYTES)
            .with_context(|| format!("read {flag} {}; check the path", path.display()));
    }
    bytes_from(std::io::stdin().lock(), MAX_FILE_BYTES).context("read standard input")
}

/// Prints text as it is: nothing in a file is a colour to be taken away.
fn print(text: &str) -> Result<()> {
    print_bytes(text.as_bytes())
}

/// The same of the bytes of a file.
fn print_bytes(bytes: &[u8]) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).context("write to standard output")
}
