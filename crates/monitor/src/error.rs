//! Why a monitor cannot run. Invariant: every message fits behind "failed to".

use tokrate_host::HostError;
use tokrate_net::NetError;
use tokrate_prober::ConfigError;
use tokrate_store::StoreError;

/// Why a monitor cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// Settings of which no schedule can be made.
    #[error("make a schedule of [monitor]: {0}")]
    Schedule(#[from] ConfigError),
    /// The database cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An address cannot be used.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The reference cannot be started.
    #[error("start the reference engine on loopback: {0}")]
    Reference(HostError),
    /// A thread or a runtime cannot be started.
    #[error("start the monitor: {0}")]
    Start(String),
    /// A simulated provider is invalid.
    #[error("make the simulated fleet: {0}")]
    Fleet(String),
}
