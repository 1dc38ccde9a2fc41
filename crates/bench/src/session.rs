//! A whole run: load levels one after the other, each measured, calibrated, summed up and told to the observer.
//!
//! It refuses to know files and terminals. Invariant: after every phase the observer holds a record that is valid as it
//! stands, so that an interrupt loses nothing.

use crate::calibrate::{self, Calibrator};
use crate::config::{Config, Remote, RequestOptions, Target};
use crate::drive::{Job, PhaseOutput, run_phase};
use crate::exchange::Bodies;
use crate::money::Money;
use crate::plan::{Backoff, Budget, Load, PhaseSpec, held_back};
use crate::progress::Progress;
use crate::prompts::Prompts;
use crate::schedule::{Next, Schedule};
use crate::scrape::Scraper;
use crate::{BenchError, Stop, history, verdict};
use http::HeaderMap;
use std::sync::{Arc, Mutex};
use tokrate_core::{Conditions, Rng, Span, Tick};
use tokrate_host::{Host, HostConfig, RunningHost, TruthLog};
use tokrate_meter::curve::{CurveResult, LoadAxis, LoadLevel, Measured};
use tokrate_meter::{
    Billed, ClientError, ClientErrorSource, ConditionsRow, Goodput, PhaseInput, PhaseResult, Price, Record,
    RequestNumbers, Spending, Status, Tool, Warmup,
};
use tokrate_net::{ClientConfig, Clock, HttpVersion, Route, Secrets};
use tokrate_sim::WORDS;
use tokrate_tokens::Encoding;
use tokrate_wire::{Dialect, Shape};

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
    for turn in 0.. {
        let mut any = false;
        for target in order_of(turn, configs.len()) {
            let session = &mut sessions[target];
            let Some(next) = session.next().filter(|_| !stop.is_set() && !session.is_broke()) else { continue };
            any = true;
            let place = Place { target, phase: session.record.phases.len(), of: session.planned() };
            session.reasons.extend(next.why);
            observer.phase_started(place, &next.spec, &session.progress);
            let rows = session.phase(place.phase, &next.spec, &mut || observer.calibrating(place))?;
            session.sum_up();
            observer.phase_ended(place, &session.record, &rows);
        }
        if !any {
            break;
        }
    }
    Ok(sessions.into_iter().map(Session::close).collect())
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
}

/// The endpoint as requests see it, embedded or not.
struct Endpoint {
    client: ClientConfig,
    base: tokrate_net::Target,
    model: String,
    headers: HeaderMap,
    http: HttpVersion,
    provider: String,
    dialect: Dialect,
    price: Option<Price>,
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
        })
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
        let prompts: Vec<u64> =
            output.requests.iter().map(|finished| job.first_prompt + finished.start.prompt).collect();
        self.next_prompt = prompts.iter().max().map_or(self.next_prompt, |last| last + 1);
        let mut rows = output.take_rows();
        history::ask(&mut rows, &prompts, &job.bodies.prompts);
        self.spend(&rows);
        let server = page.and_then(|page| self.scraper.as_mut()?.truth_since(&page, &rows));
        let client_error = match &self.host {
            Some(host) => Some(ClientError {
                source: ClientErrorSource::Truth,
                ..calibrate::against_truth(&rows, &job.id_prefix, &host.truth(), host.lateness())
            }),
            None if self.stop.is_set() => None,
            None => self.calibrator.error_at(&rows, spec, job.workers, self.stop, calibrating),
        };
        let conditions = conditions(self.config, &self.endpoint, Some(spec));
        let mut result = self.result(spec, &conditions, &output, client_error, &mut rows);
        result.server = server;
        self.record.phases.push(result);
        Ok(rows)
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
            interrupted: output.interrupted || self.is_broke(),
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
            (true, ..) => {
                (Status::Partial, Some("interrupted; the last phase holds what was measured until then".to_owned()))
            }
            (false, 1.., _) => (Status::Partial, Some(format!("{missing} phases have not run"))),
            (false, 0, false) => (Status::Failed, Some("no request was answered".to_owned())),
            (false, 0, true) => (Status::Complete, None),
        };
        record.warnings = verdict::invalidities(&record.phases);
        record.warnings.extend(verdict::cautions(&record.phases));
        record.notes = verdict::notes(&record.phases);
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
        if self.next().is_some() && self.stop.is_set() {
            self.record.status = Status::Partial;
            self.record.reason = Some("interrupted".to_owned());
        }
        self.record
    }
}

impl Endpoint {
    fn embedded(host: &RunningHost, config: &Config) -> Result<Endpoint, BenchError> {
        let base = tokrate_net::Target::parse(&format!("http://{}/v1", host.address()))?;
        let client = ClientConfig { connect_timeout: config.limits.connect, ..ClientConfig::default() };
        Ok(Endpoint {
            client,
            base,
            model: "sim".to_owned(),
            headers: HeaderMap::new(),
            http: HttpVersion::Http1,
            provider: "tokrate sim (embedded)".to_owned(),
            dialect: Dialect::OpenAiChat,
            price: None,
        })
    }

    fn remote(remote: &Remote, config: &Config) -> Endpoint {
        let client = ClientConfig {
            http: remote.http,
            connect_timeout: config.limits.connect,
            reuse: !remote.new_connections,
            ca_file: remote.ca_file.clone(),
            proxy: remote.proxy.clone(),
        };
        Endpoint {
            client,
            base: remote.base.clone(),
            model: remote.model.clone(),
            headers: remote.headers.iter().cloned().collect(),
            http: remote.http,
            provider: remote.provider.clone().unwrap_or_else(|| remote.base.host().to_owned()),
            dialect: remote.dialect,
            price: remote.price.clone(),
        }
    }
}

fn conditions(config: &Config, endpoint: &Endpoint, spec: Option<&PhaseSpec>) -> Conditions {
    let load = spec.map(|spec| &spec.load);
    let all_closed = || config.phases.iter().all(|spec| spec.load.is_closed());
    let concurrency = match load {
        Some(Load::Closed { concurrency }) => Some(*concurrency),
        Some(Load::Sessions { sessions, .. }) => Some(*sessions),
        _ => None,
    };
    let rate = match load {
        Some(Load::Open { .. } | Load::Trace { .. }) => load.and_then(Load::rate),
        _ => None,
    };
    let arrivals = match load {
        Some(load) => load.arrivals(),
        None => if all_closed() { "closed" } else { "open" }.to_owned(),
    };
    Conditions {
        model: endpoint.model.clone(),
        provider: endpoint.provider.clone(),
        endpoint: endpoint.base.to_string(),
        dialect: endpoint.dialect.name().to_owned(),
        streaming: config.request.stream,
        http_version: endpoint.http.name().to_owned(),
        tls: endpoint.base.is_tls(),
        proxied: endpoint.client.uses_proxy(&endpoint.base),
        connection: if endpoint.client.reuse { "reused" } else { "new" }.to_owned(),
        input_tokens: config.prompts.input_tokens(),
        output_tokens: config.prompts.output_tokens().unwrap_or(config.request.output_tokens),
        shared_prefix_tokens: config.prompts.shared_prefix_tokens(),
        prompts: config.prompts.text(),
        ignore_eos: config.request.ignore_eos,
        arrivals,
        concurrency,
        rate,
        tokenizer: Encoding::O200kBase.name().to_owned(),
        options: options_text(&config.request),
        host: config.host.clone(),
        region: config.region.clone(),
        seed: config.seed,
        version: config.version.clone(),
    }
}

/// Options that change what an engine does, as one line.
fn options_text(options: &RequestOptions) -> String {
    let temperature = options.temperature.map(|temperature| format!("temperature={temperature}"));
    let extra = options.extra.iter().map(|(name, json)| format!("{name}={json}"));
    temperature.into_iter().chain(extra).collect::<Vec<String>>().join(" ")
}

/// The degradation curve over the levels so far; `None` for a single one or for mixed loads.
pub fn curve_of(phases: &[PhaseResult], seed: u64) -> Option<CurveResult> {
    let closed = phases.iter().filter(|phase| matches!(phase.load, tokrate_meter::Load::Closed { .. })).count();
    let open = phases.iter().filter(|phase| matches!(phase.load, tokrate_meter::Load::Open { .. })).count();
    if phases.len() < 2 || closed.max(open) != phases.len() {
        return None;
    }
    let axis = if closed > 0 { LoadAxis::Concurrency } else { LoadAxis::Rate };
    let levels = one_level_a_load(phases.iter().map(PhaseResult::load_level));
    (levels.len() > 1).then(|| CurveResult::of(axis, &levels, &Rng::root(seed).child("curve")))
}

/// Rounds at the same load become one level: numbers and interval ends are averaged, which leaves intervals wider than
/// those of all requests together would be.
fn one_level_a_load(rounds: impl Iterator<Item = LoadLevel>) -> Vec<LoadLevel> {
    let mut levels: Vec<(LoadLevel, f64)> = Vec::new();
    for round in rounds {
        match levels.iter_mut().find(|(level, _)| level.load == round.load) {
            Some((level, n)) => {
                let mean = |a: Option<Measured>, b: Option<Measured>| match (a, b) {
                    (Some(a), Some(b)) => Some(Measured {
                        value: (a.value * *n + b.value) / (*n + 1.0),
                        low: a.low.zip(b.low).map(|(a, b)| (a * *n + b) / (*n + 1.0)),
                        high: a.high.zip(b.high).map(|(a, b)| (a * *n + b) / (*n + 1.0)),
                    }),
                    (a, b) => a.or(b),
                };
                level.throughput = mean(level.throughput, round.throughput);
                level.output_speed = mean(level.output_speed, round.output_speed);
                level.ttft = mean(level.ttft, round.ttft);
                level.mean_ttft = mean(level.mean_ttft, round.mean_ttft);
                level.mean_e2e = mean(level.mean_e2e, round.mean_e2e);
                level.requests += round.requests;
                level.failures += round.failures;
                level.rate_limited += round.rate_limited;
                *n += 1.0;
            }
            None => levels.push((round, 1.0)),
        }
    }
    levels.into_iter().map(|(level, _)| level).collect()
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

    #[test]
    fn rounds_at_one_load_are_one_level() {
        let level = |load, value, low, requests| LoadLevel {
            load,
            throughput: Some(Measured { value, low: Some(low), high: None }),
            output_speed: None,
            ttft: None,
            mean_ttft: None,
            mean_e2e: None,
            requests,
            failures: 1,
            rate_limited: 0,
        };
        let rounds =
            [level(1.0, 10.0, 9.0, 5), level(2.0, 4.0, 3.0, 1), level(1.0, 20.0, 17.0, 7), level(1.0, 60.0, 40.0, 8)];
        let levels = one_level_a_load(rounds.into_iter());
        assert_eq!(levels.len(), 2);
        assert_eq!(levels[0].throughput, Some(Measured { value: 30.0, low: Some(22.0), high: None }));
        assert_eq!((levels[0].requests, levels[0].failures), (20, 3));
    }
}
