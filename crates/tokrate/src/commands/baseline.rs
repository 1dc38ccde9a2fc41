//! Compares a run with its baseline.
//!
//! Invariant: a baseline that is named and cannot be used is an error, never silently none, unless this run is to become it.

use super::Verdict;
use super::compare::{compare_records, verdict};
use crate::config::bench::Requirements;
use crate::out::comparison::{self, Sides};
use crate::out::paragraph::note;
use crate::out::records::{is_embedded, read_records};
use crate::out::{comparison_blocks, stdout};
use anyhow::{Result, anyhow, bail, ensure};
use std::fmt::Display;
use std::iter::repeat_n;
use std::sync::Arc;
use tokrate_bench::Config;
use tokrate_bench::schedule::{ScheduleMode, Verdicts};
use tokrate_judge::compare::{CompareOutcome, CompareReport, check_plan};
use tokrate_record::{Record, RunSamples};

/// The records of a baseline, read before the run.
pub struct Baseline {
    records: Vec<Record>,
    /// What is printed when the file is not there and this run is to become it.
    missing: Option<String>,
}

/// Result of the comparison.
pub struct BaselineResult {
    /// One for each target; none without a baseline.
    pub reports: Vec<CompareReport>,
    failed: Option<anyhow::Error>,
    /// Why there is none, where this run is to become the baseline.
    pub missing: Option<String>,
}

impl Baseline {
    /// Reads the file that the requirements name. One that is not there is an error, unless `--save-baseline` names the
    /// same file: that is how a pipeline begins.
    pub fn read(requirements: &Requirements, targets: usize) -> Result<Baseline> {
        let Some(path) = &requirements.baseline else { return Ok(Baseline { records: Vec::new(), missing: None }) };
        if !path.exists() {
            let missing = format!("no baseline at {} yet, so nothing was compared", path.display());
            ensure!(
                requirements.save_baseline.as_ref() == Some(path),
                "read --baseline: there is no {0}; check the path, or add --save-baseline {0} to let this run become it",
                path.display()
            );
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

    /// Hands a run that goes on until its comparison with the baseline has a verdict the record of each target. Where there is none yet the run
    /// is to become it, with as many rounds as the first look takes.
    pub fn attach(&self, configs: &mut [Config]) {
        for (place, config) in configs.iter_mut().enumerate() {
            let ScheduleMode::Verdict(verdicts) = &mut config.schedule_mode else { continue };
            verdicts.baseline = self.records.get(place).cloned().map(Arc::new);
            if self.missing.is_some() {
                config.schedule_mode = ScheduleMode::Listed;
                let rounds = Verdicts::FIRST_LOOK as usize;
                config.phases = config.phases.iter().flat_map(|phase| repeat_n(phase.clone(), rounds)).collect();
            }
        }
    }

    /// Refuses what could not be compared with the baseline once it is measured: a run that ends with that was paid for nothing.
    ///
    /// # Errors
    /// As [`Baseline::compare`] would have them.
    pub fn check(&self, configs: &[Config], requirements: &Requirements) -> Result<()> {
        for (record, config) in self.records.iter().zip(configs) {
            let side = RunSamples::of_record(record);
            let mut ignore = requirements.compare.ignore.clone();
            if is_embedded(record) && config.target.remote().is_none() {
                ignore.push("endpoint".to_owned());
            }
            let planned = match &config.schedule_mode {
                // Its levels follow from what it measures.
                ScheduleMode::Search(_) | ScheduleMode::System { .. } => {
                    side.levels.iter().map(|level| (level.load, level.name.clone())).collect()
                }
                _ => config.phases.iter().map(|phase| (phase.load.row(), phase.load.name())).collect::<Vec<_>>(),
            };
            let conditions = tokrate_bench::planned_conditions(config)?;
            check_plan(&side, &conditions, &planned, &ignore).map_err(|error| of_run_and_baseline(&error))?;
            if let ScheduleMode::Verdict(_) = &config.schedule_mode {
                let lacking = planned.iter().find(|(load, _)| side.levels.iter().all(|level| level.load != *load));
                if let Some((_, name)) = lacking {
                    bail!(
                        "read --until verdict: the baseline has no {name}, so that there would never be a verdict of it; leave that level out, or \
                         measure the baseline anew"
                    );
                }
            }
        }
        Ok(())
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
    /// For the terminal; with `--wide` the whole table.
    pub fn text(&self, is_wide: bool) -> String {
        let width = stdout::width(stdout::MAX_TEXT_WIDTH);
        let mut text: String = self.missing.iter().map(|missing| note(missing, width)).collect();
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
        regressions.map(|line| format!("tokrate: {line}\n")).collect()
    }

    /// What it means for the exit code.
    ///
    /// # Errors
    /// When the baseline cannot be compared with the run.
    pub fn verdict(self) -> Result<Verdict> {
        match self.failed {
            Some(error) => Err(of_run_and_baseline(&error)),
            None => Ok(self.reports.iter().map(verdict).max().unwrap_or(Verdict::Good)),
        }
    }
}

/// An error that speaks of "the two" records.
fn of_run_and_baseline(error: &impl Display) -> anyhow::Error {
    anyhow!("{}", error.to_string().replacen("the two", "the run and its baseline", 1))
}
