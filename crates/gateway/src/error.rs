//! Why a gateway could not be started or told anew.
//!
//! It refuses to know calls: what goes wrong with those is told to their clients. Invariant: no message holds a key.

use std::net::SocketAddr;
use tokrate_core::Span;
use tokrate_net::NetError;
use tokrate_store::StoreError;

/// Why a gateway could not be started, or a new configuration not be taken over.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// It has nobody to ask.
    #[error("start a gateway without lanes; name at least one under [gateway.lanes]")]
    NoLanes,
    /// Two have one name.
    #[error("tell two {what} named `{name}` apart; give one of them another name")]
    SameName {
        /// Lanes, aliases or keys.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The log could not hold it as it is.
    #[error("use the {what} name `{name}`: names have at most {most} bytes and no control characters")]
    UnfitName {
        /// Of a lane, a provider, a model, an alias or a key.
        what: &'static str,
        /// Its beginning.
        name: String,
        /// Bytes.
        most: usize,
    },
    /// A lane cannot be spoken with.
    #[error("use lane `{0}`: it has no endpoint")]
    NoEndpoint(String),
    /// A host of a lane that must be asked now has no address.
    #[error("ask lane `{lane}`: {reason}")]
    NoAddress {
        /// The lane's name.
        lane: String,
        /// What the resolver says.
        reason: String,
    },
    /// An alias leads nowhere.
    #[error("use alias `{0}`: it names no lane")]
    NoLane(String),
    /// Everybody could ask.
    #[error(
        "listen on {0} without a key: others could ask at your cost; add a key under [gateway.keys] or listen on 127.0.0.1"
    )]
    Open(SocketAddr),
    /// What a key has spent would be forgotten.
    #[error(
        "keep the limit in dollars of key `{0}`: without a log a restart forgets what it has spent; leave out `log = \"off\"` under \
         [gateway], or `usd_per_month`"
    )]
    BudgetWithoutLog(String),
    /// What a key has spent would be forgotten within the month.
    #[error(
        "keep the limit in dollars of key `{key}`: rows of the log are kept for {retention} only, and a month has up to 744h; raise \
         `log_retention` under [gateway]"
    )]
    BudgetForgotten {
        /// The key's name.
        key: String,
        /// How long rows are kept.
        retention: Span,
    },
    /// Everybody could look at it.
    #[error(
        "show the admin side on {0} without a key: others could read it; name one as `admin_key_env`, `admin_key_file` or \
         `admin_key_cmd` under [gateway], or listen on 127.0.0.1"
    )]
    OpenAdmin(SocketAddr),
    /// No descriptor, address or runtime.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The log cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No thread or runtime.
    #[error("start a thread of the gateway: {0}")]
    Thread(std::io::Error),
    /// A thread ended before it listened.
    #[error("start the gateway: a thread of it ended at once")]
    Gone,
}
