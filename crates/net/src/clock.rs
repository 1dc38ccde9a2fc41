//! The monotonic clock, wall time for people, and CPU time of the caller.
//!
//! It refuses to know what is timed. Invariant: ticks of all processes of one machine are comparable.

use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering};
use tokrate_core::{Span, Tick, rfc3339};

/// A source of ticks: CLOCK_MONOTONIC, or hands moved by a test. A value, handed on from `main`.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Source);

#[derive(Clone, Copy, Debug)]
enum Source {
    Monotonic,
    Manual(&'static AtomicU64),
}

/// Moves a clock made by [`Clock::manual`].
#[derive(Clone, Copy, Debug)]
pub struct Hands(&'static AtomicU64);

impl Clock {
    /// The machine's monotonic clock.
    pub fn monotonic() -> Clock {
        Clock(Source::Monotonic)
    }

    /// A clock that stands until its hands are moved. Each one keeps 8 bytes for the rest of the process, so that a clock
    /// stays a value that can be copied; it is meant for tests.
    pub fn manual(start: Tick) -> (Clock, Hands) {
        let hands: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(start.as_nanos())));
        (Clock(Source::Manual(hands)), Hands(hands))
    }

    /// Whether ticks pass by themselves.
    pub(crate) fn runs(self) -> bool {
        matches!(self.0, Source::Monotonic)
    }

    /// Now.
    #[inline]
    pub fn now(self) -> Tick {
        match self.0 {
            Source::Monotonic => Tick::from_nanos(nanos(ClockId::Monotonic)),
            Source::Manual(hands) => Tick::from_nanos(hands.load(Ordering::Relaxed)),
        }
    }

    /// Nanoseconds since 1970, for fields that carry wall time.
    pub fn wall_nanos(self) -> u64 {
        nanos(ClockId::Realtime)
    }

    /// Seconds since 1970, for fields that carry wall time.
    pub fn wall_seconds(self) -> u64 {
        nanos(ClockId::Realtime) / 1_000_000_000
    }

    /// Wall time as RFC 3339 in UTC, to the second.
    pub fn wall_rfc3339(self) -> String {
        rfc3339(self.wall_seconds())
    }
}

impl Hands {
    /// Moves the clock on; its new time.
    pub fn advance(self, span: Span) -> Tick {
        Tick::from_nanos(self.0.fetch_add(span.as_nanos(), Ordering::Relaxed)) + span
    }
}

/// CPU time that the calling thread has used.
pub fn thread_cpu_time() -> Span {
    Span::from_nanos(nanos(ClockId::ThreadCPUTime))
}

fn nanos(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_795_219_200), "2026-11-21T00:00:00Z");
    }

    #[test]
    fn ticks_never_go_back() {
        let clock = Clock::monotonic();
        let (one, two) = (clock.now(), clock.now());
        assert!(one <= two && one > Tick::ZERO);
    }
}
