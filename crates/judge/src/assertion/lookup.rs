//! The values at a load that an assertion can name.
//!
//! Invariant: names are those of the record, and a value that the record does not state is never found.

mod audio;
mod pooled;

use crate::expression::{bound_in, milliseconds_in};
use tokrate_record::run::{Counts, PhaseResult, Rounds, SpeedSummary};
use tokrate_record::{Metric, MetricUnit, PhaseSource};
use tokrate_stats::{Distribution, Level, Quantile, QuantileStatus};

/// Numbers of a phase under one name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Subject {
    /// A metric of the catalogue.
    Metric(Metric),
    /// The same with failures counted in as never answered.
    Adjusted(Metric),
    /// What is no metric.
    Group(Group),
}

/// Values of a phase that are not metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Group {
    Failures,
    RateLimited,
    Goodput,
    Counts,
    Concurrency,
    Tokens,
    Valid,
    WordErrors,
}

/// Where a phase has a rate.
pub(super) type RateOf = fn(&PhaseResult) -> Option<f64>;

/// Where the numbers of a subject are.
pub(super) enum Source {
    Times(fn(&PhaseResult) -> &Distribution),
    Speeds(fn(&PhaseResult) -> &SpeedSummary),
    Throughput,
    Items,
    Rate(RateOf),
    Group(Group),
}

/// A number, or why there is none.
pub(super) enum Lookup {
    Value(f64),
    Infinite,
    /// Too few samples for a percentile; what it is at least and at most, as far as they bound it.
    TooFew {
        n: u64,
        floor: u64,
        low: f64,
        high: f64,
    },
    /// Only the least and the most that it can be, and why.
    Between {
        low: f64,
        high: f64,
        reason: String,
    },
    Missing(String),
}

impl Group {
    const ALL: [Group; 8] = [
        Group::Failures,
        Group::RateLimited,
        Group::Goodput,
        Group::Counts,
        Group::Concurrency,
        Group::Tokens,
        Group::Valid,
        Group::WordErrors,
    ];

    const fn name(self) -> &'static str {
        match self {
            Group::Failures => "failures",
            Group::RateLimited => "rate_limited",
            Group::Goodput => "goodput",
            Group::Counts => "counts",
            Group::Concurrency => "concurrency",
            Group::Tokens => "tokens",
            Group::Valid => "valid",
            Group::WordErrors => "word_errors",
        }
    }
}

fn subjects() -> impl Iterator<Item = Subject> {
    // The share of failures is part of the group `failures`.
    let metrics = || Metric::ALL.into_iter().filter(|metric| *metric != Metric::FailureShare);
    let adjusted = metrics().filter(|metric| matches!(metric.row().of_phase, PhaseSource::Times(_, Some(_))));
    metrics().map(Subject::Metric).chain(adjusted.map(Subject::Adjusted)).chain(Group::ALL.map(Subject::Group))
}

pub(super) fn subject_of(name: &str) -> Option<Subject> {
    subjects().find(|subject| subject.name() == name)
}

pub(super) fn subject_names() -> Vec<String> {
    subjects().map(Subject::name).collect()
}

/// A valid example for the metric that a text mentions, with the text's own percentile and number; TTFT if it mentions none.
pub(super) fn example_for(text: &str) -> String {
    let lower = text.split(['<', '>', '@']).next().unwrap_or_default().to_lowercase();
    let named = subjects().filter(|subject| lower.contains(&subject.name())).max_by_key(|subject| subject.name().len());
    let subject = named.unwrap_or(Subject::Metric(Metric::Ttft));
    let words = || lower.split(['.', '(', ')', ' ', '_']);
    let typed = words().filter(|word| word.len() > 1).find_map(|word| subject.statistic(word));
    let usual = if subject.is_time() { "p95" } else { subject.statistics()[0] };
    let statistic = typed.unwrap_or(usual);
    let (number, unit) = bound_in(text).unwrap_or_default();
    let or = |usual| if number.is_empty() { usual } else { number };
    let bound = match subject.unit_of(statistic) {
        MetricUnit::Milliseconds => {
            format!("< {}{}", or("500"), if milliseconds_in(unit).is_some() { unit } else { "ms" })
        }
        MetricUnit::TokensPerSecond => format!("> {}", or("30")),
        MetricUnit::Share => {
            let is_good = matches!(subject, Subject::Group(Group::Goodput | Group::Valid));
            let (sign, usual) = if is_good { (">", "95") } else { ("<", "1") };
            let number = or(usual);
            let is_percent = unit.starts_with('%') || number.parse::<f64>().is_ok_and(|number| number >= 1.0);
            format!("{sign} {number}{}", if is_percent { "%" } else { "" })
        }
        MetricUnit::Factor if subject.is_time() => format!("< {}", or("1")),
        MetricUnit::PerSecond | MetricUnit::Factor | MetricUnit::Count | MetricUnit::Plain => format!("> {}", or("10")),
    };
    format!("{}.{statistic} {bound}", subject.name())
}

impl Subject {
    pub fn name(self) -> String {
        match self {
            Subject::Metric(metric) => metric.name().to_owned(),
            Subject::Adjusted(metric) => format!("adj_{}", metric.name()),
            Subject::Group(group) => group.name().to_owned(),
        }
    }

    /// The metric that it refers to, if any.
    pub fn metric(self) -> Option<Metric> {
        match self {
            Subject::Metric(metric) | Subject::Adjusted(metric) => Some(metric),
            Subject::Group(_) => None,
        }
    }

    pub(super) fn source(self) -> Source {
        let row = match self {
            Subject::Metric(metric) | Subject::Adjusted(metric) => metric.row(),
            Subject::Group(group) => return Source::Group(group),
        };
        match (row.of_phase, self) {
            (PhaseSource::Times(_, Some(of)), Subject::Adjusted(_)) | (PhaseSource::Times(of, _), _) => {
                Source::Times(of)
            }
            (PhaseSource::Speeds(of), _) => Source::Speeds(of),
            (PhaseSource::Throughput, _) => Source::Throughput,
            (PhaseSource::ItemThroughput, _) => Source::Items,
            (PhaseSource::Rate(of), _) => Source::Rate(of),
            (PhaseSource::FailureShare, _) => Source::Group(Group::Failures),
        }
    }

    pub fn is_time(self) -> bool {
        matches!(self.source(), Source::Times(_))
    }

    /// Whether it is a rate of sound, which has names of its own.
    fn is_of_sound(self) -> bool {
        self == Subject::Metric(Metric::AudioThroughput)
    }

    /// Where a phase has a statistic of a rate.
    pub(super) fn rate(self, of: RateOf, statistic: &str) -> RateOf {
        match statistic {
            "characters_per_second" => |phase| phase.audio.characters_per_second,
            _ => of,
        }
    }

    /// With the statistic that is meant where a rate is named alone; `None` of what is no rate.
    pub fn only_rate(self) -> Option<String> {
        let is_rate = matches!(self.source(), Source::Throughput | Source::Items | Source::Rate(_));
        is_rate.then(|| format!("{}.{}", self.name(), self.statistics()[0]))
    }

    fn missing_rate_reason(self, phase: &PhaseResult) -> String {
        let reason = self.metric().and_then(|metric| phase.missing_reason(metric));
        reason.unwrap_or_else(|| "nothing was said".to_owned())
    }

    pub fn is_speed(self) -> bool {
        matches!(self.source(), Source::Speeds(_))
    }

    /// The fewest requests from which a statistic is stated, where it needs a number of them. Gaps and `itl` are pooled over
    /// tokens, of which one request has many.
    pub fn min_requests(self, statistic: &str) -> Option<u64> {
        let level = match (self.source(), statistic) {
            (Source::Times(_), _) if self.metric().is_some_and(|metric| metric.row().is_pooled) => return None,
            (Source::Speeds(_), statistic) => speed_level(statistic)?,
            (Source::Times(_), statistic) => Level::ALL.into_iter().find(|level| level.name() == statistic)?,
            _ => return None,
        };
        Some(level.floor())
    }

    /// A statistic by its name, or by one that other tools give it.
    pub fn statistic(self, typed: &str) -> Option<&'static str> {
        let typed = typed.to_lowercase().replace('.', "_");
        let name = match typed.as_str() {
            "avg" | "average" => "mean",
            "median" if self.is_time() => "p50",
            "p50" if self.is_speed() => "median",
            "std" | "stddev" if self.is_time() => "standard_deviation",
            "minimum" => "min",
            "maximum" => "max",
            other => other,
        };
        self.statistics().iter().copied().find(|known| *known == name)
    }

    pub fn statistics(self) -> &'static [&'static str] {
        match self.source() {
            Source::Times(_) => &["p50", "p90", "p95", "p99", "p99_9", "mean", "min", "max", "standard_deviation", "n"],
            Source::Speeds(_) => &["median", "slowest_5_percent", "slowest_1_percent", "mean", "n"],
            Source::Throughput => {
                &["output_tokens_per_second", "tokens_per_second", "peak_tokens_per_second", "requests_per_second"]
            }
            Source::Rate(_) if self.is_of_sound() => &["seconds_per_second", "characters_per_second"],
            Source::Rate(_) => &["per_second"],
            Source::Items => &["items_per_second", "input_tokens_per_second", "items_per_request"],
            Source::Group(Group::Failures | Group::RateLimited) => &["share", "count"],
            Source::Group(Group::Goodput) => &["share", "per_second", "met", "of"],
            Source::Group(Group::Counts) => {
                &["started", "answered", "failed", "rate_limited", "cancelled", "measured", "late", "forfeited"]
            }
            Source::Group(Group::Valid) => &["share", "n", "of"],
            Source::Group(Group::WordErrors) => &["share", "count", "of"],
            Source::Group(Group::Concurrency) => &["mean", "peak"],
            Source::Group(Group::Tokens) => &["std", "reported", "reported_over_std"],
        }
    }

    pub fn unit_of(self, statistic: &str) -> MetricUnit {
        match (self.source(), statistic) {
            (Source::Times(_) | Source::Speeds(_), "n") => MetricUnit::Count,
            (Source::Times(_), _) => self.metric().map_or(MetricUnit::Milliseconds, |metric| metric.row().unit),
            (Source::Speeds(_), _) => MetricUnit::TokensPerSecond,
            (Source::Throughput, "requests_per_second") | (Source::Group(Group::Goodput), "per_second") => {
                MetricUnit::PerSecond
            }
            (Source::Throughput, _) | (Source::Items, "input_tokens_per_second") => MetricUnit::TokensPerSecond,
            (Source::Rate(_), "seconds_per_second") => MetricUnit::Factor,
            (Source::Items, "items_per_second") | (Source::Rate(_), _) => MetricUnit::PerSecond,
            (Source::Items, _) => MetricUnit::Plain,
            (_, "share") => MetricUnit::Share,
            (Source::Group(Group::Concurrency), _) | (_, "reported_over_std") => MetricUnit::Plain,
            _ => MetricUnit::Count,
        }
    }

    /// The number at a load; of several rounds that of their requests together.
    pub fn find(self, statistic: &str, rounds: &Rounds<'_>) -> Lookup {
        let found = match rounds.phases.as_slice() {
            [phase] => self.find_in(statistic, phase),
            _ => pooled::find(self, statistic, rounds),
        };
        match found {
            // Gaps of one request are not independent: few of them bound nothing.
            Lookup::TooFew { n, floor, .. } if self.metric().is_some_and(|metric| metric.row().is_pooled) => {
                Lookup::TooFew { n, floor, low: 0.0, high: f64::INFINITY }
            }
            found => found,
        }
    }

    /// The number of one phase.
    pub fn find_in(self, statistic: &str, phase: &PhaseResult) -> Lookup {
        let count = |count: u64| Lookup::Value(count as f64);
        match (self.source(), statistic) {
            (Source::Times(of), statistic) => find_time(of(phase), statistic),
            (Source::Speeds(of), statistic) => match (find_speed(of(phase), statistic), speed_level(statistic)) {
                // Of answers that could not be timed the bounds are known, and so is what few samples bound.
                (found @ (Lookup::Missing(_) | Lookup::TooFew { .. }), Some(level))
                    if self.metric() == Some(Metric::OutputSpeed) =>
                {
                    match (inverted(find_quantile(&phase.tpot, level)), found) {
                        (Lookup::Between { low, high, .. }, Lookup::Missing(reason)) => {
                            Lookup::Between { low, high, reason }
                        }
                        (bounded @ Lookup::TooFew { .. }, Lookup::TooFew { .. }) => bounded,
                        (_, found) => found,
                    }
                }
                (found, _) => found,
            },
            (Source::Throughput, statistic) => find_throughput(phase, statistic),
            (Source::Items, statistic) => find_items(phase, statistic),
            (Source::Rate(of), statistic) => maybe(self.rate(of, statistic)(phase), &self.missing_rate_reason(phase)),
            (Source::Group(Group::WordErrors), statistic) => audio::find_errors(&[phase], statistic),
            (Source::Group(Group::Failures), "share") => maybe(phase.counts.failed_share(), "no request was started"),
            (Source::Group(Group::Failures), _) => count(phase.counts.failed),
            (Source::Group(Group::RateLimited), "share") => maybe(phase.rate_limited.share, "no request was started"),
            (Source::Group(Group::RateLimited), _) => count(phase.rate_limited.count),
            (Source::Group(Group::Goodput), statistic) => find_goodput(phase, statistic),
            (Source::Group(Group::Valid), statistic) => {
                let valid = phase.structure.as_ref().map(|structure| (structure.n, structure.valid));
                find_valid(valid, statistic)
            }
            (Source::Group(Group::Counts), statistic) => count(find_count(&phase.counts, statistic)),
            (Source::Group(Group::Concurrency), "mean") => maybe(phase.concurrency.mean, "no request was sent"),
            (Source::Group(Group::Concurrency), _) => count(u64::from(phase.concurrency.peak)),
            (Source::Group(Group::Tokens), "std") => count(phase.tokens.std),
            (Source::Group(Group::Tokens), "reported") => {
                maybe(phase.tokens.reported.map(|tokens| tokens as f64), "the provider reported no tokens")
            }
            (Source::Group(Group::Tokens), _) => {
                maybe(phase.tokens.reported_over_std, "the provider reported no tokens")
            }
        }
    }
}

/// Of answers that were held against a schema and the valid ones among them.
fn find_valid(valid: Option<(u64, u64)>, statistic: &str) -> Lookup {
    let figure = valid.map(|(n, valid)| match statistic {
        "share" => valid as f64 / n as f64,
        "n" => valid as f64,
        _ => n as f64,
    });
    maybe(figure, "no answer was held against a schema (--task tools or json)")
}

/// The quantile of time per token whose inverse is this statistic of a speed.
pub(super) fn speed_level(statistic: &str) -> Option<Level> {
    match statistic {
        "median" => Some(Level::P50),
        "slowest_5_percent" => Some(Level::P95),
        "slowest_1_percent" => Some(Level::P99),
        _ => None,
    }
}

/// How often the bound of a percentile that has too few samples may be wrong.
const BOUND_MISSES: f64 = 0.01;

/// Why a quantile is not stated of which only bounds are known.
const UNDETERMINED: &str = "answers that could not be timed could move it out of its interval";

/// The least and the most that a quantile of times can be, where they decide nothing else.
fn between(times: &Distribution, level: Level, reason: &str) -> Lookup {
    match times.quantile_bounds(level) {
        Some((low, high)) => Lookup::Between { low, high, reason: reason.to_owned() },
        None => Lookup::Missing(reason.to_owned()),
    }
}

fn maybe(value: Option<f64>, otherwise: &str) -> Lookup {
    value.map_or_else(|| Lookup::Missing(otherwise.to_owned()), Lookup::Value)
}

fn find_time(times: &Distribution, statistic: &str) -> Lookup {
    if let Some(level) = Level::ALL.into_iter().find(|level| level.name() == statistic) {
        return find_quantile(times, level);
    }
    let unbounded = times.infinite > 0 && statistic != "min" && statistic != "n";
    let is_bound_only = times.censored.is_some() && statistic != "n" && !(statistic == "max" && times.max.is_some());
    match statistic {
        "n" => Lookup::Value(times.n as f64),
        _ if unbounded => Lookup::Infinite,
        _ if is_bound_only => Lookup::Missing(format!("no exact {statistic}: answers could not be timed")),
        "mean" => maybe(times.mean, "no request has it"),
        "min" => maybe(times.min, "no request has it"),
        "max" => maybe(times.max, "no request has it"),
        _ => maybe(times.standard_deviation, "fewer than two requests have it"),
    }
}

fn find_quantile(times: &Distribution, level: Level) -> Lookup {
    let (quantile, n) = (times.quantile(level), times.n);
    match (quantile.status, quantile.value) {
        (QuantileStatus::NoSamples, _) => Lookup::Missing("no request has it".to_owned()),
        (QuantileStatus::NotEnoughSamples, _) => too_few(times, level),
        (QuantileStatus::Stated | QuantileStatus::Computed, Some(value)) => Lookup::Value(value),
        (QuantileStatus::Stated | QuantileStatus::Computed, None) => Lookup::Infinite,
        (QuantileStatus::Undetermined, _) if n < quantile.floor => too_few(times, level),
        (QuantileStatus::Undetermined, _) => between(times, level, UNDETERMINED),
    }
}

/// Few samples still bound a percentile from below: where the median is above a limit, the p95 is.
fn too_few(times: &Distribution, level: Level) -> Lookup {
    let low = times.lower_bound(level, BOUND_MISSES).unwrap_or(0.0);
    Lookup::TooFew { n: times.n, floor: times.quantile(level).floor, low, high: f64::INFINITY }
}

/// A time per token (ms) as a speed (tok/s).
fn inverted(time: Lookup) -> Lookup {
    match time {
        Lookup::Value(time) => Lookup::Value(1e3 / time),
        Lookup::Between { low, high, reason } => Lookup::Between { low: 1e3 / high, high: 1e3 / low, reason },
        Lookup::TooFew { n, floor, low, high } => Lookup::TooFew { n, floor, low: 1e3 / high, high: 1e3 / low },
        other => other,
    }
}

fn find_speed(speeds: &SpeedSummary, statistic: &str) -> Lookup {
    let quantile = |quantile: &Quantile| match (quantile.status, quantile.value) {
        (QuantileStatus::NotEnoughSamples, _) => {
            Lookup::TooFew { n: speeds.n, floor: quantile.floor, low: 0.0, high: f64::INFINITY }
        }
        (QuantileStatus::Undetermined, _) => {
            Lookup::Missing(speeds.refused.as_deref().unwrap_or(UNDETERMINED).to_owned())
        }
        (_, Some(value)) => Lookup::Value(value),
        _ => {
            let reason = speeds.missing.first().map_or("no request has it", |missing| missing.reason.as_str());
            Lookup::Missing(reason.to_owned())
        }
    };
    match statistic {
        "median" => quantile(&speeds.median),
        "slowest_5_percent" => quantile(&speeds.slowest_5_percent),
        "slowest_1_percent" => quantile(&speeds.slowest_1_percent),
        "mean" => maybe(speeds.mean, "no request has it"),
        _ => Lookup::Value(speeds.n as f64),
    }
}

fn find_throughput(phase: &PhaseResult, statistic: &str) -> Lookup {
    let Some(throughput) = &phase.throughput else {
        let reason = phase.steady_missing.as_deref().unwrap_or("there is no steady window");
        return Lookup::Missing(reason.to_owned());
    };
    Lookup::Value(match statistic {
        "peak_tokens_per_second" => throughput.peak_tokens_per_second,
        "requests_per_second" => throughput.requests_per_second,
        _ => throughput.tokens_per_second,
    })
}

fn find_items(phase: &PhaseResult, statistic: &str) -> Lookup {
    let Some(items) = &phase.items else {
        return Lookup::Missing("the answers were no vectors or scores".to_owned());
    };
    let value = match statistic {
        "input_tokens_per_second" => items.input_tokens_per_second,
        "items_per_request" => items.per_request,
        _ => items.per_second,
    };
    maybe(value, phase.steady_missing.as_deref().unwrap_or("there is no steady window"))
}

fn find_goodput(phase: &PhaseResult, statistic: &str) -> Lookup {
    let Some(goodput) = &phase.goodput else {
        return Lookup::Missing("no objective was set; name one with --slo".to_owned());
    };
    match statistic {
        "share" => maybe(goodput.share, "no request was judged"),
        "per_second" => maybe(goodput.per_second, "there is no steady window"),
        "met" => Lookup::Value(goodput.met as f64),
        _ => Lookup::Value(goodput.of as f64),
    }
}

fn find_count(counts: &Counts, statistic: &str) -> u64 {
    match statistic {
        "started" => counts.started,
        "answered" => counts.answered,
        "failed" => counts.failed,
        "rate_limited" => counts.rate_limited,
        "cancelled" => counts.cancelled,
        "measured" => counts.measured,
        "late" => counts.late,
        _ => counts.forfeited,
    }
}
