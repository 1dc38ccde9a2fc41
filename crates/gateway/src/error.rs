//! Errors of starting or reconfiguring a gateway.
//!
//! Invariant: no message holds a key.

use std::net::SocketAddr;
use tokrate_core::Span;
use tokrate_net::NetError;
use tokrate_store::StoreError;

/// Why a gateway could not be started or reconfigured.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// No lane is configured.
    #[error("start a gateway without lanes; name at least one under [gateway.lanes]")]
    NoLanes,
    /// A name is used twice.
    #[error("start with two {what} named `{name}`; give one of them another name")]
    DuplicateName {
        /// Lanes, aliases or keys.
        what: &'static str,
        /// The repeated name.
        name: String,
    },
    /// A name that the log could not hold.
    #[error("accept the {what} name `{name}`: names have at most {max_bytes} bytes and no control characters")]
    InvalidName {
        /// Of a lane, a provider, a model, an alias or a key.
        what: &'static str,
        /// How the name begins.
        name: String,
        /// Longest name (bytes).
        max_bytes: usize,
    },
    /// A lane without an endpoint.
    #[error("use lane `{0}`: it has no endpoint")]
    NoEndpoint(String),
    /// A lane that is needed now has a host without an address.
    #[error("connect to lane `{lane}`: {reason}")]
    NoAddress {
        /// Name of the lane.
        lane: String,
        /// What the resolver reported.
        reason: String,
    },
    /// An alias without lanes.
    #[error("use alias `{0}`: it names no lane")]
    EmptyAlias(String),
    /// Anyone who reaches the address could call.
    #[error(
        "listen on {0} without a key: anyone who reaches it could call at your expense; add a key under [gateway.keys] or listen on 127.0.0.1"
    )]
    Public(SocketAddr),
    /// A monthly budget that a restart would forget.
    #[error(
        "enforce `usd_per_month` of key `{0}`: without a log a restart forgets what was spent; remove `log = \"off\"` under \
         [gateway], or `usd_per_month`"
    )]
    BudgetWithoutLog(String),
    /// A monthly budget that log retention would forget within the month.
    #[error(
        "enforce `usd_per_month` of key `{key}`: the log keeps rows for {retention} only, and a month has up to 744h; raise \
         `log_retention` under [gateway]"
    )]
    BudgetRetention {
        /// Name of the key.
        key: String,
        /// How long rows are kept.
        retention: Span,
    },
    /// Anyone who reaches the address could read the admin side.
    #[error(
        "serve the admin side on {0} without a key: anyone who reaches it could read it; set `admin_key_env`, `admin_key_file` or \
         `admin_key_cmd` under [gateway], or listen on 127.0.0.1"
    )]
    PublicAdmin(SocketAddr),
    /// A reload that would begin or end TLS.
    #[error(
        "begin or end TLS while it runs: the addresses stay as they were started; end the gateway and start it anew"
    )]
    TlsStays,
    /// No file descriptor, address or runtime.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The log cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A thread or runtime could not be created.
    #[error("start a thread of the gateway: {0}")]
    Thread(std::io::Error),
    /// A worker thread exited before it listened.
    #[error("start the gateway: a worker thread exited before it listened")]
    ThreadExited,
}
