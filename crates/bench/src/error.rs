//! Errors that prevent a run. Failures of single requests are data, not errors.

use tokrate_core::format::usd;

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
    /// No request can be sent within the limit of cost.
    #[error(
        "read --max-cost-usd: {limit} USD is below the estimated cost of one request to {model}, up to {} USD, so nothing was sent; raise the limit, \
         or ask for shorter prompts and answers (--input-tokens, --output-tokens)",
        usd(*.request, 6)
    )]
    CostLimit {
        /// The limit (USD).
        limit: f64,
        /// The most that the first request may cost (USD).
        request: f64,
        /// The model that it asks.
        model: String,
    },
}
