//! The cost limit of a run, shared by its workers and targets.
//!
//! Invariant: reservations and the record bill a request by the same rule, [`Billed`].

use crate::plan::{Budget, Reservation, Worst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokrate_core::Money;
use tokrate_meter::RequestTrace;
use tokrate_record::{Billed, TargetPrice};
use tokrate_tokens::{Encoding, count};

/// The budget of a run, at the prices of one target.
#[derive(Clone, Debug)]
pub(crate) struct CostLimit {
    pub budget: Arc<Mutex<Budget>>,
    pub price: TargetPrice,
}

impl CostLimit {
    /// Reserves the worst case of a request; `None` if it exceeds the budget.
    pub(crate) fn reserve(&self, worst: &Worst) -> Option<Reservation> {
        self.budget().reserve(&self.price, worst)
    }

    /// Replaces a reservation by the cost of reported, else of counted tokens, and of what came. What is spent by now.
    pub(crate) fn settle(&self, reservation: Reservation, asked: &Worst, trace: &RequestTrace) -> Money {
        let reported = trace.usage.and_then(|usage| usage.output);
        let counted = if reported.is_none() { count(Encoding::O200kBase, &trace.text) as u64 } else { 0 };
        let billed = Billed::of_trace(trace, asked.input_tokens, counted, asked.media);
        let mut budget = self.budget();
        budget.settle(&self.price, reservation, asked, &billed);
        budget.spent()
    }

    /// Whether a request did not fit.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.budget().is_exhausted()
    }

    fn budget(&self) -> MutexGuard<'_, Budget> {
        // A worker that panicked has ended the run anyway.
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
