//! How often an interval misses that was looked at after every round until it was narrow enough:
//! `cargo run -p tokrate-stats --example sequential [RUNS [SEED]]`.

#![allow(clippy::print_stdout)]

use tokrate_core::Rng;
use tokrate_stats::{MIN_ROUNDS, looked_at_errors, mean_and_error};

/// Rounds whose values have a mean of 0 and a standard deviation of 1.
type Rounds = fn(&mut Rng, f64) -> f64;

/// By name: independent ones, ones with a long tail to one side, and ones that are half as far off as the one before and as far again by chance.
const KINDS: [(&str, Rounds); 3] = [
    ("normal", |rng, _| rng.normal()),
    ("exponential", |rng, _| -(1.0 - rng.unit()).ln() - 1.0),
    ("like the one before (0.3)", |rng, before| 0.3 * before + (1.0_f64 - 0.09).sqrt() * rng.normal()),
];

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a whole number"));
    let (runs, seed) = (numbers.next().unwrap_or(4_000), numbers.next().unwrap_or(0));
    println!("| rounds are | half width asked, in standard deviations | missed | rounds, mean |");
    println!("|---|---|---|---|");
    for (name, draw) in KINDS {
        for reach in [3.0, 1.5, 1.0, 0.7, 0.5, 0.3] {
            let (mut missed, mut rounds) = (0, 0);
            for run in 0..runs {
                let mut rng = Rng::root(seed).child(name).nth(run);
                let mut values: Vec<f64> = vec![draw(&mut rng, 0.0)];
                let (mean, half) = loop {
                    let before = values[values.len() - 1];
                    values.push(draw(&mut rng, before));
                    let (mean, error) = mean_and_error(&values).expect("two values and more");
                    let half = looked_at_errors(values.len() as u64) * error;
                    if values.len() as u64 >= MIN_ROUNDS && half <= reach {
                        break (mean, half);
                    }
                };
                missed += u64::from(mean.abs() > half);
                rounds += values.len();
            }
            let share = 100.0 * missed as f64 / runs as f64;
            println!("| {name} | {reach} | {share:.1} % | {:.1} |", rounds as f64 / runs as f64);
        }
    }
}
