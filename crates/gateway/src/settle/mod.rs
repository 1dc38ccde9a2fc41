//! What remains when an attempt has ended: its cost, its row in the log, what router and budgets learn, the statistics.

pub(crate) mod account;
pub(crate) mod attempt_cost;
mod cost;
pub(crate) mod row;
pub(crate) mod session;
pub(crate) mod stats;
