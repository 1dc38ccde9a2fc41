//! Sweeps simulated engines whose capacity is known and prints the table of docs/method.md:
//! `cargo run --release -p tokrate-dst --example capacity [ENGINES]`.

#![allow(clippy::print_stdout)]

use tokrate_dst::capacity::{Kind, Sweep, Verdict};

fn main() {
    let engines: u64 = std::env::args().nth(1).and_then(|engines| engines.parse().ok()).unwrap_or(200);
    let from: u64 = std::env::args().nth(2).and_then(|from| from.parse().ok()).unwrap_or(0);
    let verbose = std::env::var_os("VERBOSE").is_some();
    let mut rows: Vec<(Kind, usize, Verdict)> = Vec::new();
    for seed in from..from + engines {
        let sweep = Sweep::random(seed);
        let (truth, curve) = (sweep.truth(), sweep.run());
        let capacity = &curve.capacity;
        let figures =
            [(&capacity.slows, truth.slows), (&capacity.nearly_all, truth.nearly_all), (&capacity.waits, truth.waits)];
        for (place, (figure, truth)) in figures.into_iter().enumerate() {
            let verdict = Sweep::verdict(&curve, figure, truth);
            rows.push((sweep.kind, place, verdict));
            if verbose && !matches!(verdict, Verdict::Right | Verdict::CorrectlyMissing) {
                let levels: Vec<String> = curve
                    .levels
                    .iter()
                    .map(|l| {
                        format!(
                            "{}:{:.0}/{:.0}",
                            l.level.load,
                            l.level.throughput.map_or(0.0, |x| x.value),
                            tokrate_dst::capacity::throughput(
                                &sweep.scenario,
                                l.level.load.min(f64::from(sweep.scenario.law.slots))
                            )
                        )
                    })
                    .collect();
                let chosen = curve.model().map(|m| format!("{:?} {:.2?}", m.kind, m.limit));
                println!(
                    "{seed} {:?} slots {} {} {verdict:?} truth {truth:.1} got {:?} {:.1?} {:.1?}..{:.1?} {}  chosen {chosen:?} {}",
                    sweep.kind,
                    sweep.scenario.law.slots,
                    ["slows", "nearly", "waits"][place],
                    figure.status,
                    figure.load,
                    figure.low,
                    figure.high,
                    figure.reason,
                    levels.join(" ")
                );
            }
        }
    }
    println!(
        "| engines | load | stated | of them within 10 % | wrong | between, holds | between, misses | not found, rightly | not found, wrongly |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for kind in Kind::ALL.into_iter().map(Some).chain([None]) {
        for (place, name) in ["a request slows", "90 % of the most", "requests wait"].into_iter().enumerate() {
            let count = |verdict: Verdict| {
                rows.iter()
                    .filter(|row| kind.is_none_or(|kind| row.0 == kind) && row.1 == place && row.2 == verdict)
                    .count()
            };
            let kind = kind.map_or("all".to_owned(), |kind| format!("{kind:?}"));
            let counts = [
                Verdict::Right,
                Verdict::Wrong,
                Verdict::Covers,
                Verdict::Excludes,
                Verdict::CorrectlyMissing,
                Verdict::WronglyMissing,
            ]
            .map(count);
            println!(
                "| {kind} | {name} | {} | {} | {} | {} | {} | {} | {} |",
                counts[0] + counts[1],
                counts[0],
                counts[1],
                counts[2],
                counts[3],
                counts[4],
                counts[5]
            );
        }
    }
}
