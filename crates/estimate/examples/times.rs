//! How long estimates take: one answer, rows of a batch, capacity searches, the kinds of a fleet.
//!
//! `cargo run --release -p tokrate-estimate --example times`

#![allow(clippy::print_stdout)]
#![allow(clippy::disallowed_methods, reason = "it measures this process, outside of any simulation")]

use std::time::Instant;
use tokrate_estimate::capacity::{Figure, Objective, Search, search};
use tokrate_estimate::serving::{Serving, Tuning};
use tokrate_estimate::traffic::Lengths;
use tokrate_estimate::{Asked, Estimator};

fn asked(hardware: &str, devices: f64, precision: &str) -> Asked {
    Asked {
        model: "llama-3.3-70b".to_owned(),
        hardware: hardware.to_owned(),
        n_gpus: Some(devices),
        engine: Some("vllm".to_owned()),
        weight_precision: Some(precision.to_owned()),
        isl: Some(1000.0),
        osl: Some(300.0),
        ..Asked::default()
    }
}

fn main() -> Result<(), String> {
    let started = Instant::now();
    let estimator = Estimator::embedded();
    println!("tables and coefficients: {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    let started = Instant::now();
    let rows = 10_000;
    for row in 0..rows {
        let load = f64::from(row % 512 + 1);
        estimator.answer(&Asked {
            concurrency: Some(load),
            isl: Some(100.0 + load),
            ..asked("h100-sxm", 4.0, "fp8")
        })?;
    }
    println!("{rows} different answers: {:.3} s", started.elapsed().as_secs_f64());
    let objectives = [
        Objective { figure: Figure::Ttft, quantile: 0.95, bound: 2.0 },
        Objective { figure: Figure::OutputSpeed, quantile: 0.05, bound: 20.0 },
    ];
    let lengths = Lengths { isl: 1000, osl: 300, shared: 0, variation: 0.2 };
    let one = |name: &str, asked: &Asked, kind: Search| -> Result<(), String> {
        let started = Instant::now();
        let serving = Serving::new(&estimator, asked, &Tuning::default())?;
        let found = search(&serving, &lengths, kind, &objectives)?;
        let (took, tried) = (started.elapsed().as_secs_f64(), found.curve.len());
        println!("capacity, {name}: {took:.2} s, {tried} loads tried at the expected speed, carries {:?}", found.most);
        Ok(())
    };
    let eight = Asked { tp: Some(1.0), model: "llama-3.1-8b".to_owned(), ..asked("h100-sxm", 8.0, "fp8") };
    one("requests/s, 70B on 4 H100", &asked("h100-sxm", 4.0, "fp8"), Search::Rate)?;
    one(
        "requests/s, 70B on 32 H100, 8 copies",
        &Asked { tp: Some(4.0), ..asked("h100-sxm", 32.0, "fp8") },
        Search::Rate,
    )?;
    one("users who ask at once, 70B on 4 H100", &asked("h100-sxm", 4.0, "fp8"), Search::Users(0.0))?;
    one("users who think 30 s, 70B on 4 H100", &asked("h100-sxm", 4.0, "fp8"), Search::Users(30.0))?;
    one("users who ask at once, 8B on 8 H100, 8 copies", &eight, Search::Users(0.0))?;
    one("users who think 30 s, 8B on 8 H100, 8 copies", &eight, Search::Users(30.0))
}
