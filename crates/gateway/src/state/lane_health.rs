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
const MESSAGE_BYTES_MOST: usize = 200;
/// Lines about lanes that wait to be printed; more than these within a second are read by nobody.
const LINES_MOST: usize = 64;

/// What is remembered of one lane.
#[derive(Default)]
pub(crate) struct LaneMemory {
    trouble: Mutex<Option<Arc<Trouble>>>,
    no_embeddings_until: Mutex<Option<Tick>>,
}

/// How a lane failed.
#[derive(Debug)]
pub(crate) struct Trouble {
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

impl LaneMemory {
    /// The lane failed through its own fault, its settings' or its load's.
    pub fn note(&self, trouble: Trouble) {
        *locked(&self.trouble) = Some(Arc::new(trouble));
    }

    /// How it failed last.
    pub fn trouble(&self) -> Option<Arc<Trouble>> {
        locked(&self.trouble).clone()
    }

    /// The lane has no path for embeddings.
    pub fn note_no_embeddings(&self, now: Tick) {
        *locked(&self.no_embeddings_until) = Some(now + NO_EMBEDDINGS_FOR);
    }

    /// Whether it is known to have none.
    pub fn lacks_embeddings(&self, now: Tick) -> bool {
        locked(&self.no_embeddings_until).is_some_and(|until| now < until)
    }

    /// Takes over what explains why the same lane is left alone. Whether it has embeddings is found out anew: settings are read
    /// again because something has changed.
    pub fn inherit(&self, known: &LaneMemory) {
        *locked(&self.trouble) = known.trouble();
    }
}

/// Whether a failure is held against a lane, its settings or its load, so that it is worth being remembered.
pub(crate) fn is_of_the_lane(kind: FailureKind) -> bool {
    matches!(blame(kind), Blame::Key | Blame::Load | Blame::Lane)
}

impl Trouble {
    /// The cause in a few words: kind, status, message.
    pub fn shown(&self) -> String {
        let mut shown = self.kind.name().replace('_', " ");
        if let Some(status) = self.status.filter(|status| !status.is_success()) {
            shown.push_str(&format!(" ({})", status.as_u16()));
        }
        if !self.message.is_empty() {
            shown.push_str(": ");
            shown.push_str(&one_line(&self.message, MESSAGE_BYTES_MOST));
        }
        shown
    }
}

/// Lines about lanes whose breaker has opened, until somebody prints them.
#[derive(Default)]
pub(crate) struct Trips(Mutex<VecDeque<String>>);

impl Trips {
    /// Hears how a breaker stood before an attempt ended and how it stands after; one line if it has opened.
    pub fn hear(&self, lane: &str, memory: &LaneMemory, before: BreakerState, after: BreakerState, now: Tick) {
        let BreakerState::Open { until, why } = after else { return };
        if matches!(before, BreakerState::Open { .. }) {
            return;
        }
        let cause = memory.trouble().map_or_else(|| "it failed".to_owned(), |trouble| trouble.shown());
        let mut line = format!("lane {lane} is left alone for {}: {cause}", seconds(until - now));
        if why == Blame::Key {
            line.push_str(&format!("; put its key or model right under [gateway.lanes.{lane}] and send SIGHUP"));
        }
        let mut lines = locked(&self.0);
        if lines.len() == LINES_MOST {
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
pub(crate) fn seconds(wait: Span) -> String {
    format!("{} s", wait.as_nanos().div_ceil(1_000_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trouble(message: &str) -> Trouble {
        Trouble {
            kind: FailureKind::Unauthorized,
            status: Some(StatusCode::UNAUTHORIZED),
            message: message.to_owned(),
            refusal: None,
        }
    }

    #[test]
    fn a_breaker_that_opens_is_one_line_and_one_that_stays_open_is_none() {
        let (trips, memory) = (Trips::default(), LaneMemory::default());
        memory.note(trouble("no such key"));
        let now = Tick::ZERO + Span::from_secs(1);
        let open = BreakerState::Open { until: now + Span::from_millis(599_001), why: Blame::Key };
        trips.hear("one", &memory, BreakerState::Closed, BreakerState::Closed, now);
        trips.hear("one", &memory, BreakerState::Closed, open, now);
        trips.hear("one", &memory, open, open, now);
        let lines = trips.take();
        assert_eq!(
            lines,
            [
                "lane one is left alone for 600 s: unauthorized (401): no such key; put its key or model right under [gateway.lanes.one] and send SIGHUP"
            ]
        );
        trips.hear("one", &memory, BreakerState::HalfOpen { probing: true }, open, now);
        assert_eq!(trips.take().len(), 1, "a try that failed");
        (0..1_000).for_each(|_| trips.hear("one", &memory, BreakerState::Closed, open, now));
        assert_eq!(trips.take().len(), LINES_MOST);
    }

    #[test]
    fn a_cause_is_short_whatever_a_provider_says() {
        let shown = trouble(&"x".repeat(1 << 20)).shown();
        assert!(shown.len() < MESSAGE_BYTES_MOST + 50 && shown.ends_with('…'), "{shown}");
    }

    #[test]
    fn what_a_lane_lacks_is_forgotten_after_a_while() {
        let memory = LaneMemory::default();
        let now = Tick::ZERO + Span::from_secs(5);
        assert!(!memory.lacks_embeddings(now));
        memory.note_no_embeddings(now);
        assert!(memory.lacks_embeddings(now) && !memory.lacks_embeddings(now + NO_EMBEDDINGS_FOR));
    }
}
