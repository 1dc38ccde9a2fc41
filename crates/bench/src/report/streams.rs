//! HTTP/2 in a report: how requests shared connections, and what they waited for.

use super::tables::{MISSING, number, quantile};
use tokrate_charts::{Block, Column, Section, Table, format};
use tokrate_record::{PhaseResult, Record};

/// The section, if requests went over HTTP/2.
pub(super) fn section(record: &Record) -> Option<Section> {
    let rows: Vec<Vec<String>> = record.phases.iter().filter_map(row).collect();
    let table = Table {
        caption: "Streams by level".to_owned(),
        columns: vec![
            Column::words("level"),
            Column::numbers("connections", ""),
            Column::numbers("opened", ""),
            Column::numbers("streams on one, mean", ""),
            Column::numbers("most", ""),
            Column::numbers("server allows", ""),
            Column::numbers("requests that waited", ""),
            Column::numbers("stream wait p50", "ms"),
            Column::numbers("stream wait p95", "ms"),
            Column::numbers("longest silence of a connection", "ms"),
            Column::numbers("answers then under way", ""),
        ],
        rows,
        notes: Vec::new(),
    };
    (!table.rows.is_empty()).then(|| Section {
        title: "HTTP/2 streams".to_owned(),
        intro: "Requests share connections, and are sent when a stream is free; the wait for one is the client's and in no TTFT. A silence \
                of a connection stops every answer on it."
            .to_owned(),
        blocks: vec![Block::Table(table)],
    })
}

fn row(phase: &PhaseResult) -> Option<Vec<String>> {
    let streams = phase.streams()?;
    Some(vec![
        phase.name.clone(),
        format::count(streams.connections),
        format::count(phase.connections.new),
        number(Some(streams.mean_sharing)),
        streams.most_sharing.to_string(),
        streams.allowed.map_or_else(|| MISSING.to_owned(), |allowed| allowed.to_string()),
        format!("{} of {}", format::count(streams.waited), format::count(streams.stream_wait.n)),
        quantile(&streams.stream_wait.p50),
        quantile(&streams.stream_wait.p95),
        number(streams.longest_silence_ms),
        format::count(streams.silenced),
    ])
}
