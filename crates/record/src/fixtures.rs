//! Phases and records for tests, made of the requests of `tokrate_meter::fixtures`.

use crate::record::{Estimate, EstimatedLoad, EstimatedValue, Record, Status, Tool};
use crate::run::{Load, PhaseInput, PhaseResult, Warmup};
use tokrate_core::{Conditions, Sketch, Span, Tick};
use tokrate_meter::RequestNumbers;
use tokrate_meter::fixtures::at;

fn conditions() -> Conditions {
    Conditions {
        model: "sample".into(),
        endpoint: "http://127.0.0.1:9/v1".into(),
        dialect: "openai-chat".into(),
        streaming: true,
        arrivals: "closed".into(),
        tokenizer: "o200k_base".into(),
        seed: 7,
        version: "0.1.0".into(),
        ..Conditions::default()
    }
}

/// A closed loop over ten seconds.
pub fn closed(concurrency: u32) -> PhaseInput<'static> {
    PhaseInput {
        name: format!("concurrency {concurrency}"),
        conditions: Box::leak(Box::new(conditions())),
        load: Load::Closed { concurrency },
        warmup: Warmup::None,
        started_at: Tick::ZERO,
        ended_at: at(10_000),
        interrupted: false,
        client_error: None,
        client_cpu: Span::from_millis(3),
        timer_lag: Box::leak(Box::new(Sketch::new())),
        late: 0,
        forfeited: 0,
        withheld: 0,
        held_back: None,
    }
}

/// The phase of these requests.
pub fn phase(input: &PhaseInput<'_>, requests: &[RequestNumbers]) -> PhaseResult {
    PhaseResult::of(input, &mut requests.to_vec())
}

/// A complete record of these phases.
pub fn record(phases: Vec<PhaseResult>) -> Record {
    Record {
        schema: Record::SCHEMA.to_owned(),
        tool: Tool { name: "tokrate".into(), version: "0".into() },
        kind: "bench".into(),
        started_at: String::new(),
        wall_seconds: 1.0,
        status: Status::Complete,
        reason: None,
        conditions: phases[0].conditions.clone(),
        price: None,
        engine_host: None,
        search: None,
        until: None,
        spending: None,
        phases,
        timeline: None,
        curve: None,
        assertions: Vec::new(),
        estimate: None,
        warnings: Vec::new(),
        notes: Vec::new(),
    }
}

/// An estimate of these loads: requests in flight, and the time a token (ms), within a factor of 1.25. TTFT is ten times that.
pub fn estimate(loads: &[(u32, f64)]) -> Record {
    let around = |value: f64| Some(EstimatedValue { value, low: value / 1.25, high: value * 1.25 });
    let load = |(concurrency, tpot): &(u32, f64)| EstimatedLoad {
        concurrency: *concurrency,
        ttft_ms: around(tpot * 10.0),
        tpot_ms: around(*tpot),
        tok_s_user: around(1e3 / tpot),
        tok_s_total: around(1e3 / tpot * f64::from(*concurrency)),
        prefill_tok_s: None,
        binds: "bandwidth".to_owned(),
        kind: "served".to_owned(),
        mbu: 0.6,
        mfu: 0.1,
        dollars_per_mtok: None,
        comfort: None,
        extrapolated: Vec::new(),
        assumed: Vec::new(),
        nearest: Vec::new(),
    };
    let estimate = Estimate {
        facts_of: "sample".to_owned(),
        hardware: "H100-SXM-80GB".to_owned(),
        devices: 1.0,
        engine: None,
        weight_precision: None,
        confidence: 0.8,
        dollars_hour: None,
        loads: loads.iter().map(load).collect(),
    };
    let conditions = Conditions {
        model: "sample".to_owned(),
        provider: "estimate".to_owned(),
        endpoint: String::new(),
        dialect: String::new(),
        output_tokens: 40,
        ..conditions()
    };
    Record::of_estimate(&conditions, estimate, "2026-11-25T00:00:00Z".to_owned())
}
