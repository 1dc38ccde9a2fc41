//! A fleet of simulated engines behind the routing decisions of a gateway, in virtual time.
//!
//! Emissions reach the race as events after the latency of the lane; there are no bytes or dialects. Invariant: a
//! [`FleetScenario`] determines the [`FleetHistory`] to the nanosecond; costs are checked against what the engines
//! generated.

mod calls;
mod lanes;
mod oracle;
mod summary;
mod world;

pub use calls::{AttemptRecord, CallEnd, CallRecord, LaneLedger};
pub use lanes::{knee_of, knee_throughput};
pub use summary::Summary;
pub use world::{FleetHistory, run_fleet};

use tokrate_core::Span;
use tokrate_route::{BudgetConfig, LoserPolicy, Policy, RaceConfig, RouterConfig};
use tokrate_sim::Persona;

/// A provider and its network latency.
#[derive(Clone, PartialEq, Debug)]
pub struct FleetLane {
    /// The provider.
    pub persona: Persona,
    /// One-way latency.
    pub latency: Span,
    /// What happens to attempts that lose.
    pub loser: LoserPolicy,
}

/// The load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Workload {
    /// Calls per second, as a Poisson process.
    pub calls_per_second: f64,
    /// Calls that arrive before this are served but not measured.
    pub warmup: Span,
    /// Duration of the measured window after the warm-up.
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
    /// Chat: prompts of 800 and answers of 250 tokens on average, with high variation.
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

/// Who selects the lane.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LaneSelector {
    /// The router, by a policy, from its own measurements.
    Router(Policy),
    /// Perfect knowledge of every engine and of the answer length; minimises the time of this call.
    Oracle,
    /// The same, but minimises the total time of all calls.
    SelflessOracle,
}

/// A fleet run: lanes, load and settings.
#[derive(Clone, PartialEq, Debug)]
pub struct FleetScenario {
    /// Seed of all randomness.
    pub seed: u64,
    /// The providers.
    pub lanes: Vec<FleetLane>,
    /// The load.
    pub workload: Workload,
    /// Who chooses.
    pub selector: LaneSelector,
    /// Race settings of every call.
    pub race: RaceConfig,
    /// Budget for extra requests; `None` for no limit.
    pub budget: Option<BudgetConfig>,
    /// The router's settings.
    pub router: RouterConfig,
}
