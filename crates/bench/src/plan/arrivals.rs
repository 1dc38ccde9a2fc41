//! Arrival schedule of an open loop: constant rates, ramps, traces.
//!
//! Invariant: due times depend on start, shape and seed only.

use super::load::{Arrivals, Load};
use super::ramp::Ramp;
use std::sync::Arc;
use tokrate_core::{Rng, Span, Tick};

/// The due ticks of one share, one after the other.
#[derive(Debug)]
pub(super) struct Schedule {
    start: Tick,
    source: Source,
    rng: Rng,
    /// The next arrival.
    next_due: Option<Tick>,
}

#[derive(Debug)]
enum Source {
    Rate {
        mean_gap: Span,
        arrivals: Arrivals,
    },
    Ramp {
        ramp: Ramp,
        arrivals: Arrivals,
        /// Gaps of mean 1 so far.
        passed: f64,
    },
    Trace {
        due: Arc<[Span]>,
        next: usize,
    },
}

impl Schedule {
    /// The schedule of an open load; `None` for a closed one.
    pub(super) fn of(load: &Load, start: Tick, rng: Rng) -> Option<Schedule> {
        let (source, next_due) = match load {
            Load::Open { rate, arrivals, .. } => {
                let mean_gap = rate.interval().unwrap_or(Span::MAX);
                (Source::Rate { mean_gap, arrivals: *arrivals }, Some(start))
            }
            Load::OpenRamp { ramp, arrivals, .. } => {
                (Source::Ramp { ramp: *ramp, arrivals: *arrivals, passed: 0.0 }, Some(start))
            }
            Load::Trace { due, .. } => {
                (Source::Trace { due: Arc::clone(due), next: 0 }, due.first().map(|&due| start + due))
            }
            Load::Closed { .. }
            | Load::Batched { .. }
            | Load::ClosedRamp { .. }
            | Load::Sessions { .. }
            | Load::Agents { .. } => return None,
        };
        Some(Schedule { start, source, rng, next_due })
    }

    /// When the next arrival is due; `None` after the last.
    pub(super) fn next_due(&self) -> Option<Tick> {
        self.next_due
    }

    /// Moves on by `n` arrivals.
    pub(super) fn skip(&mut self, n: u64) {
        for _ in 0..n {
            let Some(due) = self.next_due else { return };
            self.next_due = match &mut self.source {
                Source::Rate { mean_gap, arrivals } => Some(due + arrivals.gap(*mean_gap, &mut self.rng)),
                Source::Ramp { ramp, arrivals, passed } => {
                    *passed += arrivals.unit_gap(&mut self.rng);
                    ramp.due(*passed).map(|due| self.start + due)
                }
                Source::Trace { due, next } => {
                    *next += 1;
                    due.get(*next).map(|&due| self.start + due)
                }
            };
        }
    }
}
