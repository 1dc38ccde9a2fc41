//! When the next export is due.
//!
//! Invariant: after a success exports stay on the grid of their interval; a collector that asks for a pause gets it,
//! and one that does not respond is retried with exponential backoff up to the interval.

use super::response::ExportOutcome;
use tokrate_core::{Span, Tick};

/// The first wait after a failure without `Retry-After`.
const MIN_WAIT: Span = Span::from_secs(5);
/// The longest wait that a collector can ask for.
const MAX_WAIT: Span = Span::from_secs(3_600);

/// The schedule of exports.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    interval: Span,
    /// When the next regular export is due.
    regular: Tick,
    next_at: Tick,
    /// Failures without `Retry-After` since the last success.
    failures: u32,
}

impl Schedule {
    /// The first export is due one interval from now.
    pub fn new(now: Tick, interval: Span) -> Schedule {
        let interval = interval.max(Span::from_millis(1));
        let regular = now + interval;
        Schedule { interval, regular, next_at: regular, failures: 0 }
    }

    /// When the next export is due.
    pub fn next_at(&self) -> Tick {
        self.next_at
    }

    /// Records the outcome of an export.
    pub fn record(&mut self, now: Tick, outcome: &ExportOutcome) {
        while self.regular <= now {
            self.regular += self.interval;
        }
        self.next_at = match outcome {
            ExportOutcome::Accepted | ExportOutcome::PartiallyAccepted(_) => {
                self.failures = 0;
                self.regular
            }
            // The same export would be rejected again, but the collector may have changed by the next.
            ExportOutcome::Rejected(_) => self.regular,
            ExportOutcome::Retry(Some(wait), _) => now + (*wait).min(MAX_WAIT),
            ExportOutcome::Retry(None, _) => {
                let wait = Span::from_nanos(MIN_WAIT.as_nanos() << self.failures.min(16));
                self.failures += 1;
                now + wait.min(self.interval)
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::response::ExportError;
    use super::*;

    fn later(wait: Option<Span>) -> ExportOutcome {
        ExportOutcome::Retry(wait, ExportError { kind: String::new(), message: String::new() })
    }

    fn seconds(tick: Tick) -> f64 {
        (tick - Tick::ZERO).as_secs_f64()
    }

    #[test]
    fn exports_stay_on_the_grid_and_missed_ones_are_skipped() {
        let mut schedule = Schedule::new(Tick::ZERO, Span::from_secs(60));
        let mut due = vec![seconds(schedule.next_at())];
        for took in [1, 0, 61, 120] {
            let record = schedule.next_at() + Span::from_secs(took);
            schedule.record(record, &ExportOutcome::Accepted);
            due.push(seconds(schedule.next_at()));
        }
        assert_eq!(due, [60.0, 120.0, 180.0, 300.0, 480.0]);
    }

    #[test]
    fn a_requested_pause_is_kept_whether_short_or_long() {
        let mut schedule = Schedule::new(Tick::ZERO, Span::from_secs(60));
        let at = Tick::ZERO + Span::from_secs(60);
        schedule.record(at, &later(Some(Span::from_secs(2))));
        assert_eq!(seconds(schedule.next_at()), 62.0);
        schedule.record(at + Span::from_secs(2), &later(Some(Span::from_secs(300))));
        assert_eq!(seconds(schedule.next_at()), 362.0);
        schedule.record(schedule.next_at(), &later(Some(Span::from_secs(1_000_000))));
        assert_eq!(seconds(schedule.next_at()), 362.0 + 3_600.0, "no collector silences the gateway for good");
        schedule.record(schedule.next_at(), &ExportOutcome::Accepted);
        assert_eq!(seconds(schedule.next_at()), 4_020.0, "then as before");
    }

    #[test]
    fn without_a_response_waits_double_up_to_the_interval_until_a_success() {
        let mut schedule = Schedule::new(Tick::ZERO, Span::from_secs(60));
        let mut now = schedule.next_at();
        let mut waits = Vec::new();
        for _ in 0..6 {
            schedule.record(now, &later(None));
            waits.push((schedule.next_at() - now).as_secs_f64());
            now = schedule.next_at();
        }
        assert_eq!(waits, [5.0, 10.0, 20.0, 40.0, 60.0, 60.0]);
        schedule.record(now, &ExportOutcome::Accepted);
        schedule.record(now, &later(None));
        assert_eq!((schedule.next_at() - now).as_secs_f64(), 5.0);
    }
}
