//! The demo: the fleet lives two weeks in virtual time, watched by the same prober, meter, store and detector as real endpoints.
//!
//! Invariant: settings and seed determine every row; nothing here decides about numbers.

use crate::MonitorError;
use crate::core::{Core, Report};
use crate::fleet::{DAYS, Member, PLANTED, PROBER_FAULT, PROBER_FAULT_DELAY, Planted, members};
use crate::settings::{Endpoint, Limits, Settings};
use crate::virtual_time::{Asked, VirtualEndpoint};
use crate::workload::built_in;
use http::HeaderMap;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tokrate_core::{Span, Tick};
use tokrate_detect::FalseAlarms;
use tokrate_net::{ClientConfig, Target};
use tokrate_prober::{Budget, Order, ReferenceResult, Step};
use tokrate_store::{EventRow, MonitorStore, ProbeRow};
use tokrate_wire::Dialect;

/// Cycles a day of the demo: two weeks are short for a detector at eight.
const SLOTS_A_DAY: u32 = 24;
/// The fleet's first instant on the steady clock.
const STARTED_AT: Tick = Tick::from_nanos(1_000_000_000);
/// The demo's own number of a run.
const RUN: u64 = 0xde30;
const DAY_MS: u64 = 86_400_000;
/// When the two weeks begin (ms since 1970): the same always, as times of probes follow from it. 2026-06-01 00:00 UTC.
const BEGUN_UNIX_MS: u64 = 1_780_272_000_000;
/// A client whose own error is nothing.
const REFERENCE: ReferenceResult = ReferenceResult { ttft_error_ns: 0, speed_error: 0.0, failure: None };

/// What to let live.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DemoConfig {
    /// Determines everything.
    pub seed: u64,
}

/// What happened.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DemoSummary {
    /// When the fleet began to live (ms since 1970).
    pub begun_unix_ms: u64,
    /// Requests that were sent.
    pub requests: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Those of them that are in quarantine.
    pub quarantined: u64,
    /// Changes that were found, in the order of their finding.
    pub events: Vec<EventRow>,
    /// What the prober had to say.
    pub notices: Vec<String>,
}

impl DemoSummary {
    /// What was planted.
    pub fn planted(&self) -> &'static [Planted] {
        &PLANTED
    }

    /// Planted regressions that were not found where the timetable has them.
    pub fn missing(&self) -> Vec<Planted> {
        PLANTED.into_iter().filter(|planted| !self.events.iter().any(|event| self.is_found(planted, event))).collect()
    }

    /// Whether a change is the planted one: the interval of its beginning holds the planted time, within one cycle.
    fn is_found(&self, planted: &Planted, event: &EventRow) -> bool {
        let time = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        let at = time(self.begun_unix_ms + planted.at.as_nanos() / 1_000_000);
        let cycle = time(DAY_MS / u64::from(SLOTS_A_DAY));
        (event.endpoint.as_str(), event.metric.as_str(), event.kind.as_str())
            == (planted.endpoint, planted.metric, "regression")
            && (event.since_earliest_unix_ms - cycle..=event.since_latest_unix_ms + cycle).contains(&at)
    }
}

/// The settings of the demo's monitor.
///
/// # Errors
/// When an address of the fleet cannot be used.
pub fn settings(config: &DemoConfig, database: &Path, version: &str) -> Result<Settings, MonitorError> {
    let workloads = ["100-300", "1k-1k"].into_iter().filter_map(built_in).collect();
    let endpoint = |member: &Member| -> Result<Endpoint, MonitorError> {
        let name = &member.persona.name;
        Ok(Endpoint {
            name: format!("{name}/{}", member.model),
            provider: name.clone(),
            model: member.model.to_owned(),
            dialect: Dialect::OpenAiChat,
            base: Target::parse(&format!("https://{}.{name}.invalid/v1", member.model))?,
            headers: HeaderMap::new(),
            client: ClientConfig::default(),
            price: Some(member.persona.price),
            legacy_max_tokens: false,
            include_usage: true,
            workloads: vec![0, 1],
        })
    };
    Ok(Settings {
        prober: "demo".to_owned(),
        place: "virtual".to_owned(),
        endpoints: members().iter().map(endpoint).collect::<Result<_, _>>()?,
        workloads,
        slots_a_day: SLOTS_A_DAY,
        budget: Budget::default(),
        max_in_flight: 6,
        limits: Limits { idle: Span::from_secs(30), total: Span::from_secs(300) },
        retention: Span::from_secs(400 * 86_400),
        database: database.to_owned(),
        false_alarms: FalseAlarms::default(),
        seed: config.seed,
        host: "simulated".to_owned(),
        machine: "virtual time".to_owned(),
        version: version.to_owned(),
    })
}

/// Lets the fleet live into the database of the settings.
///
/// # Errors
/// When the database cannot be used.
pub fn live(config: &DemoConfig, settings: Settings) -> Result<DemoSummary, MonitorError> {
    let begun_unix_ms = BEGUN_UNIX_MS;
    let (store, _) = MonitorStore::open(&settings.database, begun_unix_ms)?;
    let settings = Arc::new(settings);
    let core = Core::new(Arc::clone(&settings), store, RUN ^ config.seed, begun_unix_ms)?;
    let mut engines = Vec::new();
    for (place, member) in members().into_iter().enumerate() {
        let seed = config.seed.wrapping_mul(1_000).wrapping_add(place as u64);
        let engine = VirtualEndpoint::new(member.persona, member.round_trip, seed, STARTED_AT);
        engines.push(engine.map_err(MonitorError::Fleet)?);
    }
    let mut world = World {
        core,
        engines,
        settings,
        now: STARTED_AT,
        begun_unix_ms,
        ends: BTreeMap::new(),
        summary: DemoSummary { begun_unix_ms, ..DemoSummary::default() },
    };
    world.run(begun_unix_ms + DAYS * DAY_MS);
    let probers = world.core.store().probers()?;
    world.summary.quarantined = probers.iter().map(|row| row.quarantined).sum();
    Ok(world.summary)
}

struct World {
    core: Core,
    engines: Vec<VirtualEndpoint>,
    settings: Arc<Settings>,
    now: Tick,
    begun_unix_ms: u64,
    /// Probes under way, by when they end and their number.
    ends: BTreeMap<(Tick, u64), (Order, Vec<ProbeRow>)>,
    summary: DemoSummary,
}

impl World {
    fn wall_ms(&self) -> u64 {
        self.begun_unix_ms + self.now.since(STARTED_AT).as_nanos() / 1_000_000
    }

    /// Runs until a wall time, and until what is under way then has ended.
    fn run(&mut self, until_ms: u64) {
        let until = STARTED_AT + Span::from_millis(until_ms - self.begun_unix_ms);
        loop {
            let wall_ms = self.wall_ms();
            let wake_at = match self.core.poll(self.now, wall_ms) {
                Step::Reference { cycle } => {
                    self.core.referenced(self.now, cycle, REFERENCE, wall_ms);
                    continue;
                }
                Step::Probe(order) => {
                    self.send(order, wall_ms);
                    continue;
                }
                Step::WaitUntil(tick) => tick,
            };
            self.tell();
            let end = self.ends.keys().next().map(|(at, _)| *at);
            self.now = end.map_or(wake_at, |end| end.min(wake_at)).max(self.now);
            if self.now >= until {
                break;
            }
            self.complete();
        }
        while let Some((at, _)) = self.ends.keys().next() {
            self.now = self.now.max(*at);
            self.complete();
        }
        self.tell();
    }

    fn send(&mut self, order: Order, wall_ms: u64) {
        let workload = &self.settings.workloads[order.workload];
        let elapsed = self.now.since(STARTED_AT);
        let is_bad = (PROBER_FAULT.0..PROBER_FAULT.1).contains(&elapsed);
        let asked = Asked {
            input_tokens: workload.prompts.input_tokens(),
            output_tokens: workload.output_tokens,
            requests: workload.requests,
            idle: self.settings.limits.idle,
            delay: if is_bad { PROBER_FAULT_DELAY } else { Span::ZERO },
        };
        let (sent, end) = self.engines[order.endpoint].probe(self.now, wall_ms, &asked);
        let row = |(nth, sent)| self.core.frame.row(&self.settings, &order, nth, &sent, 0);
        let rows: Vec<ProbeRow> = (0..).zip(sent).map(row).collect();
        self.ends.insert((end, order.number), (order, rows));
    }

    /// Completes the probes that have ended by now.
    fn complete(&mut self) {
        while let Some(entry) = self.ends.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (order, rows) = entry.remove();
            let wall_ms = self.wall_ms();
            self.core.completed(&order, rows, wall_ms);
        }
    }

    fn tell(&mut self) {
        for report in self.core.take_reports() {
            match report {
                Report::Event(event) => self.summary.events.push(event),
                Report::Notice(text) => self.summary.notices.push(text),
                Report::Probe(row) => {
                    self.summary.requests += 1;
                    self.summary.failed += u64::from(row.reason.is_some());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_planted_is_found_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("tokrate-demo-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let config = DemoConfig { seed: 1 };
        let settings = settings(&config, &folder.join("demo.db"), "0").expect("settings");
        let summary = live(&config, settings).expect("it lives");
        std::fs::remove_dir_all(&folder).expect("there");
        assert_eq!(summary.missing(), []);
        let planted = |event: &&EventRow| PLANTED.iter().any(|planted| planted.endpoint == event.endpoint);
        let others: Vec<&EventRow> =
            summary.events.iter().filter(|event| event.kind != "quarantine" && !planted(event)).collect();
        assert!(others.is_empty(), "{others:?}");
        let quarantines: Vec<&EventRow> = summary.events.iter().filter(|event| event.kind == "quarantine").collect();
        let [fault] = quarantines[..] else { panic!("{quarantines:?}") };
        let since = fault.since_unix_ms.unsigned_abs() - summary.begun_unix_ms;
        assert!((PROBER_FAULT.0..PROBER_FAULT.1).contains(&Span::from_millis(since)));
        assert_eq!((summary.quarantined, summary.notices.len()), (72, 0));
    }
}
