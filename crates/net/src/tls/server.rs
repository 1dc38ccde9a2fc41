//! TLS of a server, whose certificate can be replaced while it runs.
//!
//! Invariant: an open connection keeps the certificate it began with; a bad certificate replaces no good one.

use super::provider;
use crate::error::NetError;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use tokio_rustls::TlsAcceptor;

/// Certificate and key of a server; clones share them.
#[derive(Clone)]
pub struct ServerTls {
    pub(crate) acceptor: TlsAcceptor,
    certificate: Arc<Certificate>,
}

impl ServerTls {
    /// From a chain of certificates and a key, both PEM. HTTP/2 and HTTP/1.1 are offered, and tickets with which clients resume their
    /// sessions, so that a further connection costs no signature.
    ///
    /// # Errors
    /// When either cannot be read or they do not fit together.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<ServerTls, NetError> {
        let certificate = Arc::new(Certificate(RwLock::new(certified(chain, key)?)));
        let mut config = rustls::ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::<Certificate>::clone(&certificate));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new()?;
        Ok(ServerTls { acceptor: TlsAcceptor::from(Arc::new(config)), certificate })
    }

    /// Shows another certificate to connections from now on.
    ///
    /// # Errors
    /// As [`ServerTls::from_pem`]; the old one stays then.
    pub fn replace(&self, chain: &[u8], key: &[u8]) -> Result<(), NetError> {
        let new = certified(chain, key)?;
        *self.certificate.0.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ServerTls")
    }
}

/// The certificate that is shown.
struct Certificate(RwLock<Arc<CertifiedKey>>);

impl fmt::Debug for Certificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Certificate")
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn certified(chain: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, NetError> {
    let chain = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| NetError::Certificate(format!("the certificates: {error}")))?;
    if chain.is_empty() {
        return Err(NetError::Certificate("the certificates: none is there; a PEM file holds at least one".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| NetError::Certificate(format!("the key: {error}")))?;
    Ok(Arc::new(CertifiedKey::from_der(chain, key, &provider())?))
}
