//! A measured record beside its estimate.
//!
//! Invariant: what is measured and what is computed are never in one column.

use super::{Shown as Estimate, interval, short};
use serde_json::{Value as Json, json as object};
use std::fmt::Write;
use tokrate_estimate::Answer;

/// What was measured at a load.
pub struct Compared {
    /// Requests at once.
    pub concurrency: u32,
    /// Median TTFT, ms.
    pub ttft_ms: Option<f64>,
    /// Median tokens/s of a request.
    pub tok_s_user: Option<f64>,
}

/// A record and its estimate, with the same loads in the same order.
pub struct Shown {
    /// The record's file.
    pub record: String,
    /// The model that the record names.
    pub measured_model: String,
    /// The estimate.
    pub estimate: Estimate,
    /// What was measured.
    pub rows: Vec<Compared>,
}

impl Shown {
    fn answer(&self, row: &Compared) -> Option<&Answer> {
        self.estimate.loads.iter().find(|load| load.concurrency == row.concurrency).map(|load| &load.answer)
    }

    /// Measured over expected speed.
    fn ratio(&self, row: &Compared) -> Option<f64> {
        Some(row.tok_s_user? / self.answer(row)?.tok_s_user?.value)
    }

    /// Whether the measured speed lies below the interval.
    pub fn is_slower(&self, row: &Compared) -> bool {
        let low = self.answer(row).and_then(|answer| answer.tok_s_user).map(|speed| speed.low);
        row.tok_s_user.zip(low).is_some_and(|(measured, low)| measured < low)
    }

    fn is_faster(&self, row: &Compared) -> bool {
        let high = self.answer(row).and_then(|answer| answer.tok_s_user).map(|speed| speed.high);
        row.tok_s_user.zip(high).is_some_and(|(measured, high)| measured > high)
    }

    fn verdict(&self, row: &Compared) -> &'static str {
        match row {
            row if self.is_slower(row) => "slower than the interval",
            row if self.is_faster(row) => "faster than the interval",
            _ => "within the interval",
        }
    }
}

/// What to try, by what binds.
fn to_try(binds: &str) -> &'static str {
    match binds {
        "bandwidth" => "weights in fewer bits (fp8, int4), a draft (speculation), or more devices a copy",
        "compute" => "weights in a format that the devices multiply (fp8, nvfp4), or fewer requests at once",
        "cache bandwidth" => "a cache in 8 bits, shorter contexts, or more devices a copy",
        "communication" => "fewer devices a copy and more copies, or a faster link",
        "overhead" => "CUDA graphs, a newer engine, or more requests at once",
        "prefill" => "a prefix cache with shared beginnings, prompts on devices of their own, or shorter prompts",
        "KV room" => "a cache in 8 bits, more devices, or fewer requests at once",
        _ => "what else the devices do meanwhile",
    }
}

/// The comparison for people.
pub fn text(shown: &Shown) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = written(&mut text, shown);
    text
}

fn written(text: &mut String, shown: &Shown) -> std::fmt::Result {
    let estimate = &shown.estimate;
    writeln!(
        text,
        "{} (measured, model {:?}) against {} on {} x {} (computed); prompts of {} tokens, answers of {}\n",
        shown.record,
        shown.measured_model,
        estimate.asked_model,
        estimate.devices,
        estimate.device.name,
        estimate.isl,
        estimate.osl
    )?;
    writeln!(
        text,
        "{:>6}  {:>14} {:<22} {:>8}  {:>9}  {:>14} {:<26}  verdict",
        "users", "tok/s measured", "computed", "quotient", "MBU", "TTFT measured", "computed"
    )?;
    for row in &shown.rows {
        let Some(answer) = shown.answer(row) else { continue };
        let number =
            |value: Option<f64>, unit: &str| value.map_or("-".to_owned(), |value| format!("{}{unit}", short(value)));
        let ratio = shown.ratio(row);
        writeln!(
            text,
            "{:>6}  {:>14} {:<22} {:>8}  {:>9}  {:>14} {:<26}  {}",
            row.concurrency,
            number(row.tok_s_user, ""),
            interval(answer.tok_s_user, ""),
            number(ratio, ""),
            ratio.map_or("-".to_owned(), |ratio| format!("{:.0} %", answer.mbu * ratio * 100.0)),
            number(row.ttft_ms, " ms"),
            interval(answer.ttft_ms, " ms"),
            shown.verdict(row)
        )?;
    }
    writeln!(text)?;
    let Some((row, answer)) = shown.rows.last().and_then(|row| Some((row, shown.answer(row)?))) else { return Ok(()) };
    if shown.rows.iter().any(|row| shown.is_slower(row)) {
        writeln!(
            text,
            "Slower than such devices have been measured. Look first at: whether the record says client_limited; whether other work runs on\n\
             the devices; a limit of requests at once (max_num_seqs); CUDA graphs; the version of the engine; power or heat limits."
        )?;
    }
    if shown.rows.iter().any(|row| shown.is_faster(row)) {
        writeln!(
            text,
            "Faster than the interval. Look first at: prompts that a prefix cache holds, a draft, or facts that are not those of the\n\
             server (precision, devices)."
        )?;
    }
    writeln!(
        text,
        "At {} users what binds is {}; to be faster, try {}.",
        row.concurrency,
        answer.binds,
        to_try(answer.binds)
    )
}

/// The comparison as JSON.
pub fn json(shown: &Shown) -> Json {
    let row = |row: &Compared| {
        let answer = shown.answer(row);
        object!({
            "concurrency": row.concurrency,
            "measured": { "tok_s_user": row.tok_s_user, "ttft_ms": row.ttft_ms },
            "computed": answer,
            "quotient": shown.ratio(row),
            "mbu_reached": shown.ratio(row).zip(answer).map(|(ratio, answer)| ratio * answer.mbu),
            "verdict": shown.verdict(row),
            "try": answer.map(|answer| to_try(answer.binds)),
        })
    };
    object!({
        "record": shown.record,
        "hardware": shown.estimate.device.name,
        "n_gpus": shown.estimate.devices,
        "rows": shown.rows.iter().map(row).collect::<Vec<_>>(),
    })
}
