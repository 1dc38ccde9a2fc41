//! How many events per second are read, decoded and metered, and what that costs.
//!
//! Invariant: floor and tokrate read the same bytes from the same server, in turn.

use super::blast::Blast;
use super::client::{Load, Outcome};
use super::events::Script;
use super::summary::{Rounds, large, two_decimals};
use super::table::Line;
use super::{Report, Stage};
use anyhow::Result;

/// How many unless others are asked for.
pub const CONNECTIONS: usize = 50;
/// How much worse than a bare reader with rustls tokrate may be over TLS.
const OVER_TLS: f64 = 1.3;

/// One shape of stream.
struct Stream {
    name: &'static str,
    events_per_write: u32,
    /// Whether every write is a segment of its own.
    at_once: bool,
    /// Enough threads that the client and not the server is the bottleneck.
    server_threads: usize,
    /// Events of one answer.
    events: u32,
    requests: u64,
    tls: bool,
    bar: Bar,
}

/// What is asked of events per second and of CPU.
enum Bar {
    EventsPerSecond(f64),
    ShareOfFloor(f64),
    /// Neither rate nor CPU is worse than the floor's by more than this factor.
    WithinFloor(f64),
    /// None: the server is the bottleneck, and the floor costs more than the bar allows.
    Nothing,
}

/// 64 events a write.
pub fn many_per_write(stage: &Stage) -> Result<Report> {
    let stream = Stream {
        name: "64 events a write",
        events_per_write: 64,
        at_once: true,
        server_threads: 1,
        events: 19_200,
        requests: 200,
        tls: false,
        bar: Bar::EventsPerSecond(1.5e6),
    };
    measure(stage, &stream)
}

/// One event a write, on sockets as they are by default: the kernel joins segments, so reads bring many events.
pub fn one_per_write(stage: &Stage) -> Result<Report> {
    let stream = Stream {
        name: "1 event a write",
        events_per_write: 1,
        at_once: false,
        server_threads: 2,
        events: 10_000,
        requests: 200,
        tls: false,
        bar: Bar::ShareOfFloor(0.7),
    };
    measure(stage, &stream)
}

/// One event a write and a segment: reads bring few events, and the kernel's cost is most of it.
pub fn one_per_segment(stage: &Stage) -> Result<Report> {
    let stream = Stream {
        name: "1 event a write and segment (TCP_NODELAY)",
        events_per_write: 1,
        at_once: true,
        server_threads: 1,
        events: 4_000,
        requests: 150,
        tls: false,
        bar: Bar::Nothing,
    };
    measure(stage, &stream)
}

/// 64 events a write, over TLS; the floor is a bare reader with rustls.
pub fn many_per_record(stage: &Stage) -> Result<Report> {
    let stream = Stream {
        name: "over TLS, 64 events a write",
        events_per_write: 64,
        at_once: true,
        server_threads: 1,
        events: 19_200,
        requests: 100,
        tls: true,
        bar: Bar::WithinFloor(OVER_TLS),
    };
    measure(stage, &stream)
}

/// One event a TLS record, as servers send that flush every token.
pub fn one_per_record(stage: &Stage) -> Result<Report> {
    let stream = Stream {
        name: "over TLS, 1 event a record",
        events_per_write: 1,
        at_once: false,
        server_threads: 2,
        events: 10_000,
        requests: 100,
        tls: true,
        bar: Bar::WithinFloor(OVER_TLS),
    };
    measure(stage, &stream)
}

fn measure(stage: &Stage, stream: &Stream) -> Result<Report> {
    let script = Script::new(stream.events, stream.events_per_write, true);
    let server =
        Blast::start(vec![script], stream.server_threads, stream.at_once, stream.tls.then_some(&stage.clients.tls))?;
    let requests = stream.requests.max(2 * stage.connections as u64);
    let load =
        Load { address: server.address, concurrency: stage.connections, requests, tls: stream.tls, ..Load::default() };
    let what = stream.name;
    let (mut floor, mut tokrate) = (Series::default(), Series::default());
    let mut notes = Vec::new();
    for round in 0..stage.rounds {
        floor.add(&stage.clients.floor(&load)?);
        stage.print_progress(round, &format!("{what}: floor {}", floor.last()));
        if stage.floor_only {
            continue;
        }
        let outcome = stage.clients.tokrate(&load)?;
        tokrate.add(&outcome);
        stage.print_progress(round, &format!("{what}: tokrate {}", tokrate.last()));
        let truth = u64::from(stream.events) * requests;
        if outcome.events() != truth || outcome.failed().0 > 0 {
            notes.push(format!(
                "{what}: tokrate counted {} of {truth} text events, {:?} requests failed",
                outcome.events(),
                outcome.failed()
            ));
        }
    }
    let lines = vec![
        rate_line(stage.connections, stream, &floor, &tokrate),
        cpu_line(stream, true, &floor.cpu, &tokrate.cpu),
        cpu_line(stream, false, &floor.phase_cpu, &tokrate.phase_cpu),
    ];
    Ok(Report { lines, notes })
}

/// What the rounds of one client gave.
#[derive(Default)]
struct Series {
    rate: Vec<f64>,
    cpu: Vec<f64>,
    phase_cpu: Vec<f64>,
}

impl Series {
    fn add(&mut self, outcome: &Outcome) {
        let millions = outcome.events().max(1) as f64 / 1e6;
        self.rate.push(outcome.events_per_second().unwrap_or(0.0));
        self.cpu.push(outcome.cost.cpu_ns as f64 / 1e9 / millions);
        self.phase_cpu.extend(outcome.phase_cpu_ns.map(|cpu| cpu as f64 / 1e9 / millions));
    }

    fn last(&self) -> String {
        let (rate, cpu) = (self.rate.last().copied().unwrap_or(0.0), self.cpu.last().copied().unwrap_or(0.0));
        format!("{} events/s, {cpu:.2} CPU s per million", large(rate))
    }
}

fn rate_line(connections: usize, stream: &Stream, floor: &Series, tokrate: &Series) -> Line {
    let floor_rate = Rounds::of(floor.rate.clone());
    let rate = Rounds::of(tokrate.rate.clone());
    let share = rate.zip(floor_rate).map(|(rate, floor)| rate.median / floor.median);
    let (bar, met) = match stream.bar {
        Bar::EventsPerSecond(least) => (format!("≥ {}", large(least)), rate.map(|rate| rate.median >= least)),
        Bar::ShareOfFloor(least) => {
            (format!("≥ {:.0} % of the floor", least * 100.0), share.map(|share| share >= least))
        }
        Bar::WithinFloor(factor) => {
            (format!("≥ {:.0} % of the floor", 100.0 / factor), share.map(|share| share >= 1.0 / factor))
        }
        Bar::Nothing => ("-".to_owned(), None),
    };
    Line {
        what: format!("events per second, {connections} connections, {}", stream.name),
        floor: show(floor_rate, large),
        tokrate: show(rate, large),
        against: share.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0)),
        bar,
        met,
    }
}

/// The costs of the whole process, or while the clock ran.
fn cpu_line(stream: &Stream, counts_tokens: bool, floor: &[f64], tokrate: &[f64]) -> Line {
    let what = if counts_tokens { "whole process with token counting" } else { "while the clock ran" };
    let cpu = Rounds::of(tokrate.to_vec());
    let floor = Rounds::of(floor.to_vec());
    let (bar, met) = match stream.bar {
        Bar::WithinFloor(factor) => {
            (format!("≤ {factor} × the floor"), cpu.zip(floor).map(|(cpu, floor)| cpu.median <= factor * floor.median))
        }
        Bar::Nothing => ("-".to_owned(), None),
        _ => ("≤ 1.0".to_owned(), cpu.map(|cpu| cpu.median <= 1.0)),
    };
    Line {
        what: format!("CPU s per million events, {what}, {}", stream.name),
        floor: show(floor, two_decimals),
        tokrate: show(cpu, two_decimals),
        against: times(cpu, floor),
        bar,
        met,
    }
}

/// Rounds as text, a dash without any.
pub fn show(rounds: Option<Rounds>, write: fn(f64) -> String) -> String {
    rounds.map_or("-".to_owned(), |rounds| rounds.show(write))
}

/// One median as a multiple of another.
pub fn times(one: Option<Rounds>, other: Option<Rounds>) -> String {
    one.zip(other).map_or("-".to_owned(), |(one, other)| format!("{:.1} ×", one.median / other.median))
}
