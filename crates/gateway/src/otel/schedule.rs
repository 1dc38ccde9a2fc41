//! When the next export is due.
//!
//! It refuses to know clocks and sockets. Invariant: after a success exports keep their distance from the first; a collector
//! that wants to be left alone is, and one that does not answer is asked ever less often, down to once in the interval.

use super::response::ExportOutcome;
use tokrate_core::{Span, Tick};

/// The first wait after a failure that does not say how long to wait.
const WAIT_LEAST: Span = Span::from_secs(5);
/// No collector is left alone for longer.
const MAX_WAIT: Span = Span::from_secs(3_600);

/// The plan of exports.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    interval: Span,
    /// When the next of the regular ones is due.
    regular: Tick,
    next: Tick,
    /// Failures since the last success that did not say how long to wait.
    failures: u32,
}

impl Schedule {
    /// The first is due an interval from now.
    pub fn new(now: Tick, interval: Span) -> Schedule {
        let interval = interval.max(Span::from_millis(1));
        let regular = now + interval;
        Schedule { interval, regular, next: regular, failures: 0 }
    }

    /// When the next is due.
    pub fn next(&self) -> Tick {
        self.next
    }

    /// An export has ended.
    pub fn ended(&mut self, now: Tick, outcome: &ExportOutcome) {
        while self.regular <= now {
            self.regular += self.interval;
        }
        self.next = match outcome {
            ExportOutcome::Accepted | ExportOutcome::PartiallyAccepted(_) => {
                self.failures = 0;
                self.regular
            }
            // As it is, it would be refused again; when the next is due it may be another collector.
            ExportOutcome::Rejected(_) => self.regular,
            ExportOutcome::Retry(Some(wait), _) => now + (*wait).min(MAX_WAIT),
            ExportOutcome::Retry(None, _) => {
                let wait = Span::from_nanos(WAIT_LEAST.as_nanos() << self.failures.min(16));
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
    fn exports_keep_their_distance_and_those_that_were_missed_are_left_out() {
        let mut schedule = Schedule::new(Tick::ZERO, Span::from_secs(60));
        let mut due = vec![seconds(schedule.next())];
        for took in [1, 0, 61, 120] {
            let ended = schedule.next() + Span::from_secs(took);
            schedule.ended(ended, &ExportOutcome::Accepted);
            due.push(seconds(schedule.next()));
        }
        assert_eq!(due, [60.0, 120.0, 180.0, 300.0, 480.0]);
    }

    #[test]
    fn a_wait_that_was_asked_for_is_kept_whether_short_or_long() {
        let mut schedule = Schedule::new(Tick::ZERO, Span::from_secs(60));
        let at = Tick::ZERO + Span::from_secs(60);
        schedule.ended(at, &later(Some(Span::from_secs(2))));
        assert_eq!(seconds(schedule.next()), 62.0);
        schedule.ended(at + Span::from_secs(2), &later(Some(Span::from_secs(300))));
        assert_eq!(seconds(schedule.next()), 362.0);
        schedule.ended(schedule.next(), &later(Some(Span::from_secs(1_000_000))));
        assert_eq!(seconds(schedule.next()), 362.0 + 3_600.0, "no collector silences the gateway for good");
        schedule.ended(schedule.next(), &ExportOutcome::Accepted);
        assert_eq!(seconds(schedule.next()), 4_020.0, "then as before");
    }

    #[test]
    fn without_an_answer_waits_double_up_to_the_interval_and_begin_anew_after_a_success() {
        let mut schedule = Schedule::new(Tick::ZERO, Span::from_secs(60));
        let mut now = schedule.next();
        let mut waits = Vec::new();
        for _ in 0..6 {
            schedule.ended(now, &later(None));
            waits.push((schedule.next() - now).as_secs_f64());
            now = schedule.next();
        }
        assert_eq!(waits, [5.0, 10.0, 20.0, 40.0, 60.0, 60.0]);
        schedule.ended(now, &ExportOutcome::Accepted);
        schedule.ended(now, &later(None));
        assert_eq!((schedule.next() - now).as_secs_f64(), 5.0);
    }
}
