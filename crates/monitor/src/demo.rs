//! The demo: the fleet lives two weeks in virtual time, watched by the same prober, meter, store and detector as real endpoints.
//!
//! Invariant: settings and seed determine every row; nothing here decides about numbers.

use crate::MonitorError;
use crate::alerting::AlertSettings;
use crate::core::Report;
use crate::fleet::{DAYS, Member, PLANTED, PROBER_FAULT, PROBER_FAULT_DELAY, Planted, members};
use crate::settings::{Endpoint, Limits, Settings};
use crate::workload::built_in;
use crate::world::{Provider, World};
use http::HeaderMap;
use std::path::Path;
use tokrate_core::Span;
use tokrate_detect::FalseAlarms;
use tokrate_net::{ClientConfig, Target};
use tokrate_prober::Budget;
use tokrate_store::{EventRow, ProbeStore};
use tokrate_wire::Dialect;

/// Cycles a day of the demo: two weeks are short for a detector at eight.
const SLOTS_A_DAY: u32 = 24;
const DAY_MS: u64 = 86_400_000;
/// When the two weeks begin (ms since 1970): the same always, as times of probes follow from it. 2026-06-01 00:00 UTC.
const BEGUN_UNIX_MS: u64 = 1_780_272_000_000;

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
            authorizer: None,
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
        shipping: None,
        database: database.to_owned(),
        false_alarms: FalseAlarms::default(),
        alerts: AlertSettings::default(),
        push: None,
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
    let providers =
        members().into_iter().map(|member| Provider { persona: member.persona, round_trip: member.round_trip });
    let mut world = World::new(settings, providers.collect(), config.seed, BEGUN_UNIX_MS)?;
    world.delays.push((PROBER_FAULT, PROBER_FAULT_DELAY));
    let mut summary = DemoSummary { begun_unix_ms: BEGUN_UNIX_MS, ..DemoSummary::default() };
    world.run(DAY_MS * DAYS, &mut |report| match report {
        Report::Event(event) => summary.events.push(event),
        Report::Started => {}
        Report::Notice(text) => summary.notices.push(text),
        Report::Probe(row) => {
            summary.requests += 1;
            summary.failed += u64::from(row.reason.is_some());
        }
    });
    summary.quarantined = world.store().probers()?.iter().map(|row| row.quarantined).sum();
    Ok(summary)
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
