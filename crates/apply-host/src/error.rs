//! Errors of starting the apply server.

/// Messages fit behind "failed to".
#[derive(Debug, thiserror::Error)]
pub enum ApplyHostError {
    /// No listening socket, or an endpoint that cannot be used.
    #[error(transparent)]
    Net(#[from] tokrate_net::NetError),
    /// No runtime.
    #[error("start the server: {0}; check the limits on threads and open files (ulimit -u, ulimit -n)")]
    Runtime(#[source] std::io::Error),
}
