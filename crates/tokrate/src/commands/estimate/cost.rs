//! `tokrate estimate cost`: own hardware at the load that keeps objectives, against API prices.

use super::{hosted, profile, subject};
use crate::commands::Verdict;
use crate::flags::estimate::CostFlags;
use crate::out::estimate::cost::{Api, Shown, html, json, text};
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::path::{Path, PathBuf};
use tokrate_core::Money;
use tokrate_estimate::capacity::{Objective, Search, search};
use tokrate_estimate::cost::{ApiPrice, Own};
use tokrate_estimate::model::Model;
use tokrate_estimate::serving::Serving;
use tokrate_estimate::traffic::Lengths;
use tokrate_estimate::{Estimator, Value};

/// Works it out and prints. Below the bar when nothing keeps the objectives.
pub fn run(flags: &CostFlags) -> Result<Verdict> {
    if let Some(path) = &flags.html {
        crate::out::files::check_writable(path)?;
    }
    let shown = compared(&profile::estimator(&flags.subject)?, flags)?;
    if let Some(path) = &flags.html {
        crate::out::files::write(path, &html(&shown))?;
    }
    let written = if flags.json { format!("{}\n", json(&shown)) } else { text(&shown) };
    if flags.html.as_deref() != Some(Path::new("-")) {
        crate::out::stdout::write(&written)?;
    }
    Ok(if shown.own.is_empty() { Verdict::BelowBar } else { Verdict::Good })
}

/// Own hardware and every API.
pub(super) fn compared(estimator: &Estimator, flags: &CostFlags) -> Result<Shown> {
    let objectives = subject::objectives(&flags.objectives)?;
    let asked = subject::asked_with(&flags.subject, &flags.load)?;
    let lengths = subject::lengths(&flags.load)?;
    let peak = flags.peak;
    ensure!(peak.is_finite() && peak >= 1.0, "estimate: --peak is {peak}; the busiest hour has at least the mean, 1");
    if let Some(count) = flags.requests_a_month.filter(|count| !(count.is_finite() && *count > 0.0)) {
        bail!("estimate: {count} requests a month; check --requests-a-month");
    }
    let refused = |error: String| anyhow!("estimate: {error}");
    let serving = Serving::new(estimator, &asked, &subject::tuning(&flags.load)?).map_err(refused)?;
    let price = flags.subject.price.map(|price| (price, price)).or(serving.question.device.dollars_hour);
    let (low, high) = price.with_context(|| {
        format!(
            "estimate: no price of {} is known; give dollars an hour of one with --price",
            serving.question.device.name
        )
    })?;
    let capacity = search(&serving, &lengths, Search::Rate, &objectives).map_err(refused)?;
    let at = capacity.most.and_then(|most| capacity.curve.iter().find(|tried| tried.load == most));
    // Of a load that is kept for as long as anybody likes as much comes in as is answered.
    let own = |hour: f64| {
        at.map(|tried| Own {
            dollars_hour: hour * serving.question.devices,
            requests_a_second: tried.load,
            tokens_a_second: tried.load * f64::from(lengths.osl),
        })
    };
    let mut apis = listed(estimator, &serving.question.model.name);
    check_curves(&flags.api_price, &flags.api_curve)?;
    for (place, text) in flags.api_price.iter().enumerate() {
        let within = within(flags.api_curve.get(place), &objectives, &lengths)?;
        apis.push(Api { within, ..given(text)? });
    }
    Ok(Shown {
        asked_model: flags.subject.model.clone(),
        precision: flags.subject.precision.clone(),
        given_price: flags.subject.price.is_some(),
        own: [own(low), own(high)].into_iter().flatten().collect(),
        interval: capacity.range,
        serving,
        lengths,
        slos: flags.objectives.slos.clone(),
        apis,
        month: flags.requests_a_month.map(|count| (count, peak)),
    })
}

/// The catalog's prices of models whose facts are those of this one.
fn listed(estimator: &Estimator, model: &str) -> Vec<Api> {
    let is_same = |name: &str| Model::named(&estimator.facts.models, name).is_ok_and(|found| found.name == model);
    let same = tokrate_catalog::PRICES.iter().filter(|row| is_same(row.common_name.unwrap_or(row.model)));
    let dollars = |money: Money| money.as_usd();
    same.map(|row| Api {
        name: format!("{} {}", row.provider, row.model),
        price: ApiPrice {
            input: dollars(row.price.input),
            output: dollars(row.price.output),
            cached: dollars(row.price.cached_input.unwrap_or(row.price.input)),
        },
        source: Some(row.date.to_owned()),
        within: None,
    })
    .collect()
}

/// A price as it is typed.
pub(super) fn given(text: &str) -> Result<Api> {
    let wrong = || anyhow!("estimate: the price {text:?}; write NAME=INPUT:OUTPUT in dollars a million tokens");
    let (name, prices) = text.split_once('=').ok_or_else(wrong)?;
    let prices: Vec<f64> =
        prices.split(':').map(|part| part.trim().parse().map_err(|_| wrong())).collect::<Result<_>>()?;
    ensure!(
        prices.iter().all(|price| price.is_finite() && *price > 0.0),
        "estimate: the price {text:?} is not above 0; leave out an API whose price is not known"
    );
    let price = match prices[..] {
        [input, output] => ApiPrice { input, output, cached: input },
        [input, output, cached] => ApiPrice { input, output, cached },
        _ => return Err(wrong()),
    };
    Ok(Api { name: name.to_owned(), price, source: None, within: None })
}

/// Laws are those of the APIs with a price, in that order.
pub(super) fn check_curves(prices: &[String], curves: &[PathBuf]) -> Result<()> {
    ensure!(
        curves.len() <= prices.len(),
        "estimate: {} laws of {} APIs; name the price of each with --api-price",
        curves.len(),
        prices.len()
    );
    Ok(())
}

/// The most requests in flight within which an API keeps the objectives, by a law of `fit-api`; `None` without one.
pub(super) fn within(curve: Option<&PathBuf>, objectives: &[Objective], lengths: &Lengths) -> Result<Option<Value>> {
    let Some(path) = curve else { return Ok(None) };
    let most = hosted::read(path)?.most_within(objectives, (f64::from(lengths.isl), f64::from(lengths.osl)));
    Ok(Some(most.map_err(|error| anyhow!("estimate: {}: {error}", path.display()))?))
}
