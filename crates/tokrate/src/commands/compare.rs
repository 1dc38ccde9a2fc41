//! `tokrate compare`: two records compared.

use super::Verdict;
use crate::config::clickhouse;
use crate::config::log::moment;
use crate::config::verdicts::{metrics, threshold};
use crate::flags::compare::Flags;
use crate::out::comparison::{self, Sides};
use crate::out::records::{is_embedded, read_record, read_rows};
use crate::out::{comparison_blocks, files};
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::path::Path;
use tokrate_judge::compare::{CompareOptions, CompareOutcome, CompareReport, compare};
use tokrate_net::Clock;
use tokrate_record::{Record, RunSamples, Status};
use tokrate_store::Query;

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
    let (before, after) = (Measured::read(&flags.before, flags)?, Measured::read(&flags.after, flags)?);
    let are_embedded = before.is_embedded && after.is_embedded;
    let mut report = compare_sides(&before.samples, &after.samples, are_embedded, &options)?;
    let marks = [("before", &before), ("after", &after)];
    report.notes.extend(marks.iter().filter_map(|(side, it)| Some(format!("{side}: {}", it.mark.as_ref()?))));
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
    let mut report = compare_sides(side_before, side_after, is_embedded(before) && is_embedded(after), options)?;
    report.notes.extend(incomplete(before).map(|mark| format!("before: {mark}")));
    Ok(report)
}

fn compare_sides(
    side_before: &RunSamples,
    side_after: &RunSamples,
    are_embedded: bool,
    options: &CompareOptions,
) -> Result<CompareReport> {
    let mut options = options.clone();
    if are_embedded {
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

/// One side of a comparison.
struct Measured {
    samples: RunSamples,
    /// Whether the embedded engine was measured.
    is_embedded: bool,
    /// What it is, if it is no record or not a whole one.
    mark: Option<String>,
}

impl Measured {
    fn read(path: &Path, flags: &Flags) -> Result<Measured> {
        if clickhouse::holds_rows(path) {
            return window(path, flags);
        }
        let record = read_record(path)?;
        let mark = incomplete(&record);
        Ok(Measured { samples: side(path, &record)?, is_embedded: is_embedded(&record), mark })
    }
}

/// That a record is not of a whole run, if so.
fn incomplete(record: &Record) -> Option<String> {
    let status = match record.status {
        Status::Complete => return None,
        Status::Partial => "partial",
        Status::Failed => "failed",
    };
    let reason = record.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
    Some(format!("the record is {status}{reason}"))
}

/// Rows of a log or of a monitor's database.
fn window(path: &Path, flags: &Flags) -> Result<Measured> {
    let now = Clock::monotonic().wall_nanos() / 1_000_000;
    let until = flags.until.as_deref().map(|text| moment(text, now)).transpose().context("read --until")?.flatten();
    let since = flags.since.as_deref().map(|text| moment(text, until.unwrap_or(now)));
    let query = Query {
        from_unix_ms: since.transpose().context("read --since")?.flatten(),
        until_unix_ms: until,
        lane: flags.lane.clone(),
        alias: flags.workload.clone(),
        ..Query::default()
    };
    let (store, source) = clickhouse::rows(path, flags.source)?;
    let found = store.window_samples(&query)?;
    let source = source.of_rows().name();
    ensure!(
        found.rows > 0,
        "read {}: no row of the source `{source}` fits; choose another --lane, --workload or --since, or --source",
        path.display()
    );
    if let Some((name, values)) = found.kinds.iter().next() {
        let shown: Vec<&str> = values.iter().take(SHOWN_KINDS).map(String::as_str).collect();
        let flag = match *name {
            "lane" => "name one with --lane",
            "workload" => "name one with --workload",
            _ => "narrow it with --lane, --workload, --since and --until",
        };
        bail!(
            "read {}: rows of {} kinds of {name} would be one number ({}); {flag}",
            path.display(),
            values.len(),
            shown.join(", ")
        );
    }
    let mark = format!("{} rows of the source `{source}` in {}", found.rows, path.display());
    Ok(Measured { samples: found.samples, is_embedded: false, mark: Some(mark) })
}

/// Unlike values that a refusal names.
const SHOWN_KINDS: usize = 6;

/// A record with the rows that lie beside it, if they do.
fn side(path: &Path, record: &Record) -> Result<RunSamples> {
    let beside = path.with_extension("jsonl");
    if path.extension().is_none() || beside == path || !beside.is_file() {
        return Ok(RunSamples::of_record(record));
    }
    Ok(RunSamples::of_rows(record, &read_rows(&beside, record)?))
}
