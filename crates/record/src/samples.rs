//! Samples of one measurement, level by level.
//!
//! Invariant: rounds at one load are one level; samples say whether they are exact or come from a sketch, and the median of samples
//! of a record is the one that the record states. Rounds that were cut off are counted, and in no level.

mod phase_figures;

pub use phase_figures::{AnswerLength, PhaseFigures};

use crate::metric::Metric;
use crate::record::Record;
use crate::run::{Load, PhaseResult, Rounds, tpot_distribution, whole_rounds};
use crate::until::VerdictLooks;
use std::collections::BTreeMap;
use tokrate_core::{Conditions, Sketch};
use tokrate_meter::request::RequestNumbers;
use tokrate_stats::{Distribution, IntervalMethod, Level, Quantile, QuantileStatus};

/// Values of one metric, one for each request that has it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Samples {
    /// Rising, in milliseconds.
    pub sorted: Vec<f64>,
    /// The largest relative error of a value: 0 for those of rows, half a bucket for those of a sketch.
    pub resolution: f64,
    /// The median where the record states it, which may be more exact than `sorted`.
    pub stated: Option<Quantile>,
}

/// One measurement.
#[derive(Clone, PartialEq, Debug)]
pub struct RunSamples {
    /// Conditions of the whole run.
    pub conditions: Conditions,
    /// Its levels, in the order in which they were first run.
    pub levels: Vec<LevelSamples>,
    /// Rounds that were cut off, which no level holds.
    pub cut_rounds: u64,
    /// How it was looked at while it ran, if it ended as soon as a comparison had its verdicts.
    pub looks: Option<VerdictLooks>,
}

/// All rounds of one load.
#[derive(Clone, PartialEq, Debug)]
pub struct LevelSamples {
    /// Name of the first of its phases.
    pub name: String,
    /// The load.
    pub load: Load,
    /// Times of the requests (ms), by metric; a metric that is not there was not gathered.
    pub times: BTreeMap<Metric, Samples>,
    /// Failed requests.
    pub failed: u64,
    /// Requests started and not cancelled.
    pub ended: u64,
    /// Throughput with its standard error, from the parts of the steady windows.
    pub throughput: Option<ObservedThroughput>,
    /// What its phases state beside the samples; nothing of samples that are of no phase.
    pub of_phases: PhaseFigures,
}

/// Throughput of all rounds of a level together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ObservedThroughput {
    /// Output tokens per second.
    pub tokens_per_second: f64,
    /// Its standard error; absent if a window had too few parts.
    pub standard_error: Option<f64>,
    /// Length of the windows (s).
    pub seconds: f64,
    /// The interval of one that was computed and not measured.
    pub computed: Option<(f64, f64)>,
}

impl Samples {
    /// Exact values, in any order (ms).
    pub fn exact(mut values: Vec<f64>) -> Samples {
        values.retain(|value| value.is_finite());
        values.sort_unstable_by(f64::total_cmp);
        Samples { sorted: values, ..Samples::default() }
    }

    /// The values of a sketch: each bucket's middle, repeated by its count, within 0.55 % of the true values. None where those of
    /// which only a bound is known decide where the median is.
    fn of_distribution(distribution: &Distribution) -> Samples {
        if distribution.p50.status == QuantileStatus::Undetermined {
            return Samples::default();
        }
        let is_computed = distribution.p50.status == QuantileStatus::Computed;
        let stated = (is_computed || !distribution.is_empty()).then(|| distribution.p50.clone());
        Samples { sorted: distribution.values(), resolution: Sketch::RELATIVE_ERROR, stated }
    }

    /// Times per token, of answers too quick to be timed the bound. None where these decide where the median is.
    fn of_tpot(measured: &[&RequestNumbers], mut timed: Vec<f64>) -> Samples {
        let distribution = tpot_distribution(measured, 0);
        if distribution.censored.is_none() {
            return Samples::exact(timed);
        }
        if distribution.p50.status == QuantileStatus::Undetermined {
            return Samples::default();
        }
        timed.extend(measured.iter().filter_map(|row| Some(row.tpot_bounds_ms()?.1)));
        Samples { stated: Some(distribution.p50), ..Samples::exact(timed) }
    }

    /// Their median.
    pub fn median(&self) -> Quantile {
        self.stated.clone().unwrap_or_else(|| Quantile::of_sorted(&self.sorted, 0, Level::P50))
    }

    /// How many there are.
    pub fn n(&self) -> u64 {
        self.sorted.len() as u64
    }

    fn join(&mut self, other: Samples) {
        if other.sorted.is_empty() {
            return;
        }
        self.stated = other.stated.filter(|_| self.sorted.is_empty());
        self.sorted.extend(other.sorted);
        self.sorted.sort_unstable_by(f64::total_cmp);
        self.resolution = self.resolution.max(other.resolution);
    }
}

impl RunSamples {
    /// From a record alone: samples stem from its sketches.
    pub fn of_record(record: &Record) -> RunSamples {
        RunSamples::collect(record, LevelSamples::of_phase)
    }

    /// From a record and the rows of its phases, which come in the order of the phases: samples are exact. A phase whose
    /// rows are not all there is taken from its sketches.
    pub fn of_rows(record: &Record, rows: &[Vec<RequestNumbers>]) -> RunSamples {
        let mut place = 0;
        RunSamples::collect(record, |phase| {
            let mine = rows.get(place).filter(|rows| rows.len() as u64 == phase.counts.started);
            place += 1;
            mine.map_or_else(|| LevelSamples::of_phase(phase), |rows| LevelSamples::of_rows(phase, rows))
        })
    }

    fn collect(record: &Record, mut of: impl FnMut(&PhaseResult) -> LevelSamples) -> RunSamples {
        let mut levels: Vec<LevelSamples> = Vec::new();
        for phase in &record.phases {
            let level = of(phase);
            if phase.interrupted {
                continue;
            }
            match levels.iter_mut().find(|known| known.load == level.load) {
                Some(known) => known.join(level),
                None => levels.push(level),
            }
        }
        levels.sort_by(|a, b| a.load.amount().total_cmp(&b.load.amount()));
        let loads = whole_rounds(&record.phases);
        for level in levels.iter_mut().filter(|level| !level.is_computed()) {
            let Some(rounds) = loads.iter().find(|rounds| rounds.load == level.load) else { continue };
            level.of_phases = PhaseFigures::of(&rounds.phases);
            if level.is_of_sketches() {
                level.times = rounds_times(rounds);
            }
        }
        RunSamples {
            conditions: Conditions::from(&record.conditions),
            levels,
            cut_rounds: record.phases.iter().filter(|phase| phase.interrupted).count() as u64,
            looks: record.until.as_ref().and_then(|until| until.verdict.clone()),
        }
    }
}

impl RunSamples {
    /// Whether it was computed and not measured: there are no samples, only medians with the intervals of an estimate.
    pub fn is_computed(&self) -> bool {
        self.levels.iter().any(LevelSamples::is_computed)
    }
}

/// The times that requests have, each by `of`.
fn times_of(of: impl Fn(Metric) -> Samples) -> BTreeMap<Metric, Samples> {
    Metric::ALL.into_iter().filter(|metric| metric.is_time_of_requests()).map(|metric| (metric, of(metric))).collect()
}

/// The times of all rounds together, as tables state them.
fn rounds_times(rounds: &Rounds<'_>) -> BTreeMap<Metric, Samples> {
    times_of(|metric| rounds.times(metric).as_ref().map(Samples::of_distribution).unwrap_or_default())
}

impl LevelSamples {
    /// Whether none of its times is exact.
    fn is_of_sketches(&self) -> bool {
        self.times.values().all(|samples| samples.resolution > 0.0 || samples.sorted.is_empty())
    }

    fn is_computed(&self) -> bool {
        let is = |samples: &Samples| samples.stated.as_ref().is_some_and(|it| it.status == QuantileStatus::Computed);
        self.times.values().any(is)
    }

    /// The times of its requests; empty if they were not gathered.
    pub fn times(&self, metric: Metric) -> &Samples {
        static NONE: Samples = Samples { sorted: Vec::new(), resolution: 0.0, stated: None };
        self.times.get(&metric).unwrap_or(&NONE)
    }

    fn of_phase(phase: &PhaseResult) -> LevelSamples {
        LevelSamples {
            name: phase.name.clone(),
            load: phase.load,
            times: times_of(|metric| metric.times(phase).map(Samples::of_distribution).unwrap_or_default()),
            failed: phase.counts.failed,
            ended: phase.counts.started.saturating_sub(phase.counts.cancelled),
            throughput: ObservedThroughput::of(phase),
            of_phases: PhaseFigures::default(),
        }
    }

    fn of_rows(phase: &PhaseResult, rows: &[RequestNumbers]) -> LevelSamples {
        let measured: Vec<&RequestNumbers> = rows.iter().filter(|row| row.is_answered() && !row.warmup).collect();
        let of_all = |metric: Metric| measured.iter().filter_map(|row| metric.of(row)).collect();
        LevelSamples {
            times: times_of(|metric| match metric {
                Metric::Tpot => Samples::of_tpot(&measured, of_all(metric)),
                metric => Samples::exact(of_all(metric)),
            }),
            ..LevelSamples::of_phase(phase)
        }
    }

    fn join(&mut self, other: LevelSamples) {
        for (metric, samples) in other.times {
            self.times.entry(metric).or_default().join(samples);
        }
        self.failed += other.failed;
        self.ended += other.ended;
        self.throughput = match (self.throughput, other.throughput) {
            (Some(one), Some(other)) => Some(one.with(other)),
            (one, other) => one.or(other),
        };
    }
}

impl ObservedThroughput {
    fn of(phase: &PhaseResult) -> Option<ObservedThroughput> {
        let throughput = phase.throughput.as_ref()?;
        let (computed, measured) = match throughput.interval {
            Some(it) if it.method == IntervalMethod::Estimate => (Some((it.low, it.high)), None),
            interval => (None, interval),
        };
        let seen = ObservedThroughput {
            tokens_per_second: throughput.tokens_per_second,
            standard_error: measured.map(|interval| (interval.high - interval.low) / (2.0 * 1.959_964)),
            seconds: throughput.window_seconds,
            computed,
        };
        seen.tokens_per_second.is_finite().then_some(seen)
    }

    /// Both windows as one.
    fn with(self, other: ObservedThroughput) -> ObservedThroughput {
        let seconds = self.seconds + other.seconds;
        let (mine, theirs) = (self.seconds / seconds, other.seconds / seconds);
        let errors = self.standard_error.zip(other.standard_error);
        ObservedThroughput {
            tokens_per_second: mine * self.tokens_per_second + theirs * other.tokens_per_second,
            standard_error: errors.map(|(one, other)| (mine * one).hypot(theirs * other)),
            seconds,
            computed: None,
        }
    }
}

#[cfg(test)]
mod tests;
