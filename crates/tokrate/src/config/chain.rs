//! The file of `tokrate estimate chain`: speeds, plans and steps, read and checked for names.
//!
//! Invariant: every name that a step or a plan uses exists; where times come from is one thing only.

use super::quantity::{self, Written};
use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tokrate_estimate::chain::{Chain, Spread, Step};
use tokrate_estimate::cost::ApiPrice;

/// The whole file.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Name of the chain.
    pub name: String,
    /// What it stands for, and where its numbers are from.
    #[serde(default)]
    pub about: String,
    /// Where times come from, by name.
    #[serde(default)]
    pub speeds: BTreeMap<String, SpeedRow>,
    /// Who answers which role, by the plan's name; without one each role is answered by the speed of that name.
    #[serde(default)]
    pub plans: BTreeMap<String, BTreeMap<String, String>>,
    /// The steps.
    #[serde(default)]
    steps: Vec<StepRow>,
}

/// Where times come from.
#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct SpeedRow {
    /// Stated: time to the first token.
    ttft: Option<Scatter>,
    /// Stated: new prompt tokens/s, on top of that.
    prefill: Option<f64>,
    /// Stated: tokens/s of the answer.
    output_speed: Option<Scatter>,
    /// A program: how long it takes.
    seconds: Option<Scatter>,
    /// Estimated: name of the model, and what it runs on.
    pub model: Option<String>,
    /// Device.
    pub hardware: Option<String>,
    /// Devices.
    pub gpus: Option<u32>,
    /// Storage of the weights.
    pub precision: Option<String>,
    /// Engine.
    pub engine: Option<String>,
    /// Users of it at once.
    pub users: Option<u32>,
    /// Measured: a record of `tokrate bench`.
    pub record: Option<PathBuf>,
    /// Requests at once of the record's level.
    pub concurrency: Option<u32>,
    /// Measured: a gateway's throughput log, or `clickhouse://…`.
    pub log: Option<PathBuf>,
    /// Lane of the log.
    pub lane: Option<String>,
    /// Measured: a law of `tokrate estimate fit-api`.
    pub curve: Option<PathBuf>,
    /// Dollars a million tokens.
    price: Option<PriceRow>,
    /// The catalog's price of `provider/model`.
    pub listed: Option<String>,
    /// Whether calls cost nothing by themselves.
    #[serde(default)]
    pub free: bool,
    /// Share of calls that fail and are made again.
    #[serde(default)]
    pub failures: f64,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct PriceRow {
    input: f64,
    output: f64,
    cached: Option<f64>,
}

/// A number or time, or its median with the slow end.
#[derive(Deserialize, Debug, Clone)]
#[serde(untagged)]
enum Scatter {
    Number(f64),
    Text(String),
    Spread { p50: Written, p95: Option<Written>, p5: Option<Written> },
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct StepRow {
    name: String,
    role: Option<String>,
    after: Option<Vec<String>>,
    #[serde(default)]
    input: f64,
    #[serde(default)]
    cached: f64,
    #[serde(default)]
    grows: f64,
    #[serde(default)]
    output: f64,
    tool: Option<Scatter>,
    repeat: Option<u32>,
    fan_out: Option<u32>,
    race: Option<u32>,
    #[serde(default)]
    again: f64,
    most_again: Option<u32>,
}

/// Where the times of a speed come from.
#[derive(Clone, PartialEq, Debug)]
pub enum Source {
    /// As stated.
    Stated {
        /// Seconds to the first token.
        ttft: Spread,
        /// New prompt tokens/s.
        prefill: Option<f64>,
        /// Tokens/s.
        speed: Spread,
    },
    /// A program.
    Program(Spread),
    /// An estimate of a model on devices.
    Estimate,
    /// A record of a bench.
    Record(PathBuf),
    /// A lane of a gateway's log.
    Log(PathBuf, String),
    /// A law of a hosted endpoint.
    Curve(PathBuf),
}

/// How often a result that is not good is made again, by default.
const MOST_AGAIN: u32 = 3;

/// Reads a chain.
pub fn read(text: &str) -> Result<File> {
    let file: File = toml::from_str(text).context("understand the chain")?;
    for (name, row) in &file.speeds {
        row.source().and_then(|_| row.price()).map(|_| ()).with_context(|| format!("read [speeds.{name}]"))?;
        let share = row.failures;
        ensure!(
            (0.0..1.0).contains(&share),
            "read [speeds.{name}]: failures is {share}; give a share from 0 to below 1"
        );
    }
    Ok(file)
}

impl File {
    /// The steps as a chain.
    pub fn chain(&self) -> Result<Chain> {
        let mut steps: Vec<Step> = Vec::new();
        let place = |name: &str| self.steps.iter().position(|step| step.name == name);
        for (at, row) in self.steps.iter().enumerate() {
            ensure!(place(&row.name) == Some(at), "two steps are named {:?}", row.name);
            let after = match &row.after {
                None => (at > 0).then(|| at - 1).into_iter().collect(),
                Some(names) => names
                    .iter()
                    .map(|name| {
                        place(name).with_context(|| format!("step {:?} waits for {name:?}, which is no step", row.name))
                    })
                    .collect::<Result<_>>()?,
            };
            let tool = row
                .tool
                .as_ref()
                .map(time)
                .transpose()
                .with_context(|| format!("read the tool of step {:?}", row.name))?;
            steps.push(Step {
                name: row.name.clone(),
                role: row.role.clone(),
                after,
                input: row.input,
                cached: row.cached,
                grows: row.grows,
                output: row.output,
                tool,
                repeat: row.repeat.unwrap_or(1),
                fan_out: row.fan_out.unwrap_or(1),
                race: row.race.unwrap_or(1),
                again: (row.again, row.most_again.unwrap_or(MOST_AGAIN)),
            });
        }
        let chain = Chain { name: self.name.clone(), steps };
        chain.check().map_err(|error| anyhow!("{error}"))?;
        Ok(chain)
    }

    /// Each plan with the name of the speed of each role.
    pub fn plans(&self, chain: &Chain) -> Result<Vec<(String, BTreeMap<String, String>)>> {
        let roles: Vec<&String> = chain.steps.iter().filter_map(|step| step.role.as_ref()).collect();
        let own = || roles.iter().map(|role| ((*role).clone(), (*role).clone())).collect();
        let plans: Vec<(String, BTreeMap<String, String>)> = match self.plans.is_empty() {
            true => vec![("as given".to_owned(), own())],
            false => self.plans.iter().map(|(name, roles)| (name.clone(), roles.clone())).collect(),
        };
        for (name, plan) in &plans {
            for role in &roles {
                let speed =
                    plan.get(*role).with_context(|| format!("plan {name:?} says nothing of the role {role:?}"))?;
                let known: Vec<&str> = self.speeds.keys().map(String::as_str).collect();
                ensure!(
                    self.speeds.contains_key(speed),
                    "plan {name:?}: {role} is answered by {speed:?}, which is none of the speeds ({})",
                    known.join(", ")
                );
            }
        }
        Ok(plans)
    }
}

impl SpeedRow {
    /// Where its times come from.
    pub fn source(&self) -> Result<Source> {
        let given = [
            self.output_speed.is_some(),
            self.seconds.is_some(),
            self.model.is_some(),
            self.record.is_some(),
            self.log.is_some(),
            self.curve.is_some(),
        ];
        ensure!(
            given.iter().filter(|given| **given).count() == 1,
            "give one of output_speed (with ttft), seconds, model (with hardware), record, log (with lane), curve (with users)"
        );
        if let Some(speed) = &self.output_speed {
            let speed = self::speed(speed)?;
            let ttft = time(self.ttft.as_ref().context("ttft is missing beside output_speed")?)?;
            if let Some(rate) = self.prefill.filter(|rate| !(rate.is_finite() && *rate > 0.0)) {
                bail!("prefill is {rate}; give tokens/s above 0");
            }
            return Ok(Source::Stated { ttft, prefill: self.prefill, speed });
        }
        if let Some(seconds) = &self.seconds {
            return Ok(Source::Program(time(seconds)?));
        }
        if self.model.is_some() {
            ensure!(self.hardware.is_some(), "hardware is missing beside model");
            ensure!(self.users != Some(0) && self.gpus != Some(0), "users and gpus are at least 1");
            return Ok(Source::Estimate);
        }
        if let Some(path) = &self.curve {
            ensure!(self.users != Some(0), "users is at least 1");
            return Ok(Source::Curve(path.clone()));
        }
        match (&self.record, &self.log, &self.lane) {
            (Some(path), ..) => Ok(Source::Record(path.clone())),
            (_, Some(path), Some(lane)) => Ok(Source::Log(path.clone(), lane.clone())),
            _ => bail!("lane is missing beside log"),
        }
    }

    /// What it charges, where that is said.
    pub fn price(&self) -> Result<Option<ApiPrice>> {
        if let Some(price) = &self.price {
            let price =
                ApiPrice { input: price.input, output: price.output, cached: price.cached.unwrap_or(price.input) };
            let all = [price.input, price.output, price.cached];
            ensure!(all.iter().all(|part| part.is_finite() && *part >= 0.0), "prices are numbers of at least 0");
            ensure!(
                all.iter().any(|part| *part > 0.0),
                "a price of 0; write `free = true` for calls that cost nothing"
            );
            return Ok(Some(price));
        }
        let Some(listed) = &self.listed else { return Ok(None) };
        let found = listed.split_once('/').and_then(|(provider, model)| tokrate_catalog::price(provider, model));
        let row =
            found.with_context(|| format!("the catalog has no price of {listed:?}; write it as provider/model"))?;
        Ok(Some(ApiPrice {
            input: row.price.input.as_usd(),
            output: row.price.output.as_usd(),
            cached: row.price.cached_input.unwrap_or(row.price.input).as_usd(),
        }))
    }
}

/// A time with its slow end.
fn time(scatter: &Scatter) -> Result<Spread> {
    let seconds = |written: &Written| -> Result<f64> {
        match written {
            Written::Number(number) => Ok(*number),
            Written::Text(text) => Ok(quantity::span(text)?.as_secs_f64()),
        }
    };
    let spread = match scatter {
        Scatter::Number(number) => Spread { median: *number, slow: *number },
        Scatter::Text(text) => {
            let median = quantity::span(text)?.as_secs_f64();
            Spread { median, slow: median }
        }
        Scatter::Spread { p50, p95, p5: None } => {
            let median = seconds(p50)?;
            Spread { median, slow: p95.as_ref().map(seconds).transpose()?.unwrap_or(median) }
        }
        Scatter::Spread { .. } => bail!("a time has p50 and p95"),
    };
    ensure!(
        spread.median.is_finite() && spread.median >= 0.0 && spread.slow.is_finite() && spread.slow >= spread.median,
        "a time of {} s with a p95 of {} s; the p95 is no less than the p50, and neither below 0",
        spread.median,
        spread.slow
    );
    Ok(spread)
}

/// A speed with its slow end.
fn speed(scatter: &Scatter) -> Result<Spread> {
    let number = |written: &Written| match written {
        Written::Number(number) => Ok(*number),
        Written::Text(text) => bail!("a speed of {text:?}; give tokens/s as a number"),
    };
    let spread = match scatter {
        Scatter::Number(number) => Spread { median: *number, slow: *number },
        Scatter::Spread { p50, p95: None, p5 } => {
            let median = number(p50)?;
            Spread { median, slow: p5.as_ref().map(number).transpose()?.unwrap_or(median) }
        }
        Scatter::Spread { .. } => bail!("a speed has p50 and p5, which is its slow end"),
        Scatter::Text(text) => bail!("a speed of {text:?}; give tokens/s as a number"),
    };
    ensure!(
        spread.median.is_finite() && spread.slow > 0.0 && spread.slow <= spread.median,
        "a speed of {} tok/s with a p5 of {}; the p5 is no more than the p50, and above 0",
        spread.median,
        spread.slow
    );
    Ok(spread)
}
