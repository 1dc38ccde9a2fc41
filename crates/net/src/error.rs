//! Why an endpoint cannot be used at all. What happens to single requests is an [`ExchangeFailure`](crate::ExchangeFailure).

use std::path::PathBuf;

/// Reasons for which nothing can be sent. Messages fit behind "failed to".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// A URL that is none, or not of the kind needed.
    #[error("read the URL `{url}`: {reason}; write for example http://127.0.0.1:8000/v1")]
    Url {
        /// As given, without credentials.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A host name without address.
    #[error("find the address of {host}: {reason}; check the host name in the URL and the machine's resolver")]
    Dns {
        /// The name.
        host: String,
        /// What the resolver says.
        reason: String,
    },
    /// A file of certificate authorities that cannot be used.
    #[error("read certificate authorities from {}: {reason}", path.display())]
    Authorities {
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
    /// HTTP/2 without TLS through a proxy, which no proxy passes on.
    #[error("reach an http:// server over HTTP/2 through an HTTP proxy; use HTTP/1.1 or name the host in NO_PROXY")]
    ProxiedHttp2,
    /// A proxy that cannot be used.
    #[error("read the proxy in {variable}: {reason}")]
    Proxy {
        /// The environment variable that names it.
        variable: &'static str,
        /// What is wrong with it, without who asks.
        reason: String,
    },
    /// A Unix socket that cannot be there.
    #[error("find the Unix socket {}: {reason}; check that the server runs and that --unix-socket names its socket", path.display())]
    UnixSocket {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Others could ask.
    #[error("listen on {address} without a key: whoever reaches it could ask; {remedy}, or listen on 127.0.0.1")]
    Open {
        /// Where.
        address: std::net::SocketAddr,
        /// What makes it ask for a key.
        remedy: &'static str,
    },
    /// Nothing random to be had.
    #[error("draw a random key: the operating system gives no randomness")]
    Randomness,
    /// No listening socket.
    #[error("listen on {address}: {source}; choose another address")]
    Listen {
        /// Where.
        address: std::net::SocketAddr,
        /// What the operating system says.
        source: std::io::Error,
    },
}
