//! `tokrate estimate`: how fast a model should answer on given hardware, computed from facts and fitted coefficients.

mod against;
mod batch;
mod calibrate;
mod capacity;
mod chain;
mod claim;
mod cost;
mod fleet;
mod hosted;
mod model_file;
mod profile;
mod replay;
pub mod roles;
mod subject;
mod what_if;

use super::Verdict;
use crate::flags::estimate::{Flags, SpeedFlags, What};
use crate::out::estimate::{Load, Shown, record, roofline, text};
use anyhow::{Result, anyhow, bail};
use std::path::Path;
use tokrate_estimate::{Asked, Estimator};
use tokrate_net::Clock;

/// Estimates and prints.
pub fn run(flags: &Flags) -> Result<Verdict> {
    if let Some(path) = &flags.batch {
        return batch::run(path);
    }
    match &flags.what {
        Some(What::Speed(flags)) => speed(flags),
        Some(What::Capacity(flags)) => capacity::run(flags),
        Some(What::Cost(flags)) => cost::run(flags),
        Some(What::Changes(flags)) => what_if::run(flags),
        Some(What::Chain(flags)) => chain::run(flags),
        Some(What::Claim(flags)) => claim::run(flags),
        Some(What::Calibrate(flags)) => calibrate::run(flags),
        Some(What::Fleet(flags)) => fleet::run(flags),
        Some(What::FitApi(flags)) => hosted::run(flags),
        Some(What::Replay(flags)) => replay::run(flags),
        None => {
            print(&example(&Estimator::embedded())?, flags.json, true)?;
            Ok(Verdict::Good)
        }
    }
}

fn speed(flags: &SpeedFlags) -> Result<Verdict> {
    if let Some(path) = &flags.html {
        crate::out::files::check_writable(path)?;
    }
    let estimator = profile::estimator(&flags.subject)?;
    if let Some(path) = &flags.against {
        return against::run(&estimator, flags, path);
    }
    let shown = of_flags(&estimator, flags)?;
    if let Some(path) = &flags.html {
        crate::out::files::write(path, &roofline::html(&shown, &[]))?;
    }
    if flags.html.as_deref() != Some(Path::new("-")) {
        print(&[shown], flags.json, false)?;
    }
    Ok(Verdict::Good)
}

fn print(shown: &[Shown], as_json: bool, is_example: bool) -> Result<()> {
    let started_at = || Clock::monotonic().wall_rfc3339();
    crate::out::stdout::write(&if as_json { record::json(shown, &started_at()) } else { text(shown, is_example) })
}

fn of_flags(estimator: &Estimator, flags: &SpeedFlags) -> Result<Shown> {
    if flags.concurrency.contains(&0) {
        bail!("estimate: 0 requests at once; check --concurrency");
    }
    let asked =
        Asked { isl: Some(f64::from(flags.isl)), osl: Some(f64::from(flags.osl)), ..subject::asked(&flags.subject)? };
    estimated(estimator, &asked, &flags.concurrency, flags.subject.price)
}

/// A question at several loads.
fn estimated(estimator: &Estimator, asked: &Asked, loads: &[u32], price: Option<f64>) -> Result<Shown> {
    let mut answers = Vec::new();
    let mut question = None;
    for load in loads {
        let asked = Asked { concurrency: Some(f64::from(*load)), ..asked.clone() };
        let refused = |error: String| anyhow!("estimate: {error}");
        let resolved = asked.resolve(&estimator.facts).map_err(refused)?;
        let answer = estimator.answer_resolved(&resolved).map_err(refused)?;
        question = Some(resolved.question);
        answers.push(Load { concurrency: *load, answer });
    }
    let question = question.ok_or_else(|| anyhow!("estimate: no load; check --concurrency"))?;
    let dollars_hour = price.map(|price| (price, price)).or(question.device.dollars_hour);
    Ok(Shown {
        asked_model: asked.model.clone(),
        model: question.model.name.clone(),
        arithmetic: Some(question.precision.arithmetic),
        device: question.device.clone(),
        devices: question.devices,
        engine: asked.engine.clone(),
        precision: asked.weight_precision.clone(),
        isl: asked.isl.unwrap_or(0.0),
        osl: asked.osl.unwrap_or(0.0),
        dollars_hour,
        given_price: price.is_some(),
        loads: answers,
    })
}

/// A 70B model on four devices of three kinds: data centre, workstation, laptop.
fn example(estimator: &Estimator) -> Result<Vec<Shown>> {
    let devices = [
        ("h100-sxm", 2.0, "vllm", "fp8"),
        ("b200", 1.0, "vllm", "fp8"),
        ("rtx-pro-6000", 1.0, "vllm", "int4"),
        ("m4-max", 1.0, "llama.cpp", "Q4_K_M"),
    ];
    let of = |(hardware, count, engine, precision): (&str, f64, &str, &str)| {
        let asked = Asked {
            model: "llama-3.3-70b".to_owned(),
            hardware: hardware.to_owned(),
            n_gpus: Some(count),
            engine: Some(engine.to_owned()),
            weight_precision: Some(precision.to_owned()),
            isl: Some(1000.0),
            osl: Some(300.0),
            ..Asked::default()
        };
        estimated(estimator, &asked, &[1, 10, 25, 50], None)
    };
    devices.into_iter().map(of).collect()
}

#[cfg(test)]
mod chain_tests;
#[cfg(test)]
mod fleet_tests;
#[cfg(test)]
mod planning_tests;
#[cfg(test)]
mod tests;
