//! Which numbers of a phase can be demanded, and where they stand.
//!
//! It refuses to know bounds. Invariant: a name here is the name of the record, and a number that the record does not state
//! is never found.

use crate::run::{PhaseResult, SpeedQuantile, SpeedSummary};
use crate::stats::{Distribution, Level, Quantile, QuantileStatus};

/// What a number counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Time,
    Speed,
    PerSecond,
    Share,
    Count,
    Plain,
}

/// A group of numbers under one name.
#[derive(Debug)]
pub(super) struct Subject {
    pub name: &'static str,
    source: Source,
}

impl PartialEq for Subject {
    fn eq(&self, other: &Subject) -> bool {
        self.name == other.name
    }
}

#[derive(Debug)]
enum Source {
    Times(fn(&PhaseResult) -> &Distribution),
    Speeds(fn(&PhaseResult) -> &SpeedSummary),
    Throughput,
    Failures,
    RateLimited,
    Goodput,
    Counts,
    Concurrency,
    Tokens,
}

/// A number, or why there is none.
pub(super) enum Found {
    Value(f64),
    Infinite,
    TooFew { n: u64, floor: u64 },
    Nothing(String),
}

const fn times(name: &'static str, of: fn(&PhaseResult) -> &Distribution) -> Subject {
    Subject { name, source: Source::Times(of) }
}

const fn group(name: &'static str, source: Source) -> Subject {
    Subject { name, source }
}

static SUBJECTS: [Subject; 23] = [
    times("ttft", |phase| &phase.ttft),
    times("ttfat", |phase| &phase.ttfat),
    times("ttfb", |phase| &phase.ttfb),
    times("itl", |phase| &phase.itl),
    times("chunk_gap", |phase| &phase.chunk_gap),
    times("largest_gap", |phase| &phase.largest_gap),
    times("tpot", |phase| &phase.tpot),
    times("e2e", |phase| &phase.e2e),
    times("e2e_from_due", |phase| &phase.e2e_from_due),
    times("adj_ttft", |phase| &phase.adj_ttft),
    times("adj_ttfat", |phase| &phase.adj_ttfat),
    times("adj_tpot", |phase| &phase.adj_tpot),
    times("adj_e2e", |phase| &phase.adj_e2e),
    times("adj_e2e_from_due", |phase| &phase.adj_e2e_from_due),
    group("output_speed", Source::Speeds(|phase| &phase.output_speed)),
    group("e2e_speed", Source::Speeds(|phase| &phase.e2e_speed)),
    group("throughput", Source::Throughput),
    group("failures", Source::Failures),
    group("rate_limited", Source::RateLimited),
    group("goodput", Source::Goodput),
    group("counts", Source::Counts),
    group("concurrency", Source::Concurrency),
    group("tokens", Source::Tokens),
];

pub(super) fn subject_of(name: &str) -> Option<&'static Subject> {
    SUBJECTS.iter().find(|subject| subject.name == name)
}

pub(super) fn subject_names() -> Vec<&'static str> {
    SUBJECTS.iter().map(|subject| subject.name).collect()
}

/// A demand on what a text names somewhere; of a time if it names nothing.
pub(super) fn example_like(text: &str) -> String {
    let lower = text.split(['<', '>', '@']).next().unwrap_or_default().to_lowercase();
    let named = SUBJECTS.iter().filter(|subject| lower.contains(subject.name)).max_by_key(|subject| subject.name.len());
    let subject = named.unwrap_or(&SUBJECTS[0]);
    let statistic = if subject.is_time() { "p95" } else { subject.statistics()[0] };
    let bound = match subject.kind_of(statistic) {
        Kind::Time => "< 500ms",
        Kind::Speed => "> 30",
        Kind::Share if subject.name == "goodput" => "> 95%",
        Kind::Share => "< 1%",
        Kind::PerSecond | Kind::Count | Kind::Plain => "> 10",
    };
    format!("{}.{statistic} {bound}", subject.name)
}

impl Kind {
    /// Unit of the number, empty for counts and shares.
    pub const fn unit(self) -> &'static str {
        match self {
            Kind::Time => "ms",
            Kind::Speed => "tok/s",
            Kind::PerSecond => "1/s",
            Kind::Share | Kind::Count | Kind::Plain => "",
        }
    }

    /// The number with its unit, for people.
    pub fn shown(self, value: f64) -> String {
        match self {
            Kind::Share => format!("{:.2} %", value * 100.0),
            Kind::Count => format!("{value:.0}"),
            Kind::Plain => format!("{value:.3}"),
            Kind::Time | Kind::Speed | Kind::PerSecond => format!("{value:.2} {}", self.unit()),
        }
    }
}

impl Subject {
    pub fn is_time(&self) -> bool {
        matches!(self.source, Source::Times(_))
    }

    pub fn is_speed(&self) -> bool {
        matches!(self.source, Source::Speeds(_))
    }

    /// The fewest requests from which a statistic is stated, where it needs a number of them. Gaps and `itl` are pooled over
    /// tokens, of which one request has many.
    pub fn floor_of(&self, statistic: &str) -> Option<u64> {
        let level = match (&self.source, statistic) {
            (Source::Times(_), _) if matches!(self.name, "itl" | "chunk_gap") => return None,
            (Source::Speeds(_), "median") => Level::P50,
            (Source::Speeds(_), "slowest_5_percent") => Level::P95,
            (Source::Speeds(_), "slowest_1_percent") => Level::P99,
            (Source::Times(_), statistic) => Level::ALL.into_iter().find(|level| level.name() == statistic)?,
            _ => return None,
        };
        Some(level.floor())
    }

    pub fn statistics(&self) -> &'static [&'static str] {
        match self.source {
            Source::Times(_) => &["p50", "p90", "p95", "p99", "p99_9", "mean", "min", "max", "standard_deviation", "n"],
            Source::Speeds(_) => &["median", "slowest_5_percent", "slowest_1_percent", "mean", "n"],
            Source::Throughput => {
                &["output_tokens_per_second", "tokens_per_second", "peak_tokens_per_second", "requests_per_second"]
            }
            Source::Failures | Source::RateLimited => &["share", "count"],
            Source::Goodput => &["share", "per_second", "met", "of"],
            Source::Counts => {
                &["started", "answered", "failed", "rate_limited", "cancelled", "measured", "late", "forfeited"]
            }
            Source::Concurrency => &["mean", "peak"],
            Source::Tokens => &["std", "reported", "reported_over_std"],
        }
    }

    pub fn kind_of(&self, statistic: &str) -> Kind {
        match (&self.source, statistic) {
            (Source::Times(_) | Source::Speeds(_), "n") => Kind::Count,
            (Source::Times(_), _) => Kind::Time,
            (Source::Speeds(_), _) => Kind::Speed,
            (Source::Throughput, "requests_per_second") | (Source::Goodput, "per_second") => Kind::PerSecond,
            (Source::Throughput, _) => Kind::Speed,
            (_, "share") => Kind::Share,
            (Source::Concurrency, _) | (_, "reported_over_std") => Kind::Plain,
            _ => Kind::Count,
        }
    }

    /// The number in a phase.
    pub fn find(&self, statistic: &str, phase: &PhaseResult) -> Found {
        let count = |count: u64| Found::Value(count as f64);
        match (&self.source, statistic) {
            (Source::Times(of), statistic) => find_time(of(phase), statistic),
            (Source::Speeds(of), statistic) => find_speed(of(phase), statistic),
            (Source::Throughput, statistic) => find_throughput(phase, statistic),
            (Source::Failures, "share") => maybe(phase.counts.failed_share(), "no request was started"),
            (Source::Failures, _) => count(phase.counts.failed),
            (Source::RateLimited, "share") => maybe(phase.rate_limited.share, "no request was started"),
            (Source::RateLimited, _) => count(phase.rate_limited.count),
            (Source::Goodput, statistic) => find_goodput(phase, statistic),
            (Source::Counts, statistic) => count(find_count(phase, statistic)),
            (Source::Concurrency, "mean") => maybe(phase.concurrency.mean, "no request was sent"),
            (Source::Concurrency, _) => count(u64::from(phase.concurrency.peak)),
            (Source::Tokens, "std") => count(phase.tokens.std),
            (Source::Tokens, "reported") => {
                maybe(phase.tokens.reported.map(|tokens| tokens as f64), "the provider reported no tokens")
            }
            (Source::Tokens, _) => maybe(phase.tokens.reported_over_std, "the provider reported no tokens"),
        }
    }
}

fn maybe(value: Option<f64>, otherwise: &str) -> Found {
    value.map_or_else(|| Found::Nothing(otherwise.to_owned()), Found::Value)
}

fn find_time(times: &Distribution, statistic: &str) -> Found {
    if let Some(level) = Level::ALL.into_iter().find(|level| level.name() == statistic) {
        return find_quantile(times.quantile(level), times.n);
    }
    let unbounded = times.infinite > 0 && statistic != "min" && statistic != "n";
    match statistic {
        "n" => Found::Value(times.n as f64),
        _ if unbounded => Found::Infinite,
        "mean" => maybe(times.mean, "no request has it"),
        "min" => maybe(times.min, "no request has it"),
        "max" => maybe(times.max, "no request has it"),
        _ => maybe(times.standard_deviation, "fewer than two requests have it"),
    }
}

fn find_quantile(quantile: &Quantile, n: u64) -> Found {
    match (quantile.status, quantile.value) {
        (QuantileStatus::NoSamples, _) => Found::Nothing("no request has it".to_owned()),
        (QuantileStatus::NotEnoughSamples, _) => Found::TooFew { n, floor: quantile.floor },
        (QuantileStatus::Stated, Some(value)) => Found::Value(value),
        (QuantileStatus::Stated, None) => Found::Infinite,
    }
}

fn find_speed(speeds: &SpeedSummary, statistic: &str) -> Found {
    let quantile = |quantile: &SpeedQuantile| match (quantile.status, quantile.value) {
        (QuantileStatus::NotEnoughSamples, _) => Found::TooFew { n: speeds.n, floor: quantile.floor },
        (_, Some(value)) => Found::Value(value),
        _ => {
            let reason = speeds.missing.first().map_or("no request has it", |missing| missing.reason.as_str());
            let reason = speeds.refused.as_deref().unwrap_or(reason);
            Found::Nothing(reason.to_owned())
        }
    };
    match statistic {
        "median" => quantile(&speeds.median),
        "slowest_5_percent" => quantile(&speeds.slowest_5_percent),
        "slowest_1_percent" => quantile(&speeds.slowest_1_percent),
        "mean" => maybe(speeds.mean, "no request has it"),
        _ => Found::Value(speeds.n as f64),
    }
}

fn find_throughput(phase: &PhaseResult, statistic: &str) -> Found {
    let Some(throughput) = &phase.throughput else {
        let reason = phase.steady_missing.as_deref().unwrap_or("there is no steady window");
        return Found::Nothing(reason.to_owned());
    };
    Found::Value(match statistic {
        "peak_tokens_per_second" => throughput.peak_tokens_per_second,
        "requests_per_second" => throughput.requests_per_second,
        _ => throughput.tokens_per_second,
    })
}

fn find_goodput(phase: &PhaseResult, statistic: &str) -> Found {
    let Some(goodput) = &phase.goodput else {
        return Found::Nothing("no objective was set; name one with --slo".to_owned());
    };
    match statistic {
        "share" => maybe(goodput.share, "no request was judged"),
        "per_second" => maybe(goodput.per_second, "there is no steady window"),
        "met" => Found::Value(goodput.met as f64),
        _ => Found::Value(goodput.of as f64),
    }
}

fn find_count(phase: &PhaseResult, statistic: &str) -> u64 {
    let counts = &phase.counts;
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
