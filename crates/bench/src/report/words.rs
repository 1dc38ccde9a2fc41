//! Sentences of a report.
//!
//! It refuses to know layout. Invariant: a sentence never claims more than the record does.

use tokrate_meter::curve::{CurveResult, KneeStatus, SignKind};
use tokrate_meter::stats::QuantileStatus;

/// What is known of the knee, in one sentence.
pub fn knee_sentence(curve: &CurveResult) -> String {
    let knee = &curve.knee;
    let lead = match knee.status {
        KneeStatus::Agree => "Knee found",
        KneeStatus::Disagree => "No knee is stated, the methods disagree",
        KneeStatus::NoKneeInRange => "No knee within the loads that were run",
        KneeStatus::NotEnoughLevels => "Too few levels to look for a knee",
    };
    format!("{lead}: {}.", knee.reason)
}

/// The signs of saturation that need no fit, a sentence each.
pub(super) fn signs(curve: &CurveResult) -> impl Iterator<Item = String> {
    curve.signs.iter().map(|sign| {
        let percent = sign.seen * 100.0;
        match sign.kind {
            SignKind::MarginalThroughput => {
                format!(
                    "Beyond load {}, each further unit adds {percent:.0} % of what the first level's units add.",
                    sign.from
                )
            }
            SignKind::Queueing => {
                format!(
                    "Beyond load {}, TTFT grows by {percent:.0} % while throughput stands still: requests queue.",
                    sign.from
                )
            }
            SignKind::RateLimited => {
                format!("Beyond load {}, {percent:.0} % of the requests are rate-limited.", sign.from)
            }
            SignKind::Failures => format!("Beyond load {}, {percent:.0} % of the requests fail.", sign.from),
        }
    })
}

/// An interval in words; empty without one.
pub(super) fn interval(low: Option<f64>, high: Option<f64>, confidence: f64) -> String {
    match (low, high) {
        (Some(low), Some(high)) => {
            format!("{:.0} % interval {}", confidence * 100.0, tokrate_charts::format::interval(low, high))
        }
        _ => String::new(),
    }
}

/// How large the sample was, and whether it was large enough.
pub(super) fn sample(status: QuantileStatus, floor: u64, n: u64) -> String {
    match status {
        QuantileStatus::Stated => format!("n = {n}"),
        QuantileStatus::NotEnoughSamples => format!("describes n = {n} only; {floor} are needed to state it"),
        QuantileStatus::NoSamples => "no sample".to_owned(),
    }
}
