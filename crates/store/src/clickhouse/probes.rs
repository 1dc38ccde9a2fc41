//! What monitors keep, read out of ClickHouse. Invariant: what came more than once is there once, as it was last.

use super::ClickHouse;
use super::log::Page;
use crate::monitor::{
    ESTIMATE, EVENT, EstimateRow, EventRow, NOTICE, NoticeRow, PROBER, ProbeQuery, ProbeRow, ProberRow, columns,
    estimate_row, event_row, notice_row, probe_columns, probe_row, prober_row,
};
use crate::row::{Reader, to_i64};
use crate::{Order, ProbeStore, StoreError};
use rusqlite::types::Value;
use tokrate_record::SharedConditions;

/// A prober as whoever saw it last knows it, with its probes.
const PROBERS: &str = "SELECT 0 AS row, r.prober AS prober, argMax(r.place, r.seen_unix_ms) AS place, \
    max(r.seen_unix_ms) AS seen, max(r.missed) AS missed, max(r.detected_unix_ms) AS detected, \
    max(r.skew_ms) AS skew, any(p.requests) AS requests, any(p.quarantined) AS quarantined \
    FROM probers AS r FINAL LEFT JOIN (SELECT prober, count() AS requests, countIf(quarantine IS NOT NULL) AS quarantined \
    FROM probes FINAL GROUP BY prober) AS p ON p.prober = r.prober GROUP BY r.prober ORDER BY r.prober";

impl ProbeStore for ClickHouse {
    fn visit_probes(&self, query: &ProbeQuery, each: &mut dyn FnMut(ProbeRow)) -> Result<(), StoreError> {
        let mut shared = SharedConditions::default();
        let columns = probe_columns();
        let page = Page { columns, from: "probes FINAL", filter: query.filter(), order: Order::Oldest, limit: None };
        self.visit_pages(&page, &mut |row| {
            each(probe_row(Reader::of_values(row, columns, self.shown()), &mut shared)?);
            Ok(())
        })
    }

    fn newest_probe(&self) -> Result<Option<u64>, StoreError> {
        let rows = self.rows("SELECT max(started_unix_ms) FROM probes HAVING count() > 0", Vec::new())?;
        match rows.first().map(Vec::as_slice) {
            None => Ok(None),
            Some([Value::Integer(newest)]) => Ok(Some(newest.unsigned_abs())),
            Some(_) => Err(self.garbled()),
        }
    }

    fn events(&self, from_unix_ms: i64) -> Result<Vec<EventRow>, StoreError> {
        let sql = format!(
            "SELECT id, {} FROM events FINAL WHERE at_unix_ms >= ? ORDER BY at_unix_ms, spool, id",
            columns(&EVENT)
        );
        self.list(&sql, vec![Value::Integer(from_unix_ms)], &EVENT, event_row)
    }

    fn notices(&self, from_unix_ms: u64) -> Result<Vec<NoticeRow>, StoreError> {
        let sql = format!(
            "SELECT id, {} FROM notices FINAL WHERE at_unix_ms >= ? ORDER BY at_unix_ms, spool, id",
            columns(&NOTICE)
        );
        self.list(&sql, vec![Value::Integer(to_i64(from_unix_ms))], &NOTICE, notice_row)
    }

    fn estimates(&self) -> Result<Vec<EstimateRow>, StoreError> {
        let sql = format!(
            "SELECT id, {} FROM estimates FINAL ORDER BY endpoint, model, workload, in_flight",
            columns(&ESTIMATE)
        );
        self.list(&sql, Vec::new(), &ESTIMATE, estimate_row)
    }

    fn probers(&self) -> Result<Vec<ProberRow>, StoreError> {
        self.list(PROBERS, Vec::new(), &PROBER, prober_row)
    }
}
