//! Compares a run with its baseline.
//!
//! Invariant: a baseline that is there and cannot be used is an error, never silently none.

use super::Verdict;
use super::compare::{compare_records, verdict};
use crate::config::bench::Requirements;
use crate::out::comparison::{self, Sides};
use crate::out::records::read_records;
use anyhow::{Result, anyhow, ensure};
use tokrate_judge::compare::CompareReport;
use tokrate_record::Record;
use tokrate_record::RunSamples;

/// The records of a baseline, read before the run.
pub struct Baseline {
    records: Vec<Record>,
    /// What is printed when the file is not there.
    missing: Option<String>,
}

/// Result of the comparison.
pub struct BaselineResult {
    /// One for each target; none without a baseline.
    pub reports: Vec<CompareReport>,
    failed: Option<anyhow::Error>,
    missing: Option<String>,
}

impl Baseline {
    /// Reads the file that the requirements name, if it is there.
    pub fn read(requirements: &Requirements, targets: usize) -> Result<Baseline> {
        let Some(path) = &requirements.baseline else { return Ok(Baseline { records: Vec::new(), missing: None }) };
        if !path.exists() {
            let missing = format!("no baseline at {} yet; keep one with --save-baseline", path.display());
            return Ok(Baseline { records: Vec::new(), missing: Some(missing) });
        }
        let records = read_records(path)?;
        ensure!(
            records.len() == targets,
            "read --baseline: {} holds {} records for {targets} targets; measure the same targets",
            path.display(),
            records.len()
        );
        Ok(Baseline { records, missing: None })
    }

    /// Compares each record with its own before.
    pub fn compare(self, records: &[Record], requirements: &Requirements) -> BaselineResult {
        let mut result = BaselineResult { reports: Vec::new(), failed: None, missing: self.missing };
        for (before, after) in self.records.iter().zip(records) {
            let (a, b) = (RunSamples::of_record(before), RunSamples::of_record(after));
            match compare_records(before, &a, after, &b, &requirements.compare) {
                Ok(report) => result.reports.push(report),
                Err(error) => {
                    result.failed.get_or_insert(error);
                }
            }
        }
        result
    }
}

impl BaselineResult {
    /// For the terminal.
    pub fn text(&self) -> String {
        let mut text = self.missing.as_ref().map_or_else(String::new, |missing| format!("{missing}\n"));
        for report in &self.reports {
            text += &format!("\nAgainst the baseline:\n{}", comparison::text(report, Sides::BeforeAfter));
        }
        text
    }

    /// What it means for the exit code.
    ///
    /// # Errors
    /// When the baseline cannot be compared with the run.
    pub fn verdict(self) -> Result<Verdict> {
        match self.failed {
            // The error speaks of "the two" records.
            Some(error) => Err(anyhow!("{}", error.to_string().replacen("the two", "the run and its baseline", 1))),
            None => Ok(self.reports.iter().map(verdict).max().unwrap_or(Verdict::Good)),
        }
    }
}
