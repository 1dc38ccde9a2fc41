//! `tokrate estimate speed --against`: a record of a bench held against the estimate of the same loads.

use super::of_flags;
use crate::commands::Verdict;
use crate::flags::estimate::SpeedFlags;
use crate::out::estimate::against::{Compared, Shown, json, text};
use crate::out::estimate::roofline;
use crate::out::records::read_record;
use anyhow::{Result, bail, ensure};
use std::path::Path;
use tokrate_estimate::Estimator;
use tokrate_estimate::traffic::quantile;
use tokrate_record::{Load, Metric, Record, RunSamples};

/// Compares and prints. Below the bar when a load is slower than its interval.
pub fn run(estimator: &Estimator, flags: &SpeedFlags, path: &Path) -> Result<Verdict> {
    let shown = compared(estimator, flags, &read_record(path)?, &path.display().to_string())?;
    let written = if flags.json { format!("{}\n", json(&shown)) } else { text(&shown) };
    if let Some(path) = &flags.html {
        crate::out::files::write(path, &roofline::html(&shown.estimate, &shown.rows))?;
    }
    if flags.html.as_deref() != Some(Path::new("-")) {
        crate::out::stdout::write(&written)?;
    }
    let is_slower = shown.rows.iter().any(|row| shown.is_slower(row));
    Ok(if is_slower { Verdict::BelowBar } else { Verdict::Good })
}

/// The closed loads of a record with their estimates.
pub(super) fn compared(estimator: &Estimator, flags: &SpeedFlags, record: &Record, name: &str) -> Result<Shown> {
    if record.is_estimate() {
        bail!("estimate: {name} is an estimate itself; `tokrate compare` holds two of them side by side");
    }
    let samples = RunSamples::of_record(record);
    let mut rows = Vec::new();
    for level in &samples.levels {
        let Load::Closed { concurrency } = level.load else { continue };
        let median = |metric: Metric| {
            let values = level.times.get(&metric).map(|samples| samples.sorted.as_slice()).unwrap_or_default();
            Some(quantile(values, 0.5)).filter(|value| *value > 0.0)
        };
        let (ttft_ms, tpot_ms) = (median(Metric::Ttft), median(Metric::Tpot));
        if ttft_ms.is_some() || tpot_ms.is_some() {
            rows.push(Compared { concurrency, ttft_ms, tok_s_user: tpot_ms.map(|ms| 1e3 / ms) });
        }
    }
    ensure!(
        !rows.is_empty(),
        "estimate: {name} has no level of so many requests at once with times; measure one with `tokrate bench -c 1,8 --json`"
    );
    rows.sort_by_key(|row| row.concurrency);
    let tokens = |recorded: u32, typed: u32| if recorded > 0 { recorded } else { typed };
    let asked = SpeedFlags {
        subject: flags.subject.clone(),
        concurrency: rows.iter().map(|row| row.concurrency).collect(),
        isl: tokens(record.conditions.input_tokens, flags.isl),
        osl: tokens(record.conditions.output_tokens, flags.osl),
        ..SpeedFlags::default()
    };
    let model = record.conditions.model.clone();
    Ok(Shown { record: name.to_owned(), measured_model: model, estimate: of_flags(estimator, &asked)?, rows })
}
