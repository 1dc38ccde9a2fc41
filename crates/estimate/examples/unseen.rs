//! Holds estimates against rows that are in no table here, by kind, worst rows first.
//!
//! `cargo run --release -p tokrate-estimate --example unseen -- FILE.csv [ROWS]`
//!
//! The file has the columns of `data/measured.csv`; of a row with `tok_s_total` and a load the total is held against the estimate as well.

#![allow(clippy::print_stdout)]

use tokrate_estimate::{Estimator, Value, csv, measured};

/// A number that was computed and the one that was measured.
struct Held {
    id: String,
    computed: Value,
    measured: f64,
}

impl Held {
    fn quotient(&self) -> f64 {
        self.computed.value / self.measured
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("give a file of rows")?;
    let shown: usize = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(8);
    let estimator = Estimator::embedded();
    let (mut groups, mut refused): (Vec<(String, Vec<Held>)>, usize) = (Vec::new(), 0);
    for row in csv::rows(&std::fs::read_to_string(path)?) {
        let Ok(answer) = estimator.answer(&measured::asked(&row)) else {
            refused += 1;
            continue;
        };
        let tpot = row.number("tpot_ms").or(row.number("tok_s_user").map(|speed| 1e3 / speed));
        let outputs = [
            ("time a token", answer.tpot_ms, tpot),
            ("TTFT", answer.ttft_ms, row.number("ttft_ms")),
            ("tokens/s of all", answer.tok_s_total, row.number("tok_s_total")),
        ];
        for (name, computed, measured) in outputs {
            let Some((computed, measured)) = computed.zip(measured) else { continue };
            let held = |group: String, groups: &mut Vec<(String, Vec<Held>)>| {
                let one = Held { id: row.text("id").to_owned(), computed, measured };
                match groups.iter_mut().find(|(known, _)| *known == group) {
                    Some((_, all)) => all.push(one),
                    None => groups.push((group, vec![one])),
                }
            };
            held(format!("{}, {name}", answer.kind), &mut groups);
            held(format!("{}, {name}: {}", answer.kind, row.text("group")), &mut groups);
        }
    }
    println!("{refused} rows refused\n");
    println!("| kind | rows | mean | median | computed/measured, median | covered by 80 % | median width |");
    println!("|---|---|---|---|---|---|---|");
    for (name, all) in &mut groups {
        let middle = |of: &dyn Fn(&Held) -> f64| {
            let mut values: Vec<f64> = all.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let off = |held: &Held| (held.quotient() - 1.0).abs() * 100.0;
        let mean = all.iter().map(off).sum::<f64>() / all.len() as f64;
        let inside = |held: &&Held| held.computed.low <= held.measured && held.measured <= held.computed.high;
        let covered = all.iter().filter(inside).count() * 100 / all.len();
        let width = middle(&|held| (held.computed.high - held.computed.low) / held.computed.value * 50.0);
        println!(
            "| {name} | {} | {mean:.1} % | {:.1} % | {:.2} | {covered} % | ±{width:.0} % |",
            all.len(),
            middle(&off),
            middle(&Held::quotient)
        );
        all.sort_by(|a, b| b.quotient().ln().abs().total_cmp(&a.quotient().ln().abs()));
    }
    for (name, all) in groups.iter().filter(|(name, _)| !name.contains(':')) {
        println!("\nWorst, {name}: computed over measured, row");
        all.iter().take(shown).for_each(|held| println!("  {:.2} {}", held.quotient(), held.id));
    }
    Ok(())
}
