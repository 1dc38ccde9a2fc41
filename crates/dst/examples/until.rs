//! Runs until a median is known as well as a fixed plan has it, and prints the tables of docs/method.md:
//! `cargo run --release -p tokrate-dst --example until [ENGINES [FIRST SEED [MOST SLOTS FOR EVERY LEVEL]]]`.

#![allow(clippy::print_stdout)]

use tokrate_dst::capacity::{Kind, Sweep};
use tokrate_dst::until::{Asked, Savings, fixed_plan, misses, savings};

const FIGURES: [&str; 3] = ["output_speed_p50", "ttft_p50", "e2e_p50"];
/// Runs of each engine whose intervals are held against the truth.
const RUNS: u64 = 5;

struct Row {
    kind: Kind,
    figure: &'static str,
    asked: Asked,
    savings: Savings,
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a whole number"));
    let (engines, from) = (numbers.next().unwrap_or(200), numbers.next().unwrap_or(0));
    let most_slots = numbers.next().unwrap_or(512);
    let (mut rows, mut missed, mut runs) = (Vec::new(), 0, 0);
    for sweep in (from..from + engines).map(Sweep::random) {
        let fixed = fixed_plan(&sweep);
        for figure in FIGURES {
            let levels = u64::from(sweep.scenario.law.slots) <= most_slots;
            for asked in Asked::ALL.into_iter().filter(|asked| *asked != Asked::EveryLevel || levels) {
                let Some(savings) = savings(&sweep, &fixed, figure, asked) else { continue };
                rows.push(Row { kind: sweep.kind, figure, asked, savings });
            }
        }
        let width = rows.last().map_or(0.02, |row: &Row| row.savings.width);
        if let Some(count) = misses(&sweep, FIGURES[0], 1, width.max(0.002), RUNS) {
            (missed, runs) = (missed + count, runs + RUNS);
        }
    }
    println!(
        "| asked | figure | engines | fixed plan, median | tokens, median of the shares | 10 % to 90 % | half or less | not reached |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for asked in Asked::ALL {
        for figure in FIGURES {
            for kind in Kind::ALL.into_iter().map(Some).chain([None]) {
                let of =
                    |row: &&Row| row.asked == asked && row.figure == figure && kind.is_none_or(|kind| row.kind == kind);
                let found: Vec<&Savings> = rows.iter().filter(of).map(|row| &row.savings).collect();
                let kind = kind.map_or("all".to_owned(), |kind| format!("{kind:?}"));
                row(&format!("{asked:?}, {kind}"), figure, &found);
            }
        }
    }
    println!("{missed} of {runs} intervals of {} miss the truth", FIGURES[0]);
}

fn row(asked: &str, figure: &str, found: &[&Savings]) {
    if found.is_empty() {
        return;
    }
    let sorted = |of: &dyn Fn(&Savings) -> f64| {
        let mut values: Vec<f64> = found.iter().map(|it| of(it)).collect();
        values.sort_unstable_by(f64::total_cmp);
        values
    };
    let shares = sorted(&|it| it.until_tokens as f64 / it.fixed_tokens as f64);
    let widths = sorted(&|it| it.width);
    let at = |values: &[f64], share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    println!(
        "| {asked} | {figure} | {} | ± {:.2} % | {:.2} | {:.2}..{:.2} | {} | {} |",
        found.len(),
        100.0 * at(&widths, 0.5),
        at(&shares, 0.5),
        at(&shares, 0.1),
        at(&shares, 0.9),
        shares.iter().filter(|share| **share <= 0.5).count(),
        found.iter().filter(|it| !it.reached).count()
    );
}
