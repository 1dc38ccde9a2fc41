//! Weeks of a monitor in virtual time: simulated providers with planted changes, and a prober that is killed, whose clock jumps, whose
//! network and reference are bad, whose disk is full.
//!
//! It records and checks. Invariant: a scenario determines every row.

mod checkers;

pub use checkers::check;

use http::HeaderMap;
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use tokrate_alert::{Message, Rule};
use tokrate_core::{Money, Price, Rng, Span};
use tokrate_detect::FalseAlarms;
use tokrate_judge::Slo;
use tokrate_monitor::notify::{Receiver, To};
use tokrate_monitor::world::{Provider, World};
use tokrate_monitor::{
    AlertRule, AlertSettings, Cadence, Endpoint, Limits, MonitorError, PromptSource, Report, Settings, Watch, Workload,
};
use tokrate_net::{ClientConfig, Target};
use tokrate_prober::Budget;
use tokrate_sim::{Background, Change, Faults, Law, Persona, Timetable};
use tokrate_store::{EventRow, ProbeQuery, ProbeRow, ProbeStore, ProberRow};
use tokrate_wire::Dialect;

/// 2026-06-01 00:00 UTC.
pub const BEGUN_UNIX_MS: u64 = 1_780_272_000_000;
/// Milliseconds of a day and of an hour.
pub const DAY_MS: u64 = 86_400_000;
const HOUR_MS: u64 = 3_600_000;

/// What happens to a monitor.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Determines everything.
    pub seed: u64,
    /// Providers, with one endpoint each.
    pub endpoints: usize,
    /// How long it goes on.
    pub days: u64,
    /// Cycles a day.
    pub slots_a_day: u32,
    /// Dollars a month.
    pub usd_per_month: Option<Money>,
    /// Share of its speed that the first endpoint loses, and when (ms since the beginning).
    pub drop: Option<(f64, u64)>,
    /// What is done to the prober, by time since the beginning (ms).
    pub troubles: Vec<(u64, Trouble)>,
}

/// Something that is done to a prober.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Trouble {
    /// It is killed, and started again after a time.
    Kill(Span),
    /// Its wall clock is set (ms).
    Clock(i64),
    /// Its network is slow for so long.
    Network(Span),
    /// Its reference is off for so long.
    Reference(Span),
    /// Its disk is full for so long.
    Disk(Span),
}

/// Everything that happened.
#[derive(Clone, Debug)]
pub struct History {
    /// Requests that ended, as they were reported.
    pub reported: Vec<ProbeRow>,
    /// What is kept at the end.
    pub kept: Vec<ProbeRow>,
    /// When that is (ms since 1970, true time).
    pub ended_unix_ms: u64,
    /// Changes as they were reported, and as they are kept.
    pub events: Vec<EventRow>,
    /// See `events`.
    pub kept_events: Vec<EventRow>,
    /// What the prober logged.
    pub notices: Vec<String>,
    /// The prober's own account.
    pub prober: ProberRow,
    /// Probes that were under way when the prober was killed.
    pub abandoned: u64,
    /// Alerts in the order in which the receiver accepted them.
    pub alerts: Vec<Message>,
    /// Attempts that the receiver did not accept.
    pub refused: u64,
    /// Alerts that were on their way when the prober was killed.
    pub unsure: u64,
    /// Alerts that still wait at the end.
    pub waiting: usize,
}

/// Changes as they come, and slow answers or failures twice in three probes, with reminders.
fn alerts() -> AlertSettings {
    let rule = |name: &str, failing: u32, of: u32| Rule {
        name: name.to_owned(),
        failing,
        of,
        remind_after_ms: (of > 1).then_some(6 * HOUR_MS),
        receivers: vec!["ops".to_owned()],
        ..Rule::default()
    };
    let watched = |rule: Rule, watch: Watch| AlertRule { rule, watch, resolve_after_ms: 2 * DAY_MS };
    let slow = Slo::parse("ttft<350ms").expect("an objective");
    // Its address is never asked: a world hands alerts over itself.
    let to = To::Command(vec!["true".to_owned()]);
    AlertSettings {
        rules: vec![
            watched(rule("changes", 1, 1), Watch::Changes(vec!["regression".to_owned(), "errors".to_owned()])),
            watched(rule("slow", 2, 3), Watch::Objectives(vec![slow])),
        ],
        receivers: vec![Receiver { name: "ops".to_owned(), to }],
        board: None,
    }
}

/// What a receiver has seen. It refuses a third of all attempts but on the last day.
#[derive(Default)]
struct Received {
    accepted: Vec<Message>,
    refused: u64,
    is_last_day: bool,
}

impl Scenario {
    /// A scenario of a seed, with every kind of trouble.
    pub fn of_seed(seed: u64) -> Scenario {
        let mut rng = Rng::root(seed).child("monitor");
        let days = 3 + rng.below(4);
        let troubles = (0..rng.below(8)).map(|_| {
            let at = rng.below(days * DAY_MS);
            let span = Span::from_millis(rng.below(8 * HOUR_MS));
            let trouble = match rng.below(5) {
                0 => Trouble::Kill(span),
                1 => Trouble::Clock(rng.below(2 * DAY_MS) as i64 - DAY_MS as i64),
                2 => Trouble::Network(span),
                3 => Trouble::Reference(span),
                _ => Trouble::Disk(span),
            };
            (at, trouble)
        });
        let mut troubles: Vec<(u64, Trouble)> = troubles.collect();
        troubles.sort_by_key(|(at, _)| *at);
        Scenario {
            seed,
            endpoints: 2 + rng.below(8) as usize,
            days,
            slots_a_day: [4, 8, 24][rng.below(3) as usize],
            usd_per_month: if rng.chance(0.3) { Money::from_usd(0.02) } else { None },
            drop: None,
            troubles,
        }
    }

    /// Two months of many endpoints without trouble: how long that takes, and what is found.
    pub fn months(endpoints: usize, days: u64) -> Scenario {
        Scenario {
            seed: 1,
            endpoints,
            days,
            slots_a_day: 8,
            usd_per_month: None,
            drop: Some((0.4, 40 * DAY_MS)),
            troubles: Vec::new(),
        }
    }

    fn settings(&self, database: &Path) -> Settings {
        let endpoint = |place: usize| Endpoint {
            name: format!("p{place}/m"),
            provider: format!("p{place}"),
            model: "m".to_owned(),
            dialect: Dialect::OpenAiChat,
            base: Target::parse(&format!("https://p{place}.invalid/v1")).expect("a URL"),
            headers: HeaderMap::new(),
            authorizer: None,
            client: ClientConfig::default(),
            price: Price::from_usd_per_million(0.1, 0.4),
            legacy_max_tokens: false,
            include_usage: true,
            workloads: vec![0],
        };
        Settings {
            prober: "one".to_owned(),
            place: "here".to_owned(),
            endpoints: (0..self.endpoints).map(endpoint).collect(),
            workloads: vec![Workload {
                name: "w".to_owned(),
                prompts: PromptSource::Words { input_tokens: 50, shared_prefix_tokens: 0 },
                output_tokens: 100,
                requests: 1,
                cadence: Cadence::EveryCycle,
            }],
            slots_a_day: self.slots_a_day,
            budget: Budget { usd_per_month: self.usd_per_month, tokens_per_day: None },
            max_in_flight: 4,
            limits: Limits { idle: Span::from_secs(30), total: Span::from_secs(120) },
            retention: Span::from_secs(400 * 86_400),
            shipping: None,
            database: database.to_owned(),
            false_alarms: FalseAlarms::default(),
            alerts: alerts(),
            push: None,
            seed: self.seed,
            host: "simulated".to_owned(),
            machine: "virtual time".to_owned(),
            version: "0".to_owned(),
        }
    }

    fn provider(&self, place: usize) -> Provider {
        let mut rng = Rng::root(self.seed).child("provider").nth(place as u64);
        let change = self.drop.filter(|_| place == 0).map(|(share, at)| Change {
            at: Span::from_millis(at),
            speed: 1.0 - share,
            ttft: 1.0,
            faults: 1.0,
            replacement: None,
        });
        let persona = Persona {
            law: Law {
                base_delay: Span::from_millis(100 + rng.below(300)),
                stream_tokens_per_second: 50.0 + rng.unit() * 150.0,
                tokens_per_chunk: 4,
                ttft_jitter: 0.15,
                gap_jitter: 0.3,
                contention: 0.01,
                ..Law::default()
            },
            faults: Faults { server_error: 0.01, other_model: 0.005, empty: 0.005, ..Faults::default() },
            background: Background { streams: 25.0, jitter: 0.6, every: Span::from_secs(600), ..Background::default() },
            timetable: Timetable { changes: change.into_iter().collect(), speed: None },
            ..Persona::default()
        };
        Provider { persona, round_trip: Span::from_millis(10 + rng.below(80)) }
    }
}

/// Lets a scenario without trouble happen and keeps nothing of it; `each` gets the days that have passed, after every thirtieth of them.
/// How many requests and changes were reported.
///
/// # Errors
/// When the database cannot be used.
pub fn watch(scenario: &Scenario, database: &Path, mut each: impl FnMut(u64)) -> Result<(u64, u64), MonitorError> {
    let providers = (0..scenario.endpoints).map(|place| scenario.provider(place)).collect();
    let mut world = World::new(scenario.settings(database), providers, scenario.seed, BEGUN_UNIX_MS)?;
    let (mut requests, mut events) = (0, 0);
    let mut count = |report: Report| match report {
        Report::Probe(_) => requests += 1,
        Report::Event(_) => events += 1,
        Report::Started | Report::Notice(_) => {}
    };
    for day in (30..=scenario.days).step_by(30).chain((!scenario.days.is_multiple_of(30)).then_some(scenario.days)) {
        world.run_until(day * DAY_MS, &mut count);
        each(day);
    }
    Ok((requests, events))
}

/// Lets a scenario happen, with its database at a path.
///
/// # Errors
/// When the database cannot be used.
pub fn run(scenario: &Scenario, database: &Path) -> Result<History, MonitorError> {
    let providers = (0..scenario.endpoints).map(|place| scenario.provider(place)).collect();
    let mut world = World::new(scenario.settings(database), providers, scenario.seed, BEGUN_UNIX_MS)?;
    let received = Rc::new(RefCell::new(Received::default()));
    let (taken, mut rng) = (Rc::clone(&received), Rng::root(scenario.seed).child("receiver"));
    world.receiver = Some(Box::new(move |delivery| {
        let mut taken = taken.borrow_mut();
        if !taken.is_last_day && rng.chance(0.33) {
            taken.refused += 1;
            return Err("HTTP 503".to_owned());
        }
        taken.accepted.push(delivery.message.clone());
        Ok(())
    }));
    let (mut reported, mut events, mut notices) = (Vec::new(), Vec::new(), Vec::new());
    let mut report = |report: Report| match report {
        Report::Probe(row) => reported.push(*row),
        Report::Event(event) => events.push(event),
        Report::Started => {}
        Report::Notice(text) => notices.push(text),
    };
    let mut disk_is_free_at = None;
    for (at, trouble) in scenario.troubles.iter().copied().chain([(scenario.days * DAY_MS, Trouble::Clock(0))]) {
        if let Some(free_at) = disk_is_free_at.filter(|free_at| *free_at <= at) {
            world.run_until(free_at, &mut report);
            world.limit_disk(u64::MAX)?;
            disk_is_free_at = None;
        }
        world.run_until(at, &mut report);
        let now = Span::from_millis(world.elapsed_ms());
        match trouble {
            // What is held in memory while the disk is full is lost with the process; that is another test.
            Trouble::Kill(_) if disk_is_free_at.is_some() => {}
            Trouble::Kill(away) => world.kill(away)?,
            Trouble::Clock(ms) => world.set_clock(ms),
            Trouble::Network(span) => world.delays.push(((now, now + span), Span::from_secs(5))),
            Trouble::Reference(span) => world.reference_errors.push(((now, now + span), 90_000_000)),
            Trouble::Disk(span) => {
                world.limit_disk(1)?;
                let free_at = world.elapsed_ms() + span.as_nanos() / 1_000_000;
                disk_is_free_at = Some(free_at.min(scenario.days * DAY_MS));
            }
        }
    }
    world.limit_disk(u64::MAX)?;
    received.borrow_mut().is_last_day = true;
    // A day without trouble, in which everything that was held is written and every cycle ends.
    world.run((scenario.days + 1) * DAY_MS, &mut report);
    let (abandoned, unsure) = (world.abandoned(), world.unsure());
    let received = received.take();
    let store = world.store();
    Ok(History {
        kept: store.probes(&ProbeQuery::default())?,
        ended_unix_ms: BEGUN_UNIX_MS + (scenario.days + 1) * DAY_MS,
        kept_events: store.events(0)?,
        prober: store.probers()?.into_iter().next().unwrap_or_default(),
        reported,
        events,
        notices,
        abandoned,
        waiting: store.deliveries()?.len(),
        alerts: received.accepted,
        refused: received.refused,
        unsure,
    })
}
