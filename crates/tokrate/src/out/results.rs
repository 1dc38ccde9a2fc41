//! What a run has measured so far, and the files that hold it: written anew after every phase.
//!
//! It refuses to judge. Invariant: every file that was asked for is whole and valid whenever the run ends; one target gives
//! one record, several give a comparison.

use super::comparison::{self, Sides};
use super::files::{self, PhaseName, Rows};
use super::progress::Display;
use super::{badge, csv, forecast, junit, markdown, scorecard, vllm};
use crate::config::bench::Outputs;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokrate_bench::forecast::Forecast;
use tokrate_bench::plan::PhaseSpec;
use tokrate_bench::report::{self, Samples, Subject};
use tokrate_bench::{Observer, Place, Progress};
use tokrate_charts::Section;
use tokrate_meter::compare::CompareReport;
use tokrate_meter::run::Load;
use tokrate_meter::{Comparison, PhaseResult, Record, RequestNumbers};

/// Shows progress and writes files after every phase.
pub struct Results<'a> {
    outputs: &'a Outputs,
    display: Display,
    rows: Option<Rows>,
    targets: Vec<Measured>,
    /// The finished records, held against each other.
    judged: Option<Comparison>,
    /// Comparisons with the baseline, target by target.
    held: Vec<CompareReport>,
    /// The first thing that could not be written.
    broken: Option<anyhow::Error>,
}

/// One target's results.
struct Measured {
    name: String,
    record: Option<Record>,
    /// Rows of all phases, thinned, for the report's pictures.
    pictured: Samples,
}

impl<'a> Results<'a> {
    /// No results yet, of targets of these names.
    pub fn new(outputs: &'a Outputs, names: &[String]) -> Result<Results<'a>> {
        let rows = outputs.jsonl.as_deref().map(Rows::create).transpose()?;
        let display = Display::new(!outputs.quiet);
        let target = |name: &String| Measured { name: name.clone(), record: None, pictured: Samples::default() };
        Ok(Results {
            outputs,
            display,
            rows,
            targets: names.iter().map(target).collect(),
            judged: None,
            held: Vec::new(),
            broken: None,
        })
    }

    /// Writes every file for the last time, from the finished results, whose records come in the order of the names.
    /// `held` are their comparisons with the baseline, if there is one.
    pub fn finish(mut self, results: &Comparison, held: &[CompareReport]) -> Result<()> {
        self.display.clear();
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        for (target, record) in self.targets.iter_mut().zip(&results.records) {
            target.record = Some(record.clone());
        }
        self.judged = Some(results.clone());
        self.held = held.to_vec();
        self.write()?;
        // Standard output gets one document, at the end.
        let stdout = Path::new("-");
        if self.outputs.json.as_deref() == Some(stdout) {
            files::write(stdout, &self.json())?;
        }
        if self.outputs.markdown.as_deref() == Some(stdout) {
            files::write(stdout, &self.markdown())?;
        }
        Ok(())
    }

    fn write(&self) -> Result<()> {
        let write = |path: &Option<PathBuf>, text: &dyn Fn() -> String| match path.as_deref() {
            Some(path) if path != Path::new("-") => files::write(path, &text()),
            _ => Ok(()),
        };
        write(&self.outputs.json, &|| self.json())?;
        write(&self.outputs.html, &|| self.html())?;
        let (names, records) = self.measured();
        write(&self.outputs.csv, &|| csv::of(&names, &records))?;
        write(&self.outputs.markdown, &|| self.markdown())?;
        write(&self.outputs.vllm_json, &|| vllm::of(&names, &records))?;
        write(&self.outputs.junit, &|| junit::of(&names, &records, &self.held, self.outputs))?;
        write(&self.outputs.badge, &|| badge::of(&records))
    }

    /// Names and records of the targets that have any.
    fn measured(&self) -> (Vec<String>, Vec<Record>) {
        let measured = self.targets.iter().filter_map(|target| Some((target.name.clone(), target.record.clone()?)));
        measured.unzip()
    }

    fn json(&self) -> String {
        match &self.targets[..] {
            [Measured { record: Some(record), .. }] => record.to_json(),
            _ => self.results().to_json(),
        }
    }

    /// What is known so far; targets are held against each other when all of them are measured.
    fn results(&self) -> Comparison {
        self.judged.clone().unwrap_or_else(|| Comparison::of(self.measured().1))
    }

    fn markdown(&self) -> String {
        markdown::of(&self.measured().0, &self.results(), &self.held)
    }

    fn html(&self) -> String {
        match &self.targets[..] {
            [Measured { record: Some(record), pictured, .. }] => report::html(record, pictured),
            several => {
                let subjects: Vec<Subject<'_>> = several
                    .iter()
                    .filter_map(|target| {
                        let record = target.record.as_ref()?;
                        Some(Subject { name: &target.name, record, samples: &target.pictured })
                    })
                    .collect();
                report::comparison_html(&subjects, self.verdicts())
            }
        }
    }

    /// The sections of the page that hold the targets against each other.
    fn verdicts(&self) -> Vec<Section> {
        let Some(results) = &self.judged else { return Vec::new() };
        let against = results.against_first.iter().map(|it| comparison::section(&it.report, Sides::of(it)));
        results.scorecard.iter().map(scorecard::section).chain(against).collect()
    }

    fn add(&mut self, place: Place, record: &Record, rows: &[RequestNumbers]) -> Result<()> {
        let Some(phase) = record.phases.last() else { return Ok(()) };
        let several = self.targets.len() > 1;
        let target = &mut self.targets[place.target];
        target.pictured.add(phase, rows);
        target.record = Some(record.clone());
        if let Some(file) = &mut self.rows {
            let name = several.then_some(target.name.as_str());
            file.add(&phase_name(name, phase, place.phase), rows)?;
        }
        self.write()
    }

    fn label(&self, place: Place) -> String {
        let count = format!("{}/{}", place.phase + 1, place.of);
        if self.targets.len() > 1 { format!("{} {count}", self.targets[place.target].name) } else { count }
    }
}

impl Observer for Results<'_> {
    fn probing(&mut self, target: usize) {
        self.display.note(&format!("[{}] asking once before the load", self.targets[target].name));
    }

    fn planned(&mut self, target: usize, forecast: &Forecast) {
        self.display.clear();
        if !self.outputs.quiet {
            anstream::eprintln!("{}: {}", self.targets[target].name, forecast::line(forecast));
        }
    }

    fn phase_started(&mut self, place: Place, spec: &PhaseSpec, progress: &Arc<Progress>) {
        let label = self.label(place);
        self.display.phase(&label, spec, progress);
    }

    fn calibrating(&mut self, place: Place) {
        let label = self.label(place);
        self.display.note(&format!("[{label}] measuring the client's own error at this load"));
    }

    fn phase_ended(&mut self, place: Place, record: &Record, rows: &[RequestNumbers]) {
        self.display.clear();
        let written = self.add(place, record, rows);
        if let Err(error) = written {
            self.broken.get_or_insert(error);
        }
    }
}

fn phase_name<'p>(target: Option<&'p str>, phase: &'p PhaseResult, number: usize) -> PhaseName<'p> {
    let (concurrency, rate) = match phase.load {
        Load::Closed { concurrency } => (Some(concurrency), None),
        Load::Sessions { sessions, .. } => (Some(sessions), None),
        Load::Open { rate, .. } | Load::Trace { rate, .. } => (None, Some(rate)),
        Load::ClosedRamp { .. } | Load::OpenRamp { .. } => (None, None),
    };
    PhaseName { target, name: &phase.name, number, concurrency, rate }
}
