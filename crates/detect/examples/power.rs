//! False alarms and power of the detector on synthetic days: 8 probes a day, log-normal spread, 3 % bad values, a daily cycle of
//! 30 %, one or two numbers of each endpoint. `cargo run --release -p tokrate-detect --example power [ENDPOINTS [SEED]]`. Lines of
//! bars are for `cargo xtask bench monitor`.
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::f64::consts::TAU;
use tokrate_core::Rng;
use tokrate_detect::{ChangeKind, Detector, Event, FalseAlarms, Sample, Source};

const HOUR_MS: i64 = 3_600_000;
const PROBES_A_DAY: i64 = 8;
/// Further probes after a suspicion, and how long until the next suspicion asks for some, as in a monitor.
const EXTRA_PROBES: i64 = 8;
const EXTRA_PAUSE_MS: i64 = 6 * HOUR_MS;

/// What happens to an endpoint.
#[derive(Clone, Copy)]
struct World {
    spread: f64,
    days: i64,
    /// Share by which the output speed falls, and when (ms).
    drop: f64,
    at: i64,
    /// Time to the first token doubles for two hours each evening from then on.
    evenings: bool,
    with_extra_probes: bool,
    /// Whether a sample has a time to the first token beside its speed.
    two_numbers: bool,
}

impl World {
    /// How further probes are named in a bar.
    fn extra(&self) -> &'static str {
        if self.with_extra_probes { ", with further probes" } else { "" }
    }

    fn numbers(&self) -> &'static str {
        if self.two_numbers { "two numbers" } else { "one number" }
    }
}

/// What `of` finds of each endpoint, worked out by all cores.
fn each<T: Send>(endpoints: u64, of: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    std::thread::scope(|scope| {
        let of = &of;
        let part = |first: u64| move || (first..endpoints).step_by(threads as usize).map(of).collect::<Vec<T>>();
        let running: Vec<_> = (0..threads).map(|first| scope.spawn(part(first))).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    })
}

/// One endpoint's events with when they were known (ms), and how many further probes were asked for. A monitor that sends such judges the
/// samples of a slot when that has ended; else each is judged when it comes.
fn run(world: &World, seed: u64) -> (Vec<(i64, Event)>, usize) {
    let mut rng = Rng::root(seed).child("endpoint");
    let phase = rng.unit() * 24.0;
    let allowed = FalseAlarms::default();
    let allowed = if world.with_extra_probes { allowed.with_further_probes() } else { allowed };
    let mut detector = Detector::new(allowed);
    let source = Source { endpoint: "a/b".to_owned(), workload: String::new(), place: String::new() };
    let (mut events, mut extra, mut asked_at, mut further) = (Vec::new(), 0, i64::MIN / 2, Vec::new());
    for slot in 0..world.days * PROBES_A_DAY {
        let slot_ms = 24 * HOUR_MS / PROBES_A_DAY;
        let ends = (slot + 1) * slot_ms;
        let mut times = std::mem::take(&mut further);
        times.push(slot * slot_ms + (rng.unit() * (slot_ms - HOUR_MS) as f64) as i64);
        times.sort_unstable();
        for at in times {
            let found = detector.push(sample(world, &source, at, phase, &mut rng));
            let known = |event: &Event| if world.with_extra_probes { ends } else { event.at };
            events.extend(found.into_iter().map(|event| (known(&event), event)));
        }
        let is_suspect = !detector.take_suspects().is_empty();
        if is_suspect && world.with_extra_probes && ends - asked_at >= EXTRA_PAUSE_MS {
            asked_at = ends;
            extra += EXTRA_PROBES as usize;
            further.extend((1..=EXTRA_PROBES).map(|nth| ends + nth * HOUR_MS / (EXTRA_PROBES + 1)));
        }
    }
    events.extend(detector.end_hour().into_iter().map(|event| (event.at, event)));
    (events, extra)
}

fn sample(world: &World, source: &Source, at: i64, phase: f64, rng: &mut Rng) -> Sample {
    let hour = (at as f64 / HOUR_MS as f64).rem_euclid(24.0);
    let cycle = 1.0 + 0.3 * ((hour - phase) / 24.0 * TAU).cos();
    let value = |rng: &mut Rng| {
        let bad = if rng.chance(0.03) { if rng.chance(0.5) { 0.2 } else { 4.0 } } else { 1.0 };
        (world.spread * rng.normal()).exp() * bad
    };
    let speed = 100.0 * cycle * value(rng) * if at >= world.at { 1.0 - world.drop } else { 1.0 };
    let is_evening = world.evenings && at >= world.at && (19.0..21.0).contains(&hour);
    let ttft = 400.0 / cycle * value(rng) * if is_evening { 2.0 } else { 1.0 };
    let ttft_ms = (world.two_numbers || world.evenings).then_some(ttft);
    Sample {
        at,
        source: source.clone(),
        ttft_ms,
        output_speed: Some(speed),
        e2e_ms: None,
        ok: true,
        in_flight: None,
        input_tokens: None,
    }
}

/// A bar with what was reached.
fn bar(what: &str, bar: &str, figure: &str, is_met: bool) {
    println!("BAR|{what}|{bar}|{figure}|{}", if is_met { "met" } else { "missed" });
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|word| word.parse().ok());
    let endpoints: u64 = arguments.next().unwrap_or(200);
    let seed = arguments.next().unwrap_or(0) * 1_000_000;
    let still = World {
        spread: 0.0,
        days: 60,
        drop: 0.0,
        at: i64::MAX,
        evenings: false,
        with_extra_probes: false,
        two_numbers: true,
    };
    let kinds = [(true, false), (false, false), (true, true)];
    let kinds = kinds.map(|(two_numbers, with_extra_probes)| World { two_numbers, with_extra_probes, ..still });
    false_alarms(endpoints, seed, &kinds);
    drops(endpoints, seed + 10_000, &kinds);
    evenings(endpoints, seed + 20_000, still);
}

fn false_alarms(endpoints: u64, seed: u64, worlds: &[World]) {
    println!(
        "| numbers | spread | extra probes | false events per endpoint and 30 days | by kind | extra probes a month |"
    );
    println!("|---|---|---|---|---|---|");
    for world in worlds {
        for spread in [0.10, 0.15, 0.20, 0.25, 0.30] {
            let world = World { spread, ..*world };
            let (mut kinds, mut extra) = (BTreeMap::<ChangeKind, f64>::new(), 0);
            for (events, asked) in each(endpoints, |endpoint| run(&world, seed + endpoint)) {
                extra += asked;
                events.iter().for_each(|(_, event)| *kinds.entry(event.kind).or_default() += 0.5 / endpoints as f64);
            }
            let all: f64 = kinds.values().sum();
            let extra = extra as f64 / 2.0 / endpoints as f64;
            let (numbers, with) = (world.numbers(), world.with_extra_probes);
            println!("| {numbers} | {spread:.2} | {with} | {all:.3} | {kinds:.3?} | {extra:.1} |");
            let what = format!("detector: false events per endpoint and 30 days, {numbers}, spread {spread:.2}");
            bar(&format!("{what}{}", world.extra()), "<= 0.05", &format!("{all:.3}"), all <= 0.05);
        }
    }
}

fn drops(endpoints: u64, seed: u64, worlds: &[World]) {
    println!("\n| numbers | spread | drop | extra probes | found in time | median delay (h) | 90 % (h) |");
    println!("|---|---|---|---|---|---|---|");
    for world in worlds {
        for (spread, drop, hours, wanted) in [(0.30, 0.2, 72, 0.85), (0.15, 0.1, 96, 0.85), (0.15, 0.2, 72, 0.98)] {
            let world = World { spread, drop, days: 45, ..*world };
            let mut delays = each(endpoints, |endpoint| {
                let at = (30 * 24 + (endpoint as i64 * 7) % 24) * HOUR_MS;
                let (events, _) = run(&World { at, ..world }, seed + endpoint);
                let found = events.iter().find(|(_, event)| {
                    event.at >= at && event.kind == ChangeKind::Regression && event.metric == "output_speed"
                });
                found.map_or(i64::MAX, |(known, _)| known - at)
            });
            delays.sort_unstable();
            let share = delays.iter().filter(|delay| **delay <= hours * HOUR_MS).count() as f64 / endpoints as f64;
            let at = |share: f64| delays[(endpoints as f64 * share) as usize] as f64 / HOUR_MS as f64;
            let (numbers, reached, with) = (world.numbers(), share * 100.0, world.with_extra_probes);
            println!(
                "| {numbers} | {spread:.2} | {drop} | {with} | {reached:.1} % within {hours} h | {:.1} | {:.1} |",
                at(0.5),
                at(0.9)
            );
            let what =
                format!("detector: drop of {:.0} % at spread {spread:.2}, {numbers}{}", drop * 100.0, world.extra());
            let wanted_share = format!(">= {:.0} % in {hours} h", wanted * 100.0);
            bar(&what, &wanted_share, &format!("{reached:.1} %"), share >= wanted);
            if drop > 0.1 {
                let hours = if world.with_extra_probes { 10.0 } else { 30.0 };
                let what = format!("{what}: median delay");
                bar(&what, &format!("<= {hours:.0} h"), &format!("{:.1} h", at(0.5)), at(0.5) <= hours);
            }
        }
    }
}

fn evenings(endpoints: u64, seed: u64, still: World) {
    println!("\n| spread | two hours each evening: events by kind, per endpoint in 30 days |\n|---|---|");
    for spread in [0.10, 0.15, 0.20, 0.30] {
        let world = World { spread, at: 30 * 24 * HOUR_MS, evenings: true, ..still };
        let mut kinds = BTreeMap::<ChangeKind, f64>::new();
        for (events, _) in each(endpoints, |endpoint| run(&world, seed + endpoint)) {
            events.iter().for_each(|(_, event)| *kinds.entry(event.kind).or_default() += 1.0 / endpoints as f64);
        }
        println!("| {spread:.2} | {kinds:.3?} |");
        let cycles = kinds.get(&ChangeKind::Cycle).copied().unwrap_or(0.0);
        let what = format!("detector: two hours each evening at spread {spread:.2}: cycle events of an endpoint");
        bar(&what, "1", &format!("{cycles:.2}"), (cycles - 1.0).abs() <= 0.05);
    }
}
