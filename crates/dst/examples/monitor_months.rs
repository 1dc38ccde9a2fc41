//! Two months of 200 endpoints in virtual time: prober, meter, store and detector, with planted truth.
//! `cargo run --release -p tokrate-dst --example monitor_months [ENDPOINTS] [DAYS]`.
#![allow(clippy::print_stdout)]
#![allow(clippy::disallowed_methods, reason = "measures real time")]

use std::time::Instant;
use tokrate_dst::monitor::{Scenario, check, run};

fn main() {
    let number = |place| std::env::args().nth(place).and_then(|word| word.parse().ok());
    let (endpoints, days) = (number(1).unwrap_or(200), number(2).unwrap_or(60));
    let folder = std::env::temp_dir().join(format!("tokrate-months-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (scenario, begun) = (Scenario::months(endpoints as usize, days), Instant::now());
    let history = run(&scenario, &folder.join("monitor.db")).expect("a database");
    let took = begun.elapsed().as_secs_f64();
    let bytes = std::fs::metadata(folder.join("monitor.db")).map_or(0, |file| file.len());
    let regressions: Vec<String> = history
        .events
        .iter()
        .filter(|event| event.kind == "regression")
        .map(|event| format!("{} {}", event.endpoint, event.metric))
        .collect();
    println!(
        "{endpoints} endpoints x {days} days: {} requests in {took:.1} s, {:.0} MB; {} events, regressions {regressions:?}; wrong: {:?}",
        history.kept.len(),
        bytes as f64 / 1e6,
        history.events.len(),
        check(&scenario, &history)
    );
    std::fs::remove_dir_all(&folder).expect("there");
}
