//! How exports to a collector went.
//!
//! It does not export. Invariant: each trouble is told once, and again only after it had gone.

use super::reply::{Outcome, Trouble};
use crate::state::lock::locked;
use std::sync::Mutex;

/// How exports went since the start; what the admin side and the log output tell of them.
#[derive(Debug, Default)]
pub(crate) struct Exports(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    /// The collector's URL.
    endpoint: String,
    counts: Option<ExportCounts>,
    /// What goes wrong now.
    trouble: Option<Trouble>,
    /// Whether nobody has asked for it yet.
    is_new: bool,
}

/// Exports by what became of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExportCounts {
    /// The collector took all of it.
    pub taken: u64,
    /// It took a part of it.
    pub partly: u64,
    /// It took nothing.
    pub failed: u64,
}

impl Exports {
    /// Their counts, if anything is exported at all.
    pub fn counts(&self) -> Option<ExportCounts> {
        locked(&self.0).counts
    }

    /// What goes wrong, if that was not asked for before.
    pub fn new_trouble(&self) -> Option<String> {
        let mut told = locked(&self.0);
        let is_new = std::mem::take(&mut told.is_new);
        let trouble = told.trouble.as_ref().filter(|_| is_new)?;
        Some(format!("{}: {}", told.endpoint, trouble.said))
    }

    pub fn begin(&self, endpoint: String) {
        *locked(&self.0) = Told { endpoint, counts: Some(ExportCounts::default()), ..Told::default() };
    }

    pub fn note(&self, outcome: &Outcome) {
        let mut told = locked(&self.0);
        let counts = told.counts.get_or_insert_default();
        match outcome {
            Outcome::Taken => counts.taken += 1,
            Outcome::Partly(_) => counts.partly += 1,
            Outcome::Later(..) | Outcome::Refused(_) => counts.failed += 1,
        }
        let trouble = outcome.trouble();
        let kind = |trouble: Option<&Trouble>| trouble.map(|trouble| trouble.kind.clone());
        if kind(trouble) != kind(told.trouble.as_ref()) {
            told.is_new = trouble.is_some();
            told.trouble = trouble.cloned();
        }
    }
}
