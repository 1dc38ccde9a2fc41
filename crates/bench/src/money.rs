//! What the requests of a run cost, shared by its workers and targets.
//!
//! It refuses to know plans. Invariant: what a request is taken to cost while it runs and what the record says of it follow
//! one rule, [`Billed`].

use crate::plan::{Budget, Claim};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokrate_meter::{Billed, Price, RequestTrace};
use tokrate_tokens::{Encoding, count};

/// The budget of a run, at the prices of one target.
#[derive(Clone, Debug)]
pub(crate) struct Money {
    pub budget: Arc<Mutex<Budget>>,
    pub price: Price,
}

impl Money {
    /// Claims the worst case of a request; `None` if it does not fit.
    pub(crate) fn claim(&self, input_tokens: u64, output_tokens: u64) -> Option<Claim> {
        self.budget().claim(&self.price, input_tokens, output_tokens)
    }

    /// Settles a claim with what was reported, else with what was counted. `asked` is the length of the prompt.
    pub(crate) fn settle(&self, claim: Claim, asked: u64, trace: &RequestTrace) {
        let reported = trace.usage.and_then(|usage| usage.output);
        let counted = if reported.is_none() { count(Encoding::O200kBase, &trace.text) as u64 } else { 0 };
        let billed = Billed::of_trace(trace, asked, counted);
        self.budget().settle(&self.price, claim, asked, &billed);
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
