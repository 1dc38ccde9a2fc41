//! Where a target's connections go: its addresses, found once for a run, or those of the proxy in front of it.
//!
//! It refuses to open connections. Invariant: a name is resolved once, so that its resolution never enters a TTFT.

use crate::clock::Clock;
use crate::config::{ClientConfig, Proxy};
use crate::error::NetError;
use crate::target::Target;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use tokrate_core::Span;

/// A target with the addresses at which it is reached.
#[derive(Clone, Debug)]
pub struct Route {
    pub(crate) target: Target,
    pub(crate) addresses: Arc<[SocketAddr]>,
    pub(crate) proxy: Option<Proxy>,
    /// Loaded once for a run: reading the machine's authorities takes milliseconds.
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
    resolved_in: Span,
}

impl Route {
    /// Resolves the target, or its proxy, and loads certificate authorities for https. Blocks; to be called outside a
    /// runtime.
    ///
    /// # Errors
    /// When the name has no address, the proxy is of a kind that is not supported, or TLS cannot be set up.
    pub fn resolve_blocking(target: &Target, config: &ClientConfig, clock: Clock) -> Result<Route, NetError> {
        let proxy = config.proxy.as_ref().and_then(|settings| settings.intercept(target));
        let (host, host_and_port) = match &proxy {
            None => (target.host().to_owned(), target.host_and_port()),
            Some(proxy) => {
                let host = proxy.uri.host().unwrap_or_default();
                let scheme = proxy.uri.scheme_str().unwrap_or("?");
                // The authority may hold credentials; only its host is ever shown.
                if scheme != "http" || host.is_empty() {
                    return Err(NetError::Proxy(format!("{scheme}://{host}")));
                }
                (host.to_owned(), format!("{host}:{}", proxy.uri.port_u16().unwrap_or(80)))
            }
        };
        let started_at = clock.now();
        let failed = |reason: String| NetError::Dns { host: host.clone(), reason };
        let addresses: Vec<SocketAddr> =
            host_and_port.to_socket_addrs().map_err(|error| failed(error.to_string()))?.collect();
        if addresses.is_empty() {
            return Err(failed("it has none".to_owned()));
        }
        Ok(Route {
            target: target.clone(),
            addresses: addresses.into(),
            proxy,
            tls: tls_of(target, config)?,
            resolved_in: clock.now() - started_at,
        })
    }

    /// A route without addresses, for connections that are handed out by the caller.
    pub(crate) fn unresolved(target: &Target, config: &ClientConfig) -> Result<Route, NetError> {
        let tls = tls_of(target, config)?;
        Ok(Route { target: target.clone(), addresses: Arc::new([]), proxy: None, tls, resolved_in: Span::ZERO })
    }

    /// How long the resolution took.
    pub fn resolved_in(&self) -> Span {
        self.resolved_in
    }
}

fn tls_of(target: &Target, config: &ClientConfig) -> Result<Option<Arc<rustls::ClientConfig>>, NetError> {
    if !target.is_tls() {
        return Ok(None);
    }
    Ok(Some(Arc::new(crate::tls::client_config(config)?)))
}
