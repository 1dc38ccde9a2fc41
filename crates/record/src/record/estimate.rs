//! What was computed and not measured, in the form of a record: phases without a request, whose medians are the estimate's.
//!
//! Invariant: such a record has the kind `estimate`, no sample and no percentile but the median; its intervals are those of
//! the estimate.

use super::{ConditionsRow, Record, Status, Tool};
use crate::run::{InputTokens, Load, PhaseInput, PhaseResult, Throughput, Warmup, as_speed};
use serde::{Deserialize, Serialize};
use tokrate_core::{Conditions, Sketch, Span, Tick};
use tokrate_stats::{Distribution, Interval, IntervalMethod, Quantile, Unit};

/// What an estimate is of, and how it came about.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// Model whose facts were taken.
    pub facts_of: String,
    /// Device.
    pub hardware: String,
    /// Devices in all.
    pub devices: f64,
    /// Engine, where it was named.
    pub engine: Option<String>,
    /// Storage of the weights, where it was named.
    pub weight_precision: Option<String>,
    /// Nominal coverage of the intervals, 0 to 1.
    pub confidence: f64,
    /// Rent of one device, dollars an hour, from the lowest to the highest.
    pub dollars_hour: Option<(f64, f64)>,
    /// One for each phase of the record.
    pub loads: Vec<EstimatedLoad>,
}

/// An estimate at one load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EstimatedLoad {
    /// Requests in flight.
    pub concurrency: u32,
    /// Sent to first output text (ms).
    pub ttft_ms: Option<EstimatedValue>,
    /// Time a token after the first (ms).
    pub tpot_ms: Option<EstimatedValue>,
    /// Tokens/s of one request.
    pub tok_s_user: Option<EstimatedValue>,
    /// Tokens/s of all requests.
    pub tok_s_total: Option<EstimatedValue>,
    /// Prompt tokens/s of one prompt.
    pub prefill_tok_s: Option<EstimatedValue>,
    /// What holds it back.
    pub binds: String,
    /// Kind of question, by which the interval was chosen.
    pub kind: String,
    /// Share of the memory bandwidth that is used while decoding.
    pub mbu: f64,
    /// Share of peak arithmetic that is used while decoding.
    pub mfu: f64,
    /// Dollars a million output tokens, at the lowest and the highest price.
    pub dollars_per_mtok: Option<(f64, f64)>,
    /// The band of its output speed.
    pub comfort: Option<String>,
    /// Where it reaches beyond what was measured; empty inside of it.
    pub extrapolated: Vec<String>,
    /// What was not said and assumed.
    pub assumed: Vec<String>,
    /// The nearest measured rows.
    pub nearest: Vec<String>,
}

/// A computed number with its interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EstimatedValue {
    /// The number.
    pub value: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Record {
    /// The kind of a record that was computed.
    pub const ESTIMATE: &'static str = "estimate";

    /// An estimate as a record; `conditions` say the model and the lengths.
    pub fn of_estimate(conditions: &Conditions, estimate: Estimate, started_at: String) -> Record {
        let phases = estimate.loads.iter().map(|load| phase(conditions, &estimate, load)).collect();
        Record {
            schema: Record::SCHEMA.to_owned(),
            tool: Tool::current(),
            kind: Record::ESTIMATE.to_owned(),
            started_at,
            wall_seconds: 0.0,
            status: Status::Complete,
            reason: None,
            conditions: ConditionsRow::from(conditions),
            price: None,
            engine_host: None,
            search: None,
            until: None,
            spending: None,
            phases,
            timeline: None,
            curve: None,
            assertions: Vec::new(),
            warnings: vec!["computed from facts and fitted coefficients, not measured".to_owned()],
            notes: Vec::new(),
            estimate: Some(estimate),
        }
    }

    /// Whether it was computed and not measured.
    pub fn is_estimate(&self) -> bool {
        self.kind == Record::ESTIMATE
    }
}

fn phase(conditions: &Conditions, estimate: &Estimate, load: &EstimatedLoad) -> PhaseResult {
    let concurrency = load.concurrency;
    let conditions = Conditions { concurrency: Some(concurrency), ..conditions.clone() };
    let mut phase = PhaseResult::of(
        &PhaseInput {
            name: format!("concurrency {concurrency}"),
            conditions: &conditions,
            load: Load::Closed { concurrency },
            warmup: Warmup::None,
            started_at: Tick::ZERO,
            ended_at: Tick::ZERO,
            interrupted: false,
            client_error: None,
            timer_lag: &Sketch::new(),
            client_cpu: Span::ZERO,
            late: 0,
            forfeited: 0,
            withheld: 0,
            held_back: None,
        },
        &mut [],
    );
    let confidence = estimate.confidence;
    let median = |value: &EstimatedValue| Quantile::computed(value.value, value.low, value.high, confidence);
    let times = |value: &EstimatedValue| Distribution::computed(median(value), Unit::Milliseconds);
    if let Some(ttft) = &load.ttft_ms {
        phase.ttft = times(ttft);
    }
    if let Some(tpot) = &load.tpot_ms {
        phase.tpot = times(tpot);
        phase.output_speed.median = as_speed(&phase.tpot.p50);
    }
    if let Some(((ttft, tpot), tokens)) = load.ttft_ms.zip(load.tpot_ms).zip(conditions.output_tokens.checked_sub(1)) {
        // Both errors may fall on the same side.
        let whole = |of: fn(&EstimatedValue) -> f64| of(&ttft) + f64::from(tokens) * of(&tpot);
        let e2e = EstimatedValue { value: whole(|it| it.value), low: whole(|it| it.low), high: whole(|it| it.high) };
        phase.e2e = times(&e2e);
    }
    phase.steady_missing = None;
    phase.throughput = load.tok_s_total.map(|total| Throughput {
        window_seconds: 0.0,
        tokens: 0,
        tokens_per_second: total.value,
        interval: Some(Interval { low: total.low, high: total.high, confidence, method: IntervalMethod::Estimate }),
        peak_tokens_per_second: total.value,
        parts: 0,
        requests: 0,
        requests_per_second: total.value / f64::from(conditions.output_tokens.max(1)),
    });
    phase.input_tokens = InputTokens { asked_mean: Some(f64::from(conditions.input_tokens)), ..phase.input_tokens };
    // The gate is of requests, and there are none.
    phase.gate.clear();
    phase
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::estimate;
    use crate::{Metric, RunSamples};
    use tokrate_stats::QuantileStatus;

    #[test]
    fn an_estimate_is_a_record_that_reads_back_and_says_that_it_is_computed() {
        let record = estimate(&[(1, 20.0), (8, 25.0)]);
        assert!(record.is_estimate() && !record.warnings.is_empty());
        assert_eq!(Record::parse(&record.to_json()).expect("what was written"), record);
        let phase = &record.phases[1];
        assert_eq!((phase.ttft.n, phase.tpot.p50.status), (0, QuantileStatus::Computed));
        assert_eq!((phase.tpot.p50.value, phase.tpot.p99.value), (Some(25.0), None));
        assert_eq!(phase.output_speed.median.value, Some(40.0));
        assert_eq!(phase.throughput.as_ref().map(|seen| seen.tokens_per_second), Some(320.0));
        assert!(phase.gate.is_empty() && phase.steady_missing.is_none());
    }

    #[test]
    fn its_samples_are_none_and_its_medians_are_stated() {
        let samples = RunSamples::of_record(&estimate(&[(4, 20.0)]));
        assert!(samples.is_computed());
        let tpot = samples.levels[0].times(Metric::Tpot);
        assert_eq!((tpot.n(), tpot.median().value), (0, Some(20.0)));
    }
}
