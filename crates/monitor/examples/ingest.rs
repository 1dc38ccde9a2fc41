//! How many samples a second a hub takes: probers that have much to catch up push over loopback, each batch signed, to `tokrate monitor`.
//! `cargo run --release -p tokrate-monitor --example ingest TOKRATE FOLDER [PROBERS]`: batches are made beforehand, so that what is timed
//! is the hub's; afterwards every sample must be in its database, once. Lines of bars are for `cargo xtask bench monitor`.
#![allow(clippy::print_stdout, clippy::print_stderr)]
#![allow(clippy::disallowed_methods, reason = "measures real time")]

use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Instant, SystemTime};
use tokrate_core::Rng;
use tokrate_monitor::PushKey;
use tokrate_record::{Probe, Sample, SampleConditions};
use tokrate_store::{CYCLE_IS_OPEN, MonitorStore, ProbeQuery, ProbeStore};

/// Samples of a prober: what a hub takes of one at once (240 batches) and a little less.
const BATCHES: u64 = 200;
/// Entries of a batch, as a prober sends them.
const ENTRIES: u64 = 400;
/// Samples of a cycle: 200 endpoints and three workloads.
const CYCLE: u64 = 600;
const USUAL_PROBERS: u64 = 4;
/// The bar.
const LEAST: f64 = 50_000.0;

struct Prober {
    name: String,
    /// Body and signature of each batch.
    batches: Vec<(String, String)>,
    samples: u64,
}

fn main() {
    let argument = |place| std::env::args().nth(place).expect("usage: ingest TOKRATE FOLDER [PROBERS]");
    let (tokrate, folder) = (argument(1), argument(2));
    let probers = std::env::args().nth(3).and_then(|text| text.parse().ok()).unwrap_or(USUAL_PROBERS);
    let folder = Path::new(&folder);
    let mut settings = "[monitor]\nprober = \"hub\"\ndatabase = \"hub.db\"\nboard = \"127.0.0.1:0\"\n".to_owned();
    let made: Vec<Prober> = (0..probers)
        .map(|number| {
            let name = format!("prober-{number}");
            let key = PushKey::parse(&PushKey::generate().expect("random bytes")).expect("a key");
            settings += &format!("[monitor.hub.probers.{name}]\npublic_key = \"{}\"\n", key.public());
            prober(name, &key, number)
        })
        .collect();
    std::fs::write(folder.join("hub.toml"), settings).expect("room");
    let (mut hub, address) = start(&tokrate, folder);
    let begun = Instant::now();
    let pushing = |prober: &Prober| push(&address, prober);
    std::thread::scope(|scope| {
        let threads: Vec<_> = made.iter().map(|prober| scope.spawn(move || pushing(prober))).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("it pushed"));
    });
    let took = begun.elapsed().as_secs_f64();
    let cpu = cpu_seconds(hub.id());
    hub.kill().expect("it runs");
    hub.wait().expect("it was killed");
    let samples: u64 = made.iter().map(|prober| prober.samples).sum();
    let mut kept = 0;
    let store = MonitorStore::open_reader(&folder.join("hub.db")).expect("its database");
    store.visit_probes(&ProbeQuery::default(), &mut |_| kept += 1).expect("readable");
    let rate = samples as f64 / took;
    println!(
        "{samples} samples of {probers} probers in {took:.2} s, {cpu:.2} s of the hub's CPU; {kept} in SQLite after kill -9"
    );
    let figure = format!("{rate:.0} samples/s, {} lost", samples.saturating_sub(kept));
    bar(
        "ingest by push into SQLite, 2 cores",
        ">= 50,000 samples/s, 0 lost",
        &figure,
        rate >= LEAST && kept == samples,
    );
}

/// The hub, and where it listens.
fn start(tokrate: &str, folder: &Path) -> (Child, String) {
    let mut command = Command::new(tokrate);
    command.args(["monitor", "--config", "hub.toml"]).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut hub = command.spawn().expect("the hub");
    let mut lines = BufReader::new(hub.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let address =
        lines.find_map(|line| Some(line.split("the board is at http://").nth(1)?.trim_end_matches('/').to_owned()));
    // Read to its end, so that it never waits for a full pipe.
    std::thread::spawn(move || lines.for_each(|line| eprintln!("{line}")));
    (hub, address.expect("it says where"))
}

/// Everything that a prober has to send.
fn prober(name: String, key: &PushKey, number: u64) -> Prober {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis() as u64;
    let mut rng = Rng::root(20).child(&name);
    let (mut entries, mut samples) = (Vec::new(), 0);
    while (entries.len() as u64) < BATCHES * ENTRIES {
        let cycle = format!("{name}-00000000000000ff-c{}", samples / CYCLE);
        let at = now - 90 * 86_400_000 + samples / CYCLE * 10_800_000;
        entries.push(json!({ "cycle_begun": { "cycle": cycle, "at": at } }).to_string());
        for _ in 0..CYCLE {
            let probe = probe(&mut rng, &name, number, samples, at);
            let entry = json!({ "cycle": cycle, "slot": at, "further": false, "reason": null, "probe": probe });
            entries.push(json!({ "probe": entry }).to_string());
            samples += 1;
        }
        let ended = json!({ "cycle": cycle, "at": at + 600_000, "reference": "[]", "quarantine": null });
        entries.push(json!({ "cycle_ended": ended }).to_string());
    }
    let batches = (1..).zip(entries.chunks(ENTRIES as usize)).map(|(nth, entries)| {
        let first = (nth - 1) * ENTRIES + 1;
        let entries: Vec<String> = (first..).zip(entries).map(|(id, entry)| format!("[{id},{entry}]")).collect();
        let body = format!(
            "{{\"version\":1,\"prober\":\"{name}\",\"place\":\"place-{number}\",\"spool\":\"s\",\"made_unix_ms\":{now},\"entries\":[{}]}}",
            entries.join(",")
        );
        let signature = key.sign(body.as_bytes());
        (body, signature)
    });
    Prober { batches: batches.collect(), name, samples }
}

fn probe(rng: &mut Rng, prober: &str, number: u64, sample: u64, at: u64) -> Probe {
    let endpoint = sample % 200;
    let (provider, model) = (format!("provider-{:02}", endpoint % 40), format!("model-{:02}", endpoint % 25));
    let speed = 80.0 * (0.15 * rng.normal()).exp();
    let ttft_ns = (3e8 * (0.2 * rng.normal()).exp()) as u64;
    let conditions = SampleConditions {
        region: Some(format!("place-{number}")),
        host: Some("a machine".to_owned()),
        tokenizer: Some("o200k_base".to_owned()),
        fingerprint: Some("0123456789abcdef".to_owned()),
        version: "0.1.0".to_owned(),
    };
    let sample_of = Sample {
        started_unix_ms: at + rng.below(600_000),
        provider: provider.clone(),
        model: model.clone(),
        model_answered: Some(model.clone()),
        dialect: "openai-chat".into(),
        stream: true,
        in_flight: 1,
        connection_new: true,
        dns_ns: Some(900_000 + rng.below(100_000)),
        connect_ns: Some(9_000_000 + rng.below(1_000_000)),
        tls_ns: Some(19_000_000 + rng.below(1_000_000)),
        request_bytes: Some(4_000),
        output_limit: Some(300),
        status: Some(200),
        wait_ns: Some(30_000_000),
        ttfb_ns: Some(ttft_ns),
        ttft_ns: Some(ttft_ns),
        ttfat_ns: Some(ttft_ns),
        total_ns: ttft_ns + (3e11 / speed) as u64,
        output_speed: Some(speed),
        chunks: 290,
        text_events: 290,
        gap_p50_ns: Some((1e9 / speed) as u64),
        gap_p99_ns: Some((3e9 / speed) as u64),
        gap_max_ns: Some((5e9 / speed) as u64),
        // As many buckets as a stream of 300 chunks fills.
        gaps: (0..290).map(|_| (1e9 / speed * (0.5 * rng.normal()).exp()) as u64).collect(),
        input_tokens_std: Some(100),
        output_tokens_std: 300,
        input_tokens: Some(104),
        output_tokens: Some(300),
        cost_usd: Some(0.001),
        conditions: conditions.into(),
        ..Sample::default()
    };
    Probe {
        id: format!("{prober}-00000000000000ff-{sample}-0"),
        endpoint: format!("{provider}-{endpoint}/{model}"),
        workload: ["100-300", "1k-1k", "10k-1.5k"][(sample / 200 % 3) as usize].to_owned(),
        place: format!("place-{number}"),
        prober: prober.to_owned(),
        due_unix_ms: at,
        quarantine: Some(CYCLE_IS_OPEN.to_owned()),
        sample: sample_of,
        ..Probe::default()
    }
}

/// Sends all batches over one connection, each once the one before is kept.
fn push(address: &str, prober: &Prober) {
    let stream = TcpStream::connect(address).expect("it listens");
    let mut reader = BufReader::new(stream.try_clone().expect("open"));
    let mut writer = stream;
    for (body, signature) in &prober.batches {
        loop {
            let head = format!(
                "POST /api/v1/push HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ntokrate-prober: {}\r\n\
                 tokrate-signature: {signature}\r\ncontent-length: {}\r\n\r\n",
                prober.name,
                body.len()
            );
            writer.write_all(head.as_bytes()).expect("open");
            writer.write_all(body.as_bytes()).expect("open");
            match answer(&mut reader) {
                (200, _) => break,
                // It says that others are before this one.
                (503, _) => {}
                (status, text) => panic!("{status}: {text}"),
            }
        }
    }
}

fn answer(reader: &mut impl BufRead) -> (u16, String) {
    let (mut line, mut status, mut length) = (String::new(), 0, 0);
    loop {
        line.clear();
        reader.read_line(&mut line).expect("an answer");
        let text = line.trim().to_ascii_lowercase();
        if let Some(rest) = text.strip_prefix("http/1.1 ") {
            status = rest[..3].parse().expect("a status");
        } else if let Some(rest) = text.strip_prefix("content-length:") {
            length = rest.trim().parse().expect("a length");
        } else if text.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    (status, String::from_utf8_lossy(&body).into_owned())
}

/// What a process has used (Linux; 0 elsewhere).
fn cpu_seconds(process: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields: Vec<f64> =
        text.rsplit(") ").next().unwrap_or_default().split(' ').filter_map(|field| field.parse().ok()).collect();
    // User and system time, in hundredths of a second, without the state, which is no number.
    fields.get(10).zip(fields.get(11)).map_or(0.0, |(user, system)| (user + system) / 100.0)
}

fn bar(what: &str, bar: &str, figure: &str, is_met: bool) {
    println!("BAR|{what}|{bar}|{figure}|{}", if is_met { "met" } else { "missed" });
}
