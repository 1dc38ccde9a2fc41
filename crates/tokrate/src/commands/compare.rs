//! `tokrate compare`: two records compared.

use super::Verdict;
use crate::config::verdicts::{metrics, threshold};
use crate::flags::compare::Flags;
use crate::out::comparison::{self, Sides};
use crate::out::records::{is_embedded, read_record, read_rows};
use crate::out::{comparison_blocks, files};
use anyhow::{Result, anyhow, ensure};
use std::path::Path;
use tokrate_judge::compare::{CompareOptions, CompareOutcome, CompareReport, compare};
use tokrate_record::Record;
use tokrate_record::RunSamples;

/// Reads both, compares, prints.
pub fn run(flags: &Flags) -> Result<Verdict> {
    let stdout = |path: &Option<std::path::PathBuf>| path.as_deref() == Some(Path::new("-"));
    ensure!(
        !(stdout(&flags.json) && stdout(&flags.markdown)),
        "read --markdown: standard output belongs to --json already; name a file"
    );
    let options = CompareOptions {
        ignore: flags.ignore.clone(),
        metrics: metrics(&flags.metrics)?,
        threshold: threshold(flags.threshold.as_deref())?,
        ..CompareOptions::default()
    };
    for path in [&flags.json, &flags.markdown].into_iter().flatten() {
        files::check_writable(path)?;
    }
    let (before, after) = (read_record(&flags.before)?, read_record(&flags.after)?);
    let report =
        compare_records(&before, &side(&flags.before, &before)?, &after, &side(&flags.after, &after)?, &options)?;
    if let Some(path) = &flags.json {
        files::write(path, &(serde_json::to_string_pretty(&report)? + "\n"))?;
    }
    if let Some(path) = &flags.markdown {
        files::write(path, &comparison::markdown(&report, Sides::BeforeAfter))?;
    }
    let text = comparison_blocks::shown(&report, Sides::BeforeAfter, false);
    if stdout(&flags.json) || stdout(&flags.markdown) {
        anstream::eprint!("{text}");
    } else {
        crate::out::stdout::write(&text)?;
    }
    Ok(verdict(&report))
}

/// Compares two sides. The embedded engine gets another port in every run, so its endpoint is ignored.
pub fn compare_records(
    before: &Record,
    side_before: &RunSamples,
    after: &Record,
    side_after: &RunSamples,
    options: &CompareOptions,
) -> Result<CompareReport> {
    let mut options = options.clone();
    if is_embedded(before) && is_embedded(after) {
        options.ignore.push("endpoint".to_owned());
    }
    compare(side_before, side_after, &options).map_err(|error| anyhow!("{error}"))
}

/// What a comparison means for the exit code.
pub fn verdict(report: &CompareReport) -> Verdict {
    match report.outcome {
        CompareOutcome::NoRegression => Verdict::Good,
        CompareOutcome::Regression => Verdict::BelowBar,
        CompareOutcome::NothingCompared => Verdict::NotMeasured,
    }
}

/// A record with the rows that lie beside it, if they do.
fn side(path: &Path, record: &Record) -> Result<RunSamples> {
    let beside = path.with_extension("jsonl");
    if path.extension().is_none() || beside == path || !beside.is_file() {
        return Ok(RunSamples::of_record(record));
    }
    Ok(RunSamples::of_rows(record, &read_rows(&beside, record)?))
}
