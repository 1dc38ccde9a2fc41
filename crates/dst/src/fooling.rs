//! Honest engines and ones that cheat: how often the signs of fooling accuse, and how often they see.
//!
//! It refuses to know the signs' rules. Invariant: a seed gives the same engine and the same load on every machine, and an honest
//! one does in every answer what was asked.

use crate::checkers::sum_up;
use crate::link::LinkLaw;
use crate::scenarios::{Limits, Scenario};
use crate::voice::Voice;
use crate::world::run;
use std::collections::BTreeMap;
use tokrate_core::{Rng, Span};
use tokrate_meter::SuspicionKind;
use tokrate_sim::Faults;
use tokrate_wire::Dialect;

/// What an engine may do that is not what was asked, and the sign that should show it.
pub const CHEATS: [(&str, SuspicionKind); 8] = [
    ("replay", SuspicionKind::Replayed),
    ("same_start", SuspicionKind::SharedPrefix),
    ("other_model", SuspicionKind::OtherModel),
    ("repeat", SuspicionKind::Repetition),
    ("short", SuspicionKind::LengthNotHonoured),
    ("burst", SuspicionKind::OneBurst),
    ("usage_inflated", SuspicionKind::UsageDisagrees),
    ("hidden_reasoning", SuspicionKind::ReasoningHidden),
];

/// An engine that does what it is asked, of any speed, dialect and chunking, over any link that does not break, under a load of
/// any shape.
pub fn honest(seed: u64) -> Scenario {
    let mut rng = Rng::root(seed).child("honest");
    let mut scenario = Scenario::shaped(seed);
    scenario.faults = Faults::default();
    scenario.link = LinkLaw { reset: 0.0, reset_late: 0.0, refused: 0.0, ..scenario.link };
    scenario.stop_at = None;
    scenario.limits = Limits { idle: Span::from_secs(60), total: Span::from_secs(600) };
    scenario.law.stream_tokens_per_second = 20.0 * 100_f64.powf(rng.unit());
    // Its tokens are those of its usage: of other words it may count any number.
    scenario.voice = Voice::Plain;
    scenario.dialect = Dialect::ALL[rng.below(Dialect::ALL.len() as u64) as usize];
    scenario.output_tokens = 20 + rng.below(400) as u32;
    scenario.law.reasoning_tokens = scenario.law.reasoning_tokens.min(scenario.output_tokens / 2);
    scenario
}

/// An engine that cheats in a share of its answers, asked so many times.
///
/// # Panics
/// If there is no such cheat.
pub fn cheating(seed: u64, cheat: &str, share: f64, requests: u64) -> Scenario {
    let plain = Scenario::plain(requests).closed(4).with_faults(&[&format!("{cheat}={share}")]);
    Scenario { seed, output_tokens: 250, ..plain }
}

/// The signs that a run shows, and the measured requests.
pub fn signs(scenario: &Scenario) -> (BTreeMap<SuspicionKind, (u64, u64)>, u64) {
    let (_, result) = sum_up(scenario, &run(scenario));
    let seen = result.suspicions.iter().map(|seen| (seen.kind, (seen.count, seen.of)));
    (seen.collect(), result.counts.measured)
}
