//! What an attempt cost, and how that is known.

use tokrate_core::Money;
use tokrate_record::CostBasis;

/// What an attempt cost, and how that is known.
#[derive(Clone, Copy)]
pub(crate) struct AttemptCost {
    /// `None` without a price.
    pub amount: Option<Money>,
    pub basis: CostBasis,
}
