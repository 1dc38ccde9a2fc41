//! Calls and streams as fast as they go: what a gateway adds to a call, how many it carries, and what that costs.
//!
//! Invariant: the doors take turns within each round, each in another order than in the round before.

use super::Theatre;
use super::door::{Call, Tool};
use super::flood::{Flood, Flooded};
use super::play::Ask;
use super::report::{Bar, Line};
use crate::bench::summary::{large, nearest_rank, two_decimals};
use anyhow::Result;

const MILLISECOND: u64 = 1_000_000;
const CONNECTIONS: usize = 50;
/// Rounds of fast streams through litellm: it is busy with those that were left for up to 20 s.
const LITELLM_ROUNDS: usize = 2;
/// Fewer events than this tell no costs.
const EVENTS_LEAST: f64 = 1_000.0;
/// What a delayed acknowledgement adds to a write that waits for it (ns).
const DELAYED_ACK_NS: std::ops::Range<u64> = 35 * MILLISECOND..50 * MILLISECOND;

/// Names of what is kept of a call.
struct Times {
    p50: &'static str,
    p99: &'static str,
}

const ALONE: Times = Times { p50: "one p50", p99: "one p99" };
const CROWDED: Times = Times { p50: "fifty p50", p99: "fifty p99" };

/// Answers in one piece, at one connection and at 50.
pub fn calls(theatre: &mut Theatre) -> Result<()> {
    for round in 0..theatre.rounds {
        for place in theatre.turns(round) {
            let tool = theatre.doors[place].tool;
            let both = flood(theatre, place, Ask::Instant, 1, (200, 1_200))
                .and_then(|alone| Ok((alone, flood(theatre, place, Ask::Instant, CONNECTIONS, (400, 2_000))?)));
            let Some((alone, crowd)) = theatre.excused(tool, "calls", both)? else { continue };
            theatre.tell(round, &format!("{}: {}, then {}", tool.name(), told(&alone), told(&crowd)));
            keep_times(theatre, tool, &alone, &ALONE);
            keep_times(theatre, tool, &crowd, &CROWDED);
            let late = alone.times.iter().filter(|time| DELAYED_ACK_NS.contains(time)).count();
            theatre.values.add("one late", tool, late as f64);
            theatre.values.add("one calls", tool, alone.calls as f64);
            theatre.values.add("calls/s", tool, crowd.calls_per_second());
            if tool != Tool::Direct {
                let thousands = crowd.calls as f64 / 1e3;
                theatre.values.add("CPU/call", tool, crowd.cpu_ns as f64 / 1e9 / thousands.max(1e-3));
            }
            theatre.suspect(tool, "calls", &alone);
            theatre.suspect(tool, "calls at 50 connections", &crowd);
        }
    }
    report_calls(theatre);
    Ok(())
}

/// Streams as fast as they go, 64 events a write and one.
pub fn streams(theatre: &mut Theatre) -> Result<()> {
    for round in 0..theatre.rounds {
        for place in theatre.turns(round) {
            let tool = theatre.doors[place].tool;
            if tool == Tool::LiteLlm && round >= LITELLM_ROUNDS {
                continue;
            }
            for (ask, rate, cpu) in [(Ask::Kind, "64 events/s", "64 CPU"), (Ask::Unkind, "1 events/s", "1 CPU")] {
                let done = flood(theatre, place, ask, CONNECTIONS, (300, 1_700));
                let Some(done) = theatre.excused(tool, "streams", done)? else { break };
                theatre.tell(round, &format!("{}, {ask:?}: {} events/s", tool.name(), large(done.events_per_second())));
                theatre.values.add(rate, tool, done.events_per_second());
                if tool != Tool::Direct && done.events() >= EVENTS_LEAST {
                    theatre.values.add(cpu, tool, done.cpu_ns as f64 / 1e9 / (done.events() / 1e6));
                }
                theatre.values.add("altered", tool, done.altered as f64);
                theatre.values.add("answers", tool, done.calls as f64);
                theatre.suspect(tool, "streams", &done);
            }
        }
    }
    report_streams(theatre);
    Ok(())
}

/// Warm-up and window in milliseconds.
fn flood(
    theatre: &Theatre,
    place: usize,
    ask: Ask,
    connections: usize,
    (warmup, window): (u64, u64),
) -> Result<Flooded> {
    let door = &theatre.doors[place];
    let request = door.request(Call { ask, id: 0, race: false });
    let expected = door.tool.passes_bytes_on().then(|| ask.true_body());
    let flood = Flood {
        door,
        request: &request,
        expected: expected.as_deref(),
        connections,
        warmup_ns: warmup * MILLISECOND,
        window_ns: window * MILLISECOND,
    };
    let done = flood.run();
    theatre.settle(place);
    done
}

fn keep_times(theatre: &mut Theatre, tool: Tool, done: &Flooded, names: &Times) {
    for (name, level) in [(names.p50, 0.5), (names.p99, 0.99)] {
        if let Some(time) = nearest_rank(&done.times, level) {
            theatre.values.add(name, tool, time as f64 / 1e6);
        }
    }
}

fn told(done: &Flooded) -> String {
    let at = |level| nearest_rank(&done.times, level).map_or(f64::NAN, |time| time as f64 / 1e6);
    format!("{} calls/s, p50 {:.3} ms, p99 {:.3} ms", large(done.calls_per_second()), at(0.5), at(0.99))
}

fn report_calls(theatre: &mut Theatre) {
    let values = &theatre.values;
    let mut lines = vec![
        Line::of("a call at 1 connection, p50 (ms)", values, ALONE.p50, micros),
        Line::of("a call at 1 connection, p99 (ms)", values, ALONE.p99, micros),
    ];
    for (what, name, most) in [
        ("added to a call at 1 connection, p50 (ms)", ALONE.p50, 0.07),
        ("added to a call at 1 connection, p99 (ms)", ALONE.p99, 0.15),
    ] {
        let added = values.added(name, Tool::Tokrate).map(|rounds| rounds.median);
        lines.push(Line::added(what, values, name, micros).judged(Bar::AtMost(most), micros, added, None));
    }
    for (what, name) in
        [("a call at 50 connections, p50 (ms)", CROWDED.p50), ("a call at 50 connections, p99 (ms)", CROWDED.p99)]
    {
        let median = |tool| values.rounds(name, tool).map(|rounds| rounds.median);
        let peers: Vec<f64> = [Tool::TensorZero, Tool::LiteLlm].into_iter().filter_map(median).collect();
        let below = median(Tool::Tokrate).filter(|_| !peers.is_empty());
        let met = below.map(|own| peers.iter().all(|peer| own < *peer));
        lines.push(Line::of(what, values, name, micros).verdict("below every peer", met));
    }
    let rate = |tool| values.rounds("calls/s", tool).map(|rounds| rounds.median);
    lines.push(Line::of("calls per second, 50 connections", values, "calls/s", large).judged(
        Bar::AtLeastAsFloor(20_000.0),
        large,
        rate(Tool::Tokrate),
        rate(Tool::Direct),
    ));
    let cpu = values.rounds("CPU/call", Tool::Tokrate).map(|rounds| rounds.median);
    lines.push(Line::of("CPU s of the gateway per 1,000 calls, 50 connections", values, "CPU/call", micros).judged(
        Bar::AtMost(0.05),
        two_decimals,
        cpu,
        None,
    ));
    lines.push(late_line(
        theatre,
        "calls at 1 connection that took 35 to 50 ms (delayed ACK)",
        "one late",
        "one calls",
    ));
    lines.into_iter().for_each(|line| theatre.report.line(line));
}

/// How many were as late as a delayed acknowledgement makes them. A mode shows in far more than one of 200.
pub fn late_line(theatre: &Theatre, what: &str, late: &'static str, all: &'static str) -> Line {
    let mut line = Line::new(what);
    let mut met = None;
    for tool in Tool::ALL {
        if let (Some(late), Some(all)) = (theatre.values.sum(late, tool), theatre.values.sum(all, tool)) {
            line = line.cell(tool, format!("{late:.0} of {all:.0}"));
            met = if tool == Tool::Tokrate { Some(late <= all / 200.0) } else { met };
        }
    }
    line.verdict("≤ 0.5 %", met)
}

fn report_streams(theatre: &mut Theatre) {
    let values = &theatre.values;
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
    lines.into_iter().for_each(|line| theatre.report.line(line));
}

fn micros(value: f64) -> String {
    format!("{value:.3}")
}
