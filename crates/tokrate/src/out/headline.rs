//! What a run comes to in a few lines: how fast, up to which load, how sure, what limits.
//!
//! It refuses to judge anew: every number is in the record. Invariant: a figure that is not there says why.

use tokrate_bench::report::{capacity_sentences, sign_sentences};
use tokrate_charts::format::number;
use tokrate_meter::Metric;
use tokrate_meter::run::SpeedQuantile;
use tokrate_meter::stats::Quantile;
use tokrate_meter::{PhaseResult, Record};

/// The lines, each with its label. A line that goes on under the same label has an empty one.
pub fn lines(record: &Record) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(search) = &record.search {
        lines.push(("Found", search.sentence.clone()));
    }
    let measured: Vec<&PhaseResult> = record.phases.iter().filter(|phase| phase.counts.answered > 0).collect();
    let Some(first) = measured.first() else { return lines };
    lines.push(("How fast", format!("{} ({}, n = {})", at(first), first.name, first.counts.measured)));
    let throughput = |phase: &PhaseResult| phase.throughput.as_ref().map_or(0.0, |all| all.tokens_per_second);
    let most = measured.iter().max_by(|a, b| throughput(a).total_cmp(&throughput(b)));
    if let Some(most) = most.filter(|most| measured.len() > 1 && throughput(most) > 0.0) {
        let p95 = value(&most.ttft.p95).map_or_else(String::new, |p95| format!("; TTFT p95 {p95} ms"));
        lines.push(("Most", format!("{} tok/s in all at {}: {}{p95}", number(throughput(most)), most.name, at(most))));
    }
    if let Some(curve) = &record.curve {
        lines.extend(labelled("Carries", capacity_sentences(curve)));
        lines.extend(labelled("Limits", sign_sentences(curve).into_iter().take(2).collect()));
    }
    lines.push(("How sure", certainty(&measured)));
    if let Some(spending) = record.spending.filter(|spending| spending.usd > 0.0) {
        lines.push(("Cost", format!("${:.6} in all", spending.usd)));
    }
    lines
}

fn labelled(label: &'static str, texts: Vec<String>) -> impl Iterator<Item = (&'static str, String)> {
    texts.into_iter().enumerate().map(move |(place, text)| (if place == 0 { label } else { "" }, text))
}

/// Speed and time to first token of a level.
fn at(phase: &PhaseResult) -> String {
    let speed = match speed(&phase.output_speed.median) {
        Some(speed) => format!("{speed} tok/s a request"),
        None => without(phase, Metric::OutputSpeed),
    };
    let first = match (value(&phase.ttft.p50), value(&phase.e2e.p50)) {
        (Some(ttft), _) => format!("first token after {ttft} ms"),
        (None, Some(e2e)) => format!("{}; whole answer after {e2e} ms", without(phase, Metric::Ttft)),
        (None, None) => without(phase, Metric::Ttft),
    };
    format!("{speed}, {first}")
}

/// That a figure is not there, and why.
fn without(phase: &PhaseResult, figure: Metric) -> String {
    let why = phase.absent(figure).map_or_else(String::new, |why| format!(" ({why})"));
    format!("no {}{why}", figure.name())
}

fn speed(quantile: &SpeedQuantile) -> Option<String> {
    shown(quantile.value, quantile.low.zip(quantile.high), quantile.descriptive)
}

fn value(quantile: &Quantile) -> Option<String> {
    shown(quantile.value, quantile.low.zip(quantile.high), quantile.descriptive)
}

/// A number with its interval; `~` before one that describes too few samples.
fn shown(value: Option<f64>, interval: Option<(f64, f64)>, descriptive: Option<f64>) -> Option<String> {
    match (value, interval, descriptive) {
        (Some(value), Some((low, high)), _) => Some(format!("{} [{}..{}]", number(value), number(low), number(high))),
        (Some(value), None, _) => Some(number(value)),
        (None, _, Some(value)) => Some(format!("~{}", number(value))),
        (None, _, None) => None,
    }
}

/// How many requests stand behind the numbers and what the client adds to them.
fn certainty(measured: &[&PhaseResult]) -> String {
    let counts = || measured.iter().map(|phase| phase.counts.measured);
    let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
    let n = if least == most { format!("n = {least}") } else { format!("n = {least} to {most} a level") };
    let worst = |of: fn(&tokrate_meter::ClientError) -> Option<f64>| {
        measured.iter().filter_map(|phase| of(phase.client_error.as_ref()?)).max_by(f64::total_cmp)
    };
    let invalid = measured.iter().filter(|phase| !phase.is_valid()).count();
    let ttft = worst(|error| Some(error.ttft_added_p50_ns? as f64 / 1e6));
    let gap = worst(|error| Some(error.gap_added_p50_ns? as f64 / 1e6));
    let client = match ttft.zip(gap) {
        Some((ttft, gap)) => format!("; the client adds up to {ttft:.2} ms to TTFT and {gap:.3} ms to gaps (medians)"),
        None => "; the client's own error is not known".to_owned(),
    };
    let invalid = match invalid {
        0 => String::new(),
        1 => "; NOT VALID in part at 1 level, see above".to_owned(),
        levels => format!("; NOT VALID in part at {levels} levels, see above"),
    };
    format!("[a..b] are 95 % intervals, ~ is too few to state one; {n}{client}{invalid}")
}
