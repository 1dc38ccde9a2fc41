//! TLS for client and server, with aws-lc-rs as the only provider.
//!
//! Invariant: the provider is passed to each configuration, so that no process-wide default is used.

mod server;
mod verify;

pub use server::ServerTls;

use crate::config::{ClientConfig, HttpVersion};
use crate::error::NetError;
use crate::exchange::ExchangeFailure;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{AlertDescription, CertificateError};
use std::error::Error;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use tokrate_core::FailureKind;
use verify::{Trust, Verifier};

/// Largest CA file (bytes); the bundles of Linux distributions have about 0.3 MiB.
const MAX_CA_FILE_BYTES: u64 = 16 << 20;

/// TLS configuration of a client. Trusted are the system's authorities (Mozilla's if there are none) and those of the CA file.
///
/// Sessions are resumed only if the settings say so: in a measurement every connection costs the same handshake.
pub(crate) fn client_config(config: &ClientConfig) -> Result<rustls::ClientConfig, NetError> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    let pinned = match &config.ca_file {
        None => Vec::new(),
        Some(path) => add_ca_file(&mut roots, path)?,
    };
    let trust = if config.insecure { Trust::Any } else { Trust::Pinned(pinned) };
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier::new(roots, trust, provider())?))
        .with_no_client_auth();
    if !config.resume_tls {
        tls.resumption = rustls::client::Resumption::disabled();
    }
    // Only one protocol is offered, so that a run never mixes versions.
    tls.alpn_protocols = vec![config.http.name().as_bytes().to_vec()];
    Ok(tls)
}

/// Reads a CA file where there is no TLS to set up: one that is missing or broken is a mistake whatever it would have been read for.
///
/// # Errors
/// When it cannot be read, or holds no certificate.
pub fn check_ca_file(path: &Path) -> Result<(), NetError> {
    add_ca_file(&mut rustls::RootCertStore::empty(), path).map(drop)
}

fn add_ca_file(roots: &mut rustls::RootCertStore, path: &Path) -> Result<Vec<CertificateDer<'static>>, NetError> {
    add_authorities(roots, path).map_err(|reason| NetError::CaFile { path: path.to_owned(), reason })
}

/// Explains a failed handshake.
pub(crate) fn handshake_failure(error: &io::Error, http: HttpVersion) -> ExchangeFailure {
    let detail = match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidMessage(_)) => "the server does not speak TLS on this port; use http://".to_owned(),
        Some(rustls::Error::InvalidCertificate(reason)) => certificate_error(reason),
        Some(
            rustls::Error::NoApplicationProtocol
            | rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol),
        ) => format!(
            "the server does not offer {} over TLS; ask for another version (--http; http in the settings)",
            http.name()
        ),
        Some(reason) => reason.to_string(),
        None => format!(
            "the connection broke during the TLS handshake: {error}; use http:// if the server speaks no TLS on this port, else look at its log"
        ),
    };
    ExchangeFailure { kind: FailureKind::Tls, detail }
}

/// The TLS error inside an I/O error, if any.
pub(crate) fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let io = error.downcast_ref::<io::Error>()?;
    io.get_ref()?.downcast_ref::<rustls::Error>()
}

fn certificate_error(reason: &CertificateError) -> String {
    match reason {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("the server's certificate has expired: {reason}; have the server show a new one")
        }
        CertificateError::UnknownIssuer => {
            "the server's certificate is signed by an unknown authority (its own or a private one); name a file with that \
             authority, or with the certificate itself, in --ca-file (ca_file in the settings)"
                .to_owned()
        }
        // The name in the subject (CN) counts for no client any more (RFC 9110, 4.3.4).
        CertificateError::NotValidForNameContext { expected, presented } if presented.is_empty() => {
            let kind = if matches!(expected, rustls::pki_types::ServerName::IpAddress(_)) { "IP" } else { "DNS" };
            let name = expected.to_str();
            format!(
                "the server's certificate has no subjectAltName, so it is valid for no host; make one that has, such as with \
                 `openssl req -x509 ... -addext subjectAltName={kind}:{name}`"
            )
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("the server's certificate is for another name: {reason}; ask by a name that it holds")
        }
        other if verify::is_ca_certificate(other) => "the server's certificate is signed by itself, or an authority's own, and \
             not known here; name a file with exactly this certificate in --ca-file (ca_file in the settings)"
            .to_owned(),
        other => format!("the server's certificate is invalid: {other}; look at it with `openssl s_client`"),
    }
}

/// What a file of authorities has to be.
const PEM: &str = "it must be a PEM file, which begins with -----BEGIN CERTIFICATE-----";

/// Adds the certificates of a file to the authorities, and hands them back.
fn add_authorities(roots: &mut rustls::RootCertStore, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut pem = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| format!("{error}; check the path"))?;
    file.take(MAX_CA_FILE_BYTES + 1).read_to_end(&mut pem).map_err(|error| error.to_string())?;
    if pem.len() as u64 > MAX_CA_FILE_BYTES {
        return Err(format!("it has more than {MAX_CA_FILE_BYTES} bytes"));
    }
    let pinned = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("{error}; {PEM}"))?;
    for certificate in &pinned {
        roots.add(certificate.clone()).map_err(|error| error.to_string())?;
    }
    if pinned.is_empty() { Err(format!("it holds no certificate; {PEM}")) } else { Ok(pinned) }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
