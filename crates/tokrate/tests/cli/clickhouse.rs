//! Commands that read out of ClickHouse: its own engine (chdb) behind a small HTTP shim, as `cargo xtask clickhouse` runs it.
//!
//! Invariant: whatever is read there is what the same rows in SQLite give, byte for byte.

use crate::folder::Folder;
use crate::tool::{Finished, finish, start, tokrate};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Child;
use tokrate_core::Rng;
use tokrate_net::{ClientConfig, Clock};
use tokrate_record::{Attempt, Probe, Sample, SampleSource};
use tokrate_store::{
    ClickHouseAccess, ClickHouseAddress, EventRow, MonitorStore, MonitorWrite, Outgoing, ProbeRow, Shipping, Sqlite,
    Warehouse,
};

#[path = "../../../../tests/clickhouse/engine.rs"]
mod engine;
use engine::Shim;

const PASSWORD: &str = "a-secret-of-the-tests";
/// 2026-01-10 00:00 UTC.
const DAY: u64 = 1_768_003_200_000;
const HOSTILE: &str = "acme/<script>\u{202e}' OR 1=1 --\\";

fn sample(rng: &mut Rng, number: u64) -> Sample {
    Sample {
        started_unix_ms: DAY + number * 3_600_000,
        provider: "acme".to_owned(),
        model: "large".to_owned(),
        dialect: "openai-chat".into(),
        stream: true,
        in_flight: 1,
        ttft_ns: Some(200_000_000 + rng.below(90_000_000)),
        total_ns: 2_300_000_000,
        output_speed: Some(90.0 * (0.1 * rng.normal()).exp()),
        output_tokens_std: 100,
        ..Sample::default()
    }
}

/// A monitor's database and a gateway's log, both also sent to ClickHouse.
fn fill(folder: &Folder, port: u16) -> String {
    let address = format!("clickhouse://ada@127.0.0.1:{port}/rates");
    let access = ClickHouseAccess {
        address: ClickHouseAddress::parse(&address).expect("an address"),
        password: Some(PASSWORD.to_owned()),
        client: ClientConfig::default(),
        clock: Clock::monotonic(),
    };
    let shipping = Shipping { to: access.database(), keep: None };
    let mut rng = Rng::root(3);
    let (database, log) = (folder.join("tokrate-monitor.db"), folder.join("tokrate-log.db"));
    let (mut store, _) = MonitorStore::open(&database, DAY).expect("a store");
    store.fill_outgoing(true, 0).expect("writable");
    let mut writes: Vec<MonitorWrite> = (0..150).map(|number| probe(&mut rng, number)).collect();
    let (prober, place) = ("p".to_owned(), "fra".to_owned());
    writes.push(MonitorWrite::Seen { prober: prober.clone(), place, at_unix_ms: DAY + 9, missed: 2 });
    let newest = DAY + 149 * 3_600_000;
    writes.push(MonitorWrite::Notice { at_unix_ms: newest - 5, prober, text: "<b>it slept</b>".to_owned() });
    let event = EventRow {
        at_unix_ms: newest as i64,
        endpoint: HOSTILE.to_owned(),
        kind: "regression".to_owned(),
        metric: "ttft_ms".to_owned(),
        change: 1.0 / 3.0,
        since_unix_ms: DAY as i64,
        n: 9,
        ..EventRow::default()
    };
    writes.push(MonitorWrite::Event(Box::new(event)));
    store.apply(&writes).expect("room");
    let mut rows = Sqlite::open(&log).expect("a log");
    rows.fill_outgoing(true).expect("writable");
    let attempt = |number| Attempt {
        call: format!("call-{number}"),
        alias: "chat".to_owned(),
        lane: "north".to_owned(),
        sample: sample(&mut rng, number),
        ..Attempt::default()
    };
    rows.append(&(0..60).map(attempt).collect::<Vec<_>>()).expect("room");
    for (path, what) in [(&database, Warehouse::Monitor), (&log, Warehouse::Log)] {
        shipping.prepare(what).expect("tables");
        let mut spool = Outgoing::of(path, what).expect("a spool");
        while shipping.step(&mut spool).expect("taken").entries > 0 {}
    }
    address
}

fn probe(rng: &mut Rng, number: u64) -> MonitorWrite {
    let probe = Probe {
        id: format!("one-{number}"),
        source: SampleSource::Monitor,
        endpoint: ["acme/large", HOSTILE][number as usize % 2].to_owned(),
        workload: "1k-1k".to_owned(),
        place: "fra".to_owned(),
        prober: "p".to_owned(),
        quarantine: (number % 50 == 7).then(|| "the resolver failed".to_owned()),
        sample: sample(rng, number),
        ..Probe::default()
    };
    MonitorWrite::Probe(Box::new(ProbeRow { probe, slot_unix_ms: DAY + number * 3_600_000, ..ProbeRow::default() }))
}

/// All files below a folder.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("readable").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a plain name").to_owned();
        if path.is_dir() {
            found.extend(files(&path).into_iter().map(|(below, bytes)| (format!("{name}/{below}"), bytes)));
        } else {
            found.insert(name, std::fs::read(&path).expect("readable"));
        }
    }
    found
}

fn settings(folder: &Folder, address: &str) {
    let keys = "store_key_env = \"CH_KEY\"";
    let text = format!(
        "[gateway]\nstore = \"{address}\"\n{keys}\n[monitor]\nendpoints = [\"sim\"]\nstore = \"{address}\"\n{keys}\n\
         [monitor.targets.sim]\nurl = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\n"
    );
    folder.write("tokrate.toml", &text);
    assert_eq!(run(folder, &["trust"]).code, Some(0));
}

fn run(folder: &Folder, arguments: &[&str]) -> Finished {
    finish(start(tokrate(folder, arguments).env("CH_KEY", PASSWORD)))
}

#[test]
#[ignore = "needs ClickHouse's engine: cargo xtask clickhouse"]
fn every_command_that_reads_says_the_same_of_clickhouse_and_of_the_file() {
    let folder = Folder::new("clickhouse-commands");
    let shim = Shim::start(&folder.join("engine"), PASSWORD);
    let address = fill(&folder, shim.port);
    settings(&folder, &address);
    let good = |arguments: &[&str]| {
        let finished = run(&folder, arguments);
        assert_eq!(finished.code, Some(0), "{arguments:?}: {}", finished.stderr);
        finished.stdout
    };
    // Out of the settings' ClickHouse, out of the one that is named, and out of the file.
    let alike = |arguments: &[&str], file: &[&str]| {
        let flag = file[0];
        let there = good(arguments);
        assert_eq!(there, good(&[arguments, &[flag, &address]].concat()), "{arguments:?}");
        assert_eq!(there, good(&[arguments, file].concat()), "{arguments:?}");
        assert!(there.len() > 500, "{there}");
    };
    let of_probes = ["--db", "tokrate-monitor.db"];
    alike(&["monitor", "export", "--jsonl", "-", "--all"], &of_probes);
    alike(&["monitor", "export", "--csv", "-"], &of_probes);
    alike(&["monitor", "export", "--csv", "-", "--source", "gateway"], &["--log", "tokrate-log.db"]);
    alike(&["log", "--source", "monitor", "--since", "all", "--json"], &of_probes);
    alike(&["log", "--since", "all", "--json"], &["--db", "tokrate-log.db"]);
    for (name, more) in [("there", [].as_slice()), ("here", &of_probes)] {
        good(&[&["monitor", "export", "--static", name, "--log", &address], more].concat());
    }
    let (there, here) = (files(&folder.join("there")), files(&folder.join("here")));
    assert!(there.len() > 20 && there == here, "{:?}", there.keys().collect::<Vec<_>>());
    assert!(!String::from_utf8_lossy(&there["index.html"]).contains("<script>"), "escaped");
    for (source, file) in [("monitor", "tokrate-monitor.db"), ("gateway", "tokrate-log.db")] {
        let lane = if source == "monitor" { HOSTILE } else { "north" };
        let report = good(&["compare", &address, file, "--source", source, "--lane", lane, "--json", "-"]);
        assert!(report.contains(&format!("rows of the source `{source}` in {address}")), "{report}");
    }
    let replayed = |log: &str| {
        let finished = run(&folder, &["replay", log, "--since", "all", "--policy", "own-completion", "--json"]);
        (finished.code, finished.stdout)
    };
    assert_eq!(replayed(&address), replayed("tokrate-log.db"));
    assert!(replayed(&address).1.len() > 100, "{:?}", replayed(&address));
    for (source, file) in [("monitor", "tokrate-monitor.db"), ("gateway", "tokrate-log.db")] {
        let lane = if source == "monitor" { HOSTILE } else { "north" };
        let law = |from: &str| good(&["estimate", "fit-api", from, "--source", source, "--lane", lane, "--json"]);
        assert_eq!(law(&address).replace(&address, file), law(file));
    }
    let chained = |log: &str| {
        let step =
            "[plans.p]\nreason = \"own\"\n[[steps]]\nname = \"answer\"\nrole = \"reason\"\ninput = 100\noutput = 50\n";
        folder.write("chain.toml", &format!("name = \"c\"\n[speeds.own]\nlog = \"{log}\"\nlane = \"north\"\n{step}"));
        good(&["estimate", "chain", "chain.toml", "--json"]).replace(log, "there")
    };
    assert_eq!(chained(&address), chained("tokrate-log.db"));
    let refused = finish(start(tokrate(&folder, &["log", "--db", &address]).env("CH_KEY", "another")));
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""));
    assert!(refused.stderr.contains("HTTP 403") && !refused.stderr.contains("another"), "{}", refused.stderr);
}

/// A monitor whose first probe is hours away.
struct Board(Child);

impl Drop for Board {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The first page of the board of a running monitor.
fn first_page(folder: &Folder) -> String {
    let mut child = start(tokrate(folder, &["monitor", "--board", "127.0.0.1:0"]).env("CH_KEY", PASSWORD));
    let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let _board = Board(child);
    let address = lines.map_while(Result::ok).find_map(|line| {
        let address = line.split("the board is at http://").nth(1)?;
        Some(address.trim_end_matches('/').to_owned())
    });
    let address = address.expect("it says where");
    let mut stream = TcpStream::connect(&address).expect("it listens");
    write!(stream, "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("open");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("a page");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    page
}

#[test]
fn a_board_whose_clickhouse_is_away_shows_the_monitors_own_file_and_says_so() {
    let folder = Folder::new("clickhouse-away");
    settings(&folder, "clickhouse://ada@127.0.0.1:9/rates");
    let page = first_page(&folder);
    assert!(page.contains("What follows is of this monitor"), "{page}");
    assert!(page.contains("clickhouse://ada@127.0.0.1:9/rates") && !page.contains(PASSWORD), "{page}");
}
