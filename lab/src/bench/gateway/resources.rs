//! Memory at rest and per open stream, and how soon the upstream sees that a client has disconnected.
//!
//! Invariant: memory is the resident memory of the gateway's processes; a disconnect is timed from just before the
//! client closes its socket to the upstream's read of the end.

use super::GatewayBench;
use super::endpoint::{Call, Endpoint, Tool};
use super::report::{Bar, Line};
use super::script::ScriptName;
use super::streams::first_text;
use super::upstream::Ended;
use crate::bench::clock::now;
use crate::bench::stream::Stream;
use crate::bench::summary::{one_decimal, quantile, two_decimals};
use anyhow::{Context, Result, ensure};
use std::io::Write;
use std::time::Duration;

/// Streams whose memory is measured.
const OPEN_STREAMS: usize = 1_000;
/// How long after their end memory is measured again: allocators return memory with a delay.
const AFTERWARDS: Duration = Duration::from_secs(20);
/// Clients that disconnect, and the pause between two of them.
const DISCONNECT_CLIENTS: usize = 200;
const PAUSE: Duration = Duration::from_millis(2);
/// Rounds in which clients of peers disconnect: a peer whose calls go on costs the whole timeout in each.
const PEER_DISCONNECT_ROUNDS: usize = 2;
const DETECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// How long opening all streams may take (ns).
const OPENING_NS: u64 = 40_000_000_000;

/// A situation in which clients disconnect.
struct Disconnect {
    what: &'static str,
    name: &'static str,
    /// The name under which calls that went on are counted.
    undetected: &'static str,
    ask: ScriptName,
    race: bool,
}

const DISCONNECTS: [Disconnect; 4] = [
    Disconnect {
        what: "mid-stream",
        name: "leave stream",
        undetected: "unseen stream",
        ask: ScriptName::Held,
        race: false,
    },
    Disconnect {
        what: "while a whole answer is awaited",
        name: "leave whole",
        undetected: "unseen whole",
        ask: ScriptName::Mute,
        race: false,
    },
    Disconnect {
        what: "in a race of two, undecided",
        name: "leave race",
        undetected: "unseen race",
        ask: ScriptName::Role,
        race: true,
    },
    Disconnect {
        what: "in a race of two, decided",
        name: "leave won",
        undetected: "unseen won",
        ask: ScriptName::Held,
        race: true,
    },
];

/// Measures start-up, memory at rest and memory of open streams. tokrate is restarted in every round, peers run on.
pub fn memory(bench: &mut GatewayBench) -> Result<()> {
    for round in 0..bench.rounds {
        for place in bench.turns(round) {
            let tool = bench.endpoints[place].tool;
            if tool == Tool::Direct || (tool != Tool::Tokrate && round > 0) {
                continue;
            }
            if tool == Tool::Tokrate && round > 0 {
                let peak = bench.endpoints[place].usage().peak_kib;
                bench.peak_kib = bench.peak_kib.max(peak);
                bench.endpoints[place] = Endpoint::open(tool, &bench.places, &bench.upstream)?;
            }
            let endpoint = &bench.endpoints[place];
            let (first_answer, idle) = (endpoint.first_answer_ns as f64 / 1e6, endpoint.idle_kib as f64);
            // litellm is busy with a thousand for longer than the run should take.
            let count = if tool == Tool::LiteLlm { OPEN_STREAMS / 10 } else { OPEN_STREAMS };
            let id = bench.numbers(count as u64);
            let open = open_calls(bench, &bench.endpoints[place], id, count, ScriptName::Held, false);
            let resident = bench.endpoints[place].usage().resident_kib as f64;
            match open {
                Ok(streams) => {
                    bench.values.add("KiB a stream", tool, (resident - idle) / streams.len() as f64);
                }
                Err(error) => {
                    bench.report.note(format!("{}: {count} open streams: failed to {error:#}", tool.name()));
                }
            }
            bench.wait_until_idle(place);
            std::thread::sleep(AFTERWARDS);
            let after = bench.endpoints[place].usage().resident_kib as f64;
            bench.values.add("after", tool, after / 1024.0);
            bench.values.add("first answer", tool, first_answer);
            bench.values.add("idle", tool, idle / 1024.0);
            let name = tool.name();
            bench.print_progress(
                round,
                &format!("{name}: first answer after {first_answer:.0} ms, {idle} KiB, {resident} KiB open, {after} KiB behind them"),
            );
        }
    }
    report_memory(bench)
}

fn report_memory(bench: &mut GatewayBench) -> Result<()> {
    let values = &bench.values;
    let own = |name| values.rounds(name, Tool::Tokrate).map(|rounds| rounds.median);
    let binary = std::fs::metadata(&bench.places.tokrate).context("look at tokrate's binary")?.len() as f64 / 1e6;
    let mut lines = vec![
        Line::of("start to the end of the first answer (ms)", values, "first answer", one_decimal).judged(
            Bar::AtMost(50.0),
            one_decimal,
            own("first answer"),
            None,
        ),
        Line::of("resident at rest (MiB)", values, "idle", one_decimal).judged(
            Bar::AtMost(20.0),
            one_decimal,
            own("idle"),
            None,
        ),
        Line::of("resident per open stream, 1,000 open, of litellm 100 (KiB)", values, "KiB a stream", one_decimal)
            .judged(Bar::AtMost(20.0), one_decimal, own("KiB a stream"), None),
        Line::of(
            format!("resident {} s after they have gone (MiB)", AFTERWARDS.as_secs()),
            values,
            "after",
            one_decimal,
        ),
    ];
    let size = Line::new("binary (MB)").cell(Tool::Tokrate, one_decimal(binary));
    lines.push(size.judged(Bar::AtMost(60.0), one_decimal, Some(binary), None));
    lines.into_iter().for_each(|line| bench.report.line(line));
    Ok(())
}

/// Reports the peak memory of the whole run.
pub fn peak(bench: &mut GatewayBench) {
    let mut line = Line::new("resident at most, all of this run (MiB)");
    let mut own = None;
    for endpoint in bench.endpoints.iter().filter(|endpoint| endpoint.tool != Tool::Direct) {
        let before = if endpoint.tool == Tool::Tokrate { bench.peak_kib } else { 0 };
        let peak = endpoint.usage().peak_kib.max(before) as f64 / 1024.0;
        line = line.cell(endpoint.tool, one_decimal(peak));
        own = if endpoint.tool == Tool::Tokrate { Some(peak) } else { own };
    }
    bench.report.line(line.judged(Bar::AtMost(100.0), one_decimal, own, None));
}

/// Measures disconnects of clients.
pub fn leave(bench: &mut GatewayBench) -> Result<()> {
    for round in 0..bench.rounds {
        for place in bench.turns(round) {
            let tool = bench.endpoints[place].tool;
            if !tool.passes_bytes_on() && round >= PEER_DISCONNECT_ROUNDS {
                continue;
            }
            for disconnect in DISCONNECTS.iter().filter(|disconnect| !disconnect.race || tool == Tool::Tokrate) {
                match disconnect_once(bench, place, disconnect) {
                    Ok((delays, undetected)) => {
                        let p99 = quantile(delays.clone(), 0.99).unwrap_or(f64::NAN);
                        let name = tool.name();
                        bench.print_progress(
                            round,
                            &format!("{name}, {}: p99 {p99:.2} ms, {undetected} undetected", disconnect.what),
                        );
                        bench.values.add(disconnect.undetected, tool, undetected as f64);
                        if undetected > 0 {
                            bench.report.note(format!(
                                "{name}: {DISCONNECT_CLIENTS} clients left {}, and {undetected} calls went on at the upstream for {} s and more",
                                disconnect.what,
                                DETECTION_TIMEOUT.as_secs()
                            ));
                        } else {
                            bench.values.add(disconnect.name, tool, p99);
                        }
                    }
                    Err(error) => {
                        let name = tool.name();
                        bench
                            .report
                            .note(format!("{name}, clients that leave {}: failed to {error:#}", disconnect.what));
                    }
                }
            }
        }
    }
    for disconnect in &DISCONNECTS {
        let own = bench.values.rounds(disconnect.name, Tool::Tokrate).map(|rounds| rounds.median);
        // One call that goes on misses the bar, however soon the others ended.
        let undetected = |tool| bench.values.sum(disconnect.undetected, tool).filter(|undetected| *undetected > 0.0);
        let own = if undetected(Tool::Tokrate).is_some() { Some(f64::INFINITY) } else { own };
        let what = format!("client leaves {}: to the upstream's reading of the end, p99 (ms)", disconnect.what);
        let mut line = Line::of(what, &bench.values, disconnect.name, two_decimals);
        for tool in Tool::ALL {
            if let Some(undetected) = undetected(tool) {
                line = line.cell(tool, format!("{undetected:.0} went on"));
            }
        }
        bench.report.line(line.judged(Bar::AtMost(50.0), one_decimal, own, None));
    }
    Ok(())
}

/// Delay of each disconnect until the upstream saw it (ms), and how many it never saw.
fn disconnect_once(bench: &mut GatewayBench, place: usize, disconnect: &Disconnect) -> Result<(Vec<f64>, usize)> {
    let first = bench.numbers(DISCONNECT_CLIENTS as u64);
    bench.upstream.take_ended();
    let before = bench.upstream.open();
    let streams =
        open_calls(bench, &bench.endpoints[place], first, DISCONNECT_CLIENTS, disconnect.ask, disconnect.race)?;
    let mut disconnected_at = Vec::with_capacity(streams.len());
    for stream in streams {
        disconnected_at.push(now());
        drop(stream);
        std::thread::sleep(PAUSE);
    }
    bench.upstream.wait_for_open(before, DETECTION_TIMEOUT);
    let undetected = bench.upstream.open().saturating_sub(before);
    let ours = |ended: &Ended| (first..first + DISCONNECT_CLIENTS as u64).contains(&ended.id);
    let ended: Vec<Ended> = bench.upstream.take_ended().into_iter().filter(ours).collect();
    bench.wait_until_idle(place);
    // The loser of a decided race was cancelled before its client disconnected.
    let delays = ended.iter().filter_map(|ended| {
        let disconnected_at = disconnected_at[(ended.id - first) as usize];
        Some(ended.closed_at?.checked_sub(disconnected_at)? as f64 / 1e6)
    });
    Ok((delays.collect(), undetected))
}

/// Opens `count` calls and waits until each has reached the state to be measured.
fn open_calls(
    bench: &GatewayBench,
    endpoint: &Endpoint,
    first: u64,
    count: usize,
    ask: ScriptName,
    race: bool,
) -> Result<Vec<Stream>> {
    let (before, from) = (bench.upstream.open(), now());
    let mut streams = Vec::with_capacity(count);
    for place in 0..count {
        let mut stream = endpoint.connect()?;
        stream.write_all(&endpoint.request(Call { ask, id: first + place as u64, race })).context("send a call")?;
        streams.push(stream);
    }
    if ask == ScriptName::Held {
        for (place, stream) in streams.iter_mut().enumerate() {
            ensure!(
                now() - from < OPENING_NS,
                "open {count} streams: {place} have text after {} s",
                OPENING_NS / 1_000_000_000
            );
            first_text(stream)?;
        }
        // By then a race is decided, and the state is stable.
        std::thread::sleep(Duration::from_millis(300));
    } else {
        let wanted = before + if race { 2 * count } else { count };
        let open = bench.upstream.wait_for_open(wanted, DETECTION_TIMEOUT);
        ensure!(open, "open {wanted} calls at the upstream: there are {}", bench.upstream.open());
    }
    Ok(streams)
}
