//! The load curve of a lane from a record of `tokrate bench`.
//!
//! Invariant: a load level without times or speeds gives no point; nothing is interpolated here.

use tokrate_core::Span;
use tokrate_record::{Load, Record};
use tokrate_route::CurvePoint;

/// One point for each load level with a fixed number of requests in flight. Medians are taken even where the sample is
/// too small to state them: the router ages them and soon relies on what it measures itself.
pub fn curve_from_record(record: &Record) -> Vec<CurvePoint> {
    let point = |phase: &tokrate_record::PhaseResult| {
        let Load::Closed { concurrency } = phase.load else { return None };
        let milliseconds = |value: f64| Span::from_secs_f64(value / 1e3);
        let ttft = phase.ttft.p50.value.or(phase.ttft.p50.descriptive)?;
        let ttft_p90 = phase.ttft.p90.value.or(phase.ttft.p90.descriptive).unwrap_or(ttft);
        let tpot = phase.tpot.p50.value.or(phase.tpot.p50.descriptive).filter(|tpot| *tpot > 0.0)?;
        let prompt_tokens = phase.input_tokens.reported_mean.or(phase.input_tokens.asked_mean).unwrap_or(0.0);
        Some(CurvePoint {
            in_flight: concurrency,
            prompt_tokens: prompt_tokens.round() as u64,
            ttft: milliseconds(ttft),
            ttft_p90: milliseconds(ttft_p90.max(ttft)),
            output_speed: 1e3 / tpot,
            n: u32::try_from(phase.ttft.n).unwrap_or(u32::MAX),
        })
    };
    record.phases.iter().filter_map(point).collect()
}
