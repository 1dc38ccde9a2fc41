//! The run of one target: the engine or endpoint it talks to, the probe before the load, then phase after phase.
//!
//! Invariant: a step that fails or panics ends the run of this target only, and what was measured before it stays.

use super::empty_record::empty_record;
use super::{Observer, PhasePosition};
use crate::calibrate::Calibrator;
use crate::config::{Config, Target};
use crate::cost_limit::CostLimit;
use crate::drive::run_phase;
use crate::endpoint::Endpoint;
use crate::forecast::{Forecast, ProbeTiming};
use crate::page_reader::PageReader;
use crate::plan::Budget;
use crate::progress::Progress;
use crate::sampler::{GpuReader, Sampler, Sources};
use crate::schedule::{Look, NextPhase, Reason, Schedule, Verdicts};
use crate::scrape::Scraper;
use crate::{BenchError, Stop, history, probe};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use tokrate_core::Tick;
use tokrate_host::{Host, HostConfig, RunningHost, TruthLog};
use tokrate_meter::RequestNumbers;
use tokrate_net::{Clock, Route};
use tokrate_record::timeline::TimelineBuilder;
use tokrate_record::{Record, Status};

pub(super) struct TargetRun<'a> {
    pub(super) config: &'a Config,
    pub(super) clock: Clock,
    pub(super) stop: &'a Stop,
    /// When the run of all targets began: zero of its time axis.
    pub(super) began_at: Tick,
    pub(super) started_at: Tick,
    pub(super) route: Route,
    pub(super) endpoint: Endpoint,
    /// The embedded engine, if it is the target.
    pub(super) host: Option<RunningHost>,
    pub(super) calibrator: Calibrator,
    pub(super) progress: Arc<Progress>,
    pub(super) record: Record,
    /// Reads the server's metrics, if it publishes them.
    pub(super) scraper: Option<Scraper>,
    /// Reads engine and graphics processors through the whole run.
    pub(super) sampler: Sampler,
    /// The run in slices of time.
    pub(super) timeline: TimelineBuilder,
    pub(super) next_prompt: u64,
    pub(super) cost_limit: Option<CostLimit>,
    pub(super) schedule: Schedule,
    /// Why phases were added.
    pub(super) reasons: Vec<Reason>,
    /// Why the run was aborted, if it was.
    pub(super) abort_reason: Option<String>,
    /// An interrupt ended a calibration, so that nothing says whether the figures of the last level are valid.
    pub(super) is_calibration_cut: bool,
    /// Duration of the probe request.
    pub(super) probe_timing: Option<ProbeTiming>,
}

impl<'a> TargetRun<'a> {
    pub(super) fn open(
        config: &'a Config,
        clock: Clock,
        stop: &'a Stop,
        began_at: Tick,
    ) -> Result<TargetRun<'a>, BenchError> {
        let started_at = clock.now();
        let (endpoint, host) = match &config.target {
            Target::Embedded(engine) => {
                let host = Host::start(HostConfig {
                    law: engine.law.clone(),
                    faults: engine.faults.clone(),
                    seed: config.seed,
                    truth: TruthLog::Memory,
                    ..HostConfig::default()
                })?;
                (Endpoint::embedded(host.address(), config)?, Some(host))
            }
            Target::Remote(remote) => (Endpoint::remote(remote, config), None),
        };
        let route = Route::resolve_blocking(&endpoint.base, &endpoint.client, clock)?;
        let record = empty_record(config, clock, &endpoint);
        let calibrator = Calibrator::new(config.calibration.clone(), clock, &endpoint.client);
        let progress = Arc::new(Progress::default());
        let page = |metrics| PageReader::new(metrics, &endpoint.client, clock);
        let metrics = config.target.remote().and_then(|remote| remote.server_metrics.clone()).map(page);
        let sampler = start_sampler(config, &endpoint, metrics.clone(), clock)?;
        let scraper = metrics
            .map(|reader| Scraper::new(reader, &endpoint.model, config.request.stream, sampler.readings.clone()));
        Ok(TargetRun {
            config,
            clock,
            stop,
            began_at,
            started_at,
            route,
            endpoint,
            host,
            calibrator,
            progress,
            record,
            scraper,
            sampler,
            timeline: TimelineBuilder::new(began_at),
            next_prompt: 0,
            cost_limit: None,
            schedule: Schedule::new(config.phases.clone(), config.schedule_mode.clone(), config.seed),
            reasons: Vec::new(),
            abort_reason: None,
            is_calibration_cut: false,
            probe_timing: None,
        })
    }

    /// Runs a step. An error or panic ends the run of this target; earlier phases stay valid.
    ///
    /// # Errors
    /// The step's own, if nothing was measured before it.
    pub(super) fn catching<T: Default>(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<T, BenchError>,
    ) -> Result<T, BenchError> {
        let reason = match catch_unwind(AssertUnwindSafe(|| step(self))) {
            Ok(Err(error)) if self.record.phases.is_empty() => return Err(error),
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(error)) => format!("tokrate failed to {error}"),
            Err(panic) => {
                format!("internal error in tokrate, please report it: {}", panic_message(&*panic))
            }
        };
        self.abort_reason = Some(format!("{reason}; the levels before it stand"));
        self.update_record();
        Ok(T::default())
    }

    /// Probes the endpoint and reports the forecast.
    pub(super) fn prepare(&mut self, target: usize, observer: &mut dyn Observer) -> Result<(), BenchError> {
        if self.config.probe && self.host.is_none() {
            observer.probing(target);
            self.probe()?;
        }
        if self.abort_reason.is_none() {
            observer.planned(target, &Forecast::of(self.config, self.probe_timing));
        }
        Ok(())
    }

    /// Probes the endpoint until it answers or fails permanently.
    fn probe(&mut self) -> Result<(), BenchError> {
        for tries in 1..=probe::MAX_TRIES {
            let job = Arc::new(self.probe_job());
            let mut rows = run_phase(&job)?.take_rows(&job);
            if !self.config.request.stream {
                rows.iter_mut().for_each(RequestNumbers::clear_streaming_figures);
            }
            history::set_requested_tokens(&mut rows, &[job.first_prompt], &job.bodies);
            self.record_spending(&rows);
            let Some(row) = rows.first().filter(|_| !self.stop.is_set()) else { return Ok(()) };
            match probe::next(row, tries, self.config.limits.wait, self.endpoint.sent_key()) {
                probe::Next::Begin(seen) => {
                    self.probe_timing = seen;
                    return Ok(());
                }
                probe::Next::Again(wait) => self.stop.wait_blocking(wait, self.clock),
                probe::Next::GiveUp(reason) => {
                    self.abort_reason = Some(reason);
                    self.update_record();
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Runs the next phase; false if there is none.
    pub(super) fn run_next_phase(&mut self, target: usize, observer: &mut dyn Observer) -> Result<bool, BenchError> {
        if self.stop.is_set() || self.is_over_budget() || self.abort_reason.is_some() {
            return Ok(false);
        }
        let Some(next) = self.next() else { return Ok(false) };
        let place = PhasePosition { target, phase: self.record.phases.len(), of: self.planned() };
        self.progress
            .set_reason(next.reason.as_ref().map(|reason| Reason::sentences(std::slice::from_ref(reason)).concat()));
        self.progress.show_readings(&self.sampler.readings);
        self.reasons.extend(next.reason);
        observer.phase_started(place, &next.spec, &self.progress);
        let rows = self.measure_phase(place, &next.spec, observer)?;
        self.update_record();
        observer.phase_ended(place, &self.record, &rows);
        Ok(true)
    }

    /// The next phase.
    fn next(&self) -> Option<NextPhase> {
        self.schedule.next(&self.record.phases)
    }

    /// How many phases there are at least.
    fn planned(&self) -> usize {
        self.schedule.planned(&self.record.phases)
    }

    /// Limits the cost of requests by a shared budget, if their price is known.
    pub(super) fn set_budget(&mut self, budget: &Arc<Mutex<Budget>>) {
        let limit = |price| CostLimit { budget: Arc::clone(budget), price };
        self.cost_limit = self.endpoint.price.clone().map(limit);
    }

    /// Whether a request was withheld because it might have exceeded the cost limit.
    pub(super) fn is_over_budget(&self) -> bool {
        self.cost_limit.as_ref().is_some_and(CostLimit::is_exhausted)
    }

    /// Whether it had something left to do when the cost limit ended the run.
    pub(super) fn is_cut_by_cost(&self) -> bool {
        self.is_over_budget() && self.abort_reason.is_none() && self.next().is_some()
    }

    /// Takes over what looks at the rounds so far found.
    pub(super) fn take_looks(&mut self, looks: &[Look]) {
        self.schedule.take_looks(looks);
        self.update_record();
    }

    /// The verdicts that the run goes on for, if it does.
    pub(super) fn verdicts(&self) -> Option<&Verdicts> {
        self.schedule.verdicts()
    }

    pub(super) fn into_record(mut self) -> Record {
        if let Some(host) = self.host.take() {
            host.stop();
        }
        if self.stop.is_set() && self.abort_reason.is_none() && self.next().is_some() {
            self.record.status = Status::Partial;
            self.record.reason = Some("interrupted".to_owned());
        }
        self.record
    }
}

/// Begins to read what stands beside the run of a target: its engine's page, and the graphics processors that are named.
fn start_sampler(
    config: &Config,
    endpoint: &Endpoint,
    engine: Option<PageReader>,
    clock: Clock,
) -> Result<Sampler, BenchError> {
    let pages = config.sampling.gpu_pages.iter();
    let pages = pages.map(|page| GpuReader::Page(Box::new(PageReader::new(page.clone(), &endpoint.client, clock))));
    let local = config.sampling.local_gpus.clone().map(|source| GpuReader::Local(source, clock));
    let sources =
        Sources { engine: engine.map(|page| (page, endpoint.model.clone())), gpus: pages.chain(local).collect() };
    Sampler::start(sources, config.sampling.every, clock).map_err(BenchError::Worker)
}

/// The message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}
