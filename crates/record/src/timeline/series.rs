//! The catalogue of what is kept over time: name, unit, whose figure it is, and how it is taken in a slice.
//!
//! The page, the record and docs/metric-catalogue.md take names, labels and units from here.

use serde::{Deserialize, Serialize};

/// Whose figure a series is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SeriesSource {
    /// What the client saw.
    Client,
    /// What the engine says of itself.
    Engine,
    /// What an exporter or the driver says of the graphics processors.
    Gpu,
}

/// A figure over time. The order is that of [`TimeSeries::ALL`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeSeries {
    /// Requests sent.
    Begun,
    /// Requests that ended well.
    Answered,
    /// Requests that ended otherwise.
    Failed,
    /// Requests in flight.
    InFlight,
    /// Output tokens per second.
    Throughput,
    /// Median TTFT.
    TtftP50,
    /// 99th percentile of TTFT.
    TtftP99,
    /// Requests in the engine's batch.
    Running,
    /// Requests in the engine's queue.
    Waiting,
    /// Share of the key-value cache in use.
    CacheUse,
    /// Requests that lost their place.
    Preemptions,
    /// Share of prompt tokens found in the prefix cache.
    CacheHits,
    /// Share of the proposed tokens that were accepted.
    Accepted,
    /// Output tokens per second, as the engine counts them.
    EngineThroughput,
    /// Power of all processors.
    Power,
    /// Clock of the processors.
    Clock,
    /// Share of the time in which they worked.
    Busy,
    /// Memory of all processors in use.
    Memory,
}

/// A row of the catalogue.
#[derive(Debug)]
pub struct SeriesInfo {
    /// Its name in JSON.
    pub name: &'static str,
    /// Its name on pages.
    pub label: &'static str,
    /// Its unit; empty for counts and shares.
    pub unit: &'static str,
    /// Whose figure it is.
    pub source: SeriesSource,
    /// How it is taken in a slice.
    pub definition: &'static str,
}

const fn row(
    name: &'static str,
    label: &'static str,
    unit: &'static str,
    source: SeriesSource,
    definition: &'static str,
) -> SeriesInfo {
    SeriesInfo { name, label, unit, source, definition }
}

use SeriesSource::{Client, Engine, Gpu};

static CATALOGUE: [SeriesInfo; 18] = [
    row(
        "requests_begun",
        "requests begun",
        "",
        Client,
        "requests whose last byte was sent in the slice, warm-up included",
    ),
    row("requests_answered", "requests answered", "", Client, "requests whose complete answer ended in the slice"),
    row(
        "requests_failed",
        "requests failed",
        "",
        Client,
        "requests that ended in the slice without a complete answer, for whatever reason",
    ),
    row("in_flight", "in flight", "", Client, "requests between sent and ended, the mean over the slice"),
    row(
        "throughput",
        "output tokens per second",
        "tok/s",
        Client,
        "output tokens whose chunk came in the slice, of all requests, per second",
    ),
    row(
        "ttft_p50",
        "TTFT, median",
        "ms",
        Client,
        "median TTFT (nearest rank) of the requests whose first text came in the slice",
    ),
    row(
        "ttft_p99",
        "TTFT, 99th percentile",
        "ms",
        Client,
        "99th percentile (nearest rank) of the same; of fewer than 100 requests that is the largest",
    ),
    row("engine_running", "running", "", Engine, "requests in the engine's batch, the mean over the slice"),
    row("engine_waiting", "waiting", "", Engine, "requests in the engine's queue, the mean over the slice"),
    row(
        "kv_cache_use",
        "KV cache in use",
        "share",
        Engine,
        "share of the key-value cache in use, the mean over the slice",
    ),
    row("preemptions", "preemptions", "", Engine, "requests that lost their place in the batch in the slice"),
    row(
        "prefix_cache_hits",
        "prefix cache hits",
        "share",
        Engine,
        "prompt tokens found in the prefix cache, as a share of those looked up in the slice",
    ),
    row(
        "speculation_accepted",
        "speculation accepted",
        "share",
        Engine,
        "tokens of a draft that were accepted, as a share of those proposed in the slice",
    ),
    row(
        "engine_throughput",
        "output tokens per second",
        "tok/s",
        Engine,
        "output tokens that the engine counted in the slice, per second",
    ),
    row("gpu_power", "power", "W", Gpu, "power of all processors together, the mean over the slice"),
    row("gpu_clock", "clock", "MHz", Gpu, "clock of the processing units, the mean of all processors over the slice"),
    row(
        "gpu_busy",
        "busy",
        "share",
        Gpu,
        "share of the time in which a processor worked on anything, the mean of all over the slice",
    ),
    row(
        "gpu_memory",
        "memory in use",
        "GB",
        Gpu,
        "memory of all processors in use (10^9 bytes), the mean over the slice",
    ),
];

impl TimeSeries {
    /// All of them.
    pub const ALL: [TimeSeries; 18] = [
        TimeSeries::Begun,
        TimeSeries::Answered,
        TimeSeries::Failed,
        TimeSeries::InFlight,
        TimeSeries::Throughput,
        TimeSeries::TtftP50,
        TimeSeries::TtftP99,
        TimeSeries::Running,
        TimeSeries::Waiting,
        TimeSeries::CacheUse,
        TimeSeries::Preemptions,
        TimeSeries::CacheHits,
        TimeSeries::Accepted,
        TimeSeries::EngineThroughput,
        TimeSeries::Power,
        TimeSeries::Clock,
        TimeSeries::Busy,
        TimeSeries::Memory,
    ];

    /// Its row of the catalogue.
    pub fn info(self) -> &'static SeriesInfo {
        &CATALOGUE[self as usize]
    }
}

/// The catalogue as a table in Markdown.
#[cfg(test)]
pub(crate) fn markdown() -> String {
    let mut text = String::from(
        "\n## Over time\n\nWhat is kept in slices of a run (`timeline` in the record), made from `crates/record/src/timeline/series.rs`.\n\n\
         | name | on pages | unit | of | definition |\n|---|---|---|---|---|\n",
    );
    for series in TimeSeries::ALL {
        let SeriesInfo { name, label, unit, source, definition } = series.info();
        let unit = match *unit {
            "" => "count",
            "share" => "0 to 1",
            unit => unit,
        };
        let source = match source {
            Client => "client",
            Engine => "engine",
            Gpu => "GPU",
        };
        text += &format!("| `{name}` | {label} | {unit} | {source} | {definition} |\n");
    }
    text += "\nOf a level (`phases[].sampled`): the same over the steady window, with `joules` (power of all counted processors, integrated) and \
             `joules_per_token` (the same, shared among the output tokens of the window), if power is known all the time.\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_is_in_order_and_no_name_stands_for_two() {
        let names: std::collections::BTreeSet<&str> = CATALOGUE.iter().map(|row| row.name).collect();
        assert_eq!((names.len(), TimeSeries::ALL.len()), (CATALOGUE.len(), CATALOGUE.len()));
        assert!(TimeSeries::ALL.into_iter().enumerate().all(|(place, series)| series as usize == place));
        assert_eq!((TimeSeries::Waiting.info().name, TimeSeries::Power.info().unit), ("engine_waiting", "W"));
    }
}
