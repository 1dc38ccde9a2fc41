//! TLS towards clients: the certificate that they are shown, and its key. Invariant: the key is never printed.

use std::fmt;
use tokrate_net::{NetError, ServerTls};

/// Certificates and key of the gateway, as PEM.
#[derive(Clone)]
pub struct TlsConfig {
    chain: Vec<u8>,
    key: Vec<u8>,
    /// Whether the admin side speaks TLS as well.
    pub admin: bool,
}

impl TlsConfig {
    /// From a chain of certificates, the gateway's own first, and its key.
    ///
    /// # Errors
    /// When either cannot be read or they do not fit together.
    pub fn new(chain: Vec<u8>, key: Vec<u8>, admin: bool) -> Result<TlsConfig, NetError> {
        let config = TlsConfig { chain, key, admin };
        config.server()?;
        Ok(config)
    }

    /// What listens with it.
    pub(crate) fn server(&self) -> Result<ServerTls, NetError> {
        ServerTls::from_pem(&self.chain, &self.key)
    }

    /// Shows it to connections from now on.
    pub(crate) fn replace_in(&self, server: &ServerTls) -> Result<(), NetError> {
        server.replace(&self.chain, &self.key)
    }
}

impl fmt::Debug for TlsConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TlsConfig").field("admin", &self.admin).finish_non_exhaustive()
    }
}
