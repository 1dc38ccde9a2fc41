//! Columns of what a monitor keeps beside its probes, and the rows that they make.
//!
//! Invariant: a value that no version of tokrate writes is an error that names its row, never a number.

use super::{EstimateRow, EventRow, NoticeRow, ProberRow};
use crate::StoreError;
use crate::row::Reader;

/// Columns of a change.
pub(crate) const EVENT: [&str; 15] = [
    "at_unix_ms",
    "endpoint",
    "workload",
    "place",
    "metric",
    "kind",
    "since_unix_ms",
    "since_earliest_unix_ms",
    "since_latest_unix_ms",
    "change",
    "low",
    "high",
    "p",
    "n",
    "remark",
];

/// Columns of a notice.
pub(crate) const NOTICE: [&str; 3] = ["at_unix_ms", "prober", "text"];

/// Columns of an estimate.
pub(crate) const ESTIMATE: [&str; 8] =
    ["endpoint", "model", "workload", "in_flight", "output_speed", "low", "high", "made_unix_ms"];

/// What is known of a prober; the last two are counted.
pub(crate) const PROBER: [&str; 8] =
    ["prober", "place", "seen_unix_ms", "missed", "detected_unix_ms", "skew_ms", "requests", "quarantined"];

/// Columns as a statement names them.
pub(crate) fn columns(names: &[&str]) -> String {
    names.join(", ")
}

/// The change of a row of [`EVENT`].
pub(crate) fn event_row(mut row: Reader<'_>) -> Result<EventRow, StoreError> {
    Ok(EventRow {
        at_unix_ms: row.count()?,
        endpoint: row.text()?,
        workload: row.text()?,
        place: row.text()?,
        metric: row.text()?,
        kind: row.text()?,
        since_unix_ms: row.count()?,
        since_earliest_unix_ms: row.count()?,
        since_latest_unix_ms: row.count()?,
        change: row.real()?,
        low: row.real()?,
        high: row.real()?,
        p: row.real()?,
        n: row.count()?,
        remark: row.opt_text()?,
    })
}

/// The notice of a row of [`NOTICE`].
pub(crate) fn notice_row(mut row: Reader<'_>) -> Result<NoticeRow, StoreError> {
    Ok(NoticeRow { at_unix_ms: row.count()?, prober: row.text()?, text: row.text()? })
}

/// The estimate of a row of [`ESTIMATE`].
pub(crate) fn estimate_row(mut row: Reader<'_>) -> Result<EstimateRow, StoreError> {
    Ok(EstimateRow {
        endpoint: row.text()?,
        model: row.text()?,
        workload: row.text()?,
        in_flight: row.count()?,
        output_speed: row.real()?,
        low: row.real()?,
        high: row.real()?,
        made_unix_ms: row.count()?,
    })
}

/// The prober of a row of [`PROBER`].
pub(crate) fn prober_row(mut row: Reader<'_>) -> Result<ProberRow, StoreError> {
    Ok(ProberRow {
        name: row.text()?,
        place: row.text()?,
        seen_unix_ms: row.count()?,
        missed: row.count()?,
        detected_unix_ms: row.count()?,
        skew_ms: row.opt_count()?,
        requests: row.count()?,
        quarantined: row.count()?,
    })
}
