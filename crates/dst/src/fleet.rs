//! A fleet of simulated engines behind the decisions of a gateway, in virtual time: which lane a call goes to, what races cost.
//!
//! It refuses to know sockets and dialects: what an engine emits reaches the race as events, after the lane's latency.
//! Invariant: a [`FleetScenario`] determines the [`FleetHistory`] in every nanosecond; what a call cost is held against what
//! the engines gave out, not against itself.

mod calls;
mod drawn;
mod oracle;
mod summary;
mod world;

pub use calls::{AttemptRecord, CallEnd, CallRecord, LaneLedger};
pub use drawn::{knee_of, knee_throughput};
pub use summary::Summary;
pub use world::{FleetHistory, run_fleet};

use tokrate_core::Span;
use tokrate_route::{BudgetConfig, LoserPolicy, Policy, RaceConfig, RouterConfig};
use tokrate_sim::Persona;

/// A provider and the way to it.
#[derive(Clone, PartialEq, Debug)]
pub struct FleetLane {
    /// What it is.
    pub persona: Persona,
    /// Time that everything takes to it, and from it.
    pub latency: Span,
    /// What becomes of attempts that lose.
    pub loser: LoserPolicy,
}

/// What is asked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Workload {
    /// Calls a second, as a Poisson process.
    pub calls_per_second: f64,
    /// Calls that arrive before this are answered and not counted.
    pub warmup: Span,
    /// For so long after it calls arrive and are counted.
    pub measured: Span,
    /// Mean tokens of prompts, log-normal.
    pub prompt_mean: f64,
    /// Their coefficient of variation.
    pub prompt_variation: f64,
    /// Mean tokens of answers, log-normal.
    pub output_mean: f64,
    /// Their coefficient of variation.
    pub output_variation: f64,
}

impl Default for Workload {
    /// Chat: prompts of 800 tokens and answers of 250 on average, both spread widely.
    fn default() -> Workload {
        Workload {
            calls_per_second: 5.0,
            warmup: Span::from_secs(60),
            measured: Span::from_secs(120),
            prompt_mean: 800.0,
            prompt_variation: 0.8,
            output_mean: 250.0,
            output_variation: 0.7,
        }
    }
}

/// Who chooses the lane.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Chooser {
    /// The router, by a policy: it knows what it measured.
    By(Policy),
    /// One that knows every engine's law, its present state and the length of the answer to come, and takes what is quickest for
    /// this call.
    Oracle,
    /// The same, but it takes what is quickest for all: what this call adds to the others counts as well.
    SelflessOracle,
}

/// A fleet, its load, and the rules.
#[derive(Clone, PartialEq, Debug)]
pub struct FleetScenario {
    /// Of everything that is drawn.
    pub seed: u64,
    /// The providers.
    pub lanes: Vec<FleetLane>,
    /// The load.
    pub workload: Workload,
    /// Who chooses.
    pub chooser: Chooser,
    /// The race of every call.
    pub race: RaceConfig,
    /// What extra requests may cost; `None` for no limit.
    pub budget: Option<BudgetConfig>,
    /// The router's settings.
    pub router: RouterConfig,
}
