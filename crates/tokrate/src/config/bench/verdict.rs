//! What the result is compared with: resolved from flags and settings file.

use crate::config::file::File;
use crate::config::verdicts;
use crate::flags::bench as flags;
use anyhow::{Context, Result};
use std::path::PathBuf;
use tokrate_judge::compare::CompareOptions;
use tokrate_judge::{Assertion, Slo};

pub(super) fn slos(flags: &flags::Verdict, file: &File) -> Result<Vec<Slo>> {
    let in_file = file.bench.slo.as_deref().unwrap_or_default();
    let (origin, texts) =
        if flags.slos.is_empty() { (file.key("slo"), in_file) } else { ("--slo".to_owned(), flags.slos.as_slice()) };
    let read = texts.iter().map(|text| Slo::parse_all(text).with_context(|| format!("read {origin}")));
    Ok(read.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// What the result has to meet.
#[derive(Clone, PartialEq, Debug)]
pub struct Requirements {
    /// Each must be met.
    pub assertions: Vec<Assertion>,
    /// Record to compare with, if it is there.
    pub baseline: Option<PathBuf>,
    /// Where the record is kept as a baseline.
    pub save_baseline: Option<PathBuf>,
    /// How the baseline is compared.
    pub compare: CompareOptions,
}

pub(super) fn requirements(flags: &flags::Verdict, file: &File) -> Result<Requirements> {
    let in_file = file.bench.assert.as_deref().unwrap_or_default();
    let (origin, texts) = if flags.asserts.is_empty() {
        (file.key("assert"), in_file)
    } else {
        ("--assert".to_owned(), flags.asserts.as_slice())
    };
    let assertions = texts.iter().map(|text| Assertion::parse_all(text).with_context(|| format!("read {origin}")));
    Ok(Requirements {
        assertions: assertions.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect(),
        baseline: flags.baseline.clone(),
        save_baseline: flags.save_baseline.clone(),
        compare: CompareOptions {
            ignore: flags.ignore.clone(),
            threshold: verdicts::threshold(flags.threshold.as_deref())?,
            ..CompareOptions::default()
        },
    })
}
