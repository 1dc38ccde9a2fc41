//! How the engine is served.

use crate::fallback::FallbackConfig;
use std::net::SocketAddr;
use tokrate_core::Span;
use tokrate_net::server::ApiKey;

/// What is answered when an edit is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnRefuse {
    /// An error with status 422.
    #[default]
    Error,
    /// The file as it was, and headers that say so.
    Original,
}

impl OnRefuse {
    /// Every value.
    pub const ALL: [OnRefuse; 2] = [OnRefuse::Error, OnRefuse::Original];

    /// The name used in flags and requests.
    pub const fn name(self) -> &'static str {
        match self {
            OnRefuse::Error => "error",
            OnRefuse::Original => "original",
        }
    }

    /// The value of such a name.
    pub fn from_name(name: &str) -> Option<OnRefuse> {
        OnRefuse::ALL.into_iter().find(|value| value.name() == name)
    }
}

/// A server's settings.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Where to listen; port 0 takes any free one.
    pub address: SocketAddr,
    /// Names under which it may be asked, beside the address that it listens on and `localhost`.
    pub hosts: Vec<String>,
    /// Key to demand; elsewhere than on loopback there must be one.
    pub api_key: Option<ApiKey>,
    /// What is answered to a refused edit unless the request says something else.
    pub on_refuse: OnRefuse,
    /// Largest body of a request.
    pub max_body_bytes: usize,
    /// Bodies of all open requests together; beyond it requests are turned away.
    pub held_bytes_most: usize,
    /// Time for a request's body to come in.
    pub body_timeout: Span,
    /// Threads that merge.
    pub threads: usize,
    /// Time for open requests after the end was asked for.
    pub drain: Span,
    /// Leave syntax trees alone.
    pub without_tree: bool,
    /// A model that is asked when the engine refuses.
    pub fallback: Option<FallbackConfig>,
}

impl HostConfig {
    /// The usual settings at an address.
    pub fn new(address: SocketAddr) -> HostConfig {
        let max_body_bytes = 32 << 20;
        HostConfig {
            address,
            hosts: Vec::new(),
            api_key: None,
            on_refuse: OnRefuse::default(),
            max_body_bytes,
            held_bytes_most: 8 * max_body_bytes,
            body_timeout: Span::from_secs(60),
            threads: std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2)),
            drain: Span::from_secs(10),
            without_tree: false,
            fallback: None,
        }
    }
}
