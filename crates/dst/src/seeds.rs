//! Seeds that once found a bug, kept as regression tests.
//!
//! Invariant: seeds are only added. The scenario of a seed may change with [`crate::Scenario::swarm`], so each entry says
//! what it found.

/// A regression seed.
#[derive(Clone, Copy, Debug)]
pub struct RegressionSeed {
    /// The seed of the swarm.
    pub seed: u64,
    /// Date, bug and fix: `YYYY-MM-DD crate: what`.
    pub reason: &'static str,
}

/// All regression seeds, in order of discovery.
pub const REGRESSION_SEEDS: &[RegressionSeed] =
    &[RegressionSeed { seed: 0, reason: "2026-11-21 dst: the first seed, to have one" }];
