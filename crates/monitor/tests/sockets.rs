//! A monitor over real sockets on loopback: good endpoints, and those that answer garbage, nothing, or another model.

use http::HeaderMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;
use tokrate_core::{FailureKind, Price, Span};
use tokrate_detect::FalseAlarms;
use tokrate_host::{Host, HostConfig, RunningHost};
use tokrate_monitor::{
    AlertSettings, Cadence, Endpoint, Extent, Limits, PromptSource, Report, Settings, Workload, run,
};
use tokrate_net::{ClientConfig, Clock, Target};
use tokrate_prober::Budget;
use tokrate_sim::{Faults, Law};
use tokrate_store::{CYCLE_IS_OPEN, MonitorStore, ProbeQuery, ProbeRow, ProbeStore};
use tokrate_wire::Dialect;

/// A folder for one test; removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("monitor-{name}"));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn host(fault: Option<&str>) -> RunningHost {
    let mut faults = Faults::default();
    if let Some(fault) = fault {
        faults.set(fault).expect("a fault");
    }
    let law = Law { base_delay: Span::from_millis(20), stream_tokens_per_second: 100.0, ..Law::default() };
    Host::start(HostConfig { law, faults, model: "large".to_owned(), ..HostConfig::default() }).expect("a port")
}

/// A server that answers each connection with these bytes, and then says nothing more.
fn raw_server(answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 65_536]);
            let _ = stream.write_all(answer);
            open.push(stream);
        }
    });
    address
}

fn endpoint(name: &str, address: SocketAddr) -> Endpoint {
    Endpoint {
        name: format!("{name}/large"),
        provider: name.to_owned(),
        model: "large".to_owned(),
        dialect: Dialect::OpenAiChat,
        base: Target::parse(&format!("http://{address}/v1")).expect("a URL"),
        headers: HeaderMap::new(),
        authorizer: None,
        client: ClientConfig { reuse: false, rx_timestamps: true, ..ClientConfig::default() },
        price: Price::from_usd_per_million(1.0, 2.0),
        legacy_max_tokens: false,
        include_usage: true,
        workloads: vec![0],
    }
}

fn settings(folder: &Folder, endpoints: Vec<Endpoint>, requests: u32) -> Settings {
    Settings {
        prober: "one".to_owned(),
        place: "here".to_owned(),
        endpoints,
        workloads: vec![Workload {
            name: "short".to_owned(),
            prompts: PromptSource::Words { input_tokens: 50, shared_prefix_tokens: 0 },
            output_tokens: 40,
            requests,
            cadence: Cadence::EveryCycle,
        }],
        slots_a_day: 17_280,
        budget: Budget::default(),
        max_in_flight: 4,
        limits: Limits { idle: Span::from_millis(500), total: Span::from_secs(20) },
        retention: Span::from_secs(400 * 86_400),
        shipping: None,
        database: folder.0.join("monitor.db"),
        false_alarms: FalseAlarms::default(),
        alerts: AlertSettings::default(),
        push: None,
        seed: 1,
        host: "test".to_owned(),
        machine: "test".to_owned(),
        version: "0".to_owned(),
    }
}

fn one_cycle(settings: Settings) -> Vec<ProbeRow> {
    let database = settings.database.clone();
    let mut reported = 0;
    let mut report = |report: Report| reported += usize::from(matches!(report, Report::Probe(_)));
    run(settings, Clock::monotonic(), Extent::OneCycle, None, std::future::pending(), &mut report).expect("it runs");
    let store = MonitorStore::open_reader(&database).expect("it wrote one");
    assert!(store.open_cycles("one").expect("readable").is_empty());
    let rows = store.probes(&ProbeQuery::default()).expect("readable");
    assert_eq!(rows.len(), reported);
    rows
}

#[test]
fn what_an_endpoint_answers_is_a_row_with_numbers_or_with_a_reason() {
    let faults =
        ["other_model=1", "server_error=1", "empty=1", "burst=1", "disconnect@20=1", "stall@5=1", "rate_limited=1"];
    let hosts: Vec<RunningHost> = [None].into_iter().chain(faults.into_iter().map(Some)).map(host).collect();
    let names = ["good", "other", "broken", "empty", "burst", "cut", "stalled", "limited"];
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr()).expect("a port");
    let garbage = raw_server(b"HTTP/1.1 200 OK\r\ncontent-length: 30\r\n\r\n\x00\xff<script>alert(1)</script>\r\n\r");
    let mute = raw_server(b"");
    let mut endpoints: Vec<Endpoint> =
        names.iter().zip(&hosts).map(|(name, host)| endpoint(name, host.address())).collect();
    endpoints.extend([endpoint("closed", closed), endpoint("garbage", garbage), endpoint("mute", mute)]);
    endpoints.push(Endpoint {
        base: Target::parse(&format!("http://{}.invalid/v1", "a".repeat(64))).expect("a URL"),
        ..endpoint("nowhere", closed)
    });
    let folder = Folder::new("answers");
    let rows = one_cycle(settings(&folder, endpoints, 1));
    assert_eq!(rows.len(), 12);
    let of = |name: &str| rows.iter().find(|row| row.probe.sample.provider == name).expect("it was probed");
    let sample = &of("good").probe.sample;
    // On a machine that is busy with other tests the reference may be off.
    let quarantine = of("good").probe.quarantine.as_deref();
    assert!(quarantine.is_none_or(|why| why.starts_with("the client's own error")), "{quarantine:?}");
    assert_eq!(of("good").reason, None);
    assert!(sample.ttft_ns.expect("it spoke") > 10_000_000, "{sample:?}");
    assert!(sample.output_speed.expect("it is long enough") > 20.0, "{sample:?}");
    assert_eq!((sample.status, sample.input_tokens, sample.output_tokens), (Some(200), Some(50), Some(40)));
    assert!((sample.cost_usd.expect("it has a price") - 130e-6).abs() < 1e-9 && sample.connect_ns.is_some());
    let expected = [
        ("broken", FailureKind::ServerError),
        ("empty", FailureKind::Empty),
        ("cut", FailureKind::Truncated),
        ("stalled", FailureKind::Stalled),
        ("limited", FailureKind::RateLimited),
        ("closed", FailureKind::Connect),
        ("mute", FailureKind::Stalled),
        ("nowhere", FailureKind::Dns),
        ("garbage", FailureKind::NotJson),
    ];
    for (name, kind) in expected {
        let row = of(name);
        assert_eq!(row.probe.sample.failure, Some(kind), "{name}: {row:?}");
        assert!(row.reason.as_ref().is_some_and(|reason| !reason.is_empty()), "{name}");
    }
    let other = of("other");
    assert!(other.reason.as_ref().is_some_and(|reason| reason.starts_with("answered by another model: ")), "{other:?}");
    assert_eq!((other.probe.sample.ttft_ns, other.probe.sample.output_speed), (None, None));
    let burst = &of("burst").probe.sample;
    assert!(burst.output_speed.is_none() && burst.output_speed_missing.is_some(), "{burst:?}");
}

/// A server that carries out tasks, and in `wrong` of those that name the echo writes one word otherwise.
fn scholar(wrong: bool) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let Some(request) = read_json(&mut stream) else { continue };
            let prompt = request["messages"][0]["content"].as_str().unwrap_or_default().to_owned();
            let delta = match request["tools"][0]["function"]["name"].as_str() {
                None => {
                    let line = prompt.lines().last().unwrap_or_default().to_owned();
                    serde_json::json!({ "content": if wrong { line.replacen(' ', " also ", 1) } else { line } })
                }
                Some(name) => serde_json::json!({ "tool_calls": [{
                    "index": 0, "id": "c", "type": "function", "function": { "name": name, "arguments": shipment(&prompt) }
                }] }),
            };
            let event = |value: serde_json::Value| format!("data: {value}\n\n");
            let begun = event(serde_json::json!({ "model": "large", "choices": [{ "index": 0, "delta": delta }] }));
            let ended = event(
                serde_json::json!({ "model": "large", "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] }),
            );
            let body = format!("{begun}{ended}data: [DONE]\n\n");
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close";
            let _ = write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        }
    });
    address
}

/// The body of a request.
fn read_json(stream: &mut std::net::TcpStream) -> Option<serde_json::Value> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4_096];
    loop {
        let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((_, body)) = text.split_once("\r\n\r\n")
            && let Ok(value) = serde_json::from_str(body)
        {
            return Some(value);
        }
    }
}

/// The arguments that a prompt names.
fn shipment(prompt: &str) -> String {
    let between = |before: &str, after: &str| {
        let rest = prompt.split_once(before).map_or("", |(_, rest)| rest);
        rest.split_once(after).map_or("", |(found, _)| found).to_owned()
    };
    let from = between("from ", " to");
    let to = between(&format!("{from} to "), ",");
    serde_json::json!({
        "parcels": between(&format!("{to}, "), " parcels").parse::<u64>().unwrap_or(0),
        "from": from,
        "to": to,
        "fragile": !prompt.contains("not fragile"),
        "reference": between("reference ", "."),
    })
    .to_string()
}

#[test]
fn a_wrong_answer_to_a_task_is_a_row_with_a_reason_and_no_number() {
    let folder = Folder::new("canary");
    let of = |name: &str, wrong: bool| Endpoint { workloads: vec![0, 1], ..endpoint(name, scholar(wrong)) };
    let workloads = ["canary-echo", "canary-tool"].map(|name| tokrate_monitor::built_in(name).expect("it is built in"));
    let settings =
        Settings { workloads: workloads.into(), ..settings(&folder, vec![of("right", false), of("wrong", true)], 1) };
    let mut found: Vec<(String, String, Option<String>)> = one_cycle(settings)
        .into_iter()
        .map(|row| {
            assert_eq!(row.probe.sample.failure, None, "{row:?}");
            (row.probe.sample.provider, row.probe.workload, row.reason)
        })
        .collect();
    found.sort();
    let row = |provider: &str, workload: &str, reason: Option<&str>| {
        (provider.to_owned(), workload.to_owned(), reason.map(str::to_owned))
    };
    assert_eq!(
        found,
        [
            row("right", "canary-echo", None),
            row("right", "canary-tool", None),
            row("wrong", "canary-echo", Some("the line to be repeated is another from its word 2 on")),
            row("wrong", "canary-tool", None),
        ]
    );
}

#[test]
fn a_burst_is_several_rows_of_one_probe() {
    let (folder, host) = (Folder::new("burst"), host(None));
    let rows = one_cycle(settings(&folder, vec![endpoint("good", host.address())], 5));
    assert_eq!(rows.len(), 5);
    assert!(rows.iter().all(|row| row.reason.is_none() && row.probe.sample.in_flight == 5));
    let starts = rows.iter().map(|row| row.probe.sample.started_unix_ms);
    assert!(starts.clone().max().expect("five") - starts.min().expect("five") < 1_000, "at once");
}

#[test]
fn a_monitor_that_is_stopped_goes_on_where_it_was() {
    let (folder, host) = (Folder::new("restart"), host(None));
    let settings = settings(&folder, vec![endpoint("good", host.address())], 1);
    for _ in 0..2 {
        let (enough, is_enough) = (Arc::new(Notify::new()), AtomicBool::new(false));
        let stop = Arc::clone(&enough);
        let mut report = |report: Report| {
            if matches!(report, Report::Probe(_)) && !is_enough.swap(true, Ordering::Relaxed) {
                enough.notify_one();
            }
        };
        let stop = async move { stop.notified().await };
        run(settings.clone(), Clock::monotonic(), Extent::Endless, None, stop, &mut report).expect("it runs");
    }
    let store = MonitorStore::open_reader(&settings.database).expect("it wrote one");
    let rows = store.probes(&ProbeQuery::default()).expect("readable");
    assert!(rows.len() >= 2, "{rows:?}");
    let (first, last) = (&rows[0].probe, &rows[rows.len() - 1].probe);
    assert_ne!(first.id, last.id);
    assert_ne!(first.quarantine.as_deref(), Some(CYCLE_IS_OPEN), "judged at the latest by the second start");
    let mut slots: Vec<u64> = rows.iter().map(|row| row.slot_unix_ms).collect();
    slots.dedup();
    assert_eq!(slots.len(), rows.len(), "no slot twice");
}
