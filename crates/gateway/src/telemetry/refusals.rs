//! Requests that the gateway refused before it asked a lane, by reason: counted all, a line on standard
//! error at most once a second for each reason.
//!
//! Rows of the throughput log are made of them in `state`. Invariant: no line holds a key or a prompt; what a client wrote stands in it cut to [`MAX_MESSAGE_CHARS`] characters.

use std::sync::atomic::{AtomicU64, Ordering};
use tokrate_core::{Span, Tick};
use tokrate_record::RefusalReason;

/// A client can put a megabyte where a model's name belongs.
const MAX_MESSAGE_CHARS: usize = 200;
/// Whoever is refused a thousand times a second must not fill a disk with it.
const LOG_INTERVAL: Span = Span::from_secs(1);

/// Refusals since the start.
#[derive(Debug, Default)]
pub(crate) struct Refusals([Counter; RefusalReason::ALL.len()]);

#[derive(Debug, Default)]
struct Counter {
    count: AtomicU64,
    /// How many of them were logged, or stood in the count of a line.
    logged: AtomicU64,
    /// When the next line may be written (ns); 0 before the first.
    next_line_at: AtomicU64,
}

impl Refusals {
    /// Counts a refusal, and logs it if its reason was not logged within the last second.
    pub fn record(&self, now: Tick, reason: RefusalReason, status: u16, message: &str) {
        if let Some(count) = self.0[reason as usize].count(now) {
            let message: String = message.chars().take(MAX_MESSAGE_CHARS).collect();
            tracing::warn!(status, reason = reason.name(), count, "request refused: {message}");
        }
    }

    /// How many there were, by reason.
    pub fn counts(&self) -> [(RefusalReason, u64); RefusalReason::ALL.len()] {
        RefusalReason::ALL.map(|reason| (reason, self.0[reason as usize].count.load(Ordering::Relaxed)))
    }
}

impl Counter {
    /// Counts one; how many have come since the last line, if another may be written.
    fn count(&self, now: Tick) -> Option<u64> {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let (now, next) = (now.as_nanos(), self.next_line_at.load(Ordering::Relaxed));
        if now < next {
            return None;
        }
        let following = now + LOG_INTERVAL.as_nanos();
        // Of several threads one writes the line.
        self.next_line_at.compare_exchange(next, following, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        Some(count - self.logged.swap(count, Ordering::Relaxed).min(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Tick {
        Tick::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn every_refusal_is_counted_and_one_line_a_second_says_how_many() {
        let counter = Counter::default();
        let lines: Vec<Option<u64>> = [0, 1, 999, 1_000, 1_001, 5_000].map(|ms| counter.count(at(ms))).to_vec();
        assert_eq!(lines, [Some(1), None, None, Some(3), None, Some(2)]);
        assert_eq!(counter.count.load(Ordering::Relaxed), 6);
    }

    #[test]
    fn reasons_are_counted_apart_and_in_the_order_of_their_names() {
        let refusals = Refusals::default();
        for (status, times) in [(401, 3), (404, 1), (418, 2)] {
            (0..times).for_each(|_| refusals.record(at(0), RefusalReason::of(status), status, "x"));
        }
        let counted: Vec<(&str, u64)> =
            refusals.counts().into_iter().filter(|(_, n)| *n > 0).map(|(reason, n)| (reason.name(), n)).collect();
        assert_eq!(counted, [("unauthorized", 3), ("not_found", 1), ("other", 2)]);
    }
}
