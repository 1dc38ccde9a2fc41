//! Statistics of one lane: counts and histograms since the start, and the last hour by minute.
//!
//! Invariant: an attempt belongs to the minute in which it started; the size of a minute is bounded a few minutes after
//! it has passed.

use super::distribution::Distribution;
use super::last_hour::{AttemptMinutes, LastHour};
use crate::settle::stats::histogram::{Exemplar, Histogram, TIMES_NS, TOKENS};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokrate_core::{FailureKind, Sketch};
use tokrate_record::{Attempt as Row, AttemptEnd, AttemptRole, CostBasis};
use tokrate_wire::Dialect;

/// Minutes after which a minute's TTFT and speeds are reduced to quantiles: full sketches of an hour for a hundred busy
/// lanes would take as much memory as the rest of the gateway.
pub const OPEN_MINUTES: u64 = 10;
/// Output speeds are sketched in thousandths of a token per second.
pub const SPEED_STEPS: f64 = 1e3;

/// How an attempt ended, as the labels of a counter.
pub type Ending = (AttemptRole, AttemptEnd, Option<FailureKind>);
/// Failures by kind; `None` where the kind is unknown.
#[derive(Clone, Debug, Default)]
pub struct FailureCounts(Vec<(Option<FailureKind>, u32)>);

impl FailureCounts {
    fn add(&mut self, kind: Option<FailureKind>) {
        match self.0.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count = count.saturating_add(1),
            None => {
                // Few minutes of a lane have more than one or two kinds.
                self.0.reserve_exact(1);
                self.0.push((kind, 1));
            }
        }
    }

    /// Failures of one kind.
    pub fn of(&self, kind: Option<FailureKind>) -> u64 {
        self.0.iter().find(|(known, _)| *known == kind).map_or(0, |(_, count)| u64::from(*count))
    }

    /// All failures.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|(_, count)| u64::from(*count)).sum()
    }
}

/// Statistics of one lane.
#[derive(Clone, Debug)]
pub struct LaneStats {
    /// Name of the lane.
    pub name: Arc<str>,
    /// Name of its provider.
    pub provider: Arc<str>,
    /// The model as the provider knows it.
    pub model: Arc<str>,
    /// The most attempts in flight at once.
    pub peak_in_flight: u32,
    /// Attempts by role, end and failure.
    pub endings: BTreeMap<Ending, u64>,
    /// Known cost (USD), by how it is known.
    pub cost_usd: BTreeMap<CostBasis, f64>,
    /// Histograms by operation.
    pub operations: BTreeMap<Operation, OperationStats>,
    /// The last hour.
    pub minutes: LastHour<Minute>,
}

/// What was asked for, as OpenTelemetry's `gen_ai.operation.name`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Operation {
    /// A chat.
    Chat,
    /// The completion of a text.
    TextCompletion,
    /// Gemini's `generateContent`.
    GenerateContent,
    /// A service beside the generation of text, by its name.
    Service(&'static str),
}

/// Histograms of one operation.
#[derive(Clone, Debug)]
pub struct OperationStats {
    /// Sent to first output text (ns).
    pub ttft: Histogram,
    /// Sent to the last byte (ns) of answers that came in one piece.
    pub answer: Histogram,
    /// 1 / output speed (ns).
    pub time_per_token: Histogram,
    /// Start to end (ns) of attempts that were not cancelled, by failure.
    pub duration: BTreeMap<Option<FailureKind>, Histogram>,
    /// Tokens of the prompt.
    pub input_tokens: Histogram,
    /// Tokens of the answer.
    pub output_tokens: Histogram,
}

/// What started in one minute.
#[derive(Clone, Debug, Default)]
pub struct Minute {
    /// Attempts.
    pub attempts: u64,
    /// Those that failed, by kind.
    pub failed: FailureCounts,
    /// Nanoseconds.
    pub ttft: Distribution,
    /// In steps of [`SPEED_STEPS`].
    pub output_speed: Distribution,
    /// Attempts beside the one that a call needed.
    pub extra_attempts: u64,
    /// Cost of all attempts, as far as it is known (USD).
    pub cost_usd: f64,
    /// Cost of the extra attempts (USD).
    pub extra_usd: f64,
}

impl LaneStats {
    pub(crate) fn new(row: &Row) -> LaneStats {
        LaneStats {
            name: row.lane.as_str().into(),
            provider: row.sample.provider.as_str().into(),
            model: row.sample.model.as_str().into(),
            peak_in_flight: 0,
            endings: BTreeMap::new(),
            cost_usd: BTreeMap::new(),
            operations: BTreeMap::new(),
            minutes: LastHour::default(),
        }
    }

    /// What distinguishes it from other lanes.
    pub fn identity(&self) -> (&str, &str, &str) {
        (&self.name, &self.provider, &self.model)
    }

    pub(crate) fn record(&mut self, row: &Row, is_extra: bool) {
        *self.endings.entry((row.role, row.end, row.sample.failure)).or_default() += 1;
        self.peak_in_flight = self.peak_in_flight.max(row.sample.in_flight);
        if let Some(cost) = row.sample.cost_usd {
            *self.cost_usd.entry(row.sample.cost_basis).or_default() += cost;
        }
        self.operations.entry(Operation::of(&row.dialect_in)).or_default().record(row);
        let Some((minute, is_new)) = self.minutes.at(AttemptMinutes::of(row)) else { return };
        minute.record(row, is_extra);
        if is_new {
            self.minutes.change_older(OPEN_MINUTES, Minute::is_open, Minute::close);
        }
    }

    pub(super) fn add_exemplars(&mut self, row: &Row, exemplar: Exemplar) {
        if let Some(stats) = self.operations.get_mut(&Operation::of(&row.dialect_in)) {
            stats.add_exemplars(row, exemplar);
        }
    }

    /// How many attempts ended in one of these ways.
    pub fn count(&self, counts: impl Fn(&Ending) -> bool) -> u64 {
        self.endings.iter().filter(|(ending, _)| counts(ending)).map(|(_, count)| count).sum()
    }

    /// Known cost (USD).
    pub fn cost(&self) -> f64 {
        self.cost_usd.values().sum()
    }

    /// All values of the minutes from this one on, as far as they are kept one by one: of at most [`OPEN_MINUTES`].
    pub fn recent(&self, number: u64, of: impl Fn(&Minute) -> &Distribution) -> Sketch {
        let mut all = Sketch::new();
        self.minutes_since(number).filter_map(|minute| of(minute).sketch()).for_each(|sketch| all.merge(sketch));
        all
    }

    /// The minutes from this one on.
    pub fn minutes_since(&self, number: u64) -> impl Iterator<Item = &Minute> {
        self.minutes.since(number).map(|(_, minute)| minute)
    }
}

impl Minute {
    fn record(&mut self, row: &Row, is_extra: bool) {
        self.attempts += 1;
        if row.end == AttemptEnd::Failed && !is_lack_of_a_service(row) {
            self.failed.add(row.sample.failure);
        }
        if let Some(ttft) = row.sample.ttft_ns {
            self.ttft.record(ttft);
        }
        if let Some(speed) = row.sample.output_speed.filter(|speed| speed.is_finite() && *speed > 0.0) {
            self.output_speed.record((speed * SPEED_STEPS).round() as u64);
        }
        self.cost_usd += row.sample.cost_usd.unwrap_or(0.0);
        if is_extra {
            self.extra_attempts += 1;
            self.extra_usd += row.sample.cost_usd.unwrap_or(0.0);
        }
    }

    fn is_open(&self) -> bool {
        self.ttft.is_open()
    }

    fn close(&mut self) {
        self.ttft.close();
        self.output_speed.close();
    }
}

/// Whether a lane was asked for a service that it does not have, which says nothing about its health.
fn is_lack_of_a_service(row: &Row) -> bool {
    matches!(Operation::of(&row.dialect_in), Operation::Service(_)) && row.sample.failure == Some(FailureKind::NotFound)
}

impl Operation {
    /// The operation of a client's dialect.
    pub(crate) fn of(dialect: &str) -> Operation {
        // Services have no dialect of their own; the row has their name.
        let Some(dialect) = Dialect::from_name(dialect) else {
            return Operation::Service(crate::api::service(dialect).unwrap_or("other"));
        };
        match dialect.operation() {
            tokrate_wire::Operation::Chat => Operation::Chat,
            tokrate_wire::Operation::TextCompletion => Operation::TextCompletion,
            tokrate_wire::Operation::GenerateContent => Operation::GenerateContent,
        }
    }

    /// The name by OpenTelemetry's conventions.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Chat => "chat",
            Operation::TextCompletion => "text_completion",
            Operation::GenerateContent => "generate_content",
            Operation::Service(service) => service,
        }
    }
}

impl Default for OperationStats {
    fn default() -> OperationStats {
        OperationStats {
            ttft: Histogram::new(&TIMES_NS),
            answer: Histogram::new(&TIMES_NS),
            time_per_token: Histogram::new(&TIMES_NS),
            duration: BTreeMap::new(),
            input_tokens: Histogram::new(&TOKENS),
            output_tokens: Histogram::new(&TOKENS),
        }
    }
}

impl OperationStats {
    fn record(&mut self, row: &Row) {
        for (histogram, value) in self.times(row) {
            histogram.add(value);
        }
        if let Some(tokens) = row.sample.input_tokens.or(row.sample.input_tokens_std) {
            self.input_tokens.add(tokens);
        }
        let counted = Some(row.sample.output_tokens_std).filter(|tokens| *tokens > 0);
        if let Some(tokens) = row.sample.output_tokens.or(counted) {
            self.output_tokens.add(tokens);
        }
    }

    /// Lets the times of an attempt that was recorded point to its trace.
    pub(super) fn add_exemplars(&mut self, row: &Row, exemplar: Exemplar) {
        for (histogram, value) in self.times(row) {
            histogram.add_exemplar(Exemplar { value, ..exemplar });
        }
    }

    /// The times of an attempt (ns), each with its histogram. The first token of a failed attempt is no success, and the end of a
    /// cancelled one is not the provider's.
    fn times(&mut self, row: &Row) -> impl Iterator<Item = (&mut Histogram, u64)> {
        let OperationStats { ttft, answer, time_per_token, duration, .. } = self;
        let is_kept = row.end != AttemptEnd::Failed;
        let speed = row.sample.output_speed.filter(|speed| speed.is_finite() && *speed > 0.0);
        let has_own_end = matches!(row.end, AttemptEnd::Answered | AttemptEnd::Failed);
        let kind = row.sample.failure.filter(|_| row.end == AttemptEnd::Failed);
        let duration = has_own_end.then(|| duration.entry(kind).or_insert_with(|| Histogram::new(&TIMES_NS)));
        [
            (Some(ttft), row.sample.ttft_ns.filter(|_| is_kept)),
            (Some(answer), row.sample.answer_ns.filter(|_| is_kept)),
            (Some(time_per_token), speed.filter(|_| is_kept).map(|speed| (1e9 / speed).round() as u64)),
            (duration, Some(row.sample.total_ns)),
        ]
        .into_iter()
        .filter_map(|(histogram, value)| histogram.zip(value))
    }
}
