//! Everything that a monitor is told. The binary resolves names, keys and prices before.
//!
//! Invariant: no defaults that depend on the environment; a key is only in headers that are marked sensitive.

use crate::alerting::AlertSettings;
use crate::push::PushSettings;
use crate::workload::{Cadence, Workload};
use http::HeaderMap;
use std::path::PathBuf;
use tokrate_core::{Conditions, Price, Span};
use tokrate_detect::FalseAlarms;
use tokrate_net::{Authorizer, ClientConfig, Target};
use tokrate_prober::Budget;
use tokrate_record::ConditionsRow;
use tokrate_store::Shipping;
use tokrate_tokens::Encoding;
use tokrate_wire::Dialect;

/// Days of a week.
const WEEK: u32 = 7;

/// Everything that a monitor depends on.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of this prober, unique among those of one board.
    pub prober: String,
    /// Where it stands, such as `fra` or `eu-central-1`.
    pub place: String,
    /// What is probed.
    pub endpoints: Vec<Endpoint>,
    /// What is asked.
    pub workloads: Vec<Workload>,
    /// Cycles a day.
    pub slots_a_day: u32,
    /// What it may cost.
    pub budget: Budget,
    /// Endpoints that are probed at the same time at most.
    pub max_in_flight: usize,
    /// Limits of a request.
    pub limits: Limits,
    /// How long rows are kept.
    pub retention: Span,
    /// The database.
    pub database: PathBuf,
    /// Where probes and changes go beside it.
    pub shipping: Option<Shipping>,
    /// False alarms that are allowed.
    pub false_alarms: FalseAlarms,
    /// Seed of all times.
    pub seed: u64,
    /// Who gets messages of what.
    pub alerts: AlertSettings,
    /// The hub that gets what is kept here, if there is one.
    pub push: Option<PushSettings>,
    /// Name of this machine, and what kind it is.
    pub host: String,
    /// See `host`.
    pub machine: String,
    /// Version of the program.
    pub version: String,
}

/// An endpoint: a target and a model there.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Target and model, such as `openai/gpt-5`.
    pub name: String,
    /// Name of the provider, or the host of the base URL.
    pub provider: String,
    /// Model as the endpoint knows it.
    pub model: String,
    /// Wire dialect.
    pub dialect: Dialect,
    /// Base URL; the dialect's path is appended.
    pub base: Target,
    /// Headers of every request, those with keys marked sensitive.
    pub headers: HeaderMap,
    /// What authorises its requests, where no header does.
    pub authorizer: Option<Authorizer>,
    /// How connections are opened.
    pub client: ClientConfig,
    /// What it charges, if that is known.
    pub price: Option<Price>,
    /// Send the output limit as `max_tokens`.
    pub legacy_max_tokens: bool,
    /// Ask for token counts in the stream.
    pub include_usage: bool,
    /// Places of its workloads in [`Settings::workloads`].
    pub workloads: Vec<usize>,
}

/// Limits of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Without a byte.
    pub idle: Span,
    /// For the whole request.
    pub total: Span,
}

impl Settings {
    /// What the prober schedules.
    pub fn schedule(&self) -> tokrate_prober::Config {
        let workload = |workload: &Workload| tokrate_prober::Workload {
            name: workload.name.clone(),
            input_tokens: workload.prompts.input_tokens(),
            output_tokens: workload.output_tokens,
            requests: workload.requests,
            every: match workload.cadence {
                Cadence::EveryCycle => 1,
                Cadence::Daily => self.slots_a_day.max(1),
                Cadence::Weekly => self.slots_a_day.max(1).saturating_mul(WEEK),
            },
        };
        let endpoint = |endpoint: &Endpoint| tokrate_prober::Endpoint {
            name: endpoint.name.clone(),
            provider: endpoint.provider.clone(),
            host: endpoint.base.authority(),
            price: endpoint.price,
            workloads: endpoint.workloads.clone(),
        };
        tokrate_prober::Config {
            endpoints: self.endpoints.iter().map(endpoint).collect(),
            workloads: self.workloads.iter().map(workload).collect(),
            slots_a_day: self.slots_a_day,
            budget: self.budget,
            max_in_flight: self.max_in_flight,
            seed: self.seed,
        }
    }

    /// The conditions of a workload beside endpoint, provider, model and dialect, which always differ from endpoint to endpoint:
    /// equal ones may be ranked together.
    pub fn conditions(&self, workload: &Workload) -> ConditionsRow {
        ConditionsRow::from(&Conditions {
            streaming: true,
            connection: "new".to_owned(),
            input_tokens: workload.prompts.input_tokens(),
            output_tokens: workload.output_tokens,
            shared_prefix_tokens: workload.prompts.shared_prefix_tokens(),
            prompts: workload.prompts.text(),
            arrivals: "closed".to_owned(),
            concurrency: Some(workload.requests),
            tokenizer: Encoding::O200kBase.name().to_owned(),
            host: self.host.clone(),
            machine: self.machine.clone(),
            region: self.place.clone(),
            seed: self.seed,
            version: self.version.clone(),
            ..Conditions::default()
        })
    }
}
