//! Estimates as records, which `compare`, baselines, the gateway's lanes and boards read.
//!
//! Invariant: the record's kind says that it was computed; its medians and intervals are those of the table.

use super::Shown;
use tokrate_core::Conditions;
use tokrate_estimate::{Value, interval};
use tokrate_judge::Comparison;
use tokrate_meter::Comfort;
use tokrate_record::{Estimate, EstimatedLoad, EstimatedValue, Record};

/// The provider of what nobody answered.
const PROVIDER: &str = "estimate";

/// One record, or those of several devices in one document.
pub fn json(all: &[Shown], started_at: &str) -> String {
    match all {
        [one] => record(one, started_at).to_json(),
        all => Comparison::of(all.iter().map(|shown| record(shown, started_at)).collect()).to_json(),
    }
}

/// The record of an estimate.
pub fn record(shown: &Shown, started_at: &str) -> Record {
    let conditions = Conditions {
        model: shown.asked_model.clone(),
        provider: PROVIDER.to_owned(),
        streaming: true,
        input_tokens: shown.isl as u32,
        output_tokens: shown.osl as u32,
        arrivals: "closed".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Conditions::default()
    };
    let value = |value: Option<Value>| value.map(|it| EstimatedValue { value: it.value, low: it.low, high: it.high });
    let loads = shown.loads.iter().map(|load| EstimatedLoad {
        concurrency: load.concurrency,
        ttft_ms: value(load.answer.ttft_ms),
        tpot_ms: value(load.answer.tpot_ms),
        tok_s_user: value(load.answer.tok_s_user),
        tok_s_total: value(load.answer.tok_s_total),
        prefill_tok_s: value(load.answer.prefill_tok_s),
        binds: load.answer.binds.to_owned(),
        kind: load.answer.kind.to_owned(),
        mbu: load.answer.mbu,
        mfu: load.answer.mfu,
        dollars_per_mtok: shown.cost(load),
        comfort: load.answer.tok_s_user.map(|speed| Comfort::of(speed.value).name().to_owned()),
        extrapolated: load.answer.extrapolated.clone(),
        assumed: load.answer.assumed.clone(),
        nearest: load.answer.nearest.clone(),
    });
    let estimate = Estimate {
        facts_of: shown.model.clone(),
        hardware: shown.device.name.clone(),
        devices: shown.devices,
        engine: shown.engine.clone(),
        weight_precision: shown.precision.clone(),
        confidence: interval::COVERAGE,
        dollars_hour: shown.dollars_hour,
        loads: loads.collect(),
    };
    Record::of_estimate(&conditions, estimate, started_at.to_owned())
}
