//! Reads what pages show from the log: bounded, one at a time, and kept for a moment.
//!
//! Invariant: a page looks at no more than [`MAX_ROWS`] rows, and however many look at pages, reading takes at most a tenth of one core's
//! time: a report is used again for ten times as long as it took.

use std::sync::{Arc, Mutex, PoisonError};
use tokrate_core::{Span, Tick};
use tokrate_gateway::telemetry::Observer;
use tokrate_store::{Query, Report, Store, StoreError};

/// Rows that a report is made of at most; the newest ones are taken.
pub(crate) const MAX_ROWS: u64 = 250_000;
/// Rows that a page of a list looks at.
pub(crate) const MAX_LIST_ROWS: u64 = 50_000;
/// Reports that are kept: views that people look at in the same moment.
const MAX_KEPT: usize = 16;
/// A report is kept for at least so long, so that one view renewed by many browsers is read once.
const MIN_AGE: Span = Span::from_secs(1);
/// And for so many times as it took.
const AGE_PER_TIME_TAKEN: u64 = 10;

/// Reports of the last moments.
#[derive(Default)]
pub(crate) struct Reports {
    kept: Mutex<Vec<Kept>>,
}

struct Kept {
    view: String,
    until: Tick,
    report: Arc<Report>,
}

impl Reports {
    /// The report of a view, `name` being what tells views apart; `None` without a log. Blocks on the database.
    pub fn of(
        &self,
        observer: &Observer,
        name: &str,
        query: &Query,
        now_unix_ms: u64,
    ) -> Option<Result<Arc<Report>, StoreError>> {
        let log = observer.log()?;
        // Held while the database is read: who comes meanwhile waits, and finds it read.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let started = observer.clock().now();
        kept.retain(|known| started < known.until);
        if let Some(known) = kept.iter().find(|known| known.view == name) {
            return Some(Ok(Arc::clone(&known.report)));
        }
        let report = log.reader().and_then(|reader| reader.report(query, now_unix_ms, MAX_ROWS));
        let report = match report {
            Ok(report) => Arc::new(report),
            Err(error) => return Some(Err(error)),
        };
        let now = observer.clock().now();
        let age = MIN_AGE.max(Span::from_nanos((now - started).as_nanos().saturating_mul(AGE_PER_TIME_TAKEN)));
        if kept.len() == MAX_KEPT {
            kept.remove(0);
        }
        kept.push(Kept { view: name.to_owned(), until: now + age, report: Arc::clone(&report) });
        Some(Ok(report))
    }
}
