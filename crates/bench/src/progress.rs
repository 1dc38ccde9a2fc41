//! What a run tells while it goes on, for a display on another thread.
//!
//! It refuses to know terminals. Invariant: counters only rise within a phase; reading them disturbs nothing.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Live counters of the phase that runs. All relaxed: a display needs no exact instant.
#[derive(Debug, Default)]
pub struct Progress {
    started: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
    text_bytes: AtomicU64,
}

/// The counters at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Snapshot {
    /// Requests started.
    pub started: u64,
    /// Requests that ended well.
    pub answered: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Bytes of output text received.
    pub text_bytes: u64,
}

impl Snapshot {
    /// Requests that have not ended.
    pub fn in_flight(self) -> u64 {
        self.started.saturating_sub(self.answered + self.failed)
    }
}

impl Progress {
    /// The counters now.
    pub fn snapshot(&self) -> Snapshot {
        // Ends are read before starts, so that `in_flight` never goes below zero.
        let (answered, failed) = (self.answered.load(Relaxed), self.failed.load(Relaxed));
        Snapshot { started: self.started.load(Relaxed), answered, failed, text_bytes: self.text_bytes.load(Relaxed) }
    }

    /// Sets everything to zero, at the start of a phase.
    pub fn reset(&self) {
        for counter in [&self.started, &self.answered, &self.failed, &self.text_bytes] {
            counter.store(0, Relaxed);
        }
    }

    pub(crate) fn start(&self) {
        self.started.fetch_add(1, Relaxed);
    }

    pub(crate) fn text(&self, bytes: usize) {
        self.text_bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn end(&self, answered: bool) {
        if answered { &self.answered } else { &self.failed }.fetch_add(1, Relaxed);
    }
}
