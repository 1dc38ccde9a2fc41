//! Phases and records for tests, made of the requests of `tokrate_meter::fixtures`.

use crate::record::{Record, Status, Tool};
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
        spending: None,
        phases,
        curve: None,
        assertions: Vec::new(),
        warnings: Vec::new(),
        notes: Vec::new(),
    }
}
