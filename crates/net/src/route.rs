//! Where connections to a target go: its addresses, or those of its proxy.
//!
//! Invariant: names are resolved outside of what is measured, so that DNS never enters a TTFT: once for a run, and periodically by
//! long-running servers.

use crate::clock::Clock;
use crate::config::{ClientConfig, HttpVersion};
use crate::error::NetError;
use crate::proxy::{Proxy, ProxyKind};
use crate::target::Target;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tokrate_core::Span;

/// A target with the addresses at which it is reached.
#[derive(Clone, Debug)]
pub struct Route {
    pub(crate) target: Target,
    /// Shared by all clones, so that new connections use the latest resolution.
    addresses: Arc<RwLock<Arc<Addresses>>>,
    /// Where connections go instead of to an address.
    pub(crate) unix_socket: Option<PathBuf>,
    pub(crate) proxy: Option<Proxy>,
    /// Loaded once: reading the system's certificate authorities takes milliseconds.
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
    /// For an https proxy.
    pub(crate) proxy_tls: Option<Arc<rustls::ClientConfig>>,
    resolved_in: Span,
}

/// TLS of several routes with the same settings: the authorities are read and held once.
#[derive(Default)]
pub struct SharedTls(Mutex<Option<Arc<rustls::ClientConfig>>>);

impl SharedTls {
    fn of(&self, config: &ClientConfig) -> Result<Arc<rustls::ClientConfig>, NetError> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*shared {
            return Ok(Arc::clone(known));
        }
        let loaded = Arc::new(crate::tls::client_config(config)?);
        *shared = Some(Arc::clone(&loaded));
        Ok(loaded)
    }
}

/// Addresses to connect to.
#[derive(PartialEq, Eq, Debug, Default)]
pub(crate) struct Addresses {
    /// The target's, or those of the proxy in front of it.
    pub peer: Vec<SocketAddr>,
    /// The target's, for a SOCKS5 proxy that takes addresses.
    pub behind_proxy: Vec<SocketAddr>,
}

impl Route {
    /// Resolves the target, or its proxy, and loads certificate authorities for https. Blocks; call it outside a
    /// runtime.
    ///
    /// # Errors
    /// When the name has no address, the proxy is of a kind that is not supported, TLS cannot be set up, or the CA file cannot be read.
    pub fn resolve_blocking(target: &Target, config: &ClientConfig, clock: Clock) -> Result<Route, NetError> {
        match Route::resolve_or_wait_blocking(target, config, &SharedTls::default(), clock)? {
            (route, None) => Ok(route),
            (_, Some(error)) => Err(error),
        }
    }

    /// The same for callers that can wait: if the name does not resolve, returns a route without addresses and the error;
    /// [`Route::refresh_blocking`] tries again. `tls` is for all routes with these settings.
    ///
    /// # Errors
    /// When the proxy is of a kind that is not supported, TLS cannot be set up, or the CA file cannot be read.
    pub fn resolve_or_wait_blocking(
        target: &Target,
        config: &ClientConfig,
        tls: &SharedTls,
        clock: Clock,
    ) -> Result<(Route, Option<NetError>), NetError> {
        let mut route = Route::with_tls(target, config, tls)?;
        if let Some(path) = &config.unix_socket {
            check_unix_socket(path)
                .map_err(|reason| NetError::UnixSocket { path: path.clone(), reason: reason.to_string() })?;
        }
        if route.proxy.as_ref().is_some_and(|proxy| proxy.kind == ProxyKind::Https) {
            // A proxy speaks HTTP/1.1, and its certificate is verified even if the target's is not.
            let config = ClientConfig { http: HttpVersion::Http1, insecure: false, ..config.clone() };
            route.proxy_tls = Some(Arc::new(crate::tls::client_config(&config)?));
        }
        let started_at = clock.now();
        let unresolved = match route.refresh_blocking() {
            Ok(()) => None,
            Err(error @ NetError::Dns { .. }) => Some(error),
            Err(error) => return Err(error),
        };
        // An address is not looked up.
        route.resolved_in = if route.is_named() { clock.now() - started_at } else { Span::ZERO };
        Ok((route, unresolved))
    }

    /// Whether there is an address or a socket to connect to.
    pub fn has_address(&self) -> bool {
        self.unix_socket.is_some() || !self.addresses().peer.is_empty()
    }

    /// Resolves the name again, for new connections of all clones. Blocks.
    ///
    /// # Errors
    /// When the name does not resolve; the old addresses are kept.
    pub fn refresh_blocking(&self) -> Result<(), NetError> {
        if self.unix_socket.is_some() {
            return Ok(());
        }
        let found = resolve(&self.target, self.proxy.as_ref())?;
        *self.addresses.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(found);
        Ok(())
    }

    /// The current addresses.
    pub(crate) fn addresses(&self) -> Arc<Addresses> {
        Arc::clone(&self.addresses.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// A route without addresses: for in-memory connections, or until [`Route::refresh_blocking`] succeeds.
    ///
    /// # Errors
    /// When the proxy is of a kind that is not supported, TLS cannot be set up, or the CA file cannot be read.
    pub fn unresolved(target: &Target, config: &ClientConfig) -> Result<Route, NetError> {
        Route::with_tls(target, config, &SharedTls::default())
    }

    fn with_tls(target: &Target, config: &ClientConfig, tls: &SharedTls) -> Result<Route, NetError> {
        let tls = target.is_tls().then(|| tls.of(config)).transpose()?;
        if let (None, Some(path)) = (&tls, &config.ca_file) {
            crate::tls::check_ca_file(path)?;
        }
        Ok(Route {
            target: target.clone(),
            addresses: Arc::default(),
            unix_socket: config.unix_socket.clone(),
            proxy: config.proxy_of(target)?,
            tls,
            proxy_tls: None,
            resolved_in: Span::ZERO,
        })
    }

    /// Whether a name has to be looked up.
    pub(crate) fn is_named(&self) -> bool {
        let host = self.proxy.as_ref().map_or(self.target.host(), |proxy| &proxy.host);
        host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_err()
    }

    /// How long the resolution took.
    pub fn resolved_in(&self) -> Span {
        self.resolved_in
    }
}

/// Resolves the target, or its proxy; for a SOCKS5 proxy that takes addresses, both.
fn resolve(target: &Target, proxy: Option<&Proxy>) -> Result<Addresses, NetError> {
    let own = || addresses_of(target.host(), &target.host_and_port());
    let Some(proxy) = proxy else { return Ok(Addresses { peer: own()?, behind_proxy: Vec::new() }) };
    let behind_proxy = if proxy.kind == ProxyKind::Socks5 { own()? } else { Vec::new() };
    Ok(Addresses { peer: addresses_of(&proxy.host, &proxy.authority())?, behind_proxy })
}

fn addresses_of(host: &str, host_and_port: &str) -> Result<Vec<SocketAddr>, NetError> {
    let failed = |reason: String| NetError::Dns { host: host.to_owned(), reason };
    let addresses: Vec<SocketAddr> =
        host_and_port.to_socket_addrs().map_err(|error| failed(error.to_string()))?.collect();
    match addresses.is_empty() {
        true => Err(failed("it has none".to_owned())),
        false => Ok(addresses),
    }
}

/// Checks that the path is a socket, before a run begins.
fn check_unix_socket(path: &Path) -> std::io::Result<()> {
    std::os::unix::net::SocketAddr::from_pathname(path)?;
    match std::fs::metadata(path)?.file_type().is_socket() {
        true => Ok(()),
        false => Err(std::io::Error::other("it is not a socket")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_an_address_is_an_error_to_who_cannot_wait() {
        // A label of 64 letters is invalid, so that no DNS query is sent.
        let target = Target::parse(&format!("http://{}.invalid:1/v1", "a".repeat(64))).expect("a URL");
        let (config, clock) = (ClientConfig::default(), Clock::monotonic());
        assert!(matches!(Route::resolve_blocking(&target, &config, clock), Err(NetError::Dns { .. })));
        let tls = SharedTls::default();
        let (route, unresolved) = Route::resolve_or_wait_blocking(&target, &config, &tls, clock).expect("it can wait");
        assert!(!route.has_address() && matches!(unresolved, Some(NetError::Dns { .. })));
        assert!(route.refresh_blocking().is_err() && !route.has_address());
    }

    #[test]
    fn clones_go_where_the_name_leads_after_it_was_resolved_again() {
        let target = Target::parse("http://localhost:8000/v1").expect("a URL");
        let route =
            Route::resolve_blocking(&target, &ClientConfig::default(), Clock::monotonic()).expect("it is known");
        let (clone, found) = (route.clone(), route.addresses());
        *route.addresses.write().expect("no panic holds it") = Arc::default();
        assert!(clone.addresses().peer.is_empty());
        route.refresh_blocking().expect("it is known still");
        assert_eq!(clone.addresses(), found);
        assert!(found.peer.iter().all(|address| address.port() == 8000 && address.ip().is_loopback()));
    }

    #[test]
    fn routes_with_the_same_settings_hold_the_authorities_once() {
        let (config, clock, tls) = (ClientConfig::default(), Clock::monotonic(), SharedTls::default());
        let of = |url: &str| {
            let target = Target::parse(url).expect("a URL");
            Route::resolve_or_wait_blocking(&target, &config, &tls, clock).expect("it can wait").0.tls
        };
        let (one, other) = (of("https://localhost:8000/v1"), of("https://localhost:8001/v1"));
        assert!(Arc::ptr_eq(&one.expect("TLS"), &other.expect("TLS")));
        assert!(of("http://localhost:8000/v1").is_none());
    }
}
