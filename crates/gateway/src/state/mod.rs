//! What all threads share: the plan in force, the health of lanes, counters.

pub(crate) mod jobs;
pub(crate) mod lane_health;
pub(crate) mod lock;
pub(crate) mod look_ups;
pub(crate) mod plan;
pub(crate) mod shared;
