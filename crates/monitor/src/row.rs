//! From one measured request to the row that is kept, and from there to what detector and prober take.
//!
//! Invariant: an answer that is not what was asked for has a reason and no numbers; the numbers of the others are the meter's.

use crate::send::Sent;
use crate::settings::{Endpoint, Settings};
use std::borrow::Cow;
use tokrate_core::{BilledTokens, Money, one_line};
use tokrate_meter::{MAX_TEXT_BYTES, RequestNumbers, StreamNumbers};
use tokrate_prober::{Order, Outcome};
use tokrate_record::{CostBasis, Probe, Sample, SampleConditions, SampleSource, SharedConditions, is_same_model};
use tokrate_store::{CYCLE_IS_OPEN, ProbeRow};

/// What all rows of a run have in common.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// First part of ids and names of cycles: unique for each start of each prober.
    pub run: String,
    /// Conditions of each workload.
    conditions: Vec<SharedConditions>,
}

impl Frame {
    /// Of a run with this number, which is unique among the starts of the prober.
    pub fn new(settings: &Settings, run: u64) -> Frame {
        let of = |workload| SharedConditions::from(SampleConditions::from(&settings.conditions(workload)));
        Frame {
            run: format!("{}-{run:016x}", settings.prober),
            conditions: settings.workloads.iter().map(of).collect(),
        }
    }

    /// The name of a cycle.
    pub fn cycle(&self, cycle: u64) -> String {
        format!("{}-c{cycle}", self.run)
    }

    /// The row of one request of a probe; `nth` is its place among those that were sent at once.
    pub fn row(
        &self,
        settings: &Settings,
        order: &Order,
        nth: u32,
        sent: &Sent,
        request_bytes: Option<u64>,
    ) -> ProbeRow {
        let (endpoint, workload) = (&settings.endpoints[order.endpoint], &settings.workloads[order.workload]);
        let numbers = &sent.numbers;
        let mut sample = Sample {
            started_unix_ms: sent.started_unix_ms,
            provider: endpoint.provider.clone(),
            model: endpoint.model.clone(),
            dialect: Cow::Borrowed(endpoint.dialect.name()),
            stream: true,
            in_flight: workload.requests,
            connection_new: true,
            dns_ns: numbers.sent_at_ns.map(|_| numbers.dns_ns),
            connect_ns: numbers.sent_at_ns.map(|_| numbers.connect_ns),
            tls_ns: numbers.sent_at_ns.map(|_| numbers.tls_ns),
            request_bytes,
            output_limit: Some(workload.output_tokens),
            status: sent.status,
            wait_ns: numbers.sent_at_ns.map(|sent_at| sent_at.saturating_sub(numbers.due_at_ns)),
            total_ns: numbers.ended_at_ns.saturating_sub(numbers.due_at_ns),
            input_tokens_std: Some(u64::from(workload.prompts.input_tokens())),
            conditions: self.conditions[order.workload].clone(),
            ..Sample::default()
        };
        sample.fill(&StreamNumbers::from(numbers));
        (sample.cost_usd, sample.cost_basis) = cost(endpoint, numbers, &sample);
        let reason = reason(endpoint, numbers).or_else(|| sent.wrong.clone());
        if let Some(reason) = reason.as_ref().filter(|_| numbers.failure.is_none()) {
            (sample.ttft_ns, sample.ttfat_ns, sample.output_speed) = (None, None, None);
            sample.ttft_missing = Some(Cow::Owned(reason.clone()));
            sample.output_speed_missing = Some(Cow::Owned(reason.clone()));
        }
        let mut probe = Probe {
            id: format!("{}-{}-{nth}", self.run, order.number),
            source: SampleSource::Monitor,
            endpoint: endpoint.name.clone(),
            workload: workload.name.clone(),
            place: settings.place.clone(),
            prober: settings.prober.clone(),
            due_unix_ms: order.due_ms,
            quarantine: Some(CYCLE_IS_OPEN.to_owned()),
            sample,
        };
        probe.bound_texts();
        ProbeRow {
            probe,
            cycle: self.cycle(order.cycle),
            slot_unix_ms: order.slot_ms,
            is_further: order.is_further,
            reason,
            is_cut_off: false,
        }
    }
}

/// Why a request has no numbers that count.
fn reason(endpoint: &Endpoint, numbers: &RequestNumbers) -> Option<String> {
    if let Some(failure) = &numbers.failure {
        let message = if failure.message.is_empty() { failure.kind.name() } else { &failure.message };
        return Some(one_line(message, MAX_TEXT_BYTES));
    }
    let named = numbers.model.as_deref().filter(|name| !name.is_empty())?;
    let is_other = !is_same_model(&endpoint.model, named) || numbers.model_changes > 0;
    is_other.then(|| one_line(&format!("answered by another model: {named}"), MAX_TEXT_BYTES))
}

fn cost(endpoint: &Endpoint, numbers: &RequestNumbers, sample: &Sample) -> (Option<f64>, CostBasis) {
    let Some(price) = endpoint.price else { return (None, CostBasis::Unknown) };
    let (billed, basis) = match (numbers.input_reported, numbers.tokens_reported) {
        (Some(input), Some(output)) => {
            let cached_input = numbers.cached_input_reported.unwrap_or(0);
            (BilledTokens { input, output, cached_input, ..BilledTokens::default() }, CostBasis::Reported)
        }
        // Nothing was generated, as far as is known.
        _ if numbers.failure.is_some() && numbers.tokens_std == 0 => return (Some(0.0), CostBasis::Free),
        _ => {
            let input = sample.input_tokens_std.unwrap_or(0);
            let output = numbers.tokens_std;
            (BilledTokens { input, output, ..BilledTokens::default() }, CostBasis::Estimated)
        }
    };
    (Some(price.cost(billed).as_usd()), basis)
}

/// What the requests of one probe came to together: it failed if most of them did; of the numbers the medians.
pub(crate) fn outcome(rows: &[ProbeRow]) -> Outcome {
    let samples = || rows.iter().map(|row| &row.probe.sample);
    let failed = rows.iter().filter(|row| row.reason.is_some()).count();
    let cost = samples().filter_map(|sample| Money::from_usd(sample.cost_usd?));
    let tokens = samples().map(|sample| {
        let input = sample.input_tokens.or(sample.input_tokens_std).unwrap_or(0);
        // A request that was refused used none.
        let input = if sample.cost_basis == CostBasis::Free { 0 } else { input };
        input.saturating_add(sample.output_tokens.unwrap_or(sample.output_tokens_std))
    });
    Outcome {
        failed: 2 * failed > rows.len(),
        ttft_ns: middle(samples().filter_map(|sample| sample.ttft_ns).map(|ns| ns as f64)).map(|ns| ns as u64),
        output_speed: middle(samples().filter_map(|sample| sample.output_speed)),
        tokens: tokens.fold(0, u64::saturating_add),
        cost: cost.fold(Money::ZERO, Money::saturating_add),
    }
}

fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// A row as the detector takes it.
pub(crate) fn detected(row: &ProbeRow) -> tokrate_detect::Sample {
    let sample = &row.probe.sample;
    let ms = |ns: u64| ns as f64 / 1e6;
    let ok = row.reason.is_none();
    tokrate_detect::Sample {
        at: i64::try_from(sample.started_unix_ms).unwrap_or(i64::MAX),
        source: tokrate_detect::Source {
            endpoint: row.probe.endpoint.clone(),
            workload: row.probe.workload.clone(),
            place: row.probe.place.clone(),
        },
        ttft_ms: sample.ttft_ns.filter(|_| ok).map(ms),
        output_speed: sample.output_speed.filter(|_| ok),
        e2e_ms: ok.then(|| ms(sample.total_ns)),
        ok,
        in_flight: None,
        input_tokens: None,
    }
}

/// Numbers of a stream's form by name: tokens of a chunk, and the 99th percentile of its gaps over their median.
pub(crate) type StreamForm = [(&'static str, Option<f64>); 2];

/// Fewest chunks that show a form.
const MIN_CHUNKS: u64 = 8;

/// The form of a row's stream.
pub(crate) fn stream_form(row: &ProbeRow) -> StreamForm {
    let sample = &row.probe.sample;
    let is_shown = row.reason.is_none() && sample.chunks >= MIN_CHUNKS;
    let ratio = |over: u64, under: u64| (is_shown && under > 0).then(|| over as f64 / under as f64);
    let unevenness = sample.gap_p99_ns.zip(sample.gap_p50_ns).and_then(|(p99, p50)| ratio(p99, p50));
    [("tokens_per_chunk", ratio(sample.output_tokens_std, sample.chunks)), ("gap_unevenness", unevenness)]
}
