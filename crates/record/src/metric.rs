//! The catalogue of metrics: name, unit, direction, and where a request and a phase hold the value.
//!
//! Flags, tables, CSV, reports, comparisons and docs/metric-catalogue.md take names, labels and units from here.
//! Invariant: a metric that a request or a phase lacks is `None`, never 0; each is in the unit of its row.

mod audio;

use crate::run::{PhaseResult, SpeedSummary};
use tokrate_meter::names::Named;
use tokrate_meter::request::{MIN_SPEED_TOKENS, RequestNumbers};
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
    /// The same of seconds of sound.
    AudioThroughput,
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

/// What most rows share: a time of each request, of answers that need not be streamed.
const TIME: MetricRow = MetricRow {
    metric: Metric::E2e,
    name: "",
    label: "",
    words: "",
    definition: "",
    unit: MetricUnit::Milliseconds,
    more_is_better: false,
    tokens_needed: 1,
    needs_stream: false,
    is_pooled: false,
    of_request: None,
    of_phase: PhaseSource::Throughput,
    foreign_names: &[],
};

/// The same of a speed.
const SPEED: MetricRow = MetricRow { unit: MetricUnit::TokensPerSecond, more_is_better: true, ..TIME };

const fn plain(of: fn(&PhaseResult) -> &Distribution) -> PhaseSource {
    PhaseSource::Times(of, None)
}

fn milliseconds(nanoseconds: Option<u64>) -> Option<f64> {
    nanoseconds.map(|nanoseconds| nanoseconds as f64 / 1e6)
}

static CATALOGUE: [MetricRow; 23] = [
    MetricRow {
        metric: Metric::Ttfb,
        name: "ttfb",
        label: "TTFB",
        words: "time to first byte",
        definition: "sent to the first byte of the response body",
        of_request: Some(|request| milliseconds(request.ttfb_ns)),
        of_phase: plain(|phase| &phase.ttfb),
        ..TIME
    },
    MetricRow {
        metric: Metric::Ttft,
        name: "ttft",
        label: "TTFT",
        words: "time to first token",
        definition: "sent to the first output text, reasoning included",
        needs_stream: true,
        of_request: Some(|request| milliseconds(request.ttft_ns)),
        of_phase: PhaseSource::Times(|phase| &phase.ttft, Some(|phase| &phase.adj_ttft)),
        foreign_names: &["time_to_first_token"],
        ..TIME
    },
    MetricRow {
        metric: Metric::Ttfat,
        name: "ttfat",
        label: "TTFAT",
        words: "time to first answer token",
        definition: "sent to the first answer text, reasoning excluded",
        needs_stream: true,
        of_request: Some(|request| milliseconds(request.ttfat_ns)),
        of_phase: PhaseSource::Times(|phase| &phase.ttfat, Some(|phase| &phase.adj_ttfat)),
        ..TIME
    },
    MetricRow {
        metric: Metric::Itl,
        name: "itl",
        label: "ITL",
        words: "time between tokens",
        definition: "time between two chunks, shared among the tokens of the later one; of one request the longest",
        tokens_needed: 2,
        needs_stream: true,
        is_pooled: true,
        of_request: Some(|request| milliseconds(request.largest_itl_ns)),
        of_phase: plain(|phase| &phase.itl),
        ..TIME
    },
    MetricRow {
        metric: Metric::ChunkGap,
        name: "chunk_gap",
        label: "chunk gap",
        words: "time between chunks",
        definition: "time between two arrivals of text",
        tokens_needed: 2,
        needs_stream: true,
        is_pooled: true,
        of_phase: plain(|phase| &phase.chunk_gap),
        ..TIME
    },
    MetricRow {
        metric: Metric::LargestGap,
        name: "largest_gap",
        label: "longest gap",
        words: "longest gap",
        definition: "the longest time between two chunks of a request",
        tokens_needed: 2,
        needs_stream: true,
        of_request: Some(|request| milliseconds(request.largest_gap_ns)),
        of_phase: plain(|phase| &phase.largest_gap),
        ..TIME
    },
    MetricRow {
        metric: Metric::Tpot,
        name: "tpot",
        label: "TPOT",
        words: "time per output token",
        definition: "1 / output speed of a request",
        tokens_needed: MIN_SPEED_TOKENS,
        needs_stream: true,
        of_request: Some(|request| request.tpot_ms),
        of_phase: PhaseSource::Times(|phase| &phase.tpot, Some(|phase| &phase.adj_tpot)),
        // Theirs is the mean over the tokens of a request.
        foreign_names: &["inter_token_latency", "time_per_output_token"],
        ..TIME
    },
    MetricRow {
        metric: Metric::E2e,
        name: "e2e",
        label: "E2E",
        words: "time of a whole answer",
        definition: "sent to the end of the answer",
        of_request: Some(|request| milliseconds(request.e2e_ns)),
        of_phase: PhaseSource::Times(|phase| &phase.e2e, Some(|phase| &phase.adj_e2e)),
        foreign_names: &["e2el", "request_latency"],
        ..TIME
    },
    MetricRow {
        metric: Metric::E2eFromDue,
        name: "e2e_from_due",
        label: "E2E from due",
        words: "time of a whole answer from when it was due",
        definition: "when the plan wanted the request to the end of the answer",
        of_request: Some(|request| milliseconds(request.e2e_from_due_ns)),
        of_phase: PhaseSource::Times(|phase| &phase.e2e_from_due, Some(|phase| &phase.adj_e2e_from_due)),
        ..TIME
    },
    MetricRow {
        metric: Metric::OutputSpeed,
        name: "output_speed",
        label: "output speed",
        words: "output speed",
        definition: "tokens per second of a request after its first chunk",
        tokens_needed: MIN_SPEED_TOKENS,
        needs_stream: true,
        of_request: Some(|request| request.output_speed),
        of_phase: PhaseSource::Speeds(|phase| &phase.output_speed),
        foreign_names: &["output_token_throughput_per_user"],
        ..SPEED
    },
    MetricRow {
        metric: Metric::E2eSpeed,
        name: "e2e_speed",
        label: "end-to-end speed",
        words: "end-to-end speed",
        definition: "tokens per second of a request over its whole time",
        of_request: Some(|request| request.e2e_speed),
        of_phase: PhaseSource::Speeds(|phase| &phase.e2e_speed),
        ..SPEED
    },
    MetricRow {
        metric: Metric::Throughput,
        name: "throughput",
        label: "throughput",
        words: "throughput",
        definition: "output tokens of all requests per second of the steady window",
        of_phase: PhaseSource::Throughput,
        ..SPEED
    },
    MetricRow {
        metric: Metric::FailureShare,
        name: "failure_share",
        label: "failure share",
        words: "share of failed requests",
        definition: "failed requests as a share of those started and not cancelled",
        unit: MetricUnit::Share,
        of_phase: PhaseSource::FailureShare,
        ..TIME
    },
    MetricRow {
        metric: Metric::SessionTime,
        name: "session_time",
        label: "session time",
        words: "time of an agent's session",
        definition: "beginning of a session of agents to the end of its last step, of sessions whose every step was answered",
        of_phase: plain(|phase| &phase.session_time),
        ..TIME
    },
    MetricRow {
        metric: Metric::TimePerItem,
        name: "time_per_item",
        label: "time per item",
        words: "time per item",
        definition: "E2E of a request for vectors or scores, shared among its items",
        of_request: Some(|request| {
            Some(request.e2e_ns? as f64 / 1e6 / request.items.filter(|items| *items > 0)? as f64)
        }),
        of_phase: plain(|phase| &phase.time_per_item),
        ..TIME
    },
    MetricRow {
        metric: Metric::ItemThroughput,
        name: "item_throughput",
        label: "items",
        words: "item throughput",
        definition: "vectors or scores of all requests per second of the steady window",
        unit: MetricUnit::PerSecond,
        more_is_better: true,
        of_phase: PhaseSource::ItemThroughput,
        ..TIME
    },
    MetricRow {
        metric: Metric::TimeToFirstArgument,
        name: "time_to_first_argument",
        label: "first argument",
        words: "time to first argument",
        definition: "sent to the first byte of the arguments of a tool call",
        needs_stream: true,
        of_request: Some(|request| milliseconds(request.first_argument_ns)),
        of_phase: plain(|phase| &phase.time_to_first_argument),
        ..TIME
    },
    MetricRow {
        metric: Metric::TimeToValid,
        name: "time_to_valid",
        label: "valid whole",
        words: "time to a valid whole",
        definition: "sent to the last text of an answer whose calls of tools, or whose JSON, is valid by the schema",
        of_request: Some(|request| milliseconds(request.valid_ns)),
        of_phase: plain(|phase| &phase.time_to_valid),
        ..TIME
    },
    audio::TIME_TO_FIRST_AUDIO,
    audio::REAL_TIME_FACTOR,
    audio::STALLED_TIME,
    audio::AUDIO_THROUGHPUT,
    audio::SESSION_OPEN,
];

impl Metric {
    /// Every metric.
    pub const ALL: [Metric; 23] = [
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
            | PhaseSource::AudioThroughput
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
