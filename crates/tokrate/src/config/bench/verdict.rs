//! What the result is compared with: resolved from flags and settings file.

use crate::config::file::File;
use crate::config::verdicts;
use crate::flags::bench as flags;
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use tokrate_judge::compare::CompareOptions;
use tokrate_judge::{Assertion, Objective};

pub(super) fn objectives(flags: &flags::Verdict, file: &File) -> Result<Vec<Objective>> {
    let in_file = file.bench.slo.as_deref().unwrap_or_default();
    let (origin, texts) =
        if flags.slos.is_empty() { (file.key("slo"), in_file) } else { ("--slo".to_owned(), flags.slos.as_slice()) };
    let read = texts.iter().map(|text| Objective::parse_all(text).with_context(|| format!("read {origin}")));
    Ok(read.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// The share of the requests that percentiles among the objectives ask for, if there are any.
pub(super) fn share_of(objectives: &[Objective]) -> Result<Option<f64>> {
    let mut shares = objectives.iter().filter_map(|objective| objective.percentile.as_ref().map(|(share, _)| *share));
    let first = shares.next();
    ensure!(
        shares.all(|share| Some(share) == first),
        "read --slo: the objectives name several percentiles, and a search has one share; name one, such as --slo-share 95%"
    );
    Ok(first)
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

/// A percentile among the objectives is held against the result, except where a search looks for the load that keeps it.
pub(super) fn requirements(flags: &flags::Verdict, is_search: bool, file: &File) -> Result<Requirements> {
    let in_file = file.bench.assert.as_deref().unwrap_or_default();
    let (origin, texts) = if flags.asserts.is_empty() {
        (file.key("assert"), in_file)
    } else {
        ("--assert".to_owned(), flags.asserts.as_slice())
    };
    let assertions = texts.iter().map(|text| Assertion::parse_all(text).with_context(|| format!("read {origin}")));
    let mut assertions: Vec<Assertion> = assertions.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    if !is_search {
        assertions.extend(objectives(flags, file)?.into_iter().filter_map(|it| Some(it.percentile?.1)));
    }
    Ok(Requirements {
        assertions,
        baseline: flags.baseline.clone(),
        save_baseline: flags.save_baseline.clone(),
        compare: CompareOptions {
            ignore: flags.ignore.clone(),
            threshold: verdicts::threshold(flags.threshold.as_deref())?,
            ..CompareOptions::default()
        },
    })
}
