//! Honest and cheating engines: false alarms and detection rate of the integrity checks.
//!
//! Invariant: a seed gives the same engine and load on every machine, and an honest engine does what was asked in every
//! answer.

use crate::checkers::summarize;
use crate::link::LinkLaw;
use crate::scenarios::{Limits, Scenario};
use crate::text_style::TextStyle;
use crate::world::run;
use std::collections::BTreeMap;
use tokrate_core::{Rng, Span};
use tokrate_record::SuspicionKind;
use tokrate_sim::Faults;
use tokrate_wire::Dialect;

/// Each kind of cheating and the check that should detect it.
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

/// An honest engine of any speed, dialect and chunking, over any link that does not break, under any load.
pub fn honest(seed: u64) -> Scenario {
    let mut rng = Rng::root(seed).child("honest");
    let mut scenario = Scenario::with_random_load(seed);
    scenario.faults = Faults::default();
    scenario.link = LinkLaw { reset: 0.0, reset_late: 0.0, refused: 0.0, ..scenario.link };
    scenario.stop_at = None;
    scenario.limits = Limits { idle: Span::from_secs(60), total: Span::from_secs(600) };
    scenario.law.stream_tokens_per_second = 20.0 * 100_f64.powf(rng.unit());
    // Its usage counts words; other texts have other token counts.
    scenario.text_style = TextStyle::Plain;
    scenario.dialect = Dialect::ALL[rng.below(Dialect::ALL.len() as u64) as usize];
    scenario.output_tokens = 20 + rng.below(400) as u32;
    scenario.law.reasoning_tokens = scenario.law.reasoning_tokens.min(scenario.output_tokens / 2);
    scenario
}

/// An engine that cheats in a share of its answers.
///
/// # Panics
/// If there is no such kind of cheating.
pub fn cheating(seed: u64, cheat: &str, share: f64, requests: u64) -> Scenario {
    let plain = Scenario::plain(requests).closed(4).with_faults(&[&format!("{cheat}={share}")]);
    Scenario { seed, output_tokens: 250, ..plain }
}

/// The findings of a run, and the number of measured requests.
pub fn findings(scenario: &Scenario) -> (BTreeMap<SuspicionKind, (u64, u64)>, u64) {
    let (_, result) = summarize(scenario, &run(scenario));
    let seen = result.suspicions.iter().map(|seen| (seen.kind, (seen.count, seen.of)));
    (seen.collect(), result.counts.measured)
}
