//! The run of one target: the engine or endpoint it talks to, the probe before the load, then phase after phase.
//!
//! Invariant: a step that fails or panics ends the run of this target only, and what was measured before it stays.

use super::{Observer, Place};
use crate::calibrate::Calibrator;
use crate::config::{Config, Target};
use crate::drive::run_phase;
use crate::endpoint::{Endpoint, conditions};
use crate::forecast::{Forecast, Seen};
use crate::money::Money;
use crate::plan::Budget;
use crate::progress::Progress;
use crate::schedule::{Next, Schedule};
use crate::scrape::Scraper;
use crate::{BenchError, Stop, probe};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use tokrate_core::Tick;
use tokrate_host::{Host, HostConfig, RunningHost, TruthLog};
use tokrate_meter::{ConditionsRow, Record, Status, Tool};
use tokrate_net::{Clock, Route};

pub(super) struct Session<'a> {
    pub(super) config: &'a Config,
    pub(super) clock: Clock,
    pub(super) stop: &'a Stop,
    pub(super) started_at: Tick,
    pub(super) route: Route,
    pub(super) endpoint: Endpoint,
    /// The embedded engine, while it is what is measured.
    pub(super) host: Option<RunningHost>,
    pub(super) calibrator: Calibrator,
    pub(super) progress: Arc<Progress>,
    pub(super) record: Record,
    /// Reads what the server counts, where it publishes that.
    pub(super) scraper: Option<Scraper>,
    pub(super) next_prompt: u64,
    pub(super) money: Option<Money>,
    pub(super) schedule: Schedule,
    /// Why phases were added.
    pub(super) reasons: Vec<String>,
    /// Why no further phase is run, if none is.
    pub(super) given_up: Option<String>,
    /// How long one answer took before the load.
    pub(super) seen: Option<Seen>,
}

impl<'a> Session<'a> {
    pub(super) fn open(config: &'a Config, clock: Clock, stop: &'a Stop) -> Result<Session<'a>, BenchError> {
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
                (Endpoint::embedded(&host, config)?, Some(host))
            }
            Target::Remote(remote) => (Endpoint::remote(remote, config), None),
        };
        let route = Route::resolve_blocking(&endpoint.base, &endpoint.client, clock)?;
        let conditions = conditions(config, &endpoint, None);
        let record = Record {
            schema: Record::SCHEMA.to_owned(),
            tool: Tool { name: "tokrate".to_owned(), version: config.version.clone() },
            kind: "bench".to_owned(),
            started_at: clock.wall_rfc3339(),
            wall_seconds: 0.0,
            status: Status::Partial,
            reason: Some("the run is not over".to_owned()),
            conditions: ConditionsRow::from(&conditions),
            price: endpoint.price.clone(),
            engine_host: config.target.remote().and_then(|remote| remote.engine_host.clone()),
            search: None,
            spending: None,
            phases: Vec::new(),
            curve: None,
            assertions: Vec::new(),
            warnings: Vec::new(),
            notes: Vec::new(),
        };
        let calibrator = Calibrator::new(config.calibration.clone(), clock, endpoint.http);
        let progress = Arc::new(Progress::default());
        let metrics = config.target.remote().and_then(|remote| remote.server_metrics.clone());
        let scraper = metrics
            .map(|metrics| Scraper::new(metrics, &endpoint.client, &endpoint.model, config.request.stream, clock));
        Ok(Session {
            config,
            clock,
            stop,
            started_at,
            route,
            endpoint,
            host,
            calibrator,
            progress,
            record,
            scraper,
            next_prompt: 0,
            money: None,
            schedule: Schedule::new(config.phases.clone(), config.agenda.clone(), config.seed),
            reasons: Vec::new(),
            given_up: None,
            seen: None,
        })
    }

    /// Carries out a step. One that fails or panics ends the run of this target, and what was measured before stands.
    ///
    /// # Errors
    /// The step's own, if nothing was measured before it.
    pub(super) fn guarded<T: Default>(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<T, BenchError>,
    ) -> Result<T, BenchError> {
        let reason = match catch_unwind(AssertUnwindSafe(|| step(self))) {
            Ok(Err(error)) if self.record.phases.is_empty() => return Err(error),
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(error)) => format!("tokrate failed to {error}"),
            Err(panic) => {
                format!("tokrate broke, which is a defect of its own; please report it: {}", words_of(&*panic))
            }
        };
        self.given_up = Some(format!("{reason}; the levels before it stand"));
        self.sum_up();
        Ok(T::default())
    }

    /// Asks the endpoint once and says what is to come.
    pub(super) fn begin(&mut self, target: usize, observer: &mut dyn Observer) -> Result<(), BenchError> {
        if self.config.probe && self.host.is_none() {
            observer.probing(target);
            self.probe()?;
        }
        if self.given_up.is_none() {
            observer.planned(target, &Forecast::of(self.config, self.seen));
        }
        Ok(())
    }

    /// Asks the endpoint until it answers or there is no use in a load.
    fn probe(&mut self) -> Result<(), BenchError> {
        for tries in 1..=probe::TRIES {
            let job = Arc::new(self.probe_job());
            let rows = run_phase(&job)?.take_rows();
            self.spend(&rows);
            let Some(row) = rows.first().filter(|_| !self.stop.is_set()) else { return Ok(()) };
            match probe::next(row, tries, self.config.limits.wait) {
                probe::Next::Begin(seen) => {
                    self.seen = seen;
                    return Ok(());
                }
                probe::Next::Again(wait) => self.stop.wait_blocking(wait),
                probe::Next::GiveUp(reason) => {
                    self.given_up = Some(reason);
                    self.sum_up();
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Runs the phase that is next; whether there was one.
    pub(super) fn turn(&mut self, target: usize, observer: &mut dyn Observer) -> Result<bool, BenchError> {
        if self.stop.is_set() || self.is_broke() || self.given_up.is_some() {
            return Ok(false);
        }
        let Some(next) = self.next() else { return Ok(false) };
        let place = Place { target, phase: self.record.phases.len(), of: self.planned() };
        self.reasons.extend(next.why);
        observer.phase_started(place, &next.spec, &self.progress);
        let rows = self.phase(place.phase, &next.spec, &mut || observer.calibrating(place))?;
        self.sum_up();
        observer.phase_ended(place, &self.record, &rows);
        Ok(true)
    }

    /// The phase that is next.
    fn next(&self) -> Option<Next> {
        self.schedule.next(&self.record.phases)
    }

    /// How many phases there are at least.
    fn planned(&self) -> usize {
        self.schedule.planned(&self.record.phases)
    }

    /// Requests are paid for out of a budget, if their price is known.
    pub(super) fn spend_from(&mut self, budget: &Arc<Mutex<Budget>>) {
        self.money = self.endpoint.price.clone().map(|price| Money { budget: Arc::clone(budget), price });
    }

    /// Whether a request was not sent because it might have cost too much.
    pub(super) fn is_broke(&self) -> bool {
        self.money.as_ref().is_some_and(Money::is_exhausted)
    }

    pub(super) fn close(mut self) -> Record {
        if let Some(host) = self.host.take() {
            host.stop();
        }
        if self.stop.is_set() && self.given_up.is_none() && self.next().is_some() {
            self.record.status = Status::Partial;
            self.record.reason = Some("interrupted".to_owned());
        }
        self.record
    }
}

/// What a panic said.
fn words_of(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<String>().map(String::as_str);
    said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it said nothing").to_owned()
}
