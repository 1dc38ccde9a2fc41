//! Months of 200 endpoints in virtual time: prober, meter, store and detector, with planted truth.
//! `cargo run --release -p tokrate-dst --example monitor_months [ENDPOINTS] [DAYS]`: time and what is found; with `memory` after the days:
//! nothing is kept, and the memory of the process stands after each month. Lines of bars are for `cargo xtask bench monitor`.
#![allow(clippy::print_stdout)]
#![allow(clippy::disallowed_methods, reason = "measures real time")]

use std::path::Path;
use std::time::Instant;
use tokrate_dst::monitor::{Scenario, check, run, watch};

/// Two months in less than a minute.
const MOST_SECONDS: f64 = 60.0;
/// Of a monitor after a year.
const MOST_MIB: f64 = 60.0;
/// A process grows by less than this in half a year if nothing in it grows: the pages of its allocator come and go.
const FLAT: f64 = 1.05;

fn main() {
    let argument = |place| std::env::args().nth(place);
    let number = |place| argument(place).and_then(|word| word.parse().ok());
    let (endpoints, days) = (number(1).unwrap_or(200), number(2).unwrap_or(60));
    let folder = std::env::temp_dir().join(format!("tokrate-months-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let scenario = Scenario::months(endpoints as usize, days);
    if argument(3).as_deref() == Some("memory") {
        memory(&scenario, &folder);
    } else {
        months(&scenario, &folder);
    }
    std::fs::remove_dir_all(&folder).expect("there");
}

fn months(scenario: &Scenario, folder: &Path) {
    let begun = Instant::now();
    let history = run(scenario, &folder.join("monitor.db")).expect("a database");
    let took = begun.elapsed().as_secs_f64();
    let bytes = std::fs::metadata(folder.join("monitor.db")).map_or(0, |file| file.len());
    let regressions: Vec<String> = history
        .events
        .iter()
        .filter(|event| event.kind == "regression")
        .map(|event| format!("{} {}", event.endpoint, event.metric))
        .collect();
    let wrong = check(scenario, &history);
    let (endpoints, days) = (scenario.endpoints, scenario.days);
    println!(
        "{endpoints} endpoints x {days} days: {} requests in {took:.1} s, {:.0} MB; {} events, regressions {regressions:?}; wrong: {wrong:?}",
        history.kept.len(),
        bytes as f64 / 1e6,
        history.events.len(),
    );
    let is_met = took < MOST_SECONDS && wrong.is_empty();
    bar(&format!("{endpoints} endpoints x {days} days in virtual time"), "< 60 s", &format!("{took:.1} s"), is_met);
}

fn memory(scenario: &Scenario, folder: &Path) {
    let mut held = Vec::new();
    let counted = watch(scenario, &folder.join("monitor.db"), |day| {
        let mib = resident_mib();
        println!("day {day}: {mib:.1} MiB");
        held.push(mib);
    });
    let (requests, events) = counted.expect("a database");
    let (endpoints, days) = (scenario.endpoints, scenario.days);
    println!("{endpoints} endpoints x {days} days: {requests} requests, {events} events");
    let last = held.last().copied().unwrap_or(0.0);
    let middle = held.get(held.len() / 2).copied().unwrap_or(last);
    let figure = format!("{last:.1} MiB, {middle:.1} MiB in the middle");
    let what = format!("memory of a monitor of {endpoints} endpoints after {days} days, the simulated fleet included");
    bar(&what, "<= 60 MiB, flat", &figure, last <= MOST_MIB && last <= middle * FLAT);
}

/// What the process holds (Linux; 0 elsewhere).
fn resident_mib() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1_024.0
}

fn bar(what: &str, bar: &str, figure: &str, is_met: bool) {
    println!("BAR|{what}|{bar}|{figure}|{}", if is_met { "met" } else { "missed" });
}
