//! A run held against its baseline.
//!
//! It does not measure. Invariant: a baseline that is there and cannot be used is an error, never silently none.

use super::Verdict;
use super::compare::{held_against, verdict};
use crate::config::bench::Demands;
use crate::out::comparison::{self, Sides};
use crate::out::comparison_blocks;
use crate::out::records::read_records;
use anyhow::{Result, anyhow, ensure};
use tokrate_judge::compare::{CompareOutcome, CompareReport};
use tokrate_record::{Record, RunSamples};

/// The records of a baseline, read before the run.
pub struct Baseline {
    records: Vec<Record>,
    /// What is told when the file is not there.
    absent: Option<String>,
}

/// What came of the comparison.
pub struct Held {
    /// One for each target; none without a baseline.
    pub reports: Vec<CompareReport>,
    failed: Option<anyhow::Error>,
    absent: Option<String>,
}

impl Baseline {
    /// Reads the file that the demands name, if it is there.
    pub fn read(demands: &Demands, targets: usize) -> Result<Baseline> {
        let Some(path) = &demands.baseline else { return Ok(Baseline { records: Vec::new(), absent: None }) };
        if !path.exists() {
            let absent = format!("no baseline at {} yet; keep one with --save-baseline", path.display());
            return Ok(Baseline { records: Vec::new(), absent: Some(absent) });
        }
        let records = read_records(path)?;
        ensure!(
            records.len() == targets,
            "read --baseline: {} holds {} records for {targets} targets; measure the same targets",
            path.display(),
            records.len()
        );
        Ok(Baseline { records, absent: None })
    }

    /// Compares each record with its own before.
    pub fn compare(self, records: &[Record], demands: &Demands) -> Held {
        let mut held = Held { reports: Vec::new(), failed: None, absent: self.absent };
        for (before, after) in self.records.iter().zip(records) {
            let (a, b) = (RunSamples::of_record(before), RunSamples::of_record(after));
            match held_against(before, &a, after, &b, &demands.compare) {
                Ok(report) => held.reports.push(report),
                Err(error) => {
                    held.failed.get_or_insert(error);
                }
            }
        }
        held
    }
}

impl Held {
    /// For the terminal; with `--wide` the whole table.
    pub fn text(&self, is_wide: bool) -> String {
        let mut text = self.absent.as_ref().map_or_else(String::new, |absent| format!("{absent}\n"));
        for report in &self.reports {
            let table = comparison_blocks::shown(report, Sides::BeforeAfter, is_wide);
            text += &format!("\nAgainst the baseline:\n{table}");
        }
        text
    }

    /// What went wrong, for whoever asked for no table: a line each.
    pub fn troubles(&self) -> String {
        let regressions = self.reports.iter().filter(|report| report.outcome != CompareOutcome::NoRegression);
        let regressions = regressions.map(|report| comparison::sentence(report, Sides::BeforeAfter));
        self.absent.iter().cloned().chain(regressions).map(|line| format!("tokrate: {line}\n")).collect()
    }

    /// What it means for the exit code.
    ///
    /// # Errors
    /// When the baseline cannot be compared with the run.
    pub fn verdict(self) -> Result<Verdict> {
        match self.failed {
            // The error says what could not be done to "the two".
            Some(error) => Err(anyhow!("{}", error.to_string().replacen("the two", "the run and its baseline", 1))),
            None => Ok(self.reports.iter().map(verdict).max().unwrap_or(Verdict::Good)),
        }
    }
}
