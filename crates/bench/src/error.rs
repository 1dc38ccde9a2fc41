//! Errors that prevent a run. Failures of single requests are data, not errors.

/// Reasons for which there is no record. Messages fit behind "failed to".
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A client thread, its runtime or its timer could not be set up.
    #[error("start a client thread; check the limits on threads and open files (ulimit -u, ulimit -n)")]
    Worker(#[source] std::io::Error),
    /// The endpoint could not be made ready.
    #[error(transparent)]
    Net(#[from] tokrate_net::NetError),
    /// The embedded engine could not be started.
    #[error("start the embedded engine")]
    Host(#[from] tokrate_host::HostError),
    /// Nothing to run.
    #[error("start the run: no load level was given; name at least one with --concurrency or --rate")]
    NoPhases,
}
