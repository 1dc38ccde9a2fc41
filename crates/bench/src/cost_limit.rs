//! The cost limit of a run, shared by its workers and targets.
//!
//! Invariant: reservations and the record bill a request by the same rule, [`Billed`].

use crate::plan::{Budget, Reservation};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokrate_core::{Money, Price};
use tokrate_meter::RequestTrace;
use tokrate_record::Billed;
use tokrate_tokens::{Encoding, count};

/// The budget of a run, at the prices of one target.
#[derive(Clone, Debug)]
pub(crate) struct CostLimit {
    pub budget: Arc<Mutex<Budget>>,
    pub price: Price,
}

impl CostLimit {
    /// Reserves the worst case of a request; `None` if it exceeds the budget.
    pub(crate) fn reserve(&self, input_tokens: u64, output_tokens: u64) -> Option<Reservation> {
        self.budget().reserve(&self.price, input_tokens, output_tokens)
    }

    /// Replaces a reservation by the cost of reported, else of counted tokens. `asked` is the length of the prompt. What is spent by now.
    pub(crate) fn settle(&self, reservation: Reservation, asked: u64, trace: &RequestTrace) -> Money {
        let reported = trace.usage.and_then(|usage| usage.output);
        let counted = if reported.is_none() { count(Encoding::O200kBase, &trace.text) as u64 } else { 0 };
        let billed = Billed::of_trace(trace, asked, counted);
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
