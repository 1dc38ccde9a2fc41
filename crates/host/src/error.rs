//! Why a host cannot start.

use std::path::PathBuf;

/// Errors of starting a host. Messages fit behind "failed to".
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// An invalid law or fault.
    #[error(transparent)]
    Law(#[from] tokrate_sim::LawError),
    /// An invalid persona.
    #[error("make the provider `{name}`: {source}")]
    Persona {
        /// Its name.
        name: String,
        /// What is wrong.
        source: tokrate_sim::LawError,
    },
    /// Two providers of one name.
    #[error("start the providers: two of them are called `{0}`; rename one")]
    SameName(String),
    /// A provider without an address.
    #[error("reach the provider `{0}`: it has no address, and neither has the host; give one of them an address")]
    Unreachable(String),
    /// No listening socket.
    #[error(transparent)]
    Net(#[from] tokrate_net::NetError),
    /// No thread, runtime or timer.
    #[error("start the engine's thread: {0}; check the limits on threads and open files (ulimit -u, ulimit -n)")]
    Thread(#[source] std::io::Error),
    /// The truth log cannot be written.
    #[error("write the truth log {}: {source}; choose another file", path.display())]
    TruthLog {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// The thread ended before it listened.
    #[error("start the engine: its thread ended at once; this is a bug, please report it")]
    ThreadExited,
}
