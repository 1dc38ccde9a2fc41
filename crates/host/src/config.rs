//! What a host is told to do, as plain values.
//!
//! It refuses to know flags, files and the environment. Invariant: a key is never printed.

use crate::truth::TruthLog;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use tokrate_core::Span;
use tokrate_sim::{Faults, Law};

/// Settings of a host.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Where to listen; port 0 takes any free one.
    pub address: SocketAddr,
    /// The engine's law.
    pub law: Law,
    /// The engine's faults. A request can replace them with headers `x-tokrate-fault: stall@5`.
    pub faults: Faults,
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Model name that answers carry.
    pub model: String,
    /// Whether requests for another model are answered with 404; else any name is taken.
    pub only_model: bool,
    /// Key to demand as `Authorization: Bearer …`.
    pub api_key: Option<ApiKey>,
    /// Where the truth log goes.
    pub truth: TruthLog,
    /// Requests open at once; one more is answered with 503. Connections have no limit but that of open files.
    pub requests_most: usize,
    /// Largest request body, in bytes; a larger one is answered with 413.
    pub request_bytes_most: usize,
    /// How long open requests may go on when the host is stopped.
    pub drain: Span,
}

impl Default for HostConfig {
    /// The default engine on any free port of loopback, without faults, key or log.
    fn default() -> HostConfig {
        HostConfig {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            law: Law::default(),
            faults: Faults::default(),
            seed: 0,
            model: "sim".to_owned(),
            only_model: false,
            api_key: None,
            truth: TruthLog::Off,
            requests_most: 20_000,
            request_bytes_most: 32 << 20,
            drain: Span::from_secs(1),
        }
    }
}

/// A key that clients must show. Prints as `***`.
#[derive(Clone)]
pub struct ApiKey(String);

impl ApiKey {
    /// A key from its text.
    pub fn new(key: String) -> ApiKey {
        ApiKey(key)
    }

    /// Whether the value of an `Authorization` header shows this key. Takes the same time for every key of a length.
    pub(crate) fn is_shown_by(&self, authorization: &[u8]) -> bool {
        let Some(shown) = authorization.strip_prefix(b"Bearer ") else { return false };
        let differing = shown.iter().zip(self.0.as_bytes()).fold(0, |bits, (a, b)| bits | (a ^ b));
        shown.len() == self.0.len() && differing == 0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_recognised_and_never_printed() {
        let key = ApiKey::new("abc".to_owned());
        assert!(key.is_shown_by(b"Bearer abc"));
        for wrong in ["Bearer abd", "Bearer ab", "Bearer abcd", "abc", "Bearer ", ""] {
            assert!(!key.is_shown_by(wrong.as_bytes()), "{wrong}");
        }
        assert_eq!(format!("{key:?}"), "***");
    }
}
