//! Flags of a model on devices under a load, as the estimator's own values.
//!
//! Invariant: what comes out is checked for its form; facts are checked when the question is resolved.

use super::model_file;
use crate::config::quantity;
use crate::flags::estimate::{LoadFlags, ObjectiveFlags, Subject};
use anyhow::{Context, Result, anyhow, bail, ensure};
use tokrate_engine::{Policy, Speculation};
use tokrate_estimate::Asked;
use tokrate_estimate::capacity::{Figure, Objective};
use tokrate_estimate::names;
use tokrate_estimate::serving::Tuning;
use tokrate_estimate::traffic::Lengths;
use tokrate_estimate::what_if::Change;
use tokrate_judge::Slo;
use tokrate_record::Metric;

/// The question without a load.
pub fn asked(subject: &Subject) -> Result<Asked> {
    ensure!(subject.gpus > 0, "estimate: 0 devices; check --gpus");
    if let Some(price) = subject.price.filter(|price| !(price.is_finite() && *price > 0.0)) {
        bail!("estimate: a price of {price} dollars an hour; check --price");
    }
    model_file::with_file(Asked {
        model: subject.model.clone(),
        hardware: subject.hardware.clone(),
        // `4xh100` says it by itself.
        n_gpus: (subject.gpus > 1 || names::counted(&subject.hardware).is_none()).then(|| f64::from(subject.gpus)),
        tp: subject.tp.map(f64::from),
        engine: subject.engine.clone(),
        weight_precision: subject.precision.clone(),
        params_b: subject.params_b,
        active_params_b: subject.active_params_b,
        memory_gb: subject.memory_gb,
        memory_bandwidth_gbps: subject.memory_bandwidth_gbps,
        tflops: subject.tflops,
        ..Asked::default()
    })
}

/// The question with the lengths that memory is checked against.
pub fn asked_with(subject: &Subject, load: &LoadFlags) -> Result<Asked> {
    Ok(Asked { isl: Some(f64::from(load.isl)), osl: Some(f64::from(load.osl)), ..asked(subject)? })
}

/// What requests look like.
pub fn lengths(load: &LoadFlags) -> Result<Lengths> {
    ensure!(load.isl > 0 && load.osl > 0, "estimate: prompts and answers have at least 1 token; check --isl and --osl");
    ensure!(
        load.shared_prefix < load.isl,
        "estimate: {} shared tokens of prompts of {}; check --shared-prefix",
        load.shared_prefix,
        load.isl
    );
    let variation = load.length_cv;
    ensure!((0.0..=3.0).contains(&variation), "estimate: --length-cv is {variation}; give 0 to 3");
    Ok(Lengths { isl: load.isl, osl: load.osl, shared: load.shared_prefix, variation })
}

/// Settings of the scheduler.
pub fn tuning(load: &LoadFlags) -> Result<Tuning> {
    let policy = load.scheduler.as_deref().map(|name| {
        let names = || Policy::NAMED.map(|(name, _)| name).join(", ");
        Policy::from_name(name).ok_or_else(|| anyhow!("estimate: unknown scheduler {name:?}; one of {}", names()))
    });
    let speculation = load.speculation.as_deref().map(|text| {
        let change = Change::parse(&format!("speculation={text}")).map_err(|error| anyhow!("estimate: {error}"))?;
        match change {
            Change::Speculation(draft_tokens, acceptance) => Ok(Speculation { draft_tokens, acceptance }),
            other => bail!("estimate: {} is no speculation", other.words()),
        }
    });
    Ok(Tuning {
        policy: policy.transpose()?,
        max_num_seqs: load.max_num_seqs,
        max_num_batched_tokens: load.max_num_batched_tokens,
        speculation: speculation.transpose()?,
        prefix_caching: None,
    })
}

/// Objectives as they are typed: the word `pNN` says which percentile has to keep the bound.
pub fn objectives(flags: &ObjectiveFlags) -> Result<Vec<Objective>> {
    flags.slos.iter().map(|text| objective(text)).collect()
}

/// One objective.
pub fn objective(text: &str) -> Result<Objective> {
    let percentile = |word: &str| word.strip_prefix('p').and_then(|digits| digits.parse::<f64>().ok());
    let (at, rest): (Vec<&str>, Vec<&str>) = text.split_whitespace().partition(|word| percentile(word).is_some());
    let slo = Slo::parse(&rest.join(" ")).map_err(|error| {
        anyhow!("estimate: the objective {text:?}: {}; write for example 'ttft p95 < 1s'", error.message)
    })?;
    let figure = match slo.metric {
        Metric::Ttft => Figure::Ttft,
        Metric::Tpot => Figure::Tpot,
        Metric::OutputSpeed => Figure::OutputSpeed,
        Metric::E2e => Figure::E2e,
        other => bail!(
            "estimate: the objective {text:?}: {} is not estimated; one of ttft, tpot, output_speed, e2e",
            other.name()
        ),
    };
    let usual = if figure == Figure::OutputSpeed { 5.0 } else { 95.0 };
    let percentile = match at[..] {
        [] => usual,
        [one] => percentile(one).unwrap_or(usual),
        _ => bail!("estimate: the objective {text:?} names two percentiles"),
    };
    ensure!(
        percentile > 0.0 && percentile < 100.0,
        "estimate: the objective {text:?}: a percentile lies between 0 and 100"
    );
    ensure!(slo.bound.is_finite() && slo.bound > 0.0, "estimate: the objective {text:?}: the bound must be above 0");
    let bound = if figure == Figure::OutputSpeed { slo.bound } else { slo.bound / 1e3 };
    Ok(Objective { figure, quantile: percentile / 100.0, bound })
}

/// Requests a second, typed as `12/s`, `300/min`, `5000/h` or `12`.
pub fn rate(text: &str) -> Result<f64> {
    let (number, unit) = text.split_once('/').unwrap_or((text, "s"));
    let each = match unit.trim() {
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        other => bail!("estimate: the rate {text:?}: `{other}` is none of s, min, h; write for example 12/s"),
    };
    let number: Option<f64> = number.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    Ok(number.with_context(|| format!("estimate: the rate {text:?} is no number above 0; write for example 12/s"))?
        / each)
}

/// Seconds of a time.
pub fn seconds(text: &str) -> Result<f64> {
    Ok(quantity::span(text).map_err(|error| anyhow!("estimate: {error}"))?.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_read_with_their_percentile() {
        let read = |text: &str| objective(text).expect("an objective");
        assert_eq!(read("ttft p95 < 1s"), Objective { figure: Figure::Ttft, quantile: 0.95, bound: 1.0 });
        assert_eq!(read("ttft < 300ms"), Objective { figure: Figure::Ttft, quantile: 0.95, bound: 0.3 });
        assert_eq!(read("output_speed > 30"), Objective { figure: Figure::OutputSpeed, quantile: 0.05, bound: 30.0 });
        assert_eq!(read("e2e p99 < 20s"), Objective { figure: Figure::E2e, quantile: 0.99, bound: 20.0 });
        let wrong =
            ["ttft", "ttft > 3s", "speed > 3", "itl < 3ms", "ttft p0 < 3s", "ttft p5 p6 < 3s", "output_speed > 0"];
        let errors: Vec<String> =
            wrong.iter().map(|text| objective(text).expect_err("no objective").to_string()).collect();
        insta::assert_snapshot!("objectives_refused", errors.join("\n"));
    }

    #[test]
    fn rates_are_read() {
        assert_eq!(rate("12/s").ok(), Some(12.0));
        assert_eq!(rate("300/min").ok(), Some(5.0));
        assert_eq!(rate("7200/h").ok(), Some(2.0));
        assert_eq!(rate("2").ok(), Some(2.0));
        for wrong in ["0", "-3/s", "x/s", "3/day", "nan"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
