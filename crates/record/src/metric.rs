//! The catalogue of metrics: name, unit, direction, and where a request and a phase hold the value.
//!
//! Flags, tables, CSV, reports, comparisons and docs/metric-catalogue.md take names, labels and units from here.
//! Invariant: a metric that a request or a phase lacks is `None`, never 0; each is in the unit of its row.

mod audio;
mod catalogue;
mod row;

use crate::run::{PhaseResult, SpeedSummary};
use catalogue::CATALOGUE;
use tokrate_meter::names::Named;
use tokrate_meter::request::RequestNumbers;
use tokrate_stats::Distribution;

/// What requests and phases are measured by. The order is that of [`Metric::ALL`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Metric {
    /// Sent to first response body byte.
    Ttfb,
    /// Sent to first output text, reasoning included.
    Ttft,
    /// Sent to first answer text, reasoning excluded.
    Ttfat,
    /// Time between tokens.
    Itl,
    /// Time between chunks.
    ChunkGap,
    /// The longest chunk gap of a request.
    LargestGap,
    /// 1 / output speed.
    Tpot,
    /// Sent to finish.
    E2e,
    /// Due to finish.
    E2eFromDue,
    /// Tokens per second of a request after its first chunk.
    OutputSpeed,
    /// Tokens per second of a request over its whole time.
    E2eSpeed,
    /// Tokens per second of all requests together.
    Throughput,
    /// Failed requests as a share of those started and not cancelled.
    FailureShare,
    /// Beginning of a session of agents to its end.
    SessionTime,
    /// E2E shared among the items of a request.
    TimePerItem,
    /// Items per second of all requests together.
    ItemThroughput,
    /// Sent to the first byte of the arguments of a tool call.
    TimeToFirstArgument,
    /// Sent to the last text of an answer that is what was asked for.
    TimeToValid,
    /// Pictures per second of all requests together.
    ImageThroughput,
    /// Their pixels, in millions.
    MegapixelThroughput,
    /// Sent to the first image of an answer.
    TimeToFirstImage,
    /// Requests of batches per second.
    BatchThroughput,
    /// Looking up the server's name for a connection.
    NameLookup,
    /// Opening TCP.
    TcpConnect,
    /// The TLS handshake.
    TlsHandshake,
    /// Connection open to the request's last byte sent.
    RequestWrite,
    /// Sent to the response's head.
    ResponseHead,
    /// Beginning of a request that opens a connection to its first output text.
    ColdTtft,
    /// Waiting for a stream of HTTP/2.
    StreamWait,
    /// Sent to the first sound that can be played.
    TimeToFirstAudio,
    /// E2E divided by the length of the sound.
    RealTimeFactor,
    /// How long a player has nothing to play.
    StalledTime,
    /// Seconds of sound of all requests together per second.
    AudioThroughput,
    /// Opening of a realtime session.
    SessionOpen,
}

/// What a number counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricUnit {
    /// Milliseconds.
    Milliseconds,
    /// Output tokens per second.
    TokensPerSecond,
    /// Requests or answers per second.
    PerSecond,
    /// Seconds for a second of sound, or seconds of sound in a second.
    Factor,
    /// 0 to 1.
    Share,
    /// A whole number of things.
    Count,
    /// A number without a unit.
    Plain,
}

/// Where a phase has a metric.
#[derive(Clone, Copy, Debug)]
pub enum PhaseSource {
    /// Times of its requests, or of their gaps; where failures are counted in as never answered, those too.
    Times(fn(&PhaseResult) -> &Distribution, Option<fn(&PhaseResult) -> &Distribution>),
    /// Speeds of its requests.
    Speeds(fn(&PhaseResult) -> &SpeedSummary),
    /// One figure of the steady window.
    Throughput,
    /// The same of items.
    ItemThroughput,
    /// Another rate of the steady window, of what only some tasks have.
    Rate(fn(&PhaseResult) -> Option<f64>),
    /// One figure of all its requests.
    FailureShare,
}

/// One row of the catalogue.
#[derive(Debug)]
pub struct MetricRow {
    /// Which one.
    pub metric: Metric,
    /// Its name in JSON, flags and settings, without a unit.
    pub name: &'static str,
    /// Its name in tables, without a unit.
    pub label: &'static str,
    /// Its name in sentences.
    pub words: &'static str,
    /// How it is defined, in half a sentence.
    pub definition: &'static str,
    /// Its unit.
    pub unit: MetricUnit,
    /// Whether more is better.
    pub more_is_better: bool,
    /// The fewest output tokens of an answer that has it.
    pub tokens_needed: u64,
    /// Whether an answer that comes in one piece lacks it.
    pub needs_stream: bool,
    /// Whether a phase has a sample for each token or gap, and not one for each request.
    pub is_pooled: bool,
    /// The value of one request, in the metric's unit; `None` if single requests do not have it.
    pub of_request: Option<fn(&RequestNumbers) -> Option<f64>>,
    /// Where a phase has it.
    pub of_phase: PhaseSource,
    /// What other tools call it where they hold single requests against bounds (`--goodput` of vLLM, GenAI-Perf and AIPerf), and
    /// what GuideLLM calls it in its results.
    pub foreign_names: &'static [&'static str],
}

impl Metric {
    /// Every metric.
    pub const ALL: [Metric; 34] = [
        Metric::Ttfb,
        Metric::Ttft,
        Metric::Ttfat,
        Metric::Itl,
        Metric::ChunkGap,
        Metric::LargestGap,
        Metric::Tpot,
        Metric::E2e,
        Metric::E2eFromDue,
        Metric::OutputSpeed,
        Metric::E2eSpeed,
        Metric::Throughput,
        Metric::FailureShare,
        Metric::SessionTime,
        Metric::TimePerItem,
        Metric::ItemThroughput,
        Metric::TimeToFirstArgument,
        Metric::TimeToValid,
        Metric::ImageThroughput,
        Metric::MegapixelThroughput,
        Metric::TimeToFirstImage,
        Metric::BatchThroughput,
        Metric::NameLookup,
        Metric::TcpConnect,
        Metric::TlsHandshake,
        Metric::RequestWrite,
        Metric::ResponseHead,
        Metric::ColdTtft,
        Metric::StreamWait,
        Metric::TimeToFirstAudio,
        Metric::RealTimeFactor,
        Metric::StalledTime,
        Metric::AudioThroughput,
        Metric::SessionOpen,
    ];

    /// Its row of the catalogue.
    pub fn row(self) -> &'static MetricRow {
        let row = &CATALOGUE[self as usize];
        debug_assert!(row.metric == self, "the catalogue is in the order of the enumeration");
        row
    }

    /// Its name in JSON, flags and settings, without a unit.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Its name in tables, without a unit.
    pub fn label(self) -> &'static str {
        self.row().label
    }

    /// `ms`, `tok/s` or empty.
    pub fn unit(self) -> &'static str {
        self.row().unit.name()
    }

    /// Whether it is a speed (tok/s).
    pub fn is_speed(self) -> bool {
        self.row().unit == MetricUnit::TokensPerSecond
    }

    /// Whether only requests that open a connection have it.
    pub fn is_of_opening(self) -> bool {
        matches!(
            self,
            Metric::NameLookup
                | Metric::TcpConnect
                | Metric::TlsHandshake
                | Metric::RequestWrite
                | Metric::ResponseHead
                | Metric::ColdTtft
        )
    }

    /// Whether it is a time (ms).
    pub fn is_in_milliseconds(self) -> bool {
        self.row().unit == MetricUnit::Milliseconds
    }

    /// The metrics that single requests have.
    pub fn of_requests() -> impl Iterator<Item = Metric> {
        Metric::ALL.into_iter().filter(|metric| metric.row().of_request.is_some())
    }

    /// Whether a phase has one time for each request that has it.
    pub fn is_time_of_requests(self) -> bool {
        let row = self.row();
        matches!(row.of_phase, PhaseSource::Times(..)) && row.of_request.is_some() && !row.is_pooled
    }

    /// The metric of a name.
    pub fn from_name(name: &str) -> Option<Metric> {
        Metric::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// The metric of single requests of a name.
    pub fn of_requests_from_name(name: &str) -> Option<Metric> {
        Metric::of_requests().find(|metric| metric.name() == name)
    }

    /// The metric behind another tool's name for it, as used in per-request objectives.
    pub fn from_other_tools_name(name: &str) -> Option<Metric> {
        let foreign = Metric::of_requests().find(|metric| metric.row().foreign_names.contains(&name));
        // Their `itl` is neither ours nor, in all of them, the same.
        foreign.or_else(|| Metric::of_requests_from_name(name).filter(|metric| *metric != Metric::Itl))
    }

    /// What one request has of it, in its unit.
    pub fn of(self, request: &RequestNumbers) -> Option<f64> {
        self.row().of_request.and_then(|of| of(request))
    }

    /// The distribution of a phase; `None` if the metric is not a time.
    pub fn times(self, phase: &PhaseResult) -> Option<&Distribution> {
        match self.row().of_phase {
            PhaseSource::Times(of, _) => Some(of(phase)),
            PhaseSource::Speeds(_)
            | PhaseSource::Throughput
            | PhaseSource::ItemThroughput
            | PhaseSource::Rate(_)
            | PhaseSource::FailureShare => None,
        }
    }
}

impl MetricUnit {
    /// Empty for shares, counts and plain numbers.
    pub const fn name(self) -> &'static str {
        match self {
            MetricUnit::Milliseconds => "ms",
            MetricUnit::TokensPerSecond => "tok/s",
            MetricUnit::PerSecond => "1/s",
            MetricUnit::Factor => "s/s",
            MetricUnit::Share | MetricUnit::Count | MetricUnit::Plain => "",
        }
    }

    /// A number with the unit, for people.
    pub fn shown(self, value: f64) -> String {
        match self {
            MetricUnit::Share => format!("{:.2} %", value * 100.0),
            MetricUnit::Count => format!("{value:.0}"),
            MetricUnit::Plain => format!("{value:.3}"),
            MetricUnit::Factor => format!("{value:.3} {}", self.name()),
            _ => format!("{value:.2} {}", self.name()),
        }
    }
}

impl Named for Metric {
    const ALL: &'static [Metric] = &Metric::ALL;
    fn name(self) -> &'static str {
        Metric::name(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_catalogue_is_in_order_and_no_name_stands_for_two() {
        for (place, row) in CATALOGUE.iter().enumerate() {
            assert_eq!((row.metric as usize, Metric::ALL[place]), (place, row.metric));
            assert!(![row.name, row.label, row.words, row.definition].contains(&""), "{row:?}");
        }
        let names: BTreeSet<&str> = CATALOGUE.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), CATALOGUE.len());
    }

    #[test]
    fn names_of_other_tools_are_understood() {
        let of = Metric::from_other_tools_name;
        assert_eq!(of("e2el"), Some(Metric::E2e));
        assert_eq!((of("itl"), of("inter_token_latency")), (None, Some(Metric::Tpot)));
        assert_eq!(of("ttft"), Some(Metric::Ttft));
        assert_eq!(of("throughput"), None, "it is not one of a request");
    }

    #[test]
    fn the_files_in_docs_are_those_of_the_code() {
        let mut text = String::from(
            "# Metrics\n\nMade from the catalogue (`crates/record/src/metric.rs`) by `cargo xtask docs`. How each is taken: \
             [method.md](method.md); words: [glossary.md](glossary.md).\n\n\
             | name | in tables | unit | better | definition | of one request | other tools' names |\n|---|---|---|---|---|---|---|\n",
        );
        for row in &CATALOGUE {
            let unit = if row.unit.name().is_empty() { "0 to 1" } else { row.unit.name() };
            let better = if row.more_is_better { "more" } else { "less" };
            let own = if row.of_request.is_some() { "yes" } else { "" };
            let foreign = row.foreign_names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            text += &format!(
                "| `{}` | {} | {unit} | {better} | {} | {own} | {foreign} |\n",
                row.name, row.label, row.definition
            );
        }
        text += &crate::timeline::markdown();
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metric-catalogue.md");
        if std::env::var_os("TOKRATE_WRITE_DOCS").is_some() {
            std::fs::write(file, &text).expect("docs can be written");
        }
        let kept = std::fs::read_to_string(file).expect("docs/metric-catalogue.md; `cargo xtask docs` writes it");
        assert_eq!(kept, text, "run `cargo xtask docs`");
    }
}
