//! The cost limit of a run, shared by its workers and targets, and whether anything can be sent within it.
//!
//! Invariant: reservations and the record bill a request by the same rule, [`Billed`].

use crate::bodies::Bodies;
use crate::plan::{Budget, Load, Reservation, Worst};
use crate::{BenchError, Config};
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

/// Refuses a limit below what the first request of a target may cost: nothing could be sent within it.
///
/// # Errors
/// Both amounts, and which model is asked.
pub fn check_cost_limit(configs: &[Config]) -> Result<(), BenchError> {
    let Some(limit) = configs.iter().filter_map(|config| config.max_cost_usd).reduce(f64::min) else { return Ok(()) };
    let budget = Budget::new(limit);
    for config in configs {
        let Some((remote, spec)) = config.target.remote().zip(config.phases.first()) else { continue };
        let Some(price) = &remote.price else { continue };
        let bodies = Bodies::of(config, spec, remote.dialect, &remote.model);
        let turn = matches!(spec.load, Load::Sessions { .. } | Load::Agents { .. }).then_some(0);
        let request = budget.cost_at_most(price, &bodies.worst(0, turn)).as_usd();
        if request > budget.limit_usd() {
            return Err(BenchError::CostLimit { limit, request, model: remote.model.clone() });
        }
    }
    Ok(())
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
