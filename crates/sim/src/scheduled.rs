//! A scheduler as inference engines have it, in place of a law.
//!
//! Invariant: engines of one persona begin with the same idle scheduler.

use std::fmt;
use std::sync::Arc;
use tokrate_core::Span;
use tokrate_engine::{ArgsError, Cluster, Engine, EngineArgs, SharedTime, Work};

/// An idle scheduler with its step times.
#[derive(Clone)]
pub struct Scheduled(Arc<Cluster<SharedTime>>);

impl Scheduled {
    /// Engines begin with this one.
    pub fn new(idle: Cluster<SharedTime>) -> Scheduled {
        Scheduled(Arc::new(idle))
    }

    /// One whose steps take as long whatever is in them, and that runs so many requests at once: of known truth, to measure hosts and clients with.
    ///
    /// # Errors
    /// No request at all.
    pub fn even(step: Span, most: u32) -> Result<Scheduled, ArgsError> {
        let args = EngineArgs { max_num_seqs: most, num_blocks: most.saturating_mul(64), ..EngineArgs::default() };
        let engine = Engine::new(args, SharedTime::new(move |_: &Work| step))?;
        Ok(Scheduled::new(Cluster::new(vec![engine])?))
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
