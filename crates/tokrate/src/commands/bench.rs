//! `tokrate bench`: from flags to a run, its live display, its files and its exit code.

use super::Verdict;
use crate::config::bench::{Outputs, resolve};
use crate::config::environment::Environment;
use crate::config::file::File;
use crate::flags::bench::Flags;
use crate::out::files::{self, PhaseName, Rows};
use crate::out::progress::Display;
use crate::out::summary;
use anyhow::Result;
use std::sync::Arc;
use tokrate_bench::plan::PhaseSpec;
use tokrate_bench::{Observer, Progress, Stop, report};
use tokrate_meter::run::Load;
use tokrate_meter::{PhaseResult, Record, RequestNumbers, Status};
use tokrate_net::Clock;

/// Runs a bench to its end or to the first Ctrl-C.
pub fn run(flags: &Flags) -> Result<Verdict> {
    let file = File::read(flags.target.config.as_deref())?;
    let (config, outputs) = resolve(flags, &Environment::read(), &file)?;
    for path in [&outputs.json, &outputs.jsonl, &outputs.html].into_iter().flatten() {
        files::check_writable(path)?;
    }
    let stop = Stop::default();
    super::interrupt::watch(stop.clone())?;
    let mut writer = Writer::new(&outputs)?;
    let record = tokrate_bench::run(&config, Clock::monotonic(), &stop, &mut writer)?;
    writer.finish(&record)?;
    let text = if outputs.quiet { String::new() } else { summary::of(&record, &outputs) };
    if outputs.json.as_deref() == Some(std::path::Path::new("-")) {
        // Standard output belongs to the record.
        anstream::eprint!("{text}");
    } else {
        anstream::print!("{text}");
    }
    Ok(verdict(&record, &outputs))
}

/// Shows progress and writes files after every phase.
struct Writer<'a> {
    outputs: &'a Outputs,
    display: Display,
    rows: Option<Rows>,
    /// Rows of all phases, thinned, for the report's pictures.
    pictured: report::Samples,
    /// The first thing that could not be written.
    broken: Option<anyhow::Error>,
}

impl<'a> Writer<'a> {
    fn new(outputs: &'a Outputs) -> Result<Writer<'a>> {
        let rows = outputs.jsonl.as_deref().map(Rows::create).transpose()?;
        let display = Display::new(!outputs.quiet);
        Ok(Writer { outputs, display, rows, pictured: report::Samples::default(), broken: None })
    }

    fn write(&mut self, record: &Record) -> Result<()> {
        // Standard output gets one document, at the end.
        if let Some(path) = self.outputs.json.as_deref().filter(|path| *path != std::path::Path::new("-")) {
            files::write(path, &record.to_json())?;
        }
        if let Some(path) = &self.outputs.html {
            files::write(path, &report::html(record, &self.pictured))?;
        }
        Ok(())
    }

    fn finish(mut self, record: &Record) -> Result<()> {
        self.display.clear();
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        self.write(record)?;
        match self.outputs.json.as_deref() {
            Some(path) if path == std::path::Path::new("-") => files::write(path, &record.to_json()),
            _ => Ok(()),
        }
    }

    fn add(&mut self, record: &Record, rows: &[RequestNumbers]) -> Result<()> {
        let Some(phase) = record.phases.last() else { return Ok(()) };
        self.pictured.add(phase, rows);
        if let Some(file) = &mut self.rows {
            file.add(&phase_name(phase, record.phases.len() - 1), rows)?;
        }
        self.write(record)
    }
}

impl Observer for Writer<'_> {
    fn phase_started(&mut self, number: usize, of: usize, spec: &PhaseSpec, progress: &Arc<Progress>) {
        self.display.phase(number, of, spec, progress);
    }

    fn calibrating(&mut self, number: usize, of: usize) {
        self.display.note(&format!("[{number}/{of}] measuring the client's own error at this load"));
    }

    fn phase_ended(&mut self, record: &Record, rows: &[RequestNumbers]) {
        self.display.clear();
        let written = self.add(record, rows);
        if let Err(error) = written {
            self.broken.get_or_insert(error);
        }
    }
}

fn phase_name(phase: &PhaseResult, number: usize) -> PhaseName<'_> {
    let (concurrency, rate) = match phase.load {
        Load::Closed { concurrency } => (Some(concurrency), None),
        Load::Open { rate, .. } => (None, Some(rate)),
    };
    PhaseName { name: &phase.name, number, concurrency, rate }
}

/// What the exit code says: nothing answered is no measurement, too many failures are below the bar.
fn verdict(record: &Record, outputs: &Outputs) -> Verdict {
    let valid = record.phases.iter().all(PhaseResult::is_valid);
    let inconsistent = record.phases.iter().any(|phase| !phase.gate.is_empty());
    let above = |phase: &PhaseResult| {
        phase.counts.failed_share().is_some_and(|share| share > outputs.max_failures)
            || (phase.counts.started > 0 && phase.counts.answered == 0)
    };
    if record.status == Status::Failed || record.phases.is_empty() || inconsistent || (outputs.strict && !valid) {
        Verdict::NotMeasured
    } else if record.phases.iter().any(above) {
        Verdict::BelowBar
    } else {
        Verdict::Good
    }
}
