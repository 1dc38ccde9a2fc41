//! Where more load stops paying, if two unlike methods agree on it.
//!
//! It refuses to fit anything itself. Invariant: a knee is `agree` only if the scaling law, the two-line break and a
//! sign that needs no fit all speak for it.

use super::{BreakStatus, SaturationSign, SegmentedFit, SignKind, UslFit, UslNote, UslStatus};
use serde::{Deserialize, Serialize};

/// Estimates within this factor of one another are the same place.
pub const SAME_PLACE_RATIO: f64 = 1.5;

/// What the methods say together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum KneeStatus {
    /// Both fits put the knee at the same place, and a sign of saturation confirms it.
    Agree,
    /// They do not, or the signs of saturation lie elsewhere; both estimates are given.
    Disagree,
    /// Throughput still pays at the highest load that was run, or is saturated already at the lowest.
    NoKneeInRange,
    /// Fewer than four distinct loads with throughput.
    NotEnoughLevels,
}

/// The knee.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Knee {
    /// What the methods say together.
    pub status: KneeStatus,
    /// The saturation point of the scaling law, in or beyond the range.
    pub usl: Option<f64>,
    /// The break of the two-line fit, if it may be used.
    pub segmented: Option<f64>,
    /// The lower and the upper of the two when they agree.
    pub between: Option<[f64; 2]>,
    /// Why the status is what it is, for people.
    pub reason: String,
}

/// Decides. `loads` are those with throughput, rising.
pub(super) fn decide(loads: &[f64], usl: &UslFit, segmented: &SegmentedFit, signs: &[SaturationSign]) -> Knee {
    let mut distinct = loads.to_vec();
    distinct.dedup();
    let law = usl.saturation.map(|point| point.load);
    let broken = segmented.usable_break();
    let (status, reason) = if distinct.len() < 4 {
        let reason = format!("a knee needs 4 levels with throughput; there are {}", distinct.len());
        (KneeStatus::NotEnoughLevels, reason)
    } else {
        match (broken, law) {
            (Some(at), None) if usl.status == UslStatus::NotApplicable => {
                confirmed(&distinct, at, signs, format!("throughput breaks at load {at:.1}"))
            }
            (Some(at), None) => {
                let reason = format!("the two-line fit breaks at {at:.1}, the scaling law sees no ceiling");
                (KneeStatus::Disagree, reason)
            }
            (Some(at), Some(law)) if same_place(&distinct, at, law) => {
                let (low, high) = (at.min(law), at.max(law));
                confirmed(&distinct, at, signs, format!("both fits bend between {low:.1} and {high:.1}"))
            }
            (Some(at), Some(law)) => {
                let reason = format!("the scaling law puts the knee at {law:.1}, the two-line fit at {at:.1}");
                (KneeStatus::Disagree, reason)
            }
            (None, _) => without_break(&distinct, signs, usl),
        }
    };
    let mut knee = Knee { status, usl: law, segmented: broken, between: None, reason };
    if let (KneeStatus::Agree, Some(at)) = (status, broken) {
        let other = law.unwrap_or(at);
        knee.between = Some([at.min(other), at.max(other)]);
        qualify(&mut knee.reason, usl, segmented);
    }
    knee
}

/// Both fits bend at one place; what they bend to is for the signs to say.
fn confirmed(loads: &[f64], at: f64, signs: &[SaturationSign], found: String) -> (KneeStatus, String) {
    // Failures alone say that something broke, not that throughput ends.
    let mut telling = signs.iter().filter(|sign| sign.kind != SignKind::Failures).peekable();
    if telling.peek().is_none() {
        return (KneeStatus::NoKneeInRange, format!("{found}, but throughput still pays at the highest load"));
    }
    // A knee in a smooth curve lies below the load where the last tenth is gained: up to two levels.
    if telling.any(|sign| place(loads, sign.from).abs_diff(place(loads, at)) <= 2) {
        return (KneeStatus::Agree, format!("{found}, and throughput saturates there"));
    }
    (KneeStatus::Disagree, format!("{found}, but throughput saturates elsewhere"))
}

/// The two-line fit supports no break: then nothing bends, or everything did below the lowest load.
fn without_break(loads: &[f64], signs: &[SaturationSign], usl: &UslFit) -> (KneeStatus, String) {
    let from_the_start = |sign: &SaturationSign| {
        sign.kind == SignKind::MarginalThroughput && loads.first().is_some_and(|&first| sign.from <= first)
    };
    if signs.iter().any(from_the_start) {
        return (KneeStatus::NoKneeInRange, "throughput is saturated already at the lowest load".to_owned());
    }
    match usl.saturation.filter(|point| point.in_range) {
        Some(point) => {
            let law = point.load;
            let reason = format!("the scaling law puts the knee at {law:.1}, the two-line fit supports no break");
            (KneeStatus::Disagree, reason)
        }
        None => (KneeStatus::NoKneeInRange, "throughput still pays at the highest load".to_owned()),
    }
}

/// Adds to the reason what weakens an agreement.
fn qualify(reason: &mut String, usl: &UslFit, segmented: &SegmentedFit) {
    if segmented.status == BreakStatus::Untested {
        reason.push_str("; 4 levels are too few to test the break");
    }
    if let Some(error) = usl.relative_error.filter(|_| usl.notes.contains(&UslNote::PoorFit)) {
        reason.push_str(&format!("; the scaling law misses the levels by {:.0} %", error * 100.0));
    }
}

/// At most one level apart, for the levels are the resolution of both, or within a factor of 1.5: on a curve that
/// bends smoothly the two methods differ by about that much. A wide interval does not make an agreement.
fn same_place(loads: &[f64], at: f64, law: f64) -> bool {
    place(loads, at).abs_diff(place(loads, law)) <= 1 || at.max(law) <= at.min(law) * SAME_PLACE_RATIO
}

/// Which gap between levels a load falls into.
fn place(loads: &[f64], load: f64) -> usize {
    loads.partition_point(|&level| level < load)
}
