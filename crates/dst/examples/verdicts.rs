//! Measures pairs of simulated engines in turns until they have their verdicts, and prints the table of docs/method.md:
//! `cargo run --release -p tokrate-dst --example verdicts [PAIRS [FIRST SEED]]`.

#![allow(clippy::print_stdout)]

use tokrate_dst::ranks::{Pairing, SequentialResult};
use tokrate_judge::compare::CompareVerdict;

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a whole number"));
    let (pairs, from) = (numbers.next().unwrap_or(1_000), numbers.next().unwrap_or(0));
    println!(
        "| engines | rounds differ by | wrong in any metric | all decided | rounds of each, median (10 % to 90 %) | worse / no difference, by TTFT and speed |"
    );
    println!("|---|---|---|---|---|---|");
    for (slower, drift) in [(1.0, 0.01), (1.05, 0.01), (1.0, 0.0), (1.05, 0.0), (1.0, 0.03), (1.05, 0.03), (1.1, 0.03)]
    {
        let pairing = Pairing { rounds: 0, requests: 10, drift, slower };
        let results: Vec<SequentialResult> = (from..from + pairs).map(|seed| pairing.run_until_verdict(seed)).collect();
        let share = |is: &dyn Fn(&SequentialResult) -> bool| {
            format!("{:.1} %", 100.0 * results.iter().filter(|result| is(result)).count() as f64 / pairs as f64)
        };
        let count = |wanted: CompareVerdict| {
            results.iter().flat_map(|result| &result.verdicts).filter(|verdict| **verdict == wanted).count()
        };
        let mut rounds: Vec<u64> = results.iter().map(|result| result.rounds).collect();
        rounds.sort_unstable();
        let at = |share: f64| rounds[((rounds.len() - 1) as f64 * share).round() as usize];
        println!(
            "| {} | {:.0} % | {} | {} | {} ({}..{}) | {} / {} of {} |",
            if slower > 1.0 { format!("one {:.0} % slower", 100.0 * (slower - 1.0)) } else { "the same".to_owned() },
            100.0 * drift,
            share(&|result| result.is_wrong(slower)),
            share(&|result| !result.verdicts.contains(&CompareVerdict::Undecided)),
            at(0.5),
            at(0.1),
            at(0.9),
            count(CompareVerdict::Worse),
            count(CompareVerdict::NoDifference),
            2 * pairs
        );
    }
}
