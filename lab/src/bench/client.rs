//! The two clients that are compared: the release binary of tokrate, and the floor.
//!
//! Invariant: both are processes of their own, get the same load, and hand back the same kind of rows with ticks of the
//! same clock.

use super::floor::{FloorTask, measure};
use super::process::{Cost, run};
use super::stream::Tls;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The hidden command of the floor client.
pub const FLOOR: &str = "__floor";
/// Length of a floor's request body: about what tokrate sends for a prompt of 16 tokens.
const FLOOR_BODY_BYTES: usize = 300;

/// The load of both clients.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The server.
    pub address: SocketAddr,
    /// Requests in flight.
    pub concurrency: usize,
    /// Measured requests.
    pub requests: u64,
    /// Requests before them.
    pub warmup: u64,
    /// The dialect and what stands before its path, where it is not OpenAI's chat.
    pub dialect: Option<(&'static str, &'static str)>,
    /// Whether the server speaks TLS, with the certificates of the clients' folder.
    pub tls: bool,
}

impl Default for Load {
    fn default() -> Load {
        let address = ([127, 0, 0, 1], 0).into();
        Load { address, concurrency: 1, requests: 1, warmup: 0, dialect: None, tls: false }
    }
}

/// One request as a client saw it; ticks in ns.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its number, warm-up included.
    pub index: u64,
    /// When its last byte was handed over.
    pub sent_at: Option<u64>,
    /// When its first text arrived.
    pub first_text_at: Option<u64>,
    /// When its last text arrived.
    pub last_text_at: Option<u64>,
    /// When the answer was complete.
    pub finished_at: u64,
    /// Text events.
    pub events: u64,
    /// Tokens counted; the floor counts none.
    pub tokens: Option<u64>,
    /// Tokens per second after the first chunk; the floor states none.
    pub output_speed: Option<f64>,
    /// Kind of failure.
    pub failure: Option<String>,
}

/// A client's results and its cost.
pub struct Outcome {
    /// Its requests, warm-up included.
    pub rows: Vec<Row>,
    /// CPU time while the clock ran (ns), if the client reports it.
    pub phase_cpu_ns: Option<u64>,
    /// The 99th percentile of the gaps between texts as it states it (ns), warm-up left out.
    pub gap_p99_ns: Option<f64>,
    /// Cost as measured by the kernel.
    pub cost: Cost,
}

/// Where programs and files are.
pub struct Clients {
    /// tokrate's release binary.
    pub tokrate: PathBuf,
    /// A folder for what the runs write, with the certificates.
    pub folder: PathBuf,
    /// Those of servers that speak TLS.
    pub tls: Tls,
}

impl Clients {
    /// The command line of tokrate for a load, as it is run and shown.
    pub fn arguments(load: &Load) -> Vec<String> {
        let (dialect, base) = match load.dialect {
            Some((dialect, base)) => (format!(" --dialect {dialect}"), base),
            None => (String::new(), "/v1"),
        };
        let (scheme, authority) = if load.tls { ("https", " --ca-file authority.pem") } else { ("http", "") };
        format!(
            "bench --url {scheme}://{}{base}{authority}{dialect} --model bench-model --concurrency {} --requests {} --warmup {} --input-tokens 16 \
             --output-tokens 16 --calibration off --jsonl requests.jsonl --json record.json --no-html --quiet",
            load.address, load.concurrency, load.requests, load.warmup
        )
        .split_whitespace()
        .map(str::to_owned)
        .collect()
    }

    /// Runs tokrate. An exit code of 1 (too many failures) is handed over, 2 is an error here.
    pub fn tokrate(&self, load: &Load) -> Result<Outcome> {
        for name in ["requests.jsonl", "record.json"] {
            drop(std::fs::remove_file(self.folder.join(name)));
        }
        let cost = run(&self.tokrate, &Self::arguments(load), &self.folder)?;
        if !matches!(cost.exit, Some(0 | 1)) {
            bail!("run tokrate: exit {:?}: {}", cost.exit, cost.stderr);
        }
        let rows = read(&self.folder.join("requests.jsonl"))?;
        let rows = rows.lines().map(|line| Ok(row(&serde_json::from_str(line)?))).collect::<Result<_>>()?;
        let record: Value = serde_json::from_str(&read(&self.folder.join("record.json"))?)?;
        let phase = &record["phases"][0];
        let gap = &phase["chunk_gap"]["p99"];
        let gap_p99 = gap["value"].as_f64().or_else(|| gap["descriptive"].as_f64());
        let phase_cpu_ns = phase["client_cpu_seconds"].as_f64().map(|seconds| (seconds * 1e9) as u64);
        Ok(Outcome { rows, phase_cpu_ns, gap_p99_ns: gap_p99.map(|millis| millis * 1e6), cost })
    }

    /// Runs `tokrate --help`.
    pub fn help(&self) -> Result<Cost> {
        let cost = run(&self.tokrate, &["--help".to_owned()], &self.folder)?;
        if cost.exit != Some(0) {
            bail!("run tokrate --help: exit {:?}: {}", cost.exit, cost.stderr);
        }
        Ok(cost)
    }

    /// Runs the floor as a process of its own.
    pub fn floor(&self, load: &Load) -> Result<Outcome> {
        let path = self.folder.join("floor.json");
        drop(std::fs::remove_file(&path));
        let myself = std::env::current_exe().context("find this program")?;
        let arguments = [
            FLOOR.to_owned(),
            load.address.to_string(),
            load.concurrency.to_string(),
            load.requests.to_string(),
            load.warmup.to_string(),
            if load.tls { self.folder.display().to_string() } else { String::new() },
            path.display().to_string(),
        ];
        let cost = run(&myself, &arguments, &self.folder)?;
        if cost.exit != Some(0) {
            bail!("run the floor: {}", cost.stderr);
        }
        let result: Value = serde_json::from_str(&read(&path)?)?;
        let rows = result["rows"].as_array().context("read the floor's rows")?.iter().map(row).collect();
        Ok(Outcome { rows, phase_cpu_ns: result["cpu_ns"].as_u64(), gap_p99_ns: result["gap_p99_ns"].as_f64(), cost })
    }
}

/// The floor client: `__floor ADDRESS CONNECTIONS REQUESTS WARMUP CERTIFICATES RESULT`, where CERTIFICATES is a folder, or empty without TLS.
pub fn run_floor(arguments: &[String]) -> Result<()> {
    let [address, connections, requests, warmup, certificates, result] = arguments else {
        bail!("run the floor: it needs six arguments")
    };
    let task = FloorTask {
        address: address.parse()?,
        connections: connections.parse()?,
        requests: requests.parse()?,
        warmup: warmup.parse()?,
        body_bytes: FLOOR_BODY_BYTES,
        tls: (!certificates.is_empty()).then(|| Tls::read(Path::new(certificates))).transpose()?,
    };
    let measured = measure(&task)?;
    std::fs::write(result, measured.to_string()).with_context(|| format!("write {result}"))
}

impl Outcome {
    /// Text events per second from the first request's sending to the last one's end.
    pub fn events_per_second(&self) -> Option<f64> {
        let start = self.rows.iter().filter_map(|row| row.sent_at).min()?;
        let end = self.rows.iter().map(|row| row.finished_at).max()?;
        Some(self.events() as f64 / (end.checked_sub(start)? as f64 / 1e9))
    }

    /// Text events of all requests.
    pub fn events(&self) -> u64 {
        self.rows.iter().map(|row| row.events).sum()
    }

    /// Requests that failed, by the kind of the first failure.
    pub fn failed(&self) -> (usize, Option<&str>) {
        let mut kinds = self.rows.iter().filter_map(|row| row.failure.as_deref());
        let first = kinds.next();
        (kinds.count() + usize::from(first.is_some()), first)
    }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

fn row(value: &Value) -> Row {
    Row {
        index: value["index"].as_u64().unwrap_or(u64::MAX),
        sent_at: value["sent_at_ns"].as_u64(),
        first_text_at: value["first_text_at_ns"].as_u64(),
        last_text_at: value["last_text_at_ns"].as_u64(),
        finished_at: value["finished_at_ns"].as_u64().unwrap_or(0),
        events: value["text_events"].as_u64().unwrap_or(0),
        tokens: value["tokens_std"].as_u64(),
        output_speed: value["output_speed"].as_f64(),
        failure: value["failure"]["kind"].as_str().map(str::to_owned),
    }
}
