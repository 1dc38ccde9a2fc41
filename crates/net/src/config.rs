//! Settings of a client.

use crate::error::NetError;
use crate::proxy::{Proxy, ProxySettings};
use crate::target::Target;
use std::path::PathBuf;
use tokrate_core::Span;

/// HTTP versions. They are different experiments: HTTP/2 multiplexes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HttpVersion {
    /// One request at a time on each connection.
    #[default]
    Http1,
    /// Many requests on a connection.
    Http2,
}

impl HttpVersion {
    /// The name used in records, which is also that of ALPN.
    pub const fn name(self) -> &'static str {
        match self {
            HttpVersion::Http1 => "http/1.1",
            HttpVersion::Http2 => "h2",
        }
    }
}

/// How requests share HTTP/2 connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sharing {
    /// So many connections at most: requests are spread evenly over them, and wait where none has a free stream. `None` opens as many as
    /// the streams need, and no request waits but for one to be open.
    pub connections: Option<usize>,
    /// Streams of a connection at most, below what its server allows; `None` for that, or where the number of connections is free for 50.
    pub streams: Option<usize>,
}

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// HTTP version.
    pub http: HttpVersion,
    /// How requests share connections over HTTP/2.
    pub http2: Sharing,
    /// Time for TCP, proxy and TLS together.
    pub connect_timeout: Span,
    /// Whether connections are kept for later requests.
    pub reuse: bool,
    /// Whether TCP reads use kernel receive timestamps instead of the time of the read. Linux only.
    pub rx_timestamps: bool,
    /// PEM file with additional certificate authorities, or with the server's own certificate.
    pub ca_file: Option<PathBuf>,
    /// Skips verification of the server's certificate, for tests. A proxy's certificate is always verified.
    pub insecure: bool,
    /// Whether TLS sessions are resumed, which saves the server a signature and the client a certificate chain to verify. Not for
    /// measurements, whose connections are to cost the same.
    pub resume_tls: bool,
    /// Whether every new connection looks the server's name up, as a process does that has just begun; else that is done once, by who
    /// makes the route.
    pub lookup_each: bool,
    /// Unix socket for every target, whatever its host and port; then neither DNS nor a proxy is used.
    pub unix_socket: Option<PathBuf>,
    /// Proxies.
    pub proxy: Option<ProxySettings>,
}

impl Default for ClientConfig {
    fn default() -> ClientConfig {
        ClientConfig {
            http: HttpVersion::Http1,
            http2: Sharing::default(),
            connect_timeout: Span::from_secs(10),
            reuse: true,
            rx_timestamps: false,
            ca_file: None,
            insecure: false,
            resume_tls: false,
            lookup_each: false,
            unix_socket: None,
            proxy: None,
        }
    }
}

impl ClientConfig {
    /// Whether requests to this target go through a proxy.
    pub fn uses_proxy(&self, target: &Target) -> bool {
        !matches!(self.proxy_of(target), Ok(None))
    }

    /// Host and port of the proxy through which this target is reached, if any can be used.
    pub fn proxy_place(&self, target: &Target) -> Option<String> {
        self.proxy_of(target).ok().flatten().map(|proxy| proxy.authority())
    }

    /// The proxy through which this target is reached, if any.
    pub(crate) fn proxy_of(&self, target: &Target) -> Result<Option<Proxy>, NetError> {
        match (&self.unix_socket, &self.proxy) {
            (None, Some(settings)) => settings.intercept(target),
            _ => Ok(None),
        }
    }
}
