//! Errors that make an endpoint unusable. Failures of single requests are [`ExchangeFailure`](crate::ExchangeFailure)s.

use std::path::PathBuf;

/// Setup errors. Messages fit behind "failed to".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// An invalid URL.
    #[error("read the URL `{url}`: {reason}; write for example http://127.0.0.1:8000/v1")]
    Url {
        /// As given, without credentials.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A host name that does not resolve.
    #[error("find the address of {host}: {reason}; check the host name in the URL and the machine's resolver")]
    Dns {
        /// The name.
        host: String,
        /// What the resolver says.
        reason: String,
    },
    /// An unusable file of certificate authorities.
    #[error("read certificate authorities from {}: {reason}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// TLS cannot be set up.
    #[error("set up TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// A server's certificate or key that cannot be read.
    #[error("read the server's certificate and key: {0}; both must be PEM")]
    Certificate(String),
    /// HTTP/2 without TLS through a proxy, which proxies do not forward.
    #[error(
        "reach an http:// server over HTTP/2 through an HTTP proxy; use HTTP/1.1, or reach it without the proxy (NO_PROXY, or --proxy off)"
    )]
    ProxiedHttp2,
    /// An unusable proxy setting.
    #[error("read the proxy in {variable}: {reason}")]
    Proxy {
        /// The environment variable that names it.
        variable: &'static str,
        /// What is wrong with it, without credentials.
        reason: String,
    },
    /// An unusable Unix socket.
    #[error("find the Unix socket {}: {reason}; check that the server runs and that --unix-socket names its socket", path.display())]
    UnixSocket {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A listener outside loopback without a key.
    #[error(
        "listen on {address} without a key: anyone who can reach it could use it; {remedy}, or listen on 127.0.0.1"
    )]
    Unprotected {
        /// Where.
        address: std::net::SocketAddr,
        /// The setting that requires a key.
        remedy: &'static str,
    },
    /// The system gives no random bytes.
    #[error("draw a random key: the operating system gives no randomness")]
    Randomness,
    /// The listening socket could not be opened.
    #[error("listen on {address}: {source}; choose another address")]
    Listen {
        /// Where.
        address: std::net::SocketAddr,
        /// What the operating system says.
        source: std::io::Error,
    },
}
