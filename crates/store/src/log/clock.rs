//! The clock of a log, which its caller gives, and whether its wall time may be used for retention.
//!
//! Invariant: a wall clock that jumps ahead is trusted only after it was stable for a while, so that a briefly wrong clock removes nothing; a
//! clock that goes back removes less, and is trusted at once.

use std::sync::Arc;
use tokrate_core::{Span, Tick};

/// A clock may be ahead by 1/10 of the retention: the most that is removed too early.
const MAX_AHEAD_SHARE: u64 = 10;
/// And by at most a day: enough for a laptop that was suspended over night, while its monotonic clock stood still.
const MAX_AHEAD_MS: u64 = 24 * 3_600 * 1_000;

/// The time of a log: a monotonic clock for timeouts, and the wall clock for retention.
#[derive(Clone)]
pub struct LogClock {
    monotonic: Arc<dyn Fn() -> Tick + Send + Sync>,
    wall_unix_ms: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl LogClock {
    /// `monotonic` never goes back; `wall_unix_ms` (ms since 1970) may.
    pub fn new(
        monotonic: impl Fn() -> Tick + Send + Sync + 'static,
        wall_unix_ms: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> LogClock {
        LogClock { monotonic: Arc::new(monotonic), wall_unix_ms: Arc::new(wall_unix_ms) }
    }

    /// Now, for timeouts.
    pub(super) fn now(&self) -> Tick {
        (self.monotonic)()
    }

    /// The wall time (ms since 1970).
    pub(super) fn wall_unix_ms(&self) -> u64 {
        (self.wall_unix_ms)()
    }
}

/// Compares a wall clock with a monotonic one.
#[derive(Debug)]
pub(super) struct ClockGuard {
    /// The last trusted wall time, and when it was read; at first the newest row's, read at an unknown time.
    trusted: Option<(Option<Tick>, u64)>,
    /// A wall time that is not trusted, and since when.
    suspect: Option<(Tick, u64)>,
    tolerance_ms: u64,
    settle_time: Span,
}

/// The clock is not trusted.
#[derive(Debug)]
pub(super) struct Distrust {
    /// A message for the user; only at the start.
    pub message: Option<String>,
}

impl ClockGuard {
    /// Starts from the time of the newest row (ms since 1970).
    pub fn new(newest_unix_ms: Option<u64>, retention: Span, settle_time: Span) -> ClockGuard {
        let tolerance_ms = (retention.as_nanos() / 1_000_000 / MAX_AHEAD_SHARE).min(MAX_AHEAD_MS);
        ClockGuard { trusted: newest_unix_ms.map(|newest| (None, newest)), suspect: None, tolerance_ms, settle_time }
    }

    /// Checks the wall time; `None` if it is trusted.
    pub fn check(&mut self, now: Tick, wall_unix_ms: u64) -> Option<Distrust> {
        let later = |since: Tick, wall: u64| wall.saturating_add(now.since(since).as_nanos() / 1_000_000);
        let expected = self.trusted.map(|(since, wall)| since.map_or(wall, |since| later(since, wall)));
        let ahead = expected.map_or(0, |expected| wall_unix_ms.saturating_sub(expected));
        if ahead <= self.tolerance_ms {
            self.trust(now, wall_unix_ms);
            return None;
        }
        let kept =
            self.suspect.filter(|(since, wall)| later(*since, *wall).abs_diff(wall_unix_ms) <= self.tolerance_ms);
        let since = kept.map_or(now, |(since, _)| since);
        if now.since(since) >= self.settle_time {
            self.trust(now, wall_unix_ms);
            return None;
        }
        let message = kept.is_none().then(|| self.message(ahead));
        self.suspect = kept.or(Some((now, wall_unix_ms)));
        Some(Distrust { message })
    }

    fn trust(&mut self, now: Tick, wall_unix_ms: u64) {
        self.trusted = Some((Some(now), wall_unix_ms));
        self.suspect = None;
    }

    fn message(&self, ahead_ms: u64) -> String {
        let hours = ahead_ms as f64 / 3.6e6;
        let minutes = self.settle_time.as_secs_f64() / 60.0;
        format!(
            "remove old rows from the log: the clock is {hours:.1} hours ahead of the newest row and of what passed since; \
             none is removed until it has kept to that for {minutes:.0} minutes"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: u64 = 24 * 3_600 * 1_000;
    const NOON: u64 = 1_800_000_000_000;

    /// A guard of a log of 90 days, and the steady time after so many minutes.
    fn guard(newest: Option<u64>) -> (ClockGuard, impl Fn(u64) -> Tick) {
        let guard = ClockGuard::new(newest, Span::from_secs(90 * 86_400), Span::from_secs(3_600));
        (guard, |minutes| Tick::ZERO + Span::from_secs(60 * minutes))
    }

    #[test]
    fn a_clock_that_passes_with_the_steady_one_is_believed() {
        let (mut guard, at) = guard(Some(NOON));
        for minute in 0..10_000 {
            assert!(guard.check(at(minute), NOON + minute * 60_000).is_none());
        }
    }

    #[test]
    fn a_clock_that_is_years_ahead_for_a_moment_is_doubted_and_said_once() {
        let (mut guard, at) = guard(Some(NOON));
        assert!(guard.check(at(0), NOON).is_none());
        let ahead = NOON + 3_650 * DAY_MS;
        assert!(guard.check(at(1), ahead + 60_000).expect("suspect").message.is_some());
        assert!(guard.check(at(2), ahead + 120_000).expect("suspect").message.is_none());
        assert!(guard.check(at(3), NOON + 180_000).is_none(), "right again");
        assert!(guard.check(at(4), ahead + 240_000).is_some(), "the hour begins anew");
    }

    #[test]
    fn a_clock_that_keeps_to_its_new_time_for_an_hour_is_believed() {
        let (mut guard, at) = guard(Some(NOON));
        let later = |minute: u64| NOON + 30 * DAY_MS + minute * 60_000;
        for minute in 0..60 {
            assert!(guard.check(at(minute), later(minute)).is_some(), "minute {minute}");
        }
        assert!(guard.check(at(60), later(60)).is_none());
    }

    #[test]
    fn a_clock_that_keeps_jumping_is_never_believed() {
        let (mut guard, at) = guard(Some(NOON));
        for minute in 0..600 {
            assert!(guard.check(at(minute), NOON + (minute + 2) * 2 * DAY_MS).is_some());
        }
    }

    #[test]
    fn a_clock_that_goes_back_is_believed_as_it_removes_less() {
        let (mut guard, at) = guard(Some(NOON));
        assert!(guard.check(at(0), NOON - 900 * DAY_MS).is_none());
    }

    #[test]
    fn a_clock_may_be_ahead_by_a_tenth_of_the_retention_and_by_a_day_at_most() {
        for (retention_hours, hours) in [(10, 1), (90 * 24, 24)] {
            let notice = |ahead_ms: u64| {
                let retention = Span::from_secs(retention_hours * 3_600);
                let mut guard = ClockGuard::new(Some(NOON), retention, Span::from_secs(7_200));
                let doubt = guard.check(Tick::ZERO, NOON + ahead_ms);
                doubt.map(|doubt| doubt.message.expect("it begins"))
            };
            let most = hours * 3_600_000;
            assert_eq!(notice(most), None);
            let notice = notice(most + 1).expect("a millisecond more");
            assert!(
                notice.contains(&format!("{hours}.0 hours ahead")) && notice.contains("for 120 minutes"),
                "{notice}"
            );
        }
    }

    #[test]
    fn a_clock_in_doubt_has_kept_to_its_time_if_it_strays_no_further_than_that() {
        let (mut guard, at) = guard(Some(NOON));
        let ahead = NOON + 30 * DAY_MS;
        let mut is_said = |minute, wall| guard.check(at(minute), wall).expect("suspect").message.is_some();
        assert!(is_said(0, ahead));
        assert!(!is_said(1, ahead + 60_000 + DAY_MS));
        assert!(is_said(2, ahead + 120_000 + DAY_MS + 1));
    }

    #[test]
    fn a_new_log_has_nothing_to_doubt_by() {
        let (mut guard, at) = guard(None);
        assert!(guard.check(at(0), NOON).is_none());
        assert!(guard.check(at(1), NOON + 2 * DAY_MS).is_some());
    }
}
