//! Settings of the apply server.

use crate::fallback::FallbackConfig;
use std::net::SocketAddr;
use tokrate_core::Span;
use tokrate_net::server::ApiKey;

/// Response to a refused edit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnRefuse {
    /// An error with status 422.
    #[default]
    Error,
    /// The original file, with headers that say so.
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
    /// Allowed host names besides its address and `localhost`.
    pub hosts: Vec<String>,
    /// Required key; mandatory unless it listens on loopback.
    pub api_key: Option<ApiKey>,
    /// Default response to a refused edit.
    pub on_refuse: OnRefuse,
    /// Largest body of a request.
    pub max_body_bytes: usize,
    /// Most bytes of all request bodies together; beyond it requests are rejected.
    pub max_buffered_bytes: usize,
    /// Time to receive a request's body.
    pub body_timeout: Span,
    /// Threads that merge.
    pub threads: usize,
    /// Time for open requests at shutdown.
    pub drain: Span,
    /// Do not use syntax trees.
    pub without_tree: bool,
    /// A model that is asked when the engine refuses.
    pub fallback: Option<FallbackConfig>,
}

impl HostConfig {
    /// Default settings at an address.
    pub fn new(address: SocketAddr) -> HostConfig {
        let max_body_bytes = 32 << 20;
        HostConfig {
            address,
            hosts: Vec::new(),
            api_key: None,
            on_refuse: OnRefuse::default(),
            max_body_bytes,
            max_buffered_bytes: 8 * max_body_bytes,
            body_timeout: Span::from_secs(60),
            threads: std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2)),
            drain: Span::from_secs(10),
            without_tree: false,
            fallback: None,
        }
    }
}
