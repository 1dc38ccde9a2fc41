//! Who chooses a lane: the router, and others to hold it against.

use tokrate_route::Policy;

/// Who chooses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum CacheSelector {
    /// The router, by a policy, from what a gateway sees.
    Router(Policy),
    /// The lane of the session, drawn at its beginning.
    Sticky,
    /// New prefill tokens times batch (arXiv 2603.15202).
    Lmetric {
        /// Whether the engines tell what they hold and do; else it is what a gateway sees.
        told: bool,
        /// Whether the new tokens of prompts that wait count with those of the call.
        with_queue: bool,
    },
    /// Reads every engine's queue and cache, knows its law, and takes the earliest first token.
    Oracle,
}

impl CacheSelector {
    /// Whether the router is told which blocks a prompt has.
    pub(super) fn needs_blocks(self) -> bool {
        matches!(self, CacheSelector::Router(Policy::Cache) | CacheSelector::Lmetric { told: false, .. })
    }
}
