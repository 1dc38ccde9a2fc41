//! Seeds that once showed something, kept for ever.
//!
//! It refuses to know what the scenarios are. Invariant: a seed is only ever added; its scenario may change with
//! [`crate::Scenario::swarm`], so each entry says what it showed.

/// A kept seed.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// The seed of the swarm.
    pub seed: u64,
    /// When, what was wrong, and where it was put right: `YYYY-MM-DD crate: what`.
    pub why: &'static str,
}

/// All kept seeds, in order of finding.
pub const KEPT: &[Kept] = &[Kept { seed: 0, why: "2026-11-21 dst: the first seed, to have one" }];
