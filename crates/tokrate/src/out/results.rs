//! What a run has measured so far, and the files that hold it: written anew after every phase.
//!
//! It does not judge. Invariant: every file that was asked for is whole and valid whenever the run ends, or reported not to
//! be, and one that cannot be written takes no other with it; one target gives one record, several give a comparison.

use super::arrivals::Arrivals;
use super::board::add_phase;
use super::comparison::{self, Sides};
use super::files::{self, PhaseName, Rows};
use super::paragraph::{hanging, note};
use super::progress::Display;
use super::{badge, csv, forecast, junit, markdown, scorecard, stdout, vllm};
use crate::config::bench::Outputs;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokrate_bench::forecast::Forecast;
use tokrate_bench::plan::PhaseSpec;
use tokrate_bench::report::{self, Samples, Subject};
use tokrate_bench::{Observer, PhasePosition, Progress, RequestArrivals, Stop};
use tokrate_charts::Section;
use tokrate_judge::Comparison;
use tokrate_judge::compare::CompareReport;
use tokrate_meter::RequestNumbers;
use tokrate_record::run::Load;
use tokrate_record::{PhaseResult, ProbeNames, Record};
use tokrate_store::{MonitorStore, StoreError};

/// Shows progress and writes files after every phase.
pub struct Results<'a> {
    outputs: &'a Outputs,
    display: Display,
    rows: Option<Rows>,
    arrivals: Option<Arrivals>,
    board: Option<Board>,
    targets: Vec<Measured>,
    /// What each target will be asked for.
    planned: Vec<Forecast>,
    /// The finished records, compared with each other.
    judged: Option<Comparison>,
    /// Comparisons with the baseline, target by target.
    held: Vec<CompareReport>,
    /// Why there is no baseline, if one was to be compared.
    no_baseline: Option<String>,
    /// Why rows are missing, if any are.
    lost_rows: Option<anyhow::Error>,
}

/// A monitor's database that the requests are added to.
struct Board {
    /// `None` if it cannot be written.
    store: Option<MonitorStore>,
    path: PathBuf,
    /// Why requests are missing, if any are.
    lost: Option<StoreError>,
}

/// What became of a file.
pub struct Written {
    /// What it is called.
    pub name: &'static str,
    /// Where it is.
    pub path: PathBuf,
    /// Whether it is whole.
    pub result: Result<()>,
}

/// One target's results.
struct Measured {
    name: String,
    record: Option<Record>,
    /// Rows of all phases, thinned, for the report's pictures.
    pictured: Samples,
    /// Phases after which it is known what the rest will take; 0 where the plan says it.
    start_up: usize,
    /// What it was expected to be asked for.
    forecast: Option<Forecast>,
}

impl<'a> Results<'a> {
    /// No results yet, of targets of these names.
    pub fn new(outputs: &'a Outputs, names: &[String], stop: &Stop) -> Result<Results<'a>> {
        let rows = outputs.jsonl.as_deref().map(Rows::create).transpose()?;
        let arrivals = outputs.chunks.as_deref().map(Arrivals::create).transpose()?;
        let board = outputs.board.clone().map(|path| -> Result<Board> {
            match MonitorStore::open_to_add(&path) {
                Ok(store) => Ok(Board { store: Some(store), path, lost: None }),
                // A disk that is full takes nothing from the table.
                Err(lost @ (StoreError::Full { .. } | StoreError::Disk { .. })) => {
                    Ok(Board { store: None, path, lost: Some(lost) })
                }
                Err(error) => Err(error.into()),
            }
        });
        let display = Display::new(outputs.progress, names, stop);
        let target = |name: &String| Measured {
            name: name.clone(),
            record: None,
            pictured: Samples::default(),
            start_up: 0,
            forecast: None,
        };
        Ok(Results {
            outputs,
            display,
            rows,
            arrivals,
            board: board.transpose()?,
            targets: names.iter().map(target).collect(),
            planned: Vec::new(),
            judged: None,
            held: Vec::new(),
            no_baseline: None,
            lost_rows: None,
        })
    }

    /// Takes the view away.
    pub fn clear(&mut self) {
        self.display.clear();
    }

    /// Writes every file for the last time, from the finished results, whose records come in the order of the names.
    /// `held` are their comparisons with the baseline, or `no_baseline` why there is none. What each file came to, in the order of the flags.
    pub fn finish(mut self, results: &Comparison, held: &[CompareReport], no_baseline: Option<String>) -> Vec<Written> {
        for (target, record) in self.targets.iter_mut().zip(&results.records) {
            target.record = Some(record.clone());
        }
        self.judged = Some(results.clone());
        self.held = held.to_vec();
        self.no_baseline = no_baseline;
        let mut lost_rows = self.lost_rows.take();
        let files: Vec<(&'static str, PathBuf)> =
            self.outputs.files().map(|(name, path)| (name, path.to_path_buf())).collect();
        let mut written = Vec::new();
        for (name, path) in files {
            let result = match self.text_of(name) {
                Some(text) => files::write(&path, &text),
                None if name == "arrivals" => self.arrivals.take().map_or(Ok(()), Arrivals::finish),
                None => lost_rows.take().map_or(Ok(()), Err),
            };
            written.push(Written { name, path, result });
        }
        written.extend(self.board.take().map(|Board { path, lost, .. }| {
            let result =
                lost.map_or(Ok(()), |error| Err(anyhow::Error::new(error).context("put requests on the board")));
            Written { name: "board", path, result }
        }));
        written
    }

    /// Writes what is known so far; one that fails is tried again after the next phase, and reported at the end.
    fn write(&self) {
        for (name, path) in self.outputs.files().filter(|(_, path)| *path != Path::new("-")) {
            if let Some(text) = self.text_of(name) {
                let _ = files::write(path, &text);
            }
        }
    }

    /// The whole text of a file; `None` of rows and arrivals, which are added to after each phase.
    fn text_of(&self, name: &str) -> Option<String> {
        let (names, records) = self.measured();
        Some(match name {
            "record" => self.json(),
            "report" => self.html(),
            "levels" => csv::of(&names, &records),
            "markdown" => self.markdown(),
            "vllm result" => vllm::of(&names, &records),
            "junit" => {
                let check = self.judged.as_ref().and_then(|judged| judged.self_check.as_ref());
                junit::of(&names, &records, &self.held, check, self.outputs)
            }
            "badge" => badge::of(&records),
            _ => return None,
        })
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

    /// What is known so far; targets are compared with each other when all of them are measured.
    fn results(&self) -> Comparison {
        self.judged.clone().unwrap_or_else(|| Comparison::of(self.measured().1))
    }

    fn markdown(&self) -> String {
        markdown::of(&self.measured().0, &self.results(), &self.held, self.no_baseline.as_deref())
    }

    fn html(&self) -> String {
        match &self.targets[..] {
            [Measured { record: Some(record), pictured, .. }] => report::html(record, pictured, self.verdicts()),
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

    /// The sections of the page that hold the targets against their baseline and against each other.
    fn verdicts(&self) -> Vec<Section> {
        let Some(results) = &self.judged else { return Vec::new() };
        let titled = |place: usize| match self.targets.get(place).filter(|_| self.held.len() > 1) {
            Some(target) => format!("{}: against the baseline", target.name),
            None => "Against the baseline".to_owned(),
        };
        let held = self
            .held
            .iter()
            .enumerate()
            .map(|(place, report)| Section { title: titled(place), ..comparison::section(report, Sides::BeforeAfter) });
        let missing = self.no_baseline.iter().map(|missing| Section {
            title: "Against the baseline".to_owned(),
            intro: missing.clone(),
            blocks: Vec::new(),
        });
        let against = results.against_first.iter().map(|it| comparison::section(&it.report, Sides::of(it)));
        let check = results.self_check.iter().map(|check| Section {
            title: "Self-check".to_owned(),
            intro: check.sentence.clone(),
            blocks: Vec::new(),
        });
        missing
            .chain(held)
            .chain(check)
            .chain(results.scorecard.iter().map(scorecard::section))
            .chain(against)
            .collect()
    }

    fn add(&mut self, place: PhasePosition, record: &Record, rows: &[RequestNumbers]) {
        let Some(phase) = record.phases.last() else { return };
        let several = self.targets.len() > 1;
        let target = &mut self.targets[place.target];
        target.pictured.add(phase, rows);
        target.record = Some(record.clone());
        // After the first that is lost no more are added: a file with a hole would look whole.
        if let Some(file) = self.rows.as_mut().filter(|_| self.lost_rows.is_none()) {
            let name = several.then_some(target.name.as_str());
            self.lost_rows = file.add(&phase_name(name, phase, place.phase), rows).err();
        }
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.end_level();
        }
        if let Some(Board { store: Some(store), lost: lost @ None, .. }) = &mut self.board {
            let number = record.phases.len() - 1;
            *lost = add_phase(store, record, number, rows, &ProbeNames::of(record)).err();
        }
        self.write();
    }
}

impl Observer for Results<'_> {
    fn probing(&mut self, target: usize) {
        self.display.probing(target);
    }

    fn planned(&mut self, target: usize, forecast: &Forecast) {
        self.display.planned(target, forecast);
        self.targets[target].start_up = forecast.start_up;
        self.targets[target].forecast = Some(forecast.clone());
        if !self.outputs.quiet {
            let label = format!("{}: ", self.targets[target].name);
            self.display.say(&hanging(&label, &forecast::line(forecast), stdout::error_width()));
            self.planned.push(forecast.clone());
            if self.planned.len() == self.targets.len() && self.targets.len() > 1 {
                let lines =
                    std::iter::once(forecast::together(&self.planned)).chain(forecast::detectable(&self.planned));
                lines.for_each(|line| self.display.say(&note(&line, stdout::error_width())));
            }
        }
    }

    fn phase_started(&mut self, place: PhasePosition, spec: &PhaseSpec, progress: &Arc<Progress>) {
        let record = self.targets[place.target].record.as_ref();
        let load = spec.load.row();
        let earlier = record.map_or(0, |record| record.phases.iter().filter(|phase| phase.load == load).count());
        self.display.phase_started(place, earlier as u64 + 1, spec, progress);
    }

    fn calibrating(&mut self, _: PhasePosition) {
        self.display.calibrating();
    }

    fn arrived(&mut self, place: PhasePosition, request: RequestArrivals<'_>) {
        if let Some(arrivals) = &mut self.arrivals {
            let name = (self.targets.len() > 1).then(|| self.targets[place.target].name.as_str());
            arrivals.add(name, request);
        }
    }

    fn phase_ended(&mut self, place: PhasePosition, record: &Record, rows: &[RequestNumbers]) {
        self.display.phase_ended(place, record);
        self.add(place, record, rows);
        // The start-up has told what the rest will take.
        let target = &mut self.targets[place.target];
        if !self.outputs.quiet && place.phase + 1 == target.start_up {
            let label = format!("{}: ", target.name);
            if let Some(rest) = forecast::remaining(record, target.forecast.as_ref()) {
                self.display.say(&hanging(&label, &rest, stdout::error_width()));
            }
        }
    }
}

fn phase_name<'p>(target: Option<&'p str>, phase: &'p PhaseResult, number: usize) -> PhaseName<'p> {
    let (concurrency, rate) = match phase.load {
        Load::Closed { concurrency } | Load::Batched { concurrency, .. } => (Some(concurrency), None),
        Load::Sessions { sessions, .. } => (Some(sessions), None),
        Load::Agents { sessions } => (sessions, None),
        Load::Open { rate, .. } | Load::Trace { rate, .. } => (None, Some(rate)),
        Load::ClosedRamp { .. } | Load::OpenRamp { .. } => (None, None),
    };
    PhaseName { target, name: &phase.name, number, concurrency, rate }
}
