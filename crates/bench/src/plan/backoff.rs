//! Backoff after 429 responses.
//!
//! Invariant: `Retry-After` is honoured in full; without it waits double from 1 s to 60 s and reset after an answer.

use std::collections::BTreeMap;
use tokrate_core::{FailureKind, Span, Tick};

/// First wait without `Retry-After`.
const FIRST_WAIT: Span = Span::from_secs(1);
/// Longest wait without `Retry-After`; 60 s is a common rate-limit window.
const MAX_WAIT: Span = Span::from_secs(60);

/// How a request ended, as far as a plan must know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// With a complete answer.
    Answered,
    /// In any other way.
    Failed,
    /// Refused for the rate.
    RateLimited {
        /// `Retry-After`, if given.
        retry_after: Option<Span>,
    },
}

impl Outcome {
    /// The outcome for a failure, or for none.
    pub fn of(failure: Option<(FailureKind, Option<Span>)>) -> Outcome {
        match failure {
            None => Outcome::Answered,
            Some((FailureKind::RateLimited, retry_after)) => Outcome::RateLimited { retry_after },
            Some(_) => Outcome::Failed,
        }
    }
}

/// A backoff period: from, until.
pub type Wait = (Tick, Tick);

/// Backoff waits, by slot.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Consecutive 429 responses, by slot.
    refusals: BTreeMap<u32, u32>,
    kept: Vec<Wait>,
}

impl Waits {
    /// Records the outcome of a request, and returns how long its slot must wait.
    pub(super) fn after(&mut self, slot: u32, now: Tick, outcome: Outcome) -> Span {
        let Outcome::RateLimited { retry_after } = outcome else {
            if outcome == Outcome::Answered {
                self.refusals.remove(&slot);
            }
            return Span::ZERO;
        };
        let earlier = self.refusals.entry(slot).or_insert(0);
        let doubled = Span::from_nanos(FIRST_WAIT.as_nanos() << (*earlier).min(10)).min(MAX_WAIT);
        *earlier += 1;
        let wait = retry_after.unwrap_or(doubled);
        self.kept.push((now, now + wait));
        wait
    }

    /// Every wait so far.
    pub(super) fn kept(&self) -> &[Wait] {
        &self.kept
    }
}

/// How long a phase was held back until `end`: of a closed loop the mean over its `slots`, of an open one (`None`) the time
/// in which no arrival was sent.
pub fn held_back(waits: &[Wait], slots: Option<u32>, end: Tick) -> Span {
    let inside = waits.iter().map(|&(from, until)| (from, until.min(end))).filter(|(from, until)| from < until);
    match slots {
        Some(slots) => {
            let sum: u128 = inside.map(|(from, until)| u128::from((until - from).as_nanos())).sum();
            Span::from_nanos((sum / u128::from(slots.max(1))).min(u128::from(u64::MAX)) as u64)
        }
        None => {
            let mut inside: Vec<Wait> = inside.collect();
            inside.sort_unstable();
            let (mut total, mut covered) = (Span::ZERO, Tick::ZERO);
            for (from, until) in inside {
                let from = from.max(covered);
                if from < until {
                    total += until - from;
                    covered = until;
                }
            }
            total
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_wait_is_what_was_asked_for_or_doubles() {
        let mut waits = Waits::default();
        let refused = Outcome::RateLimited { retry_after: None };
        let seconds: Vec<f64> = (0..8).map(|_| waits.after(0, at(0), refused).as_secs_f64()).collect();
        assert_eq!(seconds, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]);
        assert_eq!(waits.after(1, at(0), refused), Span::from_secs(1), "each slot by itself");
        let asked = Outcome::RateLimited { retry_after: Some(Span::from_secs(300)) };
        assert_eq!(waits.after(0, at(0), asked), Span::from_secs(300), "kept in full");
        assert_eq!(waits.after(0, at(0), Outcome::Failed), Span::ZERO);
        assert_eq!(waits.after(0, at(0), refused), Span::from_secs(60), "a failure is no answer");
        assert_eq!(waits.after(0, at(0), Outcome::Answered), Span::ZERO);
        assert_eq!(waits.after(0, at(0), refused), Span::from_secs(1), "an answer starts anew");
    }

    #[test]
    fn time_held_back_ends_with_the_phase() {
        let waits = [(at(1), at(3)), (at(2), at(4)), (at(9), at(20))];
        assert_eq!(held_back(&waits, None, at(10)), Span::from_secs(4), "1..4 and 9..10");
        assert_eq!(held_back(&waits, Some(5), at(10)), Span::from_secs(1), "2 + 2 + 1 over five slots");
        assert_eq!(held_back(&[(at(11), at(12))], None, at(10)), Span::ZERO);
    }
}
