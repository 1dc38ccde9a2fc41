//! Whether a wall clock may decide which rows are old.
//!
//! It knows no rows. Invariant: a clock that jumps ahead is believed only after it has kept to its new time for a while, so that
//! one that is wrong for a moment removes nothing; a clock that goes back removes less, and is believed at once.

use tokrate_core::{Span, Tick};

/// A clock may be ahead of what was expected by this share of the retention: that much more is removed than should be, at worst.
const SHARE: u64 = 10;
/// And by a day at most: long enough for a laptop that slept over night, whose steady clock stood still.
const MOST_MS: u64 = 24 * 3_600 * 1_000;

/// Compares a wall clock with a steady one.
#[derive(Debug)]
pub(super) struct ClockGuard {
    /// A wall time that was believed, and when; at first the newest row's, of a time unknown.
    believed: Option<(Option<Tick>, u64)>,
    /// A wall time that is not, and since when.
    doubted: Option<(Tick, u64)>,
    tolerance_ms: u64,
    settles: Span,
}

/// A clock is not believed.
#[derive(Debug)]
pub(super) struct Doubt {
    /// Why, and what follows; only when it begins.
    pub message: Option<String>,
}

impl ClockGuard {
    /// Before the first look: all that is known is when the newest row was begun (ms since 1970).
    pub fn new(newest_unix_ms: Option<u64>, retention: Span, settles: Span) -> ClockGuard {
        let tolerance_ms = (retention.as_nanos() / 1_000_000 / SHARE).min(MOST_MS);
        ClockGuard { believed: newest_unix_ms.map(|newest| (None, newest)), doubted: None, tolerance_ms, settles }
    }

    /// Whether the wall time is in doubt at this moment.
    pub fn doubt(&mut self, now: Tick, wall_unix_ms: u64) -> Option<Doubt> {
        let later = |since: Tick, wall: u64| wall.saturating_add(now.since(since).as_nanos() / 1_000_000);
        let expected = self.believed.map(|(since, wall)| since.map_or(wall, |since| later(since, wall)));
        let ahead = expected.map_or(0, |expected| wall_unix_ms.saturating_sub(expected));
        if ahead <= self.tolerance_ms {
            self.believe(now, wall_unix_ms);
            return None;
        }
        let kept =
            self.doubted.filter(|(since, wall)| later(*since, *wall).abs_diff(wall_unix_ms) <= self.tolerance_ms);
        let since = kept.map_or(now, |(since, _)| since);
        if now.since(since) >= self.settles {
            self.believe(now, wall_unix_ms);
            return None;
        }
        let message = kept.is_none().then(|| self.message(ahead));
        self.doubted = kept.or(Some((now, wall_unix_ms)));
        Some(Doubt { message })
    }

    fn believe(&mut self, now: Tick, wall_unix_ms: u64) {
        self.believed = Some((Some(now), wall_unix_ms));
        self.doubted = None;
    }

    fn message(&self, ahead_ms: u64) -> String {
        let hours = ahead_ms as f64 / 3.6e6;
        let minutes = self.settles.as_secs_f64() / 60.0;
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
            assert!(guard.doubt(at(minute), NOON + minute * 60_000).is_none());
        }
    }

    #[test]
    fn a_clock_that_is_years_ahead_for_a_moment_is_doubted_and_said_once() {
        let (mut guard, at) = guard(Some(NOON));
        assert!(guard.doubt(at(0), NOON).is_none());
        let ahead = NOON + 3_650 * DAY_MS;
        assert!(guard.doubt(at(1), ahead + 60_000).expect("doubted").message.is_some());
        assert!(guard.doubt(at(2), ahead + 120_000).expect("doubted").message.is_none());
        assert!(guard.doubt(at(3), NOON + 180_000).is_none(), "right again");
        assert!(guard.doubt(at(4), ahead + 240_000).is_some(), "the hour begins anew");
    }

    #[test]
    fn a_clock_that_keeps_to_its_new_time_for_an_hour_is_believed() {
        let (mut guard, at) = guard(Some(NOON));
        let later = |minute: u64| NOON + 30 * DAY_MS + minute * 60_000;
        for minute in 0..60 {
            assert!(guard.doubt(at(minute), later(minute)).is_some(), "minute {minute}");
        }
        assert!(guard.doubt(at(60), later(60)).is_none());
    }

    #[test]
    fn a_clock_that_keeps_jumping_is_never_believed() {
        let (mut guard, at) = guard(Some(NOON));
        for minute in 0..600 {
            assert!(guard.doubt(at(minute), NOON + (minute + 2) * 2 * DAY_MS).is_some());
        }
    }

    #[test]
    fn a_clock_that_goes_back_is_believed_as_it_removes_less() {
        let (mut guard, at) = guard(Some(NOON));
        assert!(guard.doubt(at(0), NOON - 900 * DAY_MS).is_none());
    }

    #[test]
    fn a_clock_may_be_ahead_by_a_tenth_of_the_retention_and_by_a_day_at_most() {
        for (retention_hours, hours) in [(10, 1), (90 * 24, 24)] {
            let said = |ahead_ms: u64| {
                let retention = Span::from_secs(retention_hours * 3_600);
                let mut guard = ClockGuard::new(Some(NOON), retention, Span::from_secs(7_200));
                let doubt = guard.doubt(Tick::ZERO, NOON + ahead_ms);
                doubt.map(|doubt| doubt.message.expect("it begins"))
            };
            let most = hours * 3_600_000;
            assert_eq!(said(most), None);
            let said = said(most + 1).expect("a millisecond more");
            assert!(said.contains(&format!("{hours}.0 hours ahead")) && said.contains("for 120 minutes"), "{said}");
        }
    }

    #[test]
    fn a_clock_in_doubt_has_kept_to_its_time_if_it_strays_no_further_than_that() {
        let (mut guard, at) = guard(Some(NOON));
        let ahead = NOON + 30 * DAY_MS;
        let mut is_said = |minute, wall| guard.doubt(at(minute), wall).expect("doubted").message.is_some();
        assert!(is_said(0, ahead));
        assert!(!is_said(1, ahead + 60_000 + DAY_MS));
        assert!(is_said(2, ahead + 120_000 + DAY_MS + 1));
    }

    #[test]
    fn a_new_log_has_nothing_to_doubt_by() {
        let (mut guard, at) = guard(None);
        assert!(guard.doubt(at(0), NOON).is_none());
        assert!(guard.doubt(at(1), NOON + 2 * DAY_MS).is_some());
    }
}
