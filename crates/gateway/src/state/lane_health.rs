//! What is remembered of a lane beside its speed: its last failure, and which services or streams it lacks.
//!
//! Whether a lane is used after a failure is up to the router's breaker. Invariant: no key is kept, and the size is
//! bounded by the configured lanes.

use crate::state::lock::locked;
use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokrate_core::{FailureKind, Span, Tick, one_line};
use tokrate_route::{Blame, BreakerState, blame};
use tokrate_wire::Dialect;

/// How long a lane without a service is skipped for it; short enough that an engine which gained it is used within the hour.
const SERVICE_RETRY_AFTER: Span = Span::from_secs(3_600);
/// How long a lane is asked for answers in one piece because it refused to stream them, or because its streams hold what
/// cannot be put back into one piece exactly.
const STREAMS_RETRY_AFTER: Span = Span::from_secs(3_600);
/// Longest excerpt of a provider's message in a notice (bytes).
const MAX_MESSAGE_BYTES: usize = 200;
/// Changes of a lane's breaker that are kept.
const MAX_BREAKER_CHANGES: usize = 16;
/// Notices that wait to be printed; nobody reads more than these at once.
const MAX_LINES: usize = 64;

/// What is remembered of one lane.
#[derive(Default)]
pub(crate) struct LaneHealth {
    last_failure: Mutex<Option<Arc<LaneFailure>>>,
    /// Services that it was found to lack, each with the time until which it is not asked for it.
    lacking: Mutex<Vec<(&'static str, Tick)>>,
    no_streams_until: Mutex<Option<Tick>>,
    breaker_changes: Mutex<VecDeque<BreakerChange>>,
}

/// A breaker that opened or closed.
#[derive(Clone, PartialEq, Debug)]
pub struct BreakerChange {
    /// When (ms since 1970).
    pub at_unix_ms: u64,
    /// For how long it opened; `None` if it closed.
    pub opened_for: Option<Span>,
    /// The failure that opened it.
    pub cause: Option<String>,
}

/// A failure of a lane.
#[derive(Debug)]
pub(crate) struct LaneFailure {
    pub kind: FailureKind,
    pub status: Option<StatusCode>,
    /// The message of the lane or the transport.
    pub message: String,
    /// The lane's response, if it refused.
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
    /// Remembers a failure that is held against the lane.
    pub fn record_failure(&self, failure: LaneFailure) {
        *locked(&self.last_failure) = Some(Arc::new(failure));
    }

    /// The last failure.
    pub fn last_failure(&self) -> Option<Arc<LaneFailure>> {
        locked(&self.last_failure).clone()
    }

    /// Remembers that the lane has no path for a service.
    pub fn record_missing(&self, service: &'static str, now: Tick) {
        let mut lacking = locked(&self.lacking);
        lacking.retain(|(known, _)| *known != service);
        lacking.push((service, now + SERVICE_RETRY_AFTER));
    }

    /// Whether the lane is known to lack a service.
    pub fn lacks(&self, service: &str, now: Tick) -> bool {
        locked(&self.lacking).iter().any(|(known, until)| *known == service && now < *until)
    }

    /// Remembers that answers in one piece are better not asked for as streams; true if that was not known.
    pub fn record_unfit_streams(&self, now: Tick) -> bool {
        let known = locked(&self.no_streams_until).replace(now + STREAMS_RETRY_AFTER);
        known.is_none_or(|until| now >= until)
    }

    /// Whether answers in one piece may be asked for as streams.
    pub fn may_stream_whole(&self, now: Tick) -> bool {
        locked(&self.no_streams_until).is_none_or(|until| now >= until)
    }

    /// Remembers that the breaker opened or closed with the end of an attempt, if it did.
    pub fn record_breaker(&self, before: BreakerState, after: BreakerState, now: Tick, now_unix_ms: u64) {
        let was_open = matches!(before, BreakerState::Open { .. });
        let opened_for = match after {
            BreakerState::Open { until, .. } if !was_open => Some(until - now),
            BreakerState::Closed if before != BreakerState::Closed => None,
            _ => return,
        };
        let cause = opened_for.and_then(|_| self.last_failure()).map(|failure| failure.summary());
        let mut changes = locked(&self.breaker_changes);
        if changes.len() == MAX_BREAKER_CHANGES {
            changes.pop_front();
        }
        changes.push_back(BreakerChange { at_unix_ms: now_unix_ms, opened_for, cause });
    }

    /// When the breaker opened and closed, the newest first.
    pub fn breaker_changes(&self) -> Vec<BreakerChange> {
        locked(&self.breaker_changes).iter().rev().cloned().collect()
    }

    /// Takes over the last failure and the breaker's changes of the same lane in an earlier plan. Which services and streams it has is found out
    /// again, because new settings suggest that something has changed.
    pub fn inherit(&self, known: &LaneHealth) {
        *locked(&self.last_failure) = known.last_failure();
        *locked(&self.breaker_changes) = locked(&known.breaker_changes).clone();
    }
}

/// Whether a failure is held against the lane, its settings or its load.
pub(crate) fn is_lane_failure(kind: FailureKind) -> bool {
    matches!(blame(kind), Blame::Key | Blame::Load | Blame::Lane)
}

impl LaneFailure {
    /// Kind, status and message in one line.
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

/// One line for each breaker that has opened, until they are printed.
#[derive(Default)]
pub(crate) struct BreakerNotices(Mutex<VecDeque<String>>);

impl BreakerNotices {
    /// Adds a line if the breaker opened with the end of an attempt.
    pub fn record(&self, lane: &str, health: &LaneHealth, before: BreakerState, after: BreakerState, now: Tick) {
        let BreakerState::Open { until, blame } = after else { return };
        if matches!(before, BreakerState::Open { .. }) {
            return;
        }
        let cause = health.last_failure().map_or_else(|| "it failed".to_owned(), |failure| failure.summary());
        let mut line = format!("lane {lane} is out of rotation for {}: {cause}", format_seconds(until - now));
        if blame == Blame::Key {
            line.push_str(&format!("; correct its key or model under [gateway.lanes.{lane}] and send SIGHUP"));
        }
        let mut lines = locked(&self.0);
        if lines.len() == MAX_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// The lines since the last call of this.
    pub fn take(&self) -> Vec<String> {
        locked(&self.0).drain(..).collect()
    }
}

/// Lets a line of the log through once in a while.
#[derive(Debug, Default)]
pub(crate) struct NoticeTimer(Mutex<Option<Tick>>);

/// Time between two lines that say the same.
const NOTICE_INTERVAL: Span = Span::from_secs(60);

impl NoticeTimer {
    /// Whether a line may be written now; if so, the next one may be a minute later.
    pub fn is_due(&self, now: Tick) -> bool {
        let mut last = locked(&self.0);
        let is_due = last.is_none_or(|last| now - last >= NOTICE_INTERVAL);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

/// Whole seconds, rounded up.
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
    fn a_breaker_that_opens_adds_one_line_and_one_that_stays_open_adds_none() {
        let (breaker_notices, health) = (BreakerNotices::default(), LaneHealth::default());
        health.record_failure(last_failure("no such key"));
        let now = Tick::ZERO + Span::from_secs(1);
        let open = BreakerState::Open { until: now + Span::from_millis(599_001), blame: Blame::Key };
        breaker_notices.record("one", &health, BreakerState::Closed, BreakerState::Closed, now);
        breaker_notices.record("one", &health, BreakerState::Closed, open, now);
        breaker_notices.record("one", &health, open, open, now);
        let lines = breaker_notices.take();
        assert_eq!(
            lines,
            [
                "lane one is out of rotation for 600 s: unauthorized (401): no such key; correct its key or model under [gateway.lanes.one] and send SIGHUP"
            ]
        );
        breaker_notices.record("one", &health, BreakerState::HalfOpen { probing: true }, open, now);
        assert_eq!(breaker_notices.take().len(), 1, "a try that failed");
        (0..1_000).for_each(|_| breaker_notices.record("one", &health, BreakerState::Closed, open, now));
        assert_eq!(breaker_notices.take().len(), MAX_LINES);
    }

    #[test]
    fn a_breaker_is_remembered_with_when_and_why_it_opened_and_closed() {
        let health = LaneHealth::default();
        health.record_failure(last_failure("no such key"));
        let now = Tick::ZERO + Span::from_secs(1);
        let open = BreakerState::Open { until: now + Span::from_secs(9), blame: Blame::Key };
        let half_open = BreakerState::HalfOpen { probing: true };
        health.record_breaker(BreakerState::Closed, BreakerState::Closed, now, 1);
        health.record_breaker(BreakerState::Closed, open, now, 2);
        health.record_breaker(open, open, now, 3);
        health.record_breaker(half_open, open, now, 4);
        health.record_breaker(half_open, BreakerState::Closed, now, 5);
        let next = LaneHealth::default();
        next.inherit(&health);
        let seen: Vec<_> =
            next.breaker_changes().into_iter().map(|change| (change.at_unix_ms, change.opened_for)).collect();
        assert_eq!(seen, [(5, None), (4, Some(Span::from_secs(9))), (2, Some(Span::from_secs(9)))]);
        assert_eq!(next.breaker_changes()[2].cause.as_deref(), Some("unauthorized (401): no such key"));
        (0..100).for_each(|at| health.record_breaker(BreakerState::Closed, open, now, at));
        assert_eq!(health.breaker_changes().len(), MAX_BREAKER_CHANGES);
    }

    #[test]
    fn a_notice_is_short_whatever_a_provider_writes() {
        let summary = last_failure(&"x".repeat(1 << 20)).summary();
        assert!(summary.len() < MAX_MESSAGE_BYTES + 50 && summary.ends_with('…'), "{summary}");
    }

    #[test]
    fn a_missing_service_is_forgotten_after_a_while() {
        let health = LaneHealth::default();
        let now = Tick::ZERO + Span::from_secs(5);
        assert!(!health.lacks("embeddings", now));
        health.record_missing("embeddings", now);
        assert!(health.lacks("embeddings", now) && !health.lacks("embeddings", now + SERVICE_RETRY_AFTER));
        assert!(!health.lacks("speech", now));
    }
}
