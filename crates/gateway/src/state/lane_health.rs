//! What is remembered of a lane between calls besides its speed: how it failed last, and that it has no embeddings.
//!
//! It does not decide whether a lane is asked after a failure: that is the router's breaker. Invariant: nothing kept here holds
//! a key, and its size is bounded by the lanes that were configured.

use crate::state::lock::locked;
use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokrate_core::{FailureKind, Span, Tick, one_line};
use tokrate_route::{Blame, BreakerState, blame};
use tokrate_wire::Dialect;

/// How long a lane that has no path for embeddings is not asked for them again: an engine that was replaced by one that has
/// them serves them within the hour.
const NO_EMBEDDINGS_FOR: Span = Span::from_secs(3_600);
/// Longest part of a provider's message in a line about a lane (bytes).
const MAX_MESSAGE_BYTES: usize = 200;
/// Lines about lanes that wait to be printed; more than these within a second are read by nobody.
const MAX_LINES: usize = 64;

/// What is remembered of one lane.
#[derive(Default)]
pub(crate) struct LaneHealth {
    last_failure: Mutex<Option<Arc<LaneFailure>>>,
    no_embeddings_until: Mutex<Option<Tick>>,
}

/// How a lane failed.
#[derive(Debug)]
pub(crate) struct LaneFailure {
    pub kind: FailureKind,
    pub status: Option<StatusCode>,
    /// What the lane or the transport said.
    pub message: String,
    /// The answer, if the lane refused with one.
    pub refusal: Option<Refusal>,
}

/// A refusal as the provider wrote it, without any key.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub dialect: Dialect,
    pub content_type: Option<HeaderValue>,
    pub body: Bytes,
}

impl LaneHealth {
    /// The lane failed through its own fault, its settings' or its load's.
    pub fn record_failure(&self, last_failure: LaneFailure) {
        *locked(&self.last_failure) = Some(Arc::new(last_failure));
    }

    /// How it failed last.
    pub fn last_failure(&self) -> Option<Arc<LaneFailure>> {
        locked(&self.last_failure).clone()
    }

    /// The lane has no path for embeddings.
    pub fn record_missing_embeddings(&self, now: Tick) {
        *locked(&self.no_embeddings_until) = Some(now + NO_EMBEDDINGS_FOR);
    }

    /// Whether it is known to have none.
    pub fn lacks_embeddings(&self, now: Tick) -> bool {
        locked(&self.no_embeddings_until).is_some_and(|until| now < until)
    }

    /// Takes over what explains why the same lane is left alone. Whether it has embeddings is found out anew: settings are read
    /// again because something has changed.
    pub fn inherit(&self, known: &LaneHealth) {
        *locked(&self.last_failure) = known.last_failure();
    }
}

/// Whether a failure is held against a lane, its settings or its load, so that it is worth being remembered.
pub(crate) fn is_lane_failure(kind: FailureKind) -> bool {
    matches!(blame(kind), Blame::Key | Blame::Load | Blame::Lane)
}

impl LaneFailure {
    /// The cause in a few words: kind, status, message.
    pub fn summary(&self) -> String {
        let mut summary = self.kind.name().replace('_', " ");
        if let Some(status) = self.status.filter(|status| !status.is_success()) {
            summary.push_str(&format!(" ({})", status.as_u16()));
        }
        if !self.message.is_empty() {
            summary.push_str(": ");
            summary.push_str(&one_line(&self.message, MAX_MESSAGE_BYTES));
        }
        summary
    }
}

/// Lines about lanes whose breaker has opened, until somebody prints them.
#[derive(Default)]
pub(crate) struct BreakerNotices(Mutex<VecDeque<String>>);

impl BreakerNotices {
    /// Hears how a breaker stood before an attempt ended and how it stands after; one line if it has opened.
    pub fn record(&self, lane: &str, health: &LaneHealth, before: BreakerState, after: BreakerState, now: Tick) {
        let BreakerState::Open { until, why } = after else { return };
        if matches!(before, BreakerState::Open { .. }) {
            return;
        }
        let cause = health.last_failure().map_or_else(|| "it failed".to_owned(), |last_failure| last_failure.summary());
        let mut line = format!("lane {lane} is left alone for {}: {cause}", format_seconds(until - now));
        if why == Blame::Key {
            line.push_str(&format!("; put its key or model right under [gateway.lanes.{lane}] and send SIGHUP"));
        }
        let mut lines = locked(&self.0);
        if lines.len() == MAX_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// The lines since this was last asked.
    pub fn take(&self) -> Vec<String> {
        locked(&self.0).drain(..).collect()
    }
}

/// A wait in whole seconds, never fewer than it is.
pub(crate) fn format_seconds(wait: Span) -> String {
    format!("{} s", wait.as_nanos().div_ceil(1_000_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_failure(message: &str) -> LaneFailure {
        LaneFailure {
            kind: FailureKind::Unauthorized,
            status: Some(StatusCode::UNAUTHORIZED),
            message: message.to_owned(),
            refusal: None,
        }
    }

    #[test]
    fn a_breaker_that_opens_is_one_line_and_one_that_stays_open_is_none() {
        let (breaker_notices, health) = (BreakerNotices::default(), LaneHealth::default());
        health.record_failure(last_failure("no such key"));
        let now = Tick::ZERO + Span::from_secs(1);
        let open = BreakerState::Open { until: now + Span::from_millis(599_001), why: Blame::Key };
        breaker_notices.record("one", &health, BreakerState::Closed, BreakerState::Closed, now);
        breaker_notices.record("one", &health, BreakerState::Closed, open, now);
        breaker_notices.record("one", &health, open, open, now);
        let lines = breaker_notices.take();
        assert_eq!(
            lines,
            [
                "lane one is left alone for 600 s: unauthorized (401): no such key; put its key or model right under [gateway.lanes.one] and send SIGHUP"
            ]
        );
        breaker_notices.record("one", &health, BreakerState::HalfOpen { probing: true }, open, now);
        assert_eq!(breaker_notices.take().len(), 1, "a try that failed");
        (0..1_000).for_each(|_| breaker_notices.record("one", &health, BreakerState::Closed, open, now));
        assert_eq!(breaker_notices.take().len(), MAX_LINES);
    }

    #[test]
    fn a_cause_is_short_whatever_a_provider_says() {
        let summary = last_failure(&"x".repeat(1 << 20)).summary();
        assert!(summary.len() < MAX_MESSAGE_BYTES + 50 && summary.ends_with('…'), "{summary}");
    }

    #[test]
    fn what_a_lane_lacks_is_forgotten_after_a_while() {
        let health = LaneHealth::default();
        let now = Tick::ZERO + Span::from_secs(5);
        assert!(!health.lacks_embeddings(now));
        health.record_missing_embeddings(now);
        assert!(health.lacks_embeddings(now) && !health.lacks_embeddings(now + NO_EMBEDDINGS_FOR));
    }
}
