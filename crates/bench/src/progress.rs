//! Live counters of a run, for a display on another thread.
//!
//! Invariant: counters only rise within a phase.

use crate::readings::{LatestReadings, Readings};
use crate::watched::{Arrivals, Figures, Watched, WorkerLoad};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tokrate_core::{FailureKind, Money, Span, Tick};
use tokrate_meter::RequestTrace;
use tokrate_tokens::{Encoding, count};

/// Live counters of the phase that runs. All relaxed: a display needs no exact instant.
#[derive(Debug, Default)]
pub struct Progress {
    started: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
    limited: AtomicU64,
    text_bytes: AtomicU64,
    /// Whether anything was answered, if only by an error.
    has_answer: AtomicBool,
    /// Sampled answers, for the bytes per token.
    texts: Mutex<Texts>,
    /// End of the latest backoff wait.
    held_until: Mutex<Option<Tick>>,
    /// What is counted only while somebody watches.
    watched: Watched,
    /// Engine and graphics processors, where they are read.
    readings: OnceLock<Readings>,
    /// What the run has spent (nanodollars); it goes on through the levels.
    spent: AtomicU64,
    /// Why the phase was added to those that were listed, if it was.
    reason: Mutex<Option<String>>,
}

/// Nanodollars in a dollar.
const NANOS: f64 = 1e9;
/// Answers sampled to estimate the bytes per token; enough for a display.
const MAX_TEXTS: usize = 16;
/// Bytes sampled of each, so that counting them stays cheap.
const MAX_TEXT_BYTES: usize = 4096;

#[derive(Debug, Default)]
struct Texts {
    kept: usize,
    uncounted: Vec<String>,
    bytes: u64,
    tokens: u64,
}

/// The counters at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Snapshot {
    /// Requests started.
    pub started: u64,
    /// Requests that ended well.
    pub answered: u64,
    /// Requests that failed, refusals for the rate left out.
    pub failed: u64,
    /// Requests that were refused for the rate (429).
    pub limited: u64,
    /// Bytes of output text received.
    pub text_bytes: u64,
    /// Remaining backoff time requested by the provider.
    pub held: Option<Span>,
}

impl Snapshot {
    /// Requests that have not ended.
    pub fn in_flight(self) -> u64 {
        self.started.saturating_sub(self.ended())
    }

    /// Requests that have ended, in whatever way.
    pub fn ended(self) -> u64 {
        self.answered + self.failed + self.limited
    }
}

impl Progress {
    /// The counters; `now` by the clock of the run.
    pub fn snapshot(&self, now: Tick) -> Snapshot {
        // Ends are read before starts, so that `in_flight` never goes below zero.
        let (answered, failed) = (self.answered.load(Relaxed), self.failed.load(Relaxed));
        let limited = self.limited.load(Relaxed);
        let held = self.held_until().filter(|until| *until > now).map(|until| until - now);
        let (started, text_bytes) = (self.started.load(Relaxed), self.text_bytes.load(Relaxed));
        Snapshot { started, answered, failed, limited, text_bytes, held }
    }

    /// Requests that have not ended.
    pub(crate) fn in_flight(&self) -> u64 {
        self.snapshot(Tick::MAX).in_flight()
    }

    /// Sets everything to zero, at the start of a phase.
    pub fn reset(&self) {
        for counter in [&self.started, &self.answered, &self.failed, &self.limited, &self.text_bytes] {
            counter.store(0, Relaxed);
        }
        self.has_answer.store(false, Relaxed);
        *self.held_until() = None;
        self.watched.reset();
    }

    /// Counts figures from now on, for a display.
    pub fn watch(&self) {
        self.watched.turn_on();
    }

    /// The figures so far; none unless it is watched.
    pub fn figures(&self) -> Figures {
        self.watched.figures()
    }

    /// The last readings of engine and graphics processors.
    pub fn readings(&self) -> LatestReadings {
        self.readings.get().map(Readings::latest).unwrap_or_default()
    }

    /// What the run has spent so far (USD), if it has a limit.
    pub fn spent_usd(&self) -> Option<f64> {
        Some(self.spent.load(Relaxed)).filter(|spent| *spent > 0).map(|spent| spent as f64 / NANOS)
    }

    /// Why the phase was added to those that were listed.
    pub fn reason(&self) -> Option<String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_reason(&self, reason: Option<String>) {
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }

    pub(crate) fn show_readings(&self, readings: &Readings) {
        self.readings.get_or_init(|| readings.clone());
    }

    pub(crate) fn set_spent(&self, spent: Money) {
        self.spent.fetch_max((spent.as_usd() * NANOS) as u64, Relaxed);
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.watched.is_on()
    }

    pub(crate) fn arrivals(&self, is_left_out: bool) -> Arrivals<'_> {
        Arrivals::new(&self.watched, is_left_out)
    }

    pub(crate) fn pulse(&self, worker: u32, load: WorkerLoad) {
        self.watched.pulse(worker, load);
    }

    /// Whether anything was answered in this phase, if only by an error or the first text.
    pub(crate) fn has_answer(&self) -> bool {
        self.has_answer.load(Relaxed)
    }

    /// Records until when the provider asked to wait.
    pub(crate) fn hold(&self, until: Tick) {
        let mut held = self.held_until();
        *held = held.max(Some(until));
    }

    /// Keeps a part of an answer's text, unless a display is reading: a thread that measures waits for nobody.
    pub(crate) fn keep(&self, text: &str) {
        let Ok(mut texts) = self.texts.try_lock() else { return };
        if texts.kept < MAX_TEXTS && !text.is_empty() {
            texts.kept += 1;
            texts.uncounted.push(text[..text.floor_char_boundary(MAX_TEXT_BYTES)].to_owned());
        }
    }

    /// Bytes of text to a token, as the first answers have it; `None` before them. Counts, so not for a thread that measures.
    pub fn bytes_per_token(&self) -> Option<f64> {
        let uncounted = std::mem::take(&mut self.texts().uncounted);
        let bytes: u64 = uncounted.iter().map(|text| text.len() as u64).sum();
        let tokens: u64 = uncounted.iter().map(|text| count(Encoding::O200kBase, text) as u64).sum();
        let mut texts = self.texts();
        texts.bytes += bytes;
        texts.tokens += tokens;
        (texts.tokens > 0).then(|| texts.bytes as f64 / texts.tokens as f64)
    }

    fn texts(&self) -> MutexGuard<'_, Texts> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held_until(&self) -> MutexGuard<'_, Option<Tick>> {
        self.held_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn start(&self) {
        self.started.fetch_add(1, Relaxed);
    }

    pub(crate) fn text(&self, bytes: usize) {
        if bytes > 0 && !self.has_answer() {
            self.has_answer.store(true, Relaxed);
        }
        self.text_bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn end(&self, trace: &RequestTrace, is_warmup: bool) {
        if self.is_watched() {
            self.watched.ended(trace, is_warmup);
        }
        let failure = trace.failure.as_ref().map(|failure| failure.kind);
        let counter = match failure {
            None => &self.answered,
            Some(FailureKind::RateLimited) => &self.limited,
            Some(_) => &self.failed,
        };
        counter.fetch_add(1, Relaxed);
        if failure.is_none_or(|kind| kind != FailureKind::Cancelled && !is_timeout(kind)) {
            self.has_answer.store(true, Relaxed);
        }
    }
}

/// Whether a request ended because its time did, and not by an answer of any kind.
pub(crate) fn is_timeout(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::Stalled | FailureKind::TimedOut | FailureKind::ConnectTimeout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_as_long_as_the_first_answers_have_it() {
        let progress = Progress::default();
        assert_eq!(progress.bytes_per_token(), None);
        progress.keep("one two three four");
        assert_eq!(progress.bytes_per_token(), Some(18.0 / 4.0));
        (0..100).for_each(|_| progress.keep(" one"));
        assert_eq!(progress.bytes_per_token(), Some((18.0 + 15.0 * 4.0) / (4.0 + 15.0)), "sixteen are enough");
        progress.reset();
        assert!(progress.bytes_per_token().is_some(), "the next level has the same model");
    }

    #[test]
    fn the_longest_wait_is_shown_until_the_next_level() {
        let progress = Progress::default();
        let now = Tick::ZERO + Span::from_secs(7);
        assert_eq!(progress.snapshot(now).held, None);
        progress.hold(now + Span::from_secs(3600));
        progress.hold(now + Span::from_secs(1));
        assert_eq!(progress.snapshot(now).held, Some(Span::from_secs(3600)));
        assert_eq!(progress.snapshot(now + Span::from_secs(3600)).held, None, "it is over");
        progress.reset();
        assert_eq!(progress.snapshot(now).held, None);
    }
}
