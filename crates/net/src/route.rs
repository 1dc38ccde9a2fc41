//! Where a target's connections go: its addresses, found once for a run, or those of the proxy in front of it.
//!
//! It refuses to open connections. Invariant: a name is resolved beside what is measured, so that its resolution never enters a
//! TTFT: once for a run, and again from time to time by who serves for days.

use crate::clock::Clock;
use crate::config::{ClientConfig, Proxy};
use crate::error::NetError;
use crate::target::Target;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, PoisonError, RwLock};
use tokrate_core::Span;

/// A target with the addresses at which it is reached.
#[derive(Clone, Debug)]
pub struct Route {
    pub(crate) target: Target,
    /// Shared by all clones, so that new connections go where the name leads now.
    addresses: Arc<RwLock<Arc<[SocketAddr]>>>,
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
        match Route::resolve_or_wait_blocking(target, config, clock)? {
            (route, None) => Ok(route),
            (_, Some(error)) => Err(error),
        }
    }

    /// The same for who can wait: a name that has no address is told beside a route that has none until
    /// [`Route::refresh_blocking`] finds one.
    ///
    /// # Errors
    /// When the proxy is of a kind that is not supported, or TLS cannot be set up.
    pub fn resolve_or_wait_blocking(
        target: &Target,
        config: &ClientConfig,
        clock: Clock,
    ) -> Result<(Route, Option<NetError>), NetError> {
        let proxy = config.proxy.as_ref().and_then(|settings| settings.intercept(target));
        let started_at = clock.now();
        let (addresses, unresolved) = match look_up(target, proxy.as_ref()) {
            Ok(addresses) => (addresses, None),
            Err(error @ NetError::Dns { .. }) => (Arc::from([]), Some(error)),
            Err(error) => return Err(error),
        };
        let route = Route {
            target: target.clone(),
            addresses: Arc::new(RwLock::new(addresses)),
            proxy,
            tls: tls_of(target, config)?,
            resolved_in: clock.now() - started_at,
        };
        Ok((route, unresolved))
    }

    /// Whether there is an address to connect to.
    pub fn has_address(&self) -> bool {
        !self.addresses().is_empty()
    }

    /// Resolves the name again; connections that are opened from now on, by all clones, go where it leads. Blocks.
    ///
    /// # Errors
    /// When the name has no address now; the old ones then stay.
    pub fn refresh_blocking(&self) -> Result<(), NetError> {
        let found = look_up(&self.target, self.proxy.as_ref())?;
        *self.addresses.write().unwrap_or_else(PoisonError::into_inner) = found;
        Ok(())
    }

    /// Where connections go now.
    pub(crate) fn addresses(&self) -> Arc<[SocketAddr]> {
        Arc::clone(&self.addresses.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// A route without addresses: for connections that are handed out by the caller, or until [`Route::refresh_blocking`]
    /// finds one.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn unresolved(target: &Target, config: &ClientConfig) -> Result<Route, NetError> {
        let tls = tls_of(target, config)?;
        Ok(Route {
            target: target.clone(),
            addresses: Arc::new(RwLock::new(Arc::new([]))),
            proxy: None,
            tls,
            resolved_in: Span::ZERO,
        })
    }

    /// How long the resolution took.
    pub fn resolved_in(&self) -> Span {
        self.resolved_in
    }
}

/// The addresses of a target's name, or of the proxy's in front of it.
fn look_up(target: &Target, proxy: Option<&Proxy>) -> Result<Arc<[SocketAddr]>, NetError> {
    let (host, host_and_port) = match proxy {
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
    let failed = |reason: String| NetError::Dns { host: host.clone(), reason };
    let addresses: Vec<SocketAddr> =
        host_and_port.to_socket_addrs().map_err(|error| failed(error.to_string()))?.collect();
    match addresses.is_empty() {
        true => Err(failed("it has none".to_owned())),
        false => Ok(addresses.into()),
    }
}

fn tls_of(target: &Target, config: &ClientConfig) -> Result<Option<Arc<rustls::ClientConfig>>, NetError> {
    if !target.is_tls() {
        return Ok(None);
    }
    Ok(Some(Arc::new(crate::tls::client_config(config)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_an_address_is_an_error_to_who_cannot_wait() {
        // A label of 64 letters is no name, so that nobody is asked for it.
        let target = Target::parse(&format!("http://{}.invalid:1/v1", "a".repeat(64))).expect("a URL");
        let (config, clock) = (ClientConfig::default(), Clock::monotonic());
        assert!(matches!(Route::resolve_blocking(&target, &config, clock), Err(NetError::Dns { .. })));
        let (route, unresolved) = Route::resolve_or_wait_blocking(&target, &config, clock).expect("it can wait");
        assert!(!route.has_address() && matches!(unresolved, Some(NetError::Dns { .. })));
        assert!(route.refresh_blocking().is_err() && !route.has_address());
    }

    #[test]
    fn clones_go_where_the_name_leads_after_it_was_resolved_again() {
        let target = Target::parse("http://localhost:8000/v1").expect("a URL");
        let route =
            Route::resolve_blocking(&target, &ClientConfig::default(), Clock::monotonic()).expect("it is known");
        let (clone, found) = (route.clone(), route.addresses());
        *route.addresses.write().expect("no panic holds it") = Arc::new([]);
        assert!(clone.addresses().is_empty());
        route.refresh_blocking().expect("it is known still");
        assert_eq!(clone.addresses(), found);
        assert!(found.iter().all(|address| address.port() == 8000 && address.ip().is_loopback()));
    }
}
