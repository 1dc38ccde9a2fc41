//! HTTP/2: how requests shared connections, and what they waited for before they could be sent.
//!
//! Invariant: a wait is the client's and in no TTFT; requests that did not wait are in its distribution with 0.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use tokrate_meter::request::{RequestNumbers, StreamUse};
use tokrate_stats::Distribution;

/// How the measured requests of a phase shared HTTP/2 connections.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamSummary {
    /// Connections that carried them.
    pub connections: u64,
    /// Streams on a connection when one of them began, itself included: the mean over them.
    pub mean_sharing: f64,
    /// The most.
    pub most_sharing: u32,
    /// The fewest streams that the server allowed on one of the connections (SETTINGS_MAX_CONCURRENT_STREAMS); absent if it named no limit.
    pub allowed: Option<u32>,
    /// Requests that waited for a stream to end, or for a connection that another opened.
    pub waited: u64,
    /// How long each waited.
    pub stream_wait: Distribution,
    /// The longest time in which nothing came on a connection although two or more answers on it were under way (ms): where it is far above
    /// the longest gap of HTTP/1.1, streams stood in each other's way.
    pub longest_silence_ms: Option<f64>,
    /// Answers that were under way then.
    pub silenced: u64,
}

impl Default for StreamSummary {
    fn default() -> StreamSummary {
        StreamSummary::of(&[])
    }
}

impl StreamSummary {
    /// Of the measured requests.
    pub(super) fn of(measured: &[&RequestNumbers]) -> StreamSummary {
        let used: Vec<(&RequestNumbers, StreamUse)> =
            measured.iter().filter_map(|request| Some((*request, request.stream?))).collect();
        let sharing: u64 = used.iter().map(|(_, stream)| u64::from(stream.sharing)).sum();
        let mut by_connection: BTreeMap<u64, Vec<&RequestNumbers>> = BTreeMap::new();
        for (request, stream) in &used {
            by_connection.entry(stream.connection).or_default().push(request);
        }
        let silence = by_connection.values().filter_map(|requests| longest_silence(requests)).max();
        let mut waits: Vec<u64> = used.iter().map(|(_, stream)| stream.wait_ns).collect();
        StreamSummary {
            connections: by_connection.len() as u64,
            mean_sharing: sharing as f64 / used.len().max(1) as f64,
            most_sharing: used.iter().map(|(_, stream)| stream.sharing).max().unwrap_or(0),
            allowed: used.iter().filter_map(|(_, stream)| stream.allowed).min(),
            waited: waits.iter().filter(|wait| **wait > 0).count() as u64,
            stream_wait: Distribution::of_nanos(&mut waits),
            longest_silence_ms: silence.map(|(nanoseconds, _)| nanoseconds as f64 / 1e6),
            silenced: silence.map_or(0, |(_, answers)| answers),
        }
    }

    /// Whether none of them went over HTTP/2.
    pub fn is_empty(&self) -> bool {
        self.connections == 0
    }
}

/// The longest time between two arrivals of text on a connection (ns) within which two or more answers were between their first text and their
/// last, and how many were.
fn longest_silence(requests: &[&RequestNumbers]) -> Option<(u64, u64)> {
    let chunks = requests.iter().flat_map(|request| &request.chunk_list).map(|chunk| chunk.at.as_nanos());
    let arrivals: BTreeSet<u64> = chunks.collect();
    let mut spans: Vec<(u64, u64)> =
        requests.iter().filter_map(|it| it.first_text_at_ns.zip(it.last_text_at_ns)).collect();
    spans.sort_unstable();
    let mut ends: Vec<u64> = spans.iter().map(|(_, end)| *end).collect();
    ends.sort_unstable();
    let gaps = arrivals.iter().zip(arrivals.iter().skip(1));
    // Both ends of a gap are arrivals: whoever began by its beginning and ends by its end or later is under way in it.
    let under_way = |from: u64, to: u64| {
        let begun = spans.partition_point(|(begin, _)| *begin <= from);
        let over = ends.partition_point(|end| *end < to);
        begun.saturating_sub(over) as u64
    };
    gaps.map(|(from, to)| (to - from, under_way(*from, *to))).filter(|(_, answers)| *answers >= 2).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_meter::fixtures::{MS, steady_request};

    fn on(connection: u64, wait_ms: u64, request: RequestNumbers) -> RequestNumbers {
        let stream =
            StreamUse { connection, wait_ns: wait_ms * MS, sharing: connection as u32 + 1, allowed: Some(128) };
        RequestNumbers { stream: Some(stream), ..request }
    }

    #[test]
    fn waits_are_counted_and_requests_that_did_not_wait_have_none() {
        let rows = [on(1, 0, steady_request(0, 0, 10, 10, 20)), on(2, 7, steady_request(1, 0, 10, 10, 20))];
        let summary = StreamSummary::of(&rows.iter().collect::<Vec<_>>());
        assert_eq!((summary.connections, summary.waited, summary.stream_wait.n), (2, 1, 2));
        assert_eq!((summary.mean_sharing, summary.most_sharing, summary.allowed), (2.5, 3, Some(128)));
        assert_eq!(summary.longest_silence_ms, None, "nobody shares");
        assert!(StreamSummary::of(&[&steady_request(0, 0, 10, 10, 20)]).is_empty());
    }

    #[test]
    fn a_silence_counts_only_while_two_answers_are_under_way() {
        // Texts at 10, 20, … 210 ms, and at 13, 113 and 213 ms on the same connection.
        let (fast, slow) = (steady_request(0, 0, 10, 10, 21), steady_request(1, 0, 13, 100, 3));
        let of = |rows: &[RequestNumbers]| StreamSummary::of(&rows.iter().collect::<Vec<_>>());
        let both = of(&[on(1, 0, fast), on(1, 0, slow.clone())]);
        assert_eq!((both.longest_silence_ms, both.silenced), (Some(10.0), 2));
        let alone = of(&[on(1, 0, slow.clone()), on(2, 0, slow)]);
        assert_eq!((alone.longest_silence_ms, alone.silenced), (None, 0));
    }
}
