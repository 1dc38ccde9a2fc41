//! Ranks pairs of simulated engines and prints the table of docs/method.md:
//! `cargo run --release -p tokrate-dst --example ranks [PAIRS [FIRST SEED]]`.

#![allow(clippy::print_stdout)]

use tokrate_dst::ranks::{PairResult, Pairing};

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a whole number"));
    let (pairs, from) = (numbers.next().unwrap_or(1_000), numbers.next().unwrap_or(0));
    println!(
        "| engines | rounds, requests each | rounds differ by | ranks apart in either | by speed | by TTFT | the slower one first |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (slower, rounds, requests, drift) in [
        (1.0, 4, 10, 0.0),
        (1.0, 4, 10, 0.01),
        (1.0, 4, 10, 0.05),
        (1.0, 2, 20, 0.01),
        (1.0, 1, 40, 0.01),
        (1.02, 4, 10, 0.002),
        (1.02, 4, 10, 0.01),
        (1.05, 4, 10, 0.01),
        (1.05, 4, 10, 0.02),
        (1.05, 2, 20, 0.01),
        (1.05, 1, 40, 0.01),
        (1.1, 4, 10, 0.05),
        (1.1, 2, 20, 0.01),
    ] {
        let pairing = Pairing { rounds, requests, drift, slower };
        let results: Vec<PairResult> = (from..from + pairs).map(|seed| pairing.run(seed)).collect();
        let count = |is: &dyn Fn(&PairResult) -> bool| results.iter().filter(|result| is(result)).count();
        let share = |count: usize| format!("{:.1} %", 100.0 * count as f64 / pairs as f64);
        let wrong = |result: &PairResult| (0..2).any(|metric| result.apart[metric] && !result.first_leads[metric]);
        println!(
            "| {} | {rounds} x {requests} | {:.1} % | {} | {} | {} | {} |",
            if slower > 1.0 { format!("one {:.0} % slower", 100.0 * (slower - 1.0)) } else { "the same".to_owned() },
            100.0 * drift,
            share(count(&|result| result.apart.contains(&true))),
            share(count(&|result| result.apart[0])),
            share(count(&|result| result.apart[1])),
            if slower > 1.0 { share(count(&wrong)) } else { "-".to_owned() },
        );
    }
}
