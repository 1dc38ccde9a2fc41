//! Verifies server certificates: WebPKI, plus certificates that the user pinned.
//!
//! Invariant: name, dates and handshake signatures are checked for every accepted certificate, unless verification is turned off.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// WebPKI, plus pinned certificates. `openssl req -x509` marks certificates as CA certificates; servers present them all the same,
/// which WebPKI rejects and other TLS stacks accept.
#[derive(Debug)]
pub(super) struct Verifier {
    webpki: Arc<WebPkiServerVerifier>,
    trust: Trust,
}

/// What is accepted besides certificates of trusted authorities.
#[derive(Debug)]
pub(super) enum Trust {
    /// Exactly these certificates.
    Pinned(Vec<CertificateDer<'static>>),
    /// Any certificate.
    Any,
}

impl Verifier {
    /// Accepts what `roots` have signed, and what `trust` allows.
    pub fn new(roots: RootCertStore, trust: Trust, provider: Arc<CryptoProvider>) -> Result<Verifier, Error> {
        let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Verifier { webpki: webpki.map_err(|error| Error::General(error.to_string()))?, trust })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Trust::Pinned(pinned) = &self.trust else { return Ok(ServerCertVerified::assertion()) };
        let checked = self.webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match checked {
            // WebPKI checks the dates before issuer and usage, so they are valid here.
            Err(Error::InvalidCertificate(reason))
                if is_untrusted_issuer(&reason) && pinned.iter().any(|pinned| pinned == end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            checked => checked,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

/// Whether only the issuer or usage of a certificate is rejected.
fn is_untrusted_issuer(reason: &CertificateError) -> bool {
    matches!(reason, CertificateError::UnknownIssuer | CertificateError::BadSignature) || is_ca_certificate(reason)
}

/// Whether the server presented a CA certificate as its own.
pub(super) fn is_ca_certificate(reason: &CertificateError) -> bool {
    let CertificateError::Other(other) = reason else { return false };
    matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}
