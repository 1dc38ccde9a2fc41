//! A week of the demo's fleet over real sockets, 1,440 times as fast: twelve servers on loopback whose daily courses pass in a minute, a
//! prober with eight cycles in each of those minutes, a hub that it pushes to.
//! `cargo run -p tokrate-monitor --example week [TIMES] [DAYS] [SEED]`: what was due, sent, answered, kept and pushed, by four accounts
//! that know nothing of each other; ends with 1 where a sample is lost or not explained. A request takes the time it takes, so that
//! answers are short. Lines of bars are for `cargo xtask bench monitor`.
#![allow(clippy::print_stdout, clippy::print_stderr)]
#![allow(clippy::disallowed_methods, reason = "measures real time")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};
use tokio::sync::Notify;
use tokrate_core::{Span, Tick};
use tokrate_host::{EmulatedEngine, FleetConfig, Host, MetricNames, Provider, RunningHost, TruthLog};
use tokrate_monitor::fleet::{Member, members};
use tokrate_monitor::{
    BoardFrame, Cadence, Endpoint, Extent, KnownProber, PromptSource, PushKey, PushSettings, Report, ServeConfig,
    Settings, Workload, demo, hub, run, serve,
};
use tokrate_net::{ClientConfig, Clock, Target};
use tokrate_sim::Persona;
use tokrate_store::{MonitorStore, ProbeQuery, ProbeRow, ProbeStore};

const USUAL_TIMES: u64 = 1_440;
const USUAL_DAYS: u64 = 7;
/// Cycles of a day.
const SLOTS_A_DAY: u64 = 8;
const DAY_MS: u64 = 86_400_000;
/// After the last cycle, for what was late, what is under way, and what waits for the hub.
const REST: Duration = Duration::from_secs(30);
/// The longest wait for the prober's start.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let number = |place, usual| std::env::args().nth(place).and_then(|word| word.parse().ok()).unwrap_or(usual);
    let (times, days, seed) = (number(1, USUAL_TIMES), number(2, USUAL_DAYS), number(3, 1));
    let folder = std::env::temp_dir().join(format!("tokrate-week-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let servers: Vec<RunningHost> = members().into_iter().map(|member| server(member, times, seed)).collect();
    let prober_key = PushKey::parse(&PushKey::generate().expect("random bytes")).expect("a key");
    let address = start_hub(&folder, seed, &prober_key);
    let settings = settings(&folder, &servers, times, seed, &address, prober_key);
    let slot_ms = DAY_MS / (times * SLOTS_A_DAY);
    let series = settings.endpoints.iter().map(|endpoint| endpoint.workloads.len()).sum();
    // Of the slot in which a prober begins only the rest is promised: the week begins with the next one.
    let first = (wall_ms() / slot_ms + 1) * slot_ms;
    let counted = Counted { first, slot_ms, slots: days * SLOTS_A_DAY, series };
    let ended = watch(settings, &folder, counted);
    let truth: Vec<_> = servers.iter().map(|server| server.truth()).collect();
    let accounts = Accounts {
        received: truth
            .iter()
            .flat_map(|truth| &truth.requests)
            .filter_map(|request| Some((request.id.clone()?, request.received_at)))
            .collect(),
        reported: ended.reported,
        kept: rows(&folder.join("prober.db")),
        pushed: rows(&folder.join("hub.db")),
        missed: ended.missed,
        over_at: ended.over_at,
    };
    ended.notices.iter().for_each(|notice| println!("notice: {notice}"));
    let is_met = judge(&accounts, counted, times, days);
    std::fs::remove_dir_all(&folder).expect("there");
    if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The slots that count.
#[derive(Clone, Copy)]
struct Counted {
    first: u64,
    slot_ms: u64,
    slots: u64,
    series: usize,
}

impl Counted {
    fn end(self) -> u64 {
        self.first + self.slots * self.slot_ms
    }

    fn holds(self, row: &ProbeRow) -> bool {
        (self.first..self.end()).contains(&row.slot_unix_ms)
    }

    /// Regular probes of these slots.
    fn due(self) -> usize {
        self.slots as usize * self.series
    }
}

fn wall_ms() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

/// A provider of the fleet on a port of its own, its course so many times as fast and its answers at their own speed.
fn server(member: Member, times: u64, seed: u64) -> RunningHost {
    let Persona { mut background, mut timetable, .. } = member.persona.clone();
    let fast = |span: Span| Span::from_nanos(span.as_nanos() / times);
    background.every = fast(background.every);
    if let Some(curve) = &mut background.curve {
        (curve.period, curve.peak) = (fast(curve.period), fast(curve.peak));
    }
    // In the demo they come in its second week.
    timetable.changes.iter_mut().for_each(|change| change.at = fast(Span::from_nanos(change.at.as_nanos() / 2)));
    let provider = Provider {
        persona: Persona { background, timetable, ..member.persona },
        address: Some("127.0.0.1:0".parse().expect("an address")),
        model: member.model.to_owned(),
        only_model: false,
        api_key: None,
        gpus: None,
        emulated_engine: EmulatedEngine::default(),
        metrics: MetricNames::default(),
        script: None,
    };
    Host::start(FleetConfig { providers: vec![provider], seed, truth: TruthLog::Memory, ..FleetConfig::default() })
        .expect("a port")
}

/// The hub, as `tokrate monitor` starts it; where it listens.
fn start_hub(folder: &Path, seed: u64, key: &PushKey) -> String {
    let database = folder.join("hub.db");
    let (hub, inbox) = hub(vec![KnownProber { name: "prober".to_owned(), key: key.public() }]);
    let settings = demo::settings(&demo::DemoConfig { seed }, &database, "week").expect("settings");
    let settings = Settings { prober: "hub".to_owned(), endpoints: Vec::new(), ..settings };
    std::thread::spawn(move || {
        run(settings, Clock::monotonic(), Extent::Endless, Some(inbox), std::future::pending(), &mut |_| {})
            .expect("the hub runs");
    });
    let (sender, receiver) = channel();
    let config = ServeConfig {
        address: "127.0.0.1:0".parse().expect("an address"),
        hosts: Vec::new(),
        database,
        clickhouse: None,
        frame: BoardFrame::default(),
        hub: Some(hub),
        at_unix_ms: None,
    };
    std::thread::spawn(move || {
        let ready = |address| sender.send(address).expect("somebody waits");
        serve(config, Clock::monotonic(), ready, std::future::pending()).expect("the hub serves");
    });
    format!("http://{}", receiver.recv_timeout(PATIENCE).expect("the hub listens"))
}

fn settings(folder: &Path, servers: &[RunningHost], times: u64, seed: u64, hub: &str, key: PushKey) -> Settings {
    let mut settings = demo::settings(&demo::DemoConfig { seed }, &folder.join("prober.db"), "week").expect("settings");
    let of_server = |(endpoint, server): (Endpoint, &RunningHost)| Endpoint {
        base: Target::parse(&format!("http://{}/v1", server.address())).expect("a URL"),
        client: ClientConfig { reuse: false, rx_timestamps: true, ..ClientConfig::default() },
        ..endpoint
    };
    settings.endpoints = settings.endpoints.into_iter().zip(servers).map(of_server).collect();
    let workload = |name: &str, input_tokens, output_tokens| Workload {
        name: name.to_owned(),
        prompts: PromptSource::Words { input_tokens, shared_prefix_tokens: 0 },
        output_tokens,
        requests: 1,
        cadence: Cadence::EveryCycle,
    };
    settings.workloads = vec![workload("short", 50, 16), workload("longer", 500, 32)];
    settings.slots_a_day = u32::try_from(times * SLOTS_A_DAY).expect("so many slots");
    settings.prober = "prober".to_owned();
    settings.place = "loopback".to_owned();
    settings.push =
        Some(PushSettings { hub: Target::parse(hub).expect("a URL"), key, client: ClientConfig::default() });
    settings
}

/// What came of the week.
struct Ended {
    /// Ids of requests that were reported.
    reported: BTreeSet<String>,
    notices: BTreeSet<String>,
    /// Probes that the prober says it has missed.
    missed: u64,
    /// When the counted slots were over, and what was late with them.
    over_at: Tick,
}

/// Runs the prober until the counted slots are over, and until the hub has what was kept of them.
fn watch(settings: Settings, folder: &Path, counted: Counted) -> Ended {
    let (mut reported, mut notices) = (BTreeSet::new(), BTreeSet::new());
    let stop = std::sync::Arc::new(Notify::new());
    let (stopper, hub_db, prober_db) = (std::sync::Arc::clone(&stop), folder.join("hub.db"), folder.join("prober.db"));
    let waiting = std::thread::spawn(move || {
        let end = Duration::from_millis(counted.end().saturating_sub(wall_ms()));
        std::thread::sleep(end + REST / 2);
        let over_at = Clock::monotonic().now();
        let ids = |path: &PathBuf| -> BTreeSet<String> {
            rows(path).into_iter().filter(|row| counted.holds(row)).map(|row| row.probe.id).collect()
        };
        let until = SystemTime::now() + REST;
        while SystemTime::now() < until && ids(&prober_db) != ids(&hub_db) {
            std::thread::sleep(Duration::from_millis(200));
        }
        stopper.notify_one();
        over_at
    });
    let mut report = |report: Report| match report {
        Report::Started => {}
        Report::Probe(row) => drop(reported.insert(row.probe.id.clone())),
        Report::Event(event) => drop(notices.insert(format!("{} of {}", event.kind, event.endpoint))),
        Report::Notice(text) => drop(notices.insert(text)),
    };
    let stopped = async move { stop.notified().await };
    run(settings, Clock::monotonic(), Extent::Endless, None, stopped, &mut report).expect("the prober runs");
    let store = MonitorStore::open_reader(&folder.join("prober.db")).expect("its database");
    let missed = store.probers().expect("readable").iter().map(|prober| prober.missed).sum();
    Ended { reported, notices, missed, over_at: waiting.join().expect("it waited") }
}

fn rows(path: &Path) -> Vec<ProbeRow> {
    MonitorStore::open_reader(path).and_then(|store| store.probes(&ProbeQuery::default())).expect("readable")
}

/// The accounts: of the servers, of the prober's reports, of its database and of the hub's.
struct Accounts {
    received: BTreeMap<String, Tick>,
    reported: BTreeSet<String>,
    kept: Vec<ProbeRow>,
    pushed: Vec<ProbeRow>,
    missed: u64,
    over_at: Tick,
}

/// Prints what was due, sent, answered, kept and pushed; says whether nothing is lost or unexplained.
fn judge(accounts: &Accounts, counted: Counted, times: u64, days: u64) -> bool {
    let Accounts { received, reported, kept, pushed, missed, over_at } = accounts;
    let week: Vec<&ProbeRow> = kept.iter().filter(|row| counted.holds(row)).collect();
    let at_hub: BTreeMap<&str, &ProbeRow> = pushed.iter().map(|row| (row.probe.id.as_str(), row)).collect();
    let regular: BTreeSet<_> = week
        .iter()
        .filter(|row| !row.is_further)
        .map(|row| (&row.probe.endpoint, &row.probe.workload, row.slot_unix_ms))
        .collect();
    let known: BTreeSet<&str> = kept.iter().map(|row| row.probe.id.as_str()).collect();
    let answered = week.iter().filter(|row| row.reason.is_none()).count();
    let mut wrong = Vec::new();
    let not_kept = received.iter().filter(|(id, at)| **at < *over_at && !known.contains(id.as_str()));
    wrong.extend(not_kept.map(|(id, _)| format!("{id} was received by a server and is not kept")));
    for row in &week {
        let id = row.probe.id.as_str();
        if !received.contains_key(id) && row.reason.is_none() {
            wrong.push(format!("{id} was answered and no server knows it"));
        }
        if !reported.contains(id) {
            wrong.push(format!("{id} is kept and was never reported"));
        }
        match at_hub.get(id) {
            Some(there) if there.probe.sample == row.probe.sample => {}
            Some(_) => wrong.push(format!("{id} is another at the hub")),
            None => wrong.push(format!("{id} is not at the hub")),
        }
    }
    if regular.len() != week.iter().filter(|row| !row.is_further).count() {
        wrong.push("a series was probed twice in a slot".to_owned());
    }
    let not_sent = counted.due() - regular.len();
    let unexplained = not_sent.saturating_sub(*missed as usize);
    if unexplained > 0 {
        wrong.push(format!("{unexplained} of {not_sent} that were not sent have no reason"));
    }
    wrong.iter().take(20).for_each(|what| println!("wrong: {what}"));
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in week.iter().filter_map(|row| row.reason.as_deref()) {
        *reasons.entry(reason).or_default() += 1;
    }
    let quarantined = week.iter().filter(|row| row.probe.quarantine.is_some()).count();
    println!(
        "{days} days at {times} x: {} due, {not_sent} not sent for reasons that were said, {} sent, {answered} answered, {reasons:?} \
         failed, {quarantined} in quarantine, {} kept, {} of them at the hub",
        counted.due(),
        week.len(),
        week.len(),
        week.iter().filter(|row| at_hub.contains_key(row.probe.id.as_str())).count(),
    );
    let figure = format!("{} due, {} kept and pushed, {} lost or unexplained", counted.due(), week.len(), wrong.len());
    let is_met = wrong.is_empty() && !week.is_empty();
    println!(
        "BAR|{days} days of the demo's fleet over real sockets at {times} x|0 lost|{figure}|{}",
        if is_met { "met" } else { "missed" }
    );
    is_met
}
