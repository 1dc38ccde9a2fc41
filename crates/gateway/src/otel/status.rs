//! How exports to the collector went.
//!
//! Invariant: each error is reported once, and again only after it had ended.

use super::response::{ExportError, ExportOutcome};
use crate::state::lock::locked;
use std::sync::Mutex;

/// How exports went since the start, for the admin side and the log output.
#[derive(Debug, Default)]
pub(crate) struct ExportStatus(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// URL of the collector.
    endpoint: String,
    counts: Option<ExportCounts>,
    /// The present error.
    error: Option<ExportError>,
    /// Whether it was not reported yet.
    is_new: bool,
}

/// Exports by outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExportCounts {
    /// The collector took all of it.
    pub accepted: u64,
    /// It took a part of it.
    pub partial: u64,
    /// It took nothing.
    pub failed: u64,
}

impl ExportStatus {
    /// The counts, if metrics are exported at all.
    pub fn counts(&self) -> Option<ExportCounts> {
        locked(&self.0).counts
    }

    /// The present error, if it was not reported before.
    pub fn take_new_error(&self) -> Option<String> {
        let mut state = locked(&self.0);
        let is_new = std::mem::take(&mut state.is_new);
        let error = state.error.as_ref().filter(|_| is_new)?;
        Some(format!("{}: {}", state.endpoint, error.message))
    }

    pub fn enable(&self, endpoint: String) {
        *locked(&self.0) = State { endpoint, counts: Some(ExportCounts::default()), ..State::default() };
    }

    pub fn record(&self, outcome: &ExportOutcome) {
        let mut state = locked(&self.0);
        let counts = state.counts.get_or_insert_default();
        match outcome {
            ExportOutcome::Accepted => counts.accepted += 1,
            ExportOutcome::PartiallyAccepted(_) => counts.partial += 1,
            ExportOutcome::Retry(..) | ExportOutcome::Rejected(_) => counts.failed += 1,
        }
        let error = outcome.error();
        let kind = |error: Option<&ExportError>| error.map(|error| error.kind.clone());
        if kind(error) != kind(state.error.as_ref()) {
            state.is_new = error.is_some();
            state.error = error.cloned();
        }
    }
}
