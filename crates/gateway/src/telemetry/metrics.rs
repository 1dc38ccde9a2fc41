//! The metrics of a snapshot, named by OpenTelemetry's conventions where those have a name. How they are written is up
//! to the admin side (OpenMetrics) and the export (OTLP).
//!
//! Invariant: every label's value comes from the configuration or from a fixed list, so that no client and no provider
//! can add a series; no label holds a key, a prompt or an answer.

use super::snapshot::{LaneState, LaneStatus, Snapshot};
use crate::settle::stats::OperationStats;
use crate::settle::stats::histogram::Histogram;
use std::collections::BTreeMap;
use tokrate_core::FailureKind;

/// Series of one metric.
#[derive(Debug)]
pub struct Family<'a> {
    /// With dots between its parts.
    pub name: &'static str,
    /// One sentence for people.
    pub help: &'static str,
    /// The unit of its values.
    pub unit: Unit,
    /// Its values by labels.
    pub series: Series<'a>,
}

/// The unit of a family's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Histograms in seconds count nanoseconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Anything else, by its UCUM annotation, such as `{token}`.
    Counted(&'static str),
}

/// The series of a family.
#[derive(Debug)]
pub enum Series<'a> {
    /// Sums that only rise.
    Counters(Samples<'a, f64>),
    /// Values that rise and fall.
    Gauges(Samples<'a, f64>),
    /// Histograms that have counted something.
    Histograms(Samples<'a, &'a Histogram>),
}

/// Values by labels.
pub type Samples<'a, T> = Vec<(Labels<'a>, T)>;

/// Labels, without those that have no value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Labels<'a>(pub Vec<(&'static str, &'a str)>);

impl Unit {
    /// The unit in UCUM, which OpenTelemetry uses.
    pub fn ucum(self) -> &'static str {
        match self {
            Unit::Seconds => "s",
            Unit::Bytes => "By",
            Unit::Counted(name) => name,
        }
    }

    /// How many of a histogram's counts make one unit.
    pub fn parts(self) -> f64 {
        match self {
            Unit::Seconds => 1e9,
            Unit::Bytes | Unit::Counted(_) => 1.0,
        }
    }
}

impl<'a> Labels<'a> {
    fn lane(name: &'a str) -> Labels<'a> {
        Labels(vec![("lane", name)])
    }

    fn with(&self, name: &'static str, value: &'a str) -> Labels<'a> {
        let mut labels = self.clone();
        labels.0.push((name, value));
        labels
    }

    fn with_failure(&self, name: &'static str, kind: Option<FailureKind>) -> Labels<'a> {
        match kind {
            Some(kind) => self.with(name, kind.name()),
            None => self.clone(),
        }
    }
}

impl<'a> Family<'a> {
    fn counters(name: &'static str, help: &'static str, unit: &'static str, samples: Samples<'a, f64>) -> Family<'a> {
        Family { name, help, unit: Unit::Counted(unit), series: Series::Counters(samples) }
    }

    fn gauges(name: &'static str, help: &'static str, unit: Unit, samples: Samples<'a, f64>) -> Family<'a> {
        Family { name, help, unit, series: Series::Gauges(samples) }
    }

    fn histograms(
        name: &'static str,
        help: &'static str,
        unit: Unit,
        mut samples: Samples<'a, &'a Histogram>,
    ) -> Family<'a> {
        samples.retain(|(_, histogram)| histogram.count() > 0);
        Family { name, help, unit, series: Series::Histograms(samples) }
    }
}

/// So long a change is in the metrics (ms): a week, after which the new level is what is usual.
const CHANGES_SHOWN_MS: u64 = 7 * 86_400_000;

/// All families of a snapshot.
pub fn families(snapshot: &Snapshot) -> Vec<Family<'_>> {
    let mut families = Vec::with_capacity(20);
    generative(snapshot, &mut families);
    attempts(snapshot, &mut families);
    lanes(snapshot, &mut families);
    changes(snapshot, &mut families);
    gateway(snapshot, &mut families);
    exports(snapshot, &mut families);
    families
}

/// Those of OpenTelemetry's conventions for generative AI.
fn generative<'a>(snapshot: &'a Snapshot, families: &mut Vec<Family<'a>>) {
    families.push(Family::histograms(
        "gen_ai.server.time_to_first_token",
        "Sent to first output text, reasoning and tool calls included, as seen from the gateway; failed attempts left out",
        Unit::Seconds,
        labelled(snapshot).map(|(labels, stats)| (labels, &stats.ttft)).collect(),
    ));
    families.push(Family::histograms(
        "tokrate.server.time_to_whole_answer",
        "Sent to the last byte of an answer that came in one piece, which has no first token; failed attempts left out",
        Unit::Seconds,
        labelled(snapshot).map(|(labels, stats)| (labels, &stats.answer)).collect(),
    ));
    families.push(Family::histograms(
        "gen_ai.server.time_per_output_token",
        "1 / output speed: time per output token after the first chunk, as seen from the gateway; failed attempts left out",
        Unit::Seconds,
        labelled(snapshot).map(|(labels, stats)| (labels, &stats.time_per_token)).collect(),
    ));
    let mut durations = Vec::new();
    let mut tokens = Vec::new();
    for (labels, stats) in labelled(snapshot) {
        durations.extend(stats.duration.iter().map(|(kind, times)| (labels.with_failure("error.type", *kind), times)));
        tokens.push((labels.with("gen_ai.token.type", "input"), &stats.input_tokens));
        tokens.push((labels.with("gen_ai.token.type", "output"), &stats.output_tokens));
    }
    families.push(Family::histograms(
        "gen_ai.client.operation.duration",
        "Start to end of the answer, of attempts that were not cancelled",
        Unit::Seconds,
        durations,
    ));
    let help = "Tokens of an attempt, as reported by the provider, else as counted (o200k_base)";
    families.push(Family::histograms("gen_ai.client.token.usage", help, Unit::Counted("{token}"), tokens));
}

fn attempts<'a>(snapshot: &'a Snapshot, families: &mut Vec<Family<'a>>) {
    let (mut endings, mut costs) = (Vec::new(), Vec::new());
    for lane in &snapshot.stats.lanes {
        let labels = Labels::lane(&lane.name);
        for ((role, end, failure), count) in &lane.endings {
            let labels = labels.with("role", role.name()).with("end", end.name());
            endings.push((labels.with_failure("failure", *failure), *count as f64));
        }
        costs.extend(lane.cost_usd.iter().map(|(basis, usd)| (labels.with("basis", basis.name()), *usd)));
    }
    let stats = &snapshot.stats;
    families.extend([
        Family::counters("tokrate.attempts", "Attempts that ended, by role and end", "{attempt}", merged(endings)),
        Family::counters("tokrate.cost.usd", "Known cost of attempts (USD)", "{USD}", merged(costs)),
        Family::counters(
            "tokrate.race.extra_attempts",
            "Attempts beside the one that a call needed",
            "{attempt}",
            once(stats.extra_attempts as f64),
        ),
        Family::counters(
            "tokrate.race.extra_cost.usd",
            "Known cost of the extra attempts (USD)",
            "{USD}",
            once(stats.extra_usd),
        ),
    ]);
}

fn lanes<'a>(snapshot: &'a Snapshot, families: &mut Vec<Family<'a>>) {
    let lanes = &snapshot.lanes;
    let of = |value: fn(&LaneStatus) -> f64| lanes.iter().map(|lane| (Labels::lane(&lane.name), value(lane))).collect();
    let in_flight = of(|lane| f64::from(lane.in_flight));
    let open = of(|lane| f64::from(u8::from(matches!(lane.state, LaneState::CoolingDown { .. }))));
    let (mut ttft, mut speed) = (Vec::new(), Vec::new());
    for lane in lanes {
        let Some(expected) = lane.expected else { continue };
        let labels = Labels::lane(&lane.name);
        ttft.push((labels.with("quantile", "0.5"), expected.ttft_p50.as_secs_f64()));
        ttft.push((labels.with("quantile", "0.9"), expected.ttft_p90.as_secs_f64()));
        speed.push((labels, expected.speed));
    }
    let calls = Unit::Counted("{call}");
    families.extend([
        Family::gauges("tokrate.lane.in_flight", "Calls of a lane in flight", calls, in_flight),
        Family::gauges("tokrate.lane.breaker_open", "1 while a lane's breaker is open", Unit::Counted("{lane}"), open),
        Family::gauges(
            "tokrate.lane.expected_ttft",
            "TTFT that a call with a prompt of 1000 tokens may expect at the lane's present load",
            Unit::Seconds,
            ttft,
        ),
        Family::gauges(
            "tokrate.lane.expected_output_speed",
            "Output speed that a call may expect at the lane's present load (tok/s)",
            Unit::Counted("{token/s}"),
            speed,
        ),
    ]);
}

/// Changes of lanes in the traffic of the last seven days, by what changed; only of lanes that are configured.
fn changes<'a>(snapshot: &'a Snapshot, families: &mut Vec<Family<'a>>) {
    let Some(changes) = &snapshot.changes else { return };
    let since = snapshot.now_unix_ms.saturating_sub(CHANGES_SHOWN_MS);
    let mut found = Vec::new();
    for change in changes.iter().filter(|change| change.at_unix_ms >= since) {
        let Some(lane) = snapshot.lanes.iter().find(|lane| lane.name == change.lane) else { continue };
        found.push((Labels::lane(&lane.name).with("kind", change.kind).with("metric", change.metric), 1.0));
    }
    families.push(Family::gauges(
        "tokrate.lane.changes",
        "Changes found in the traffic of a lane in the last seven days, at like load",
        Unit::Counted("{change}"),
        merged(found),
    ));
}

fn gateway<'a>(snapshot: &'a Snapshot, families: &mut Vec<Family<'a>>) {
    let (calls, rows) = ("{call}", "{row}");
    families.push(Family::gauges(
        "tokrate.calls.open",
        "Calls that clients have open",
        Unit::Counted(calls),
        once(snapshot.open_calls as f64),
    ));
    let refused = snapshot.refusals.iter();
    families.push(Family::counters(
        "tokrate.requests.refused",
        "Requests that the gateway refused before it asked a lane, by reason",
        "{request}",
        refused.map(|(reason, count)| (Labels(vec![("reason", reason.name())]), *count as f64)).collect(),
    ));
    families.push(Family::histograms(
        "tokrate.gateway.overhead",
        "The gateway's own time in an answered call, before and after the provider",
        Unit::Seconds,
        snapshot.stats.overhead.iter().map(|histogram| (Labels::default(), histogram)).collect(),
    ));
    if let Some(log) = &snapshot.log {
        let (written, lost) = (once(log.counts.written as f64), once(log.counts.lost as f64));
        let lost_refusals = once(log.counts.lost_refusals as f64);
        families.extend([
            Family::counters("tokrate.log.rows.written", "Rows of the throughput log in its database", rows, written),
            Family::counters("tokrate.log.rows.lost", "Rows of the throughput log that could not be kept", rows, lost),
            Family::counters(
                "tokrate.log.refusals.lost",
                "Refused requests that could not be kept in the throughput log",
                "{request}",
                lost_refusals,
            ),
            Family::gauges(
                "tokrate.log.rows.waiting",
                "Rows of the throughput log to be written",
                Unit::Counted(rows),
                once(log.counts.waiting as f64),
            ),
        ]);
    }
    if let Some(bytes) = snapshot.resident_bytes {
        families.push(Family::gauges(
            "process.resident_memory",
            "Memory of the process that is in RAM",
            Unit::Bytes,
            once(bytes as f64),
        ));
    }
}

/// How the export of metrics and traces fares, if there is one.
fn exports<'a>(snapshot: &'a Snapshot, families: &mut Vec<Family<'a>>) {
    let of = |outcome: &'static str, count: u64| (Labels(vec![("outcome", outcome)]), count as f64);
    if let Some(counts) = snapshot.exports {
        families.push(Family::counters(
            "tokrate.otel.exports",
            "Exports to the OpenTelemetry collector: taken whole, taken in part, failed",
            "{export}",
            vec![of("taken", counts.accepted), of("partly", counts.partial), of("failed", counts.failed)],
        ));
    }
    if let Some(counts) = snapshot.spans {
        families.push(Family::counters(
            "tokrate.otel.spans",
            "Spans of traces that are kept: taken by the collector, refused by it, dropped because it was too slow or away",
            "{span}",
            vec![of("taken", counts.exported), of("refused", counts.failed), of("dropped", counts.dropped)],
        ));
    }
}

/// Each operation of each lane, with the labels of the conventions.
fn labelled(snapshot: &Snapshot) -> impl Iterator<Item = (Labels<'_>, &OperationStats)> {
    snapshot.stats.lanes.iter().flat_map(|lane| {
        lane.operations.iter().map(|(operation, stats)| {
            let labels = Labels(vec![
                ("gen_ai.operation.name", operation.name()),
                ("gen_ai.provider.name", &*lane.provider),
                ("gen_ai.request.model", &*lane.model),
                ("tokrate.lane", &*lane.name),
            ]);
            (labels, stats)
        })
    })
}

fn once<'a>(value: f64) -> Samples<'a, f64> {
    vec![(Labels::default(), value)]
}

/// Sums of equal labels: a lane that was given another model is one series where the model is no label.
fn merged(samples: Samples<'_, f64>) -> Samples<'_, f64> {
    let mut merged: BTreeMap<Labels<'_>, f64> = BTreeMap::new();
    for (labels, value) in samples {
        *merged.entry(labels).or_default() += value;
    }
    merged.into_iter().collect()
}

impl Family<'_> {
    /// Whether it has no series.
    pub fn is_empty(&self) -> bool {
        match &self.series {
            Series::Counters(samples) | Series::Gauges(samples) => samples.is_empty(),
            Series::Histograms(samples) => samples.is_empty(),
        }
    }
}
