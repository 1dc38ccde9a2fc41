//! What is probed, how often, and what it may cost.
//!
//! Invariant: a checked configuration has at least one series, and every number that a schedule divides by is above 0.

use std::collections::BTreeSet;
use std::fmt;
use tokrate_core::{BilledTokens, Money, Price};

/// Most slots a day: one each five seconds, for simulated time that passes quickly.
pub(crate) const MAX_SLOTS_A_DAY: u32 = 17_280;
/// Milliseconds of a day.
pub(crate) const DAY_MS: u64 = 86_400_000;
/// A provider's own tokenizer may count up to so much more of a prompt than o200k does; reserved, not spent.
const INPUT_MARGIN: f64 = 1.5;

/// Everything that a schedule depends on.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// What is probed.
    pub endpoints: Vec<Endpoint>,
    /// What is asked.
    pub workloads: Vec<Workload>,
    /// Cycles a day, one in each slot.
    pub slots_a_day: u32,
    /// What it may cost.
    pub budget: Budget,
    /// Endpoints that are probed at the same time at most; always fewer than all of them.
    pub max_in_flight: usize,
    /// Determines all times.
    pub seed: u64,
}

/// An endpoint: a target and a model there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// Target and model, such as `openai/gpt-5`.
    pub name: String,
    /// Who runs it.
    pub provider: String,
    /// The host that requests go to; one probe at a time for all endpoints of it.
    pub host: String,
    /// What it charges, if that is known.
    pub price: Option<Price>,
    /// Places of its workloads in [`Config::workloads`].
    pub workloads: Vec<usize>,
}

/// What one probe asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Prompt tokens of a request (o200k_base).
    pub input_tokens: u32,
    /// Most output tokens of a request.
    pub output_tokens: u32,
    /// Requests that are sent at once.
    pub requests: u32,
    /// It is part of one cycle in so many: 1 for each.
    pub every: u32,
}

/// What all probes together may cost. Absent is without limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Budget {
    /// In a calendar month (UTC).
    pub usd_per_month: Option<Money>,
    /// Prompt and output tokens of a day (UTC).
    pub tokens_per_day: Option<u64>,
}

/// Why a configuration makes no schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConfigError {
    /// There is nothing to probe.
    Nothing,
    /// A number of slots that is not from 1 to 17,280.
    Slots(u32),
    /// Two endpoints have one name.
    Twice(String),
    /// A workload asks for nothing, or is part of no cycle.
    Workload(String),
    /// An endpoint names a workload that there is not.
    UnknownWorkload(String),
    /// A budget in dollars, and an endpoint whose price is not known.
    NoPrice(String),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Nothing => write!(formatter, "there is no endpoint with a workload"),
            ConfigError::Slots(slots) => {
                write!(formatter, "{slots} slots a day; write a number from 1 to {MAX_SLOTS_A_DAY}")
            }
            ConfigError::Twice(name) => write!(formatter, "the endpoint `{name}` is there twice"),
            ConfigError::Workload(name) => write!(formatter, "the workload `{name}` asks for nothing"),
            ConfigError::UnknownWorkload(name) => write!(formatter, "the endpoint `{name}` has an unknown workload"),
            ConfigError::NoPrice(name) => {
                write!(formatter, "the budget is in dollars, and no price of `{name}` is known")
            }
        }
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Whether a schedule can be made of it.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !(1..=MAX_SLOTS_A_DAY).contains(&self.slots_a_day) {
            return Err(ConfigError::Slots(self.slots_a_day));
        }
        if let Some(idle) =
            self.workloads.iter().find(|work| work.output_tokens == 0 || work.requests == 0 || work.every == 0)
        {
            return Err(ConfigError::Workload(idle.name.clone()));
        }
        let mut names = BTreeSet::new();
        for endpoint in &self.endpoints {
            if !names.insert(&endpoint.name) {
                return Err(ConfigError::Twice(endpoint.name.clone()));
            }
            if endpoint.workloads.iter().any(|place| *place >= self.workloads.len()) {
                return Err(ConfigError::UnknownWorkload(endpoint.name.clone()));
            }
            if self.budget.usd_per_month.is_some() && endpoint.price.is_none() {
                return Err(ConfigError::NoPrice(endpoint.name.clone()));
            }
        }
        // A hub probes nothing itself.
        let is_idle = self.endpoints.iter().all(|endpoint| endpoint.workloads.is_empty());
        if is_idle && !self.endpoints.is_empty() {
            return Err(ConfigError::Nothing);
        }
        Ok(())
    }

    /// Length of a slot (ms).
    pub fn slot_ms(&self) -> u64 {
        DAY_MS / u64::from(self.slots_a_day.clamp(1, MAX_SLOTS_A_DAY))
    }

    /// The most that one probe of a workload uses at an endpoint: tokens, and what they cost.
    pub(crate) fn most(&self, endpoint: usize, workload: usize) -> (u64, Money) {
        let workload = &self.workloads[workload];
        let (input, output) = (f64::from(workload.input_tokens) * INPUT_MARGIN, u64::from(workload.output_tokens));
        let requests = u64::from(workload.requests);
        let (input, output) = ((input.ceil() as u64).saturating_mul(requests), output.saturating_mul(requests));
        let cost = self.endpoints[endpoint].price.map_or(Money::ZERO, |price| price.cost_at_most(input, output));
        (input.saturating_add(output), cost)
    }

    /// What one probe of a workload usually uses at an endpoint.
    pub(crate) fn usual(&self, endpoint: usize, workload: usize) -> (u64, Money) {
        let workload = &self.workloads[workload];
        let requests = u64::from(workload.requests);
        let input = u64::from(workload.input_tokens).saturating_mul(requests);
        let output = u64::from(workload.output_tokens).saturating_mul(requests);
        let billed = BilledTokens { input, output, ..BilledTokens::default() };
        let cost = self.endpoints[endpoint].price.map_or(Money::ZERO, |price| price.cost(billed));
        (input.saturating_add(output), cost)
    }
}
