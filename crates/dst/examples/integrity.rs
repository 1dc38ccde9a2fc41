//! Asks honest and cheating engines and prints the table of the integrity checks in docs/method.md:
//! `cargo run --release -p tokrate-dst --example integrity [RUNS [FIRST SEED]]`.

#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use tokrate_dst::integrity::{CHEATS, cheating, findings, honest};
use tokrate_record::SuspicionKind;

/// Runs of each cheat, strength and number of requests.
const CHEATING: u64 = 50;

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a whole number"));
    let (runs, from) = (numbers.next().unwrap_or(10_000), numbers.next().unwrap_or(0));
    let mut false_alarms: BTreeMap<SuspicionKind, Vec<u64>> = BTreeMap::new();
    let mut asked = 0;
    for seed in from..from + runs {
        let (seen, measured) = findings(&honest(seed));
        asked += measured;
        seen.into_keys().for_each(|kind| false_alarms.entry(kind).or_default().push(seed));
    }
    println!("{runs} honest runs, {asked} answers");
    println!("| check | honest runs with a finding | at most (95 %) | seen at 10 %: n = 20, 60, 200 | 50 % | 100 % |");
    println!("|---|---|---|---|---|---|");
    for (cheat, kind) in CHEATS {
        let seeds = false_alarms.get(&kind).cloned().unwrap_or_default();
        let most = tokrate_stats::wilson_interval(seeds.len() as u64, runs, 0.95).map_or(1.0, |ends| ends.high);
        let power = |share: f64| {
            let of = |n: u64| {
                let seen = |seed: &u64| findings(&cheating(*seed, cheat, share, n)).0.contains_key(&kind);
                format!("{:.0} %", 100.0 * (from..from + CHEATING).filter(seen).count() as f64 / CHEATING as f64)
            };
            [of(20), of(60), of(200)].join(", ")
        };
        let name = kind.name();
        println!(
            "| `{name}` | {} | {:.3} % | {} | {} | {} |",
            seeds.len(),
            most * 100.0,
            power(0.1),
            power(0.5),
            power(1.0)
        );
        if !seeds.is_empty() {
            println!("{name}: seeds {:?}", &seeds[..seeds.len().min(20)]);
        }
    }
}
