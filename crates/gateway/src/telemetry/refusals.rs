//! Requests that the gateway refused before it asked a lane, by reason: counted all, logged at most once a second for each reason.
//!
//! Invariant: no log line holds a key or a prompt; what a client wrote stands in it cut to [`MAX_MESSAGE_CHARS`] characters.

use http::StatusCode;
use std::sync::atomic::{AtomicU64, Ordering};
use tokrate_core::{Span, Tick};

/// A client can put a megabyte where a model's name belongs.
const MAX_MESSAGE_CHARS: usize = 200;
/// Whoever is refused a thousand times a second must not fill a disk with it.
const LOG_INTERVAL: Span = Span::from_secs(1);

/// Why a request was refused, as far as its status tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusalReason {
    /// 400, 422: it cannot be understood, or no lane can express it.
    BadRequest,
    /// 401: no key, or an unknown one.
    Unauthorized,
    /// 402: a budget is spent.
    BudgetSpent,
    /// 403: the key may not do this, or a page of another site asks.
    Forbidden,
    /// 404: no such path or model.
    NotFound,
    /// 405, 415, 421: another method, content type or host name is expected.
    WrongRequest,
    /// 408: it came too slowly.
    Timeout,
    /// 413, 431: its body or head is too large.
    TooLarge,
    /// 429: the key's limits are used up.
    TooManyRequests,
    /// 503, 504: no lane can be asked, or there is no room.
    Unavailable,
    /// Any other status.
    Other,
}

impl RefusalReason {
    /// Every reason, in the order of its counter.
    pub const ALL: [RefusalReason; 11] = [
        RefusalReason::BadRequest,
        RefusalReason::Unauthorized,
        RefusalReason::BudgetSpent,
        RefusalReason::Forbidden,
        RefusalReason::NotFound,
        RefusalReason::WrongRequest,
        RefusalReason::Timeout,
        RefusalReason::TooLarge,
        RefusalReason::TooManyRequests,
        RefusalReason::Unavailable,
        RefusalReason::Other,
    ];

    /// The value of the label `reason`.
    pub const fn name(self) -> &'static str {
        match self {
            RefusalReason::BadRequest => "bad_request",
            RefusalReason::Unauthorized => "unauthorized",
            RefusalReason::BudgetSpent => "budget_spent",
            RefusalReason::Forbidden => "forbidden",
            RefusalReason::NotFound => "not_found",
            RefusalReason::WrongRequest => "wrong_request",
            RefusalReason::Timeout => "timeout",
            RefusalReason::TooLarge => "too_large",
            RefusalReason::TooManyRequests => "too_many_requests",
            RefusalReason::Unavailable => "unavailable",
            RefusalReason::Other => "other",
        }
    }

    /// The reason of a status.
    pub fn of(status: StatusCode) -> RefusalReason {
        match status.as_u16() {
            400 | 422 => RefusalReason::BadRequest,
            401 => RefusalReason::Unauthorized,
            402 => RefusalReason::BudgetSpent,
            403 => RefusalReason::Forbidden,
            404 => RefusalReason::NotFound,
            405 | 415 | 421 => RefusalReason::WrongRequest,
            408 => RefusalReason::Timeout,
            413 | 431 => RefusalReason::TooLarge,
            429 => RefusalReason::TooManyRequests,
            503 | 504 => RefusalReason::Unavailable,
            _ => RefusalReason::Other,
        }
    }
}

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
    pub fn record(&self, now: Tick, status: StatusCode, message: &str) {
        let reason = RefusalReason::of(status);
        if let Some(count) = self.0[reason as usize].count(now) {
            let message: String = message.chars().take(MAX_MESSAGE_CHARS).collect();
            tracing::warn!(status = status.as_u16(), reason = reason.name(), count, "request refused: {message}");
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
            let status = StatusCode::from_u16(status).expect("a status");
            (0..times).for_each(|_| refusals.record(at(0), status, "x"));
        }
        let counted: Vec<(&str, u64)> =
            refusals.counts().into_iter().filter(|(_, n)| *n > 0).map(|(reason, n)| (reason.name(), n)).collect();
        assert_eq!(counted, [("unauthorized", 3), ("not_found", 1), ("other", 2)]);
        for (place, reason) in RefusalReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place);
        }
    }
}
