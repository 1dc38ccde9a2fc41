//! `tokrate estimate capacity`: the load within objectives, searched in virtual time.

use super::{profile, subject};
use crate::commands::Verdict;
use crate::flags::estimate::CapacityFlags;
use crate::out::estimate::capacity::{Shown, html, json, text};
use anyhow::{Result, anyhow, ensure};
use tokrate_estimate::Estimator;
use tokrate_estimate::capacity::{Search, search};
use tokrate_estimate::serving::Serving;

/// Searches and prints. Below the bar when nothing keeps the objectives, or less than was asked for.
pub fn run(flags: &CapacityFlags) -> Result<Verdict> {
    if let Some(path) = &flags.html {
        crate::out::files::check_writable(path)?;
    }
    let shown = found(&profile::estimator(&flags.subject)?, flags)?;
    if let Some(path) = &flags.html {
        crate::out::files::write(path, &html(&shown))?;
    }
    let written = if flags.json { format!("{}\n", json(&shown)) } else { text(&shown) };
    if flags.html.as_deref() != Some(std::path::Path::new("-")) {
        crate::out::stdout::write(&written)?;
    }
    Ok(if shown.carries() { Verdict::Good } else { Verdict::BelowBar })
}

/// What the search found.
pub(super) fn found(estimator: &Estimator, flags: &CapacityFlags) -> Result<Shown> {
    let objectives = subject::objectives(&flags.objectives)?;
    ensure!(flags.users != Some(0), "estimate: 0 users; check --users");
    let rate = flags.rate.as_deref().map(subject::rate).transpose()?;
    let think = flags.think.as_deref().map(subject::seconds).transpose()?.unwrap_or(0.0);
    let asked = subject::asked_with(&flags.subject, &flags.load)?;
    let lengths = subject::lengths(&flags.load)?;
    let refused = |error: String| anyhow!("estimate: {error}");
    let serving = Serving::new(estimator, &asked, &subject::tuning(&flags.load)?).map_err(refused)?;
    let kind = if rate.is_some() { Search::Rate } else { Search::Users(think) };
    let capacity = search(&serving, &lengths, kind, &objectives).map_err(refused)?;
    let price = flags.subject.price.map(|price| (price, price)).or(serving.question.device.dollars_hour);
    Ok(Shown {
        asked_model: flags.subject.model.clone(),
        precision: flags.subject.precision.clone(),
        nearest: estimator.nearest(&serving.question),
        wanted: rate.or(flags.users.map(f64::from)),
        serving,
        lengths,
        kind,
        objectives,
        slos: flags.objectives.slos.clone(),
        capacity,
        dollars_hour: price,
    })
}
