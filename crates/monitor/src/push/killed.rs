//! A prober and a hub that are killed (SIGKILL: no destructor, no flush) at drawn moments, with a real socket between them.
//!
//! Both are this test's own program: the hub is `serve` and `run` as `tokrate monitor` starts them, the prober keeps rows as fast as it
//! can, says how many it has kept, and pushes them. Invariant: in the end everything that the prober ever called kept is at the hub, once
//! and unchanged.
//!
//! `TOKRATE_KILL_ROUNDS=200` asks for so many moments, `TOKRATE_KILL_SEED` for others.

use super::tests::{kept, key, recorder, row};
use super::{KnownProber, PushAnswer, PushSettings};
use crate::testing::Folder;
use crate::view::BoardFrame;
use crate::{Extent, ServeConfig, hub, run, serve};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tokrate_core::Rng;
use tokrate_net::{ClientConfig, Clock, Target};
use tokrate_prober::ClosedCycle;
use tokrate_store::MonitorStore;

const NAME: &str = "push::killed::nothing_that_a_prober_kept_is_lost_or_doubled_over_kills_of_both";
const HUB: &str = "TOKRATE_PUSH_HUB";
const PROBER: &str = "TOKRATE_PUSH_PROBER";
const DRAINER: &str = "TOKRATE_PUSH_DRAINER";
/// Moments in the usual run of the tests.
const ROUNDS: u64 = 10;
/// More entries than this wait for a hub that is away.
const MAX_WAITING: u64 = 3_000;
/// Longer than anything here takes; a process that says nothing for so long has failed.
const LONG: Duration = Duration::from_secs(60);

fn say(text: &str) {
    writeln!(std::io::stdout(), "\n{text}").expect("a reader");
}

/// The hub's part: it says where it listens, and serves without end.
fn hub_for_ever(folder: &Path) {
    let database = folder.join("hub.db");
    let (hub, inbox) = hub(vec![KnownProber { name: "fra-1".to_owned(), key: key(1).public() }]);
    let demo = crate::demo::settings(&crate::demo::DemoConfig { seed: 1 }, &database, "0").expect("settings");
    let settings = crate::Settings { prober: "hub".to_owned(), endpoints: Vec::new(), ..demo };
    let config = ServeConfig {
        address: "127.0.0.1:0".parse().expect("an address"),
        hosts: Vec::new(),
        database,
        clickhouse: None,
        frame: BoardFrame::default(),
        hub: Some(hub),
        at_unix_ms: None,
    };
    let folder = folder.to_owned();
    std::thread::spawn(move || {
        let ready = |address: std::net::SocketAddr| {
            // Whole or not there: the prober reads it at any moment.
            std::fs::write(folder.join("address.new"), address.to_string()).expect("room");
            std::fs::rename(folder.join("address.new"), folder.join("address")).expect("room");
            say("listens 1");
        };
        serve(config, Clock::monotonic(), ready, std::future::pending()).expect("it serves");
    });
    run(settings, Clock::monotonic(), Extent::Endless, Some(inbox), std::future::pending(), &mut |_| {})
        .expect("it runs");
}

/// The prober's part: rows without end, or only what is in the spool still.
fn probe_for_ever(folder: &Path, drains: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut recorder = recorder(&folder.join("prober.db"), "fra-1", true);
    let spool = recorder.spool_name("s").expect("writable");
    let mut number = kept(recorder.store()).0.len() as u64;
    let mut draws = Rng::root(number);
    while !(drains && recorder.is_pushed()) {
        if !drains && recorder.store().spool_len().expect("readable") < MAX_WAITING {
            let rows: Vec<_> = (0..3).map(|place| row("fra-1", number + place)).collect();
            let (cycle, at) = (rows[0].cycle.clone(), rows[0].slot_unix_ms);
            recorder.begin_cycle(cycle.clone(), at);
            recorder.keep(rows);
            let quarantine = draws.chance(0.2).then(|| "slow here".to_owned());
            let closed = ClosedCycle { cycle: 0, quarantine, references: Vec::new(), probes: Vec::new() };
            recorder.notice(format!("cycle {number}"), at);
            recorder.end_cycle(cycle, &closed, at);
            number += 3;
            say(&format!("kept {number}"));
        }
        let address = std::fs::read_to_string(folder.join("address")).expect("the hub has been there");
        let push = PushSettings {
            hub: Target::parse(&format!("http://{address}")).expect("a URL"),
            key: key(1),
            client: ClientConfig::default(),
        };
        let entries = recorder.spool().expect("readable");
        let sent = push.send("fra-1", "fra", &spool, &entries, Clock::monotonic());
        if !entries.is_empty()
            && let PushAnswer::Has(last) = runtime.block_on(sent)
        {
            recorder.spool_sent(last);
        }
    }
}

/// This program in another part, and the numbers behind a word that it prints.
struct Part {
    process: Child,
    numbers: Receiver<u64>,
}

impl Part {
    fn start(variable: &str, folder: &Path, word: &'static str) -> Part {
        let program = std::env::current_exe().expect("this program");
        let mut process = Command::new(program)
            .args(["--exact", NAME, "--nocapture"])
            .env(variable, folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let (sender, numbers) = channel();
        std::thread::spawn(move || {
            for number in lines.map_while(Result::ok).filter_map(|line| line.strip_prefix(word)?.trim().parse().ok()) {
                if sender.send(number).is_err() {
                    return;
                }
            }
        });
        Part { process, numbers }
    }

    fn reach(&self, who: &str, least: u64) -> u64 {
        loop {
            let number = self.numbers.recv_timeout(LONG).unwrap_or_else(|_| panic!("the {who} has failed or hangs"));
            if number >= least {
                return number;
            }
        }
    }

    /// Kills it; the last number that it had printed.
    fn kill(mut self) -> u64 {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it was killed");
        self.numbers.iter().last().unwrap_or(0)
    }
}

fn start_hub(folder: &Path) -> Part {
    let hub = Part::start(HUB, folder, "listens ");
    hub.reach("hub", 1);
    hub
}

#[test]
fn nothing_that_a_prober_kept_is_lost_or_doubled_over_kills_of_both() {
    let part = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
    if let Some(folder) = part(HUB) {
        return hub_for_ever(&folder);
    }
    if let Some(folder) = part(PROBER).or_else(|| part(DRAINER)) {
        return probe_for_ever(&folder, part(DRAINER).is_some());
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let rounds = number("TOKRATE_KILL_ROUNDS").unwrap_or(ROUNDS);
    let mut draws = Rng::root(number("TOKRATE_KILL_SEED").unwrap_or(1));
    let folder = Folder::new("push-killed");
    let (mut hub, mut prober) = (None, None);
    let (mut called_kept, mut kills) = (0, [0, 0]);
    for _ in 0..rounds {
        let of_hub = hub.take().unwrap_or_else(|| start_hub(&folder.0));
        let of_prober = prober.take().unwrap_or_else(|| Part::start(PROBER, &folder.0, "kept "));
        let at = of_prober.reach("prober", 1);
        called_kept = called_kept.max(of_prober.reach("prober", at + 3 * draws.below(60)));
        // Not to wait for anything: the kill is to come at any point of what they do.
        std::thread::sleep(Duration::from_micros(draws.below(8_000)));
        let victims = draws.below(3);
        if victims != 1 {
            kills[0] += 1;
            of_hub.kill();
        } else {
            hub = Some(of_hub);
        }
        if victims != 0 {
            kills[1] += 1;
            called_kept = called_kept.max(of_prober.kill());
        } else {
            prober = Some(of_prober);
        }
    }
    if let Some(prober) = prober {
        called_kept = called_kept.max(prober.kill());
    }
    let hub = hub.unwrap_or_else(|| start_hub(&folder.0));
    let mut drainer = Part::start(DRAINER, &folder.0, "kept ");
    assert!(drainer.process.wait().expect("it ends").success());
    hub.kill();
    let store = |name: &str| {
        let (store, aside) = MonitorStore::open(&folder.0.join(name), 0).expect("a store");
        assert_eq!(aside, None, "{name} is sound");
        store
    };
    let (there, here) = (kept(&store("hub.db")), kept(&store("prober.db")));
    assert!(here.0.len() as u64 >= called_kept, "{} rows of {called_kept} that were called kept", here.0.len());
    assert_eq!((there.0.len(), there.1.len()), (here.0.len(), here.1.len()));
    assert!(there == here, "what is at the hub is what the prober kept");
    say(&format!(
        "{rounds} rounds, {} kills of the hub and {} of the prober: {} rows, none lost",
        kills[0],
        kills[1],
        here.0.len()
    ));
}
