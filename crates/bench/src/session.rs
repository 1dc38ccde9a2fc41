//! A whole run: load levels one after the other, each measured, calibrated, summed up and told to the observer.
//!
//! It refuses to know files and terminals. Invariant: after every phase the observer holds a record that is valid as it
//! stands, so that an interrupt loses nothing.

use crate::bodies::Bodies;
use crate::calibrate::Calibrator;
use crate::config::{Config, Target};
use crate::drive::{PhaseOutput, run_phase};
use crate::endpoint::{Endpoint, conditions};
use crate::forecast::{Forecast, Seen};
use crate::job::Job;
use crate::levels::curve_of;
use crate::money::Money;
use crate::patience::Patience;
use crate::plan::{Backoff, Budget, PhaseSpec, held_back};
use crate::progress::Progress;
use crate::prompts::{FileKind, PromptFile, PromptSource, Prompts};
use crate::schedule::{Agenda, Next, Schedule};
use crate::scrape::Scraper;
use crate::{BenchError, Stop, history, probe, truth, verdict};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use tokrate_core::{Conditions, Rng, Span, Tick};
use tokrate_host::{Host, HostConfig, RunningHost, TruthLog};
use tokrate_meter::{
    Billed, ClientError, ClientErrorSource, ConditionsRow, Goodput, PhaseInput, PhaseResult, Record, RequestNumbers,
    Spending, Status, Tool, Warmup,
};
use tokrate_net::{Clock, Route, Secrets};
use tokrate_sim::WORDS;
use tokrate_wire::Shape;

/// An arrival that was sent this much after it was due counts as late.
const LATE: Span = Span::from_millis(1);
/// Requests that one client thread carries without trouble.
const REQUESTS_PER_WORKER: u32 = 1000;

/// Which phase of a run is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Which target, from 0.
    pub target: usize,
    /// Which of its phases, from 0.
    pub phase: usize,
    /// How many phases it has.
    pub of: usize,
}

/// Hears how a run goes on.
pub trait Observer {
    /// A target is asked once, before the load.
    fn probing(&mut self, target: usize);
    /// The load begins; this is what a target will be asked for.
    fn planned(&mut self, target: usize, forecast: &Forecast);
    /// A phase begins; its counters can be watched.
    fn phase_started(&mut self, place: Place, spec: &PhaseSpec, progress: &Arc<Progress>);
    /// The client's own error at the load of the phase is being measured.
    fn calibrating(&mut self, place: Place);
    /// A phase has ended. The record holds all phases of its target so far; the rows are those of this phase.
    fn phase_ended(&mut self, place: Place, record: &Record, rows: &[RequestNumbers]);
}

/// Carries out a run against one target or several, and returns a record for each. Blocks. What fails within it is in the
/// record.
///
/// Several targets take turns, and the order is turned round each time (A-B, B-A, …), so that what drifts during the run
/// does not favour one of them.
///
/// # Errors
/// When nothing could be measured at all: no thread, no engine, an endpoint whose name has no address.
pub fn run(
    configs: &[Config],
    clock: Clock,
    stop: &Stop,
    observer: &mut dyn Observer,
) -> Result<Vec<Record>, BenchError> {
    if configs.is_empty() || configs.iter().any(|config| config.phases.is_empty()) {
        return Err(BenchError::NoPhases);
    }
    let mut sessions =
        configs.iter().map(|config| Session::open(config, clock, stop)).collect::<Result<Vec<_>, BenchError>>()?;
    let limit = configs.iter().filter_map(|config| config.max_cost_usd).reduce(f64::min);
    if let Some(budget) = limit.map(|limit| Arc::new(Mutex::new(Budget::new(limit)))) {
        sessions.iter_mut().for_each(|session| session.spend_from(&budget));
    }
    for (target, session) in sessions.iter_mut().enumerate() {
        session.guarded(|session| session.begin(target, observer))?;
    }
    for turn in 0.. {
        let mut any = false;
        for target in order_of(turn, configs.len()) {
            any |= sessions[target].guarded(|session| session.turn(target, observer))?;
        }
        if !any {
            break;
        }
    }
    Ok(sessions.into_iter().map(Session::close).collect())
}

/// What a panic said.
fn words_of(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<String>().map(String::as_str);
    said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it said nothing").to_owned()
}

/// The order of the targets in a turn: turned round from turn to turn.
fn order_of(turn: usize, targets: usize) -> impl Iterator<Item = usize> {
    (0..targets).map(move |place| if turn.is_multiple_of(2) { place } else { targets - 1 - place })
}

struct Session<'a> {
    config: &'a Config,
    clock: Clock,
    stop: &'a Stop,
    started_at: Tick,
    route: Route,
    endpoint: Endpoint,
    /// The embedded engine, while it is what is measured.
    host: Option<RunningHost>,
    calibrator: Calibrator,
    progress: Arc<Progress>,
    record: Record,
    /// Reads what the server counts, where it publishes that.
    scraper: Option<Scraper>,
    next_prompt: u64,
    money: Option<Money>,
    schedule: Schedule,
    /// Why phases were added.
    reasons: Vec<String>,
    /// Why no further phase is run, if none is.
    given_up: Option<String>,
    /// How long one answer took before the load.
    seen: Option<Seen>,
}

impl<'a> Session<'a> {
    fn open(config: &'a Config, clock: Clock, stop: &'a Stop) -> Result<Session<'a>, BenchError> {
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
    fn guarded<T: Default>(&mut self, step: impl FnOnce(&mut Self) -> Result<T, BenchError>) -> Result<T, BenchError> {
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
    fn begin(&mut self, target: usize, observer: &mut dyn Observer) -> Result<(), BenchError> {
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
            match probe::next(row, tries, self.config.limits.wait, self.endpoint.has_key()) {
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

    fn probe_job(&self) -> Job {
        let mut job = self.job(0, &probe::spec());
        let mut options = self.config.request.clone();
        let asked = self.config.prompts.output_tokens().unwrap_or(options.output_tokens);
        options.output_tokens = asked.min(probe::OUTPUT_TOKENS);
        let prompt = PromptFile::parse(probe::PROMPT, FileKind::Whole).expect("the prompt has text");
        let prompts = Prompts::new(&PromptSource::File(Arc::new(prompt)), WORDS, Rng::root(0));
        job.bodies =
            Arc::new(Bodies { options, prompts, model: self.endpoint.model.clone(), dialect: self.endpoint.dialect });
        job.id_prefix = "probe".to_owned();
        job.first_prompt = 0;
        job
    }

    /// Runs the phase that is next; whether there was one.
    fn turn(&mut self, target: usize, observer: &mut dyn Observer) -> Result<bool, BenchError> {
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
    fn spend_from(&mut self, budget: &Arc<Mutex<Budget>>) {
        self.money = self.endpoint.price.clone().map(|price| Money { budget: Arc::clone(budget), price });
    }

    /// Whether a request was not sent because it might have cost too much.
    fn is_broke(&self) -> bool {
        self.money.as_ref().is_some_and(Money::is_exhausted)
    }

    /// Measures one load level and adds its result to the record.
    fn phase(
        &mut self,
        number: usize,
        spec: &PhaseSpec,
        calibrating: &mut dyn FnMut(),
    ) -> Result<Vec<RequestNumbers>, BenchError> {
        self.progress.reset();
        let job = Arc::new(self.job(number, spec));
        let page = self.scraper.as_mut().and_then(Scraper::page);
        let mut output = run_phase(&job)?;
        self.hear(&job.patience, spec);
        let prompts: Vec<u64> =
            output.requests.iter().map(|finished| job.first_prompt + finished.start.prompt).collect();
        self.next_prompt = prompts.iter().max().map_or(self.next_prompt, |last| last + 1);
        let mut rows = output.take_rows();
        history::ask(&mut rows, &prompts, &job.bodies.prompts);
        self.spend(&rows);
        let server = page.and_then(|page| self.scraper.as_mut()?.truth_since(&page, &rows));
        let client_error = match &self.host {
            Some(host) => {
                let (truth, lateness) = (host.truth(), host.lateness());
                Some(truth::against_truth(ClientErrorSource::Truth, &rows, &job.id_prefix, &truth, &lateness))
            }
            None if self.stop.is_set() || self.given_up.is_some() => None,
            None => self.calibrator.error_at(&rows, spec, job.workers, self.stop, calibrating),
        };
        let conditions = conditions(self.config, &self.endpoint, Some(spec));
        let mut result = self.result(spec, &conditions, &output, client_error, &mut rows);
        // A calibration is another run than the phase, and may have met a busy moment: one alone disowns no figure.
        let by_calibration = |error: &&ClientError| error.client_limited && error.source != ClientErrorSource::Truth;
        if let Some(first) = result.client_error.as_ref().filter(by_calibration)
            && let Some(second) = self.calibrator.error_now(&rows, spec, job.workers, self.stop, calibrating)
        {
            let both = second.agreed(first);
            result = self.result(spec, &conditions, &output, Some(both), &mut rows);
        }
        result.server = server;
        self.record.phases.push(result);
        Ok(rows)
    }

    /// A search goes on at a lower load; any other run ends.
    fn hear(&mut self, patience: &Patience, spec: &PhaseSpec) {
        let Some(reason) = patience.reason() else { return };
        let reason = format!("{}: {reason}", spec.load.name());
        if patience.is_mended_by_less_load() && matches!(self.config.agenda, Agenda::Search(_)) {
            self.reasons.push(reason);
        } else {
            self.given_up = Some(reason);
        }
    }

    /// Adds what the requests of a phase cost to the record, if that is known.
    fn spend(&mut self, rows: &[RequestNumbers]) {
        let Some(price) = &self.endpoint.price else { return };
        let spending = self.record.spending.get_or_insert_with(Spending::default);
        spending.limit_usd = self.config.max_cost_usd;
        rows.iter().for_each(|row| spending.add(price, &Billed::of_row(row)));
    }

    fn money_reason(&self) -> String {
        format!(
            "stopped by --max-cost-usd {}: the next request might have cost more than was left; {:.6} USD were spent",
            self.config.max_cost_usd.unwrap_or(0.0),
            self.record.spending.map_or(0.0, |spending| spending.usd)
        )
    }

    fn result(
        &self,
        spec: &PhaseSpec,
        conditions: &Conditions,
        output: &PhaseOutput,
        client_error: Option<ClientError>,
        rows: &mut [RequestNumbers],
    ) -> PhaseResult {
        let late = |row: &&RequestNumbers| row.sent_at_ns.is_some_and(|sent| sent > row.due_at_ns + LATE.as_nanos());
        let late = if !spec.load.is_closed() { rows.iter().filter(late).count() as u64 } else { 0 };
        let (name, load) = (spec.load.name(), spec.load.row());
        let earlier = self.record.phases.iter().filter(|phase| phase.load == load).count();
        let name = if earlier == 0 { name } else { format!("{name}, round {}", earlier + 1) };
        let input = PhaseInput {
            name,
            conditions,
            load,
            warmup: if spec.warmup == 0 { Warmup::None } else { Warmup::Requests(spec.warmup) },
            started_at: output.started_at,
            ended_at: output.ended_at,
            interrupted: output.interrupted || self.is_broke() || self.given_up.is_some(),
            client_error,
            timer_lag: &output.timer_lag,
            client_cpu: output.cpu,
            late,
            forfeited: output.forfeited,
            withheld: output.withheld,
            held_back: (spec.backoff == Backoff::Obey).then(|| {
                let slots = spec.load.is_closed().then(|| spec.load.most_in_flight());
                held_back(&output.waits, slots, output.ended_at)
            }),
        };
        let mut result = PhaseResult::of(&input, rows);
        result.goodput = Goodput::of(&self.config.slos, &result, rows);
        result
    }

    fn job(&self, number: usize, spec: &PhaseSpec) -> Job {
        let config = self.config;
        let root = Rng::root(config.seed);
        let shape = if config.request.stream { Shape::Stream } else { Shape::Whole };
        Job {
            spec: spec.clone(),
            bodies: Arc::new(Bodies {
                dialect: self.endpoint.dialect,
                model: self.endpoint.model.clone(),
                options: config.request.clone(),
                prompts: Prompts::new(&config.prompts, WORDS, root.child("prompts")),
            }),
            client: self.endpoint.client.clone(),
            route: self.route.clone(),
            path: self.endpoint.base.path_with(&self.endpoint.dialect.path(&self.endpoint.model, shape)),
            headers: self.endpoint.headers.clone(),
            secrets: Secrets::of(&self.endpoint.headers),
            id_prefix: number.to_string(),
            limits: config.limits,
            workers: config.workers.unwrap_or_else(|| workers_for(spec)).min(most_workers(spec)),
            arrivals: root.child("arrivals").nth(number as u64),
            first_prompt: self.next_prompt,
            money: self.money.clone(),
            progress: Arc::clone(&self.progress),
            patience: Patience::new(
                if spec.backoff == Backoff::Obey { config.limits.wait } else { Span::from_nanos(u64::MAX) },
                Arc::clone(&self.progress),
            )
            .with_key(self.endpoint.has_key())
            .endless(config.keep_going),
            clock: self.clock,
            stop: self.stop.clone(),
        }
    }

    /// Brings the record up to date: curve, status, warnings.
    fn sum_up(&mut self) {
        let broke = self.is_broke().then(|| self.money_reason());
        let record = &mut self.record;
        record.wall_seconds = (self.clock.now() - self.started_at).as_secs_f64();
        record.curve = curve_of(&record.phases, self.config.seed);
        let missing = self.schedule.planned(&record.phases) - record.phases.len();
        let interrupted = record.phases.iter().any(|phase| phase.interrupted);
        let answered = record.phases.iter().any(|phase| phase.counts.answered > 0);
        (record.status, record.reason) = match (interrupted, missing, answered) {
            _ if broke.is_some() => (Status::Partial, broke),
            _ if self.given_up.is_some() => {
                (if answered { Status::Partial } else { Status::Failed }, self.given_up.clone())
            }
            (true, ..) => {
                (Status::Partial, Some("interrupted; the last phase holds what was measured until then".to_owned()))
            }
            (false, 1.., _) => (Status::Partial, Some(format!("{missing} phases have not run"))),
            (false, 0, false) => (Status::Failed, Some("no request was answered".to_owned())),
            (false, 0, true) => (Status::Complete, None),
        };
        record.warnings = verdict::invalidities(&record.phases);
        record.warnings.extend(verdict::cautions(&record.phases));
        record.warnings.extend(verdict::unchecked(&self.config.target));
        record.notes = verdict::notes(&record.phases);
        record.notes.extend(verdict::proxied(self.endpoint.client.proxy_place(&self.endpoint.base).as_deref()));
        record.search = self.schedule.found(&record.phases);
        record.notes.extend(self.reasons.iter().cloned());
        record.notes.extend(record.search.iter().map(|search| search.sentence.clone()));
        record.notes.extend(verdict::reused(&self.config.prompts, self.next_prompt));
        record.notes.extend(verdict::left_out(&self.config.prompts));
        record.notes.extend(self.scraper.as_ref().and_then(|scraper| scraper.note.clone()));
    }

    fn close(mut self) -> Record {
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

/// How many threads a level needs: one, until its requests are more than one thread should carry.
fn workers_for(spec: &PhaseSpec) -> u32 {
    let wanted = match spec.load.rate() {
        None => spec.load.most_in_flight().div_ceil(REQUESTS_PER_WORKER),
        Some(rate) => (rate / f64::from(REQUESTS_PER_WORKER)).ceil() as u32,
    };
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    wanted.clamp(1, cores.saturating_sub(1).max(1))
}

/// More threads than this would have nothing to do.
fn most_workers(spec: &PhaseSpec) -> u32 {
    spec.load.most_in_flight().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_take_turns_and_the_order_is_turned_round() {
        let in_turns = |turns, targets| (0..turns).flat_map(move |turn| order_of(turn, targets));
        let turns: String = in_turns(4, 2).map(|target| ["A", "B"][target]).collect();
        assert_eq!(turns, "ABBAABBA");
        let turns: String = in_turns(2, 3).map(|target| ["A", "B", "C"][target]).collect();
        assert_eq!(turns, "ABCCBA");
    }
}
