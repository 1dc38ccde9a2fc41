//! The state of a running gateway as plain values, for its admin side and for exporters.

pub(crate) mod aliases;
pub(crate) mod metrics;
pub(crate) mod snapshot;
