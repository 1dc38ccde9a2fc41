//! A scheduler as inference engines have it, in place of a law.
//!
//! Invariant: engines of one persona begin with the same idle scheduler.

use std::fmt;
use std::sync::Arc;
use tokrate_engine::{Cluster, SharedTime};

/// An idle scheduler with its step times.
#[derive(Clone)]
pub struct Scheduled(Arc<Cluster<SharedTime>>);

impl Scheduled {
    /// Engines begin with this one.
    pub fn new(idle: Cluster<SharedTime>) -> Scheduled {
        Scheduled(Arc::new(idle))
    }

    pub(crate) fn start(&self) -> Cluster<SharedTime> {
        Cluster::clone(&self.0)
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Scheduled) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Scheduled {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Scheduled")
    }
}
