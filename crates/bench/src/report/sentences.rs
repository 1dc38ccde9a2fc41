//! Sentences of a report: capacity, saturation, sample sizes.

use tokrate_charts::format;
use tokrate_record::curve::{
    CurveResult, FigureStatus, LoadAxis, LoadFigure, NEARLY_ALL_SHARE, SaturationSign, SignKind,
};
use tokrate_stats::QuantileStatus;

/// What the endpoint carries: where a request slows, where nearly all throughput is reached, where waiting begins.
pub fn capacity_sentences(curve: &CurveResult) -> Vec<String> {
    let capacity = &curve.capacity;
    let unit = match curve.axis {
        LoadAxis::Concurrency => "in flight",
        LoadAxis::Rate => "req/s",
    };
    let share = NEARLY_ALL_SHARE * 100.0;
    let sentence = |what: String, figure: &LoadFigure| match (figure.status, figure.load, figure.low, figure.high) {
        (FigureStatus::Found, Some(load), Some(low), Some(high)) => {
            format!("{what}: {} [{}..{}] {unit}.", format::number(load), format::number(low), format::number(high))
        }
        (FigureStatus::Between, _, Some(low), Some(high)) => {
            let (low, high) = (format::number(low), format::number(high));
            format!("{what}: somewhere from {low} to {high} {unit}; {}.", figure.reason)
        }
        (FigureStatus::Between, _, Some(low), None) => {
            format!("{what}: not below {} {unit}; {}.", format::number(low), figure.reason)
        }
        _ => format!("{what}: not found; {}.", figure.reason),
    };
    let slows = "A request slows by more than throughput gains beyond";
    let nearly_all = format!("{share:.0} % of the most throughput is reached at");
    let (first, second) = (&capacity.slows, &capacity.nearly_all);
    let is_one_reason =
        [first, second].iter().all(|figure| figure.status == FigureStatus::Unknown) && first.reason == second.reason;
    let mut sentences = match is_one_reason {
        true => vec![format!("{slows}, and {nearly_all}: neither was found; {}.", first.reason)],
        false => vec![sentence(slows.to_owned(), first), sentence(nearly_all, second)],
    };
    sentences.push(sentence("Requests begin to wait beyond".to_owned(), &capacity.waits));
    sentences
}

/// The signs of saturation that need no fit, a sentence each.
pub fn sign_sentences(curve: &CurveResult) -> Vec<String> {
    let (beyond, one_more) = match curve.axis {
        LoadAxis::Concurrency => ("requests in flight", "each further one"),
        LoadAxis::Rate => ("requests per second", "each further one a second"),
    };
    let sentence = |sign: &SaturationSign| {
        // Rounded here, so that a little less than nothing is nothing.
        let percent = (sign.seen * 100.0).round() + 0.0;
        match sign.kind {
            SignKind::MarginalThroughput => {
                format!(
                    "Beyond {} {beyond}, {one_more} adds {percent:.0} % of the throughput that each adds at the lowest level.",
                    format::plain(sign.from)
                )
            }
            SignKind::Queueing => {
                format!(
                    "Beyond {} {beyond}, TTFT grows by {percent:.0} % while throughput stands still: requests queue.",
                    format::plain(sign.from)
                )
            }
            SignKind::RateLimited => {
                format!("Beyond {} {beyond}, {percent:.0} % are rate-limited.", format::plain(sign.from))
            }
            SignKind::Failures => {
                format!("Beyond {} {beyond}, {percent:.0} % fail.", format::plain(sign.from))
            }
        }
    };
    curve.signs.iter().map(sentence).collect()
}

/// An interval in words; empty without one.
pub(super) fn interval(low: Option<f64>, high: Option<f64>, confidence: f64) -> String {
    match (low, high) {
        (Some(low), Some(high)) => {
            format!("{:.0} % interval {}", confidence * 100.0, format::interval(low, high))
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
        QuantileStatus::Computed => "computed, not measured".to_owned(),
        QuantileStatus::Undetermined => "too many answers could not be timed".to_owned(),
    }
}
