//! Calls with prompts that begin alike, and engines that keep what they computed: what a choice of lanes by their caches gains.
//!
//! The engines are schedulers with a prefix cache and steps of a known law; sessions go on when they are answered. Invariant: a
//! [`CacheScenario`] determines its [`CacheSummary`].

mod engines;
mod selectors;
mod summary;
mod workload;
mod world;

pub use engines::{CacheEngine, StepLaw, knee_sessions};
pub use selectors::CacheSelector;
pub use summary::CacheSummary;
pub use workload::{CacheWorkload, SessionKind};
pub use world::run_caches;

use tokrate_core::Span;

/// A run.
#[derive(Clone, Debug)]
pub struct CacheScenario {
    /// Seed of all randomness.
    pub seed: u64,
    /// The engines.
    pub engines: Vec<CacheEngine>,
    /// What clients do.
    pub workload: CacheWorkload,
    /// New sessions a second, as a Poisson process.
    pub sessions_per_second: f64,
    /// Who chooses.
    pub selector: CacheSelector,
    /// Most of what is spent that hedges may add; `None`: no hedges.
    pub hedge_share: Option<f64>,
    /// Calls that arrive before this are served but not measured.
    pub warmup: Span,
    /// How long calls are measured.
    pub measured: Span,
    /// When an engine restarts, and which: its cache is empty from then on, and what it was doing begins anew.
    pub restart: Option<(Span, usize)>,
}
