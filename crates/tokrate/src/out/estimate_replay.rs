//! A replayed trace as rows, as a summary and as JSON.
//!
//! Invariant: every request of the trace has a row; a figure over requests says over how many.

use serde_json::{Value as Json, json as object};
use std::fmt::Write;
use tokrate_engine::EngineArgs;
use tokrate_estimate::replay::{Outcome, Replayed, Times, TraceRequest};
use tokrate_stats::{Level, Quantile};

/// What is shown.
pub struct Shown<'a> {
    /// The trace.
    pub trace: &'a [TraceRequest],
    /// What came of it.
    pub replayed: &'a Replayed,
    /// What was assumed, in words.
    pub assumed: &'a [String],
    /// Settings of each copy of the engine.
    pub args: &'a EngineArgs,
    /// Model, device, number of devices.
    pub named: &'a (String, String, u32),
}

/// A figure of all requests.
struct Figure {
    name: &'static str,
    of: fn(&Times) -> f64,
}

const FIGURES: [Figure; 3] = [
    Figure { name: "ttft_ms", of: |times| times.ttft_ms },
    Figure { name: "tpot_ms", of: |times| times.tpot_ms },
    Figure { name: "latency_ms", of: |times| times.latency_ms },
];

/// A row a request, with a head.
pub fn csv(shown: &Shown<'_>) -> String {
    let mut text =
        "request,arrival_ms,input_tokens,output_tokens,queue_ms,ttft_ms,tpot_ms,latency_ms,refused\n".to_owned();
    for (request, outcome) in shown.trace.iter().zip(&shown.replayed.outcomes) {
        let name = quoted(&request.request);
        let TraceRequest { arrival_ms, input_tokens, output_tokens, .. } = request;
        // Writing to a String cannot fail.
        let _ = match outcome {
            Outcome::Answered { queue_ms, times } => writeln!(
                text,
                "{name},{arrival_ms},{input_tokens},{output_tokens},{queue_ms:.3},{:.3},{:.4},{:.3},",
                times.ttft_ms, times.tpot_ms, times.latency_ms
            ),
            Outcome::Refused(why) => {
                writeln!(text, "{name},{arrival_ms},{input_tokens},{output_tokens},,,,,{}", quoted(why))
            }
        };
    }
    text
}

/// A value of a table with commas or quotes in it stands in quotes.
fn quoted(value: &str) -> String {
    match value.contains([',', '"']) {
        true => format!("\"{}\"", value.replace('"', "\"\"")),
        false => value.to_owned(),
    }
}

/// The summary for people.
pub fn text(shown: &Shown<'_>) -> String {
    let (model, device, devices) = shown.named;
    let (args, replayed) = (shown.args, shown.replayed);
    let mut text = format!(
        "Computed, not measured: {model} on {devices} x {device}, scheduler {}, at most {} requests and {} tokens a step\n",
        args.policy.name(),
        args.max_num_seqs,
        args.max_num_batched_tokens
    );
    let answered = answered(replayed).count();
    let preemptions: u64 = replayed.stats.iter().map(|stats| stats.preemptions).sum();
    let _ = writeln!(
        text,
        "{answered} of {} requests answered in {:.1} s of virtual time; {preemptions} preemptions",
        shown.trace.len(),
        replayed.seconds
    );
    let refusals = replayed.outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Refused(why) => Some(why),
        Outcome::Answered { .. } => None,
    });
    if let Some(why) = refusals.clone().next() {
        let _ = writeln!(text, "{} can never run; the first: {why}", refusals.count());
    }
    let _ = writeln!(text, "\n{:<12} {:>10} {:>10} {:>10} {:>10}", "", "mean", "p50", "p90", "p99");
    for figure in &FIGURES {
        let computed = summary(answered_times(shown).map(|(times, _)| (figure.of)(times)));
        let _ = writeln!(text, "{:<12} {}", figure.name, cells(computed.as_ref()));
        let measured: Option<Vec<f64>> =
            answered_times(shown).map(|(_, real)| real.map(|real| (figure.of)(&real))).collect();
        let Some((measured, computed)) = measured.and_then(|all| summary(all.into_iter())).zip(computed) else {
            continue;
        };
        let _ = writeln!(text, "{:<12} {}", "  measured", cells(Some(&measured)));
        let off: Vec<String> = computed
            .iter()
            .zip(&measured)
            .map(|(one, other)| format!("{:>+9.1}%", (one / other - 1.0) * 100.0))
            .collect();
        let _ = writeln!(text, "{:<12} {}", "  off by", off.join(" "));
    }
    for assumed in shown.assumed {
        let _ = writeln!(text, "assumed: {assumed}");
    }
    text
}

fn cells(summary: Option<&[f64; 4]>) -> String {
    let cells = summary.map(|values| values.map(|value| format!("{value:>10.2}")).join(" "));
    cells.unwrap_or_else(|| "-".to_owned())
}

fn answered(replayed: &Replayed) -> impl Iterator<Item = &Outcome> {
    replayed.outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Answered { .. }))
}

fn answered_times<'a>(shown: &'a Shown<'_>) -> impl Iterator<Item = (&'a Times, Option<Times>)> {
    shown.trace.iter().zip(&shown.replayed.outcomes).filter_map(|(request, outcome)| match outcome {
        Outcome::Answered { times, .. } => Some((times, request.real)),
        Outcome::Refused(_) => None,
    })
}

/// Mean, p50, p90, p99; `None` without a value.
fn summary(values: impl Iterator<Item = f64>) -> Option<[f64; 4]> {
    let mut values: Vec<f64> = values.collect();
    if values.is_empty() {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let at = |level| Quantile::of_sorted(&values, 0, level).nearest_rank();
    Some([mean, at(Level::P50)?, at(Level::P90)?, at(Level::P99)?])
}

/// Rows and summary as one object.
pub fn json(shown: &Shown<'_>) -> Json {
    let (model, device, devices) = shown.named;
    let rows = shown.trace.iter().zip(&shown.replayed.outcomes).map(|(request, outcome)| match outcome {
        Outcome::Answered { queue_ms, times } => object!({
            "request": request.request,
            "queue_ms": queue_ms,
            "ttft_ms": times.ttft_ms,
            "tpot_ms": times.tpot_ms,
            "latency_ms": times.latency_ms,
        }),
        Outcome::Refused(why) => object!({ "request": request.request, "refused": why }),
    });
    let figure = |figure: &Figure| {
        let values = summary(answered_times(shown).map(|(times, _)| (figure.of)(times)));
        let value = values
            .map_or(Json::Null, |[mean, p50, p90, p99]| object!({ "mean": mean, "p50": p50, "p90": p90, "p99": p99 }));
        (figure.name.to_owned(), value)
    };
    let mut summary: serde_json::Map<String, Json> = FIGURES.iter().map(figure).collect();
    summary.insert("answered".to_owned(), answered(shown.replayed).count().into());
    summary.insert("requests".to_owned(), shown.trace.len().into());
    summary.insert("seconds".to_owned(), shown.replayed.seconds.into());
    let preemptions: u64 = shown.replayed.stats.iter().map(|stats| stats.preemptions).sum();
    summary.insert("preemptions".to_owned(), preemptions.into());
    object!({
        "computed": true,
        "model": model,
        "hardware": device,
        "devices": devices,
        "engine": {
            "policy": shown.args.policy.name(),
            "max_num_seqs": shown.args.max_num_seqs,
            "max_num_batched_tokens": shown.args.max_num_batched_tokens,
            "num_blocks": shown.args.num_blocks,
            "block_size": shown.args.block_size,
        },
        "assumed": shown.assumed,
        "summary": summary,
        "rows": rows.collect::<Vec<_>>(),
    })
}
