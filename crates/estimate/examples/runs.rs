//! Holds the scheduler in virtual time against runs of a real engine of which only quantiles are known, a stage of constant load each.
//!
//! `cargo run --release -p tokrate-estimate --example runs -- RUNS.csv HARDWARE [COLUMN=VALUE]`
//!
//! The file's columns: run, stage, model, tp, rate (requests/s, at random times), isl, osl, shared (tokens of a prompt that are in the cache),
//! max_num_seqs, max_num_batched_tokens, requests, failures, and ttft_… and e2e_… (seconds) as mean, p50, p90 and p99. Stages of which one
//! request in a hundred failed are left out. A front end is added to the TTFT and the end, as a client sees it.

#![allow(clippy::print_stdout)]

use tokrate_estimate::capacity::{Search, try_load};
use tokrate_estimate::csv;
use tokrate_estimate::serving::{Serving, Tuning};
use tokrate_estimate::traffic::{Lengths, mean, quantile};
use tokrate_estimate::{Asked, Estimator};

const FIGURES: [&str; 4] = ["mean", "p50", "p90", "p99"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, hardware, ..] = arguments.as_slice() else { return Err("give RUNS.csv and HARDWARE".into()) };
    let text = std::fs::read_to_string(path)?;
    let estimator = Estimator::embedded();
    let only = arguments.get(2).and_then(|only| only.split_once('='));
    println!("computed over measured: TTFT {f}; time a token; end to end {f}", f = FIGURES.join(", "));
    for row in csv::rows(&text) {
        if only.is_some_and(|(column, value)| row.text(column) != value) {
            continue;
        }
        let number = |column: &str| row.number(column).ok_or_else(|| format!("{}: no {column}", row.text("run")));
        let name = format!("{} {}", row.text("run"), row.text("stage"));
        if number("failures")? > 0.01 * number("requests")? {
            println!(
                "{name}: left out, {} of {} failed",
                number("failures")?,
                number("failures")? + number("requests")?
            );
            continue;
        }
        let asked = Asked {
            model: row.text("model").to_owned(),
            hardware: hardware.clone(),
            n_gpus: row.number("tp"),
            engine: Some("vllm".to_owned()),
            weight_precision: Some("bf16".to_owned()),
            ..Asked::default()
        };
        let tuning = Tuning {
            max_num_seqs: row.number("max_num_seqs").map(|most| most as u32),
            max_num_batched_tokens: row.number("max_num_batched_tokens").map(|most| most as u32),
            ..Tuning::default()
        };
        let serving = Serving::new(&estimator, &asked, &tuning)?;
        let question = &serving.question;
        let front = estimator.coefficients().of(&question.device, question.engine).ttft_front;
        let lengths = Lengths {
            isl: number("isl")? as u32,
            osl: number("osl")? as u32,
            shared: number("shared")? as u32,
            variation: 0.0,
        };
        let samples = try_load(&serving, &lengths, Search::Rate, &[], number("rate")?, 1.0)?.samples;
        let of = |values: &[f64]| {
            [mean(values), quantile(values, 0.5), quantile(values, 0.9), quantile(values, 0.99)]
                .map(|value| value + front)
        };
        let against = |computed: [f64; 4], prefix: &str| -> Result<String, String> {
            let quotients =
                FIGURES.iter().zip(computed).map(|(figure, value)| Ok(value / number(&format!("{prefix}_{figure}"))?));
            let quotients: Result<Vec<f64>, String> = quotients.collect();
            Ok(quotients?.iter().map(|quotient| format!("{quotient:.2}")).collect::<Vec<_>>().join(" "))
        };
        let measured = (number("e2e_mean")? - number("ttft_mean")?) / (number("osl")? - 1.0);
        println!(
            "{name} ({} x tp {}, {}/s{}): {}; {:.3} ({:.2} ms measured); {}",
            question.model.name,
            row.text("tp"),
            row.text("rate"),
            if samples.overloaded { ", overloaded" } else { "" },
            against(of(&samples.ttft), "ttft")?,
            mean(&samples.tpot) / measured,
            measured * 1e3,
            against(of(&samples.e2e), "e2e")?,
        );
    }
    Ok(())
}
