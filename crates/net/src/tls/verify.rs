//! Which certificates of a server are believed.
//!
//! It refuses to believe anything on its own: WebPKI is asked first, and for every signature. Invariant: name, dates and the
//! handshake's signatures are checked of every certificate that is believed, unless a user wants none checked.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// WebPKI, and beside it certificates that a user has named one by one: what `openssl req -x509` makes says that it is an
/// authority's and is shown by servers all the same, which WebPKI refuses and everybody else takes.
#[derive(Debug)]
pub(super) struct Verifier {
    webpki: Arc<WebPkiServerVerifier>,
    trusts: Trusts,
}

/// Who is believed beside those for whom an authority vouches.
#[derive(Debug)]
pub(super) enum Trusts {
    /// Who shows one of these certificates.
    Named(Vec<CertificateDer<'static>>),
    /// Whoever has the key of what is shown.
    Anybody,
}

impl Verifier {
    /// Believes what `roots` have signed, and whom `trusts` names.
    pub fn new(roots: RootCertStore, trusts: Trusts, provider: Arc<CryptoProvider>) -> Result<Verifier, Error> {
        let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Verifier { webpki: webpki.map_err(|error| Error::General(error.to_string()))?, trusts })
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
        let Trusts::Named(named) = &self.trusts else { return Ok(ServerCertVerified::assertion()) };
        let checked = self.webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match checked {
            // WebPKI looks at the dates before it looks for who has signed and for what, so they are good.
            Err(Error::InvalidCertificate(reason))
                if is_nobodys(&reason) && named.iter().any(|named| named == end_entity) =>
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

/// Whether all that is wrong with a certificate is who vouches for it.
fn is_nobodys(reason: &CertificateError) -> bool {
    matches!(reason, CertificateError::UnknownIssuer | CertificateError::BadSignature) || is_authority(reason)
}

/// Whether a server has shown the certificate of an authority as its own.
pub(super) fn is_authority(reason: &CertificateError) -> bool {
    let CertificateError::Other(other) = reason else { return false };
    matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}
