//! Whether a call may be made: keys, their limits and budgets, and the capacity of the gateway.

pub(crate) mod budgets;
pub(crate) mod calendar;
pub(crate) mod credentials;
pub(crate) mod estimate;
pub(crate) mod open_call;
pub(crate) mod reservation;
