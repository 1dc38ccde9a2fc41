//! A monitor's probes read out of ClickHouse. Invariant: a probe that came more than once is there once, as it was last.

use super::ClickHouse;
use super::log::Page;
use crate::monitor::{ProbeQuery, ProbeRow, probe_columns, probe_row};
use crate::row::Reader;
use crate::{Order, StoreError};
use tokrate_record::SharedConditions;

impl ClickHouse {
    /// Passes each matching probe of all monitors that write there to `each`, by the time at which it began.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses, or a row in it is damaged.
    pub fn visit_probes(&self, query: &ProbeQuery, mut each: impl FnMut(ProbeRow)) -> Result<(), StoreError> {
        let mut shared = SharedConditions::default();
        let columns = probe_columns();
        let page = Page { columns, from: "probes FINAL", filter: query.filter(), order: Order::Oldest, limit: None };
        self.visit_pages(&page, &mut |row| {
            each(probe_row(Reader::of_values(row, columns, &self.shown), &mut shared)?);
            Ok(())
        })
    }
}
