//! `tokrate estimate`: how fast a model should answer on given hardware, computed from facts and fitted coefficients.

mod against;
mod batch;
mod calibrate;
mod capacity;
mod chain;
mod claim;
mod cost;
mod profile;
mod replay;
mod subject;
mod what_if;

use super::Verdict;
use crate::flags::estimate::{Flags, SpeedFlags, What};
use crate::out::estimate::{Load, Shown, json, text};
use anyhow::{Result, anyhow, bail};
use tokrate_estimate::{Asked, Estimator};

/// Estimates and prints.
pub fn run(flags: &Flags) -> Result<Verdict> {
    if let Some(path) = &flags.batch {
        return batch::run(path);
    }
    let estimator = Estimator::embedded();
    if let Some(What::Speed(speed)) = &flags.what
        && let Some(path) = &speed.against
    {
        return against::run(&profile::estimator(&speed.subject)?, speed, path);
    }
    let (shown, as_json, example) = match &flags.what {
        Some(What::Speed(speed)) => (vec![of_flags(&profile::estimator(&speed.subject)?, speed)?], speed.json, false),
        Some(What::Capacity(flags)) => return capacity::run(flags),
        Some(What::Cost(flags)) => return cost::run(flags),
        Some(What::Changes(flags)) => return what_if::run(flags),
        Some(What::Chain(flags)) => return chain::run(flags),
        Some(What::Claim(flags)) => return claim::run(flags),
        Some(What::Calibrate(flags)) => return calibrate::run(flags),
        Some(What::Replay(flags)) => return replay::run(flags),
        None => (example(&estimator)?, flags.json, true),
    };
    let written = if as_json { format!("{}\n", json(&shown)) } else { text(&shown, example) };
    crate::out::stdout::write(&written)?;
    Ok(Verdict::Good)
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
        device: question.device.name.clone(),
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
mod planning_tests;
#[cfg(test)]
mod tests;
