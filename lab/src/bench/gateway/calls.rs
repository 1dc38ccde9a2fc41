//! Closed-loop calls and streams: latency that a gateway adds, throughput, and CPU cost.
//!
//! Invariant: the endpoints take turns within each round, each in another order than in the round before.

use super::GatewayBench;
use super::closed_loop::{ClosedLoop, LoopResult};
use super::endpoint::{Call, Tool};
use super::report::{Bar, Line, Values};
use super::script::ScriptName;
use crate::bench::summary::{large, nearest_rank, two_decimals};
use anyhow::Result;

const MILLISECOND: u64 = 1_000_000;
const CONNECTIONS: usize = 50;
/// Rounds of fast streams through litellm: it is busy with those that were left for up to 20 s.
const LITELLM_ROUNDS: usize = 2;
/// With fewer events CPU per event is too coarse to report.
const MIN_EVENTS: f64 = 1_000.0;
/// What a delayed acknowledgement adds to a write that waits for it (ns).
const DELAYED_ACK_NS: std::ops::Range<u64> = 35 * MILLISECOND..50 * MILLISECOND;

/// A number of connections, and the names of its values in the report.
struct Level {
    connections: usize,
    /// Warm-up and window (ms).
    spans: (u64, u64),
    p50: &'static str,
    p99: &'static str,
    rate: &'static str,
    cpu: &'static str,
}

const ALONE: Level =
    Level { connections: 1, spans: (200, 1_200), p50: "1 p50", p99: "1 p99", rate: "1 rate", cpu: "1 call CPU" };
const LEVELS: [Level; 4] = [
    ALONE,
    Level { connections: 8, spans: (300, 1_500), p50: "8 p50", p99: "8 p99", rate: "8 rate", cpu: "8 call CPU" },
    Level {
        connections: CONNECTIONS,
        spans: (400, 2_000),
        p50: "50 p50",
        p99: "50 p99",
        rate: "50 rate",
        cpu: "50 call CPU",
    },
    Level {
        connections: 500,
        spans: (600, 2_000),
        p50: "500 p50",
        p99: "500 p99",
        rate: "500 rate",
        cpu: "500 call CPU",
    },
];

/// Answers in one piece, at each number of connections.
pub fn calls(bench: &mut GatewayBench) -> Result<()> {
    for round in 0..bench.rounds {
        for place in bench.turns(round) {
            let tool = bench.endpoints[place].tool;
            for level in &LEVELS {
                let done = closed_loop(bench, place, ScriptName::Instant, level.connections, level.spans);
                let Some(done) = bench.result_or_note(tool, "calls", done)? else { break };
                let summary = format!("{}, {} connections: {}", tool.name(), level.connections, summary(&done));
                bench.print_progress(round, &summary);
                keep(bench, tool, &done, level);
                bench.note_failures(tool, &format!("calls at {} connections", level.connections), &done);
            }
        }
    }
    report_calls(bench);
    Ok(())
}

/// Streams as fast as they go, 64 events a write and one.
pub fn streams(bench: &mut GatewayBench) -> Result<()> {
    for round in 0..bench.rounds {
        for place in bench.turns(round) {
            let tool = bench.endpoints[place].tool;
            if tool == Tool::LiteLlm && round >= LITELLM_ROUNDS {
                continue;
            }
            for (ask, rate, cpu) in
                [(ScriptName::Kind, "64 events/s", "64 CPU"), (ScriptName::Unkind, "1 events/s", "1 CPU")]
            {
                let done = closed_loop(bench, place, ask, CONNECTIONS, (300, 1_700));
                let Some(done) = bench.result_or_note(tool, "streams", done)? else { break };
                bench.print_progress(
                    round,
                    &format!("{}, {ask:?}: {} events/s", tool.name(), large(done.events_per_second())),
                );
                bench.values.add(rate, tool, done.events_per_second());
                if tool != Tool::Direct && done.events() >= MIN_EVENTS {
                    bench.values.add(cpu, tool, done.cpu_ns as f64 / 1e9 / (done.events() / 1e6));
                }
                bench.values.add("altered", tool, done.altered as f64);
                bench.values.add("answers", tool, done.calls as f64);
                bench.note_failures(tool, "streams", &done);
            }
        }
    }
    report_streams(bench);
    Ok(())
}

/// Warm-up and window in milliseconds.
fn closed_loop(
    bench: &GatewayBench,
    place: usize,
    ask: ScriptName,
    connections: usize,
    (warmup, window): (u64, u64),
) -> Result<LoopResult> {
    let endpoint = &bench.endpoints[place];
    let request = endpoint.request(Call { ask, id: 0, race: false });
    let expected = endpoint.tool.passes_bytes_on().then(|| ask.true_body());
    let closed_loop = ClosedLoop {
        endpoint,
        request: &request,
        expected: expected.as_deref(),
        connections,
        warmup_ns: warmup * MILLISECOND,
        window_ns: window * MILLISECOND,
    };
    let done = closed_loop.run();
    bench.wait_until_idle(place);
    done
}

fn keep(bench: &mut GatewayBench, tool: Tool, done: &LoopResult, level: &Level) {
    for (name, share) in [(level.p50, 0.5), (level.p99, 0.99)] {
        if let Some(time) = nearest_rank(&done.times, share) {
            bench.values.add(name, tool, time as f64 / 1e6);
        }
    }
    bench.values.add(level.rate, tool, done.calls_per_second());
    if tool != Tool::Direct {
        let thousands = done.calls as f64 / 1e3;
        bench.values.add(level.cpu, tool, done.cpu_ns as f64 / 1e9 / thousands.max(1e-3));
    }
    if level.connections == 1 {
        let late = done.times.iter().filter(|time| DELAYED_ACK_NS.contains(time)).count();
        bench.values.add("one late", tool, late as f64);
        bench.values.add("one calls", tool, done.calls as f64);
    }
}

fn summary(done: &LoopResult) -> String {
    let at = |level| nearest_rank(&done.times, level).map_or(f64::NAN, |time| time as f64 / 1e6);
    format!("{} calls/s, p50 {:.3} ms, p99 {:.3} ms", large(done.calls_per_second()), at(0.5), at(0.99))
}

fn report_calls(bench: &mut GatewayBench) {
    let values = &bench.values;
    let mut lines = Vec::new();
    for level in &LEVELS {
        let at = format!("{} connection{}", level.connections, if level.connections == 1 { "" } else { "s" });
        for (what, name) in [("p50", level.p50), ("p99", level.p99)] {
            let line = Line::of(format!("a call at {at}, {what} (ms)"), values, name, micros);
            lines.push(line.verdict("below every peer", beats_peers(values, name, f64::lt)));
        }
        let line = Line::of(format!("calls per second, {at}"), values, level.rate, large);
        lines.push(line.verdict("above every peer", beats_peers(values, level.rate, f64::gt)));
        let cpu = values.rounds(level.cpu, Tool::Tokrate).map(|rounds| rounds.median);
        let bar = if level.connections == CONNECTIONS { Bar::AtMost(0.04) } else { Bar::None };
        let line = Line::of(format!("CPU s of the gateway per 1,000 calls, {at}"), values, level.cpu, micros);
        lines.push(line.judged(bar, two_decimals, cpu, None));
    }
    for (what, name, most) in [
        ("added to a call at 1 connection, p50 (ms)", ALONE.p50, 0.07),
        ("added to a call at 1 connection, p99 (ms)", ALONE.p99, 0.15),
    ] {
        let added = values.added(name, Tool::Tokrate).map(|rounds| rounds.median);
        lines.push(Line::added(what, values, name, micros).judged(Bar::AtMost(most), micros, added, None));
    }
    lines.push(late_line(bench, "calls at 1 connection that took 35 to 50 ms (delayed ACK)", "one late", "one calls"));
    lines.into_iter().for_each(|line| bench.report.line(line));
}

/// Whether tokrate's median is on the right side of every peer's; `None` without a peer.
fn beats_peers(values: &Values, name: &'static str, is_better: fn(&f64, &f64) -> bool) -> Option<bool> {
    let median = |tool| values.rounds(name, tool).map(|rounds| rounds.median);
    let peers: Vec<f64> = Tool::PEERS.into_iter().filter_map(median).collect();
    let own = median(Tool::Tokrate).filter(|_| !peers.is_empty())?;
    Some(peers.iter().all(|peer| is_better(&own, peer)))
}

/// How many were as late as a delayed acknowledgement makes them. A mode shows in far more than one of 200.
pub fn late_line(bench: &GatewayBench, what: &str, late: &'static str, all: &'static str) -> Line {
    let mut line = Line::new(what);
    let mut met = None;
    for tool in Tool::ALL {
        if let (Some(late), Some(all)) = (bench.values.sum(late, tool), bench.values.sum(all, tool)) {
            line = line.cell(tool, format!("{late:.0} of {all:.0}"));
            met = if tool == Tool::Tokrate { Some(late <= all / 200.0) } else { met };
        }
    }
    line.verdict("≤ 0.5 %", met)
}

fn report_streams(bench: &mut GatewayBench) {
    let values = &bench.values;
    let median = |name, tool| values.rounds(name, tool).map(|rounds| rounds.median);
    let mut lines = Vec::new();
    for (what, rate, cpu) in
        [("64 events a write", "64 events/s", "64 CPU"), ("1 event a write and segment", "1 events/s", "1 CPU")]
    {
        let floor = median(rate, Tool::Direct);
        let bar = Bar::AtLeastAsFloor(1e6);
        lines.push(Line::of(format!("events per second, 50 connections, {what}"), values, rate, large).judged(
            bar,
            large,
            median(rate, Tool::Tokrate),
            floor,
        ));
        let reachable = floor.is_some_and(|floor| floor >= 1e6);
        let bar = if reachable { Bar::AtMost(2.0) } else { Bar::None };
        lines.push(
            Line::of(format!("CPU s of the gateway per million events, {what}"), values, cpu, two_decimals).judged(
                bar,
                two_decimals,
                median(cpu, Tool::Tokrate),
                None,
            ),
        );
    }
    let mut line = Line::new("answers that were not byte for byte what was sent");
    for tool in Tool::ALL {
        let Some((altered, answers)) = values.sum("altered", tool).zip(values.sum("answers", tool)) else { continue };
        let text =
            if tool.passes_bytes_on() { format!("{altered:.0} of {answers:.0}") } else { "written anew".to_owned() };
        line = line.cell(tool, text);
    }
    let altered = values.sum("altered", Tool::Tokrate);
    lines.push(line.verdict("0", altered.map(|altered| altered == 0.0)));
    lines.into_iter().for_each(|line| bench.report.line(line));
}

fn micros(value: f64) -> String {
    format!("{value:.3}")
}
