//! Carries out what `route` decides: which lanes are tried, when, and which attempt wins.

pub(crate) mod call;
mod check;
pub(crate) mod compare;
pub(crate) mod drain;
pub(crate) mod eligible;
pub(crate) mod follow_up;
pub(crate) mod probe;
mod refusal;
pub(crate) mod start;
pub(crate) mod warm;
pub(crate) mod worker;
