//! Opens connections: TCP, a Unix socket or memory, a proxy's tunnel, TLS; each step is timed.
//!
//! Invariant: one call keeps at most one connection and retries nothing but further addresses of the same name.

mod socks5;
mod tcp;
mod tunnel;

use crate::clock::Clock;
use crate::config::{ClientConfig, HttpVersion};
use crate::error::NetError;
use crate::exchange::{ConnectionUse, ExchangeFailure};
use crate::proxy::Proxy;
use crate::read_ahead::ReadAhead;
use crate::route::Route;
use crate::rx_timestamp::{TcpSocket, TimestampGuard};
use crate::stamped::{Stamped, Stamps};
use crate::target::Target;
use crate::tls::handshake_failure;
use crate::transport::{MemoryStream, Socket, Transport};
use rustls::pki_types::ServerName;
use socks5::TunnelError;
use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::UnixStream;
use tokio_rustls::TlsConnector;
use tokrate_core::{FailureKind, Span};

/// How connections are opened: over sockets, or in memory by the caller.
#[derive(Clone, Default)]
pub struct Dial(Option<Rc<MemoryDial>>);

/// Opens a connection to a target in memory.
type MemoryDial = dyn Fn(&Target) -> Pin<Box<dyn Future<Output = io::Result<Box<dyn MemoryStream>>>>>;

impl Dial {
    /// Over TCP, or the Unix socket of the route.
    pub fn tcp() -> Dial {
        Dial(None)
    }

    /// With `open`, which returns one end of an in-memory connection or an error; no address is resolved.
    pub fn memory<F, S>(open: impl Fn(&Target) -> F + 'static) -> Dial
    where
        F: Future<Output = io::Result<S>> + 'static,
        S: MemoryStream + 'static,
    {
        Dial(Some(Rc::new(move |target| {
            let opening = open(target);
            Box::pin(async { Ok(Box::new(opening.await?) as Box<dyn MemoryStream>) })
        })))
    }
}

/// An open connection and its timings.
pub(crate) struct Opened {
    pub transport: Transport,
    pub stamps: Rc<Stamps>,
    pub used: ConnectionUse,
}

/// TLS connector and server name for one peer.
type TlsPeer = (TlsConnector, ServerName<'static>);

/// Opens connections along one route.
pub(crate) struct Connector {
    route: Route,
    clock: Clock,
    http: HttpVersion,
    /// Whether every connection looks the name up.
    looks_up: bool,
    /// Present where reads are stamped by the kernel.
    rx_timestamps: Option<TimestampGuard>,
    tls: Option<TlsPeer>,
    proxy_tls: Option<TlsPeer>,
    dial: Dial,
}

impl Connector {
    pub fn new(config: &ClientConfig, route: Route, clock: Clock, dial: Dial) -> Result<Connector, NetError> {
        let reason = "its host is not a valid TLS server name";
        let tls = match &route.tls {
            None => None,
            Some(tls) => Some(
                tls_peer(tls, route.target.host())
                    .ok_or_else(|| NetError::Url { url: route.target.to_string(), reason })?,
            ),
        };
        let proxy_tls = match (&route.proxy_tls, &route.proxy) {
            (Some(tls), Some(proxy)) => Some(
                tls_peer(tls, &proxy.host)
                    .ok_or_else(|| NetError::Url { url: format!("https://{}", proxy.authority()), reason })?,
            ),
            _ => None,
        };
        let (http, rx_timestamps) = (config.http, config.rx_timestamps.then(TimestampGuard::new));
        let looks_up = config.lookup_each;
        let connector = Connector { route, clock, http, looks_up, rx_timestamps, tls, proxy_tls, dial };
        if connector.absolute_form() && config.http == HttpVersion::Http2 {
            return Err(NetError::ProxiedHttp2);
        }
        Ok(connector)
    }

    /// Opens a connection, and notes as soon as the peer has taken it, which is before TLS. The caller applies the timeout.
    pub async fn open(&self, is_taken: &Cell<bool>) -> Result<Opened, ExchangeFailure> {
        let dns = self.look_up().await?;
        let started_at = self.clock.now();
        let (mut transport, stamps) = match &self.route.proxy {
            None => self.open_transport().await?,
            Some(proxy) => self.open_tunnel(proxy).await?,
        };
        let connected_at = self.clock.now();
        is_taken.set(true);
        let connect = connected_at - started_at;
        let mut used = ConnectionUse { new: true, dns, connect, ..ConnectionUse::default() };
        if let Some(tls) = &self.tls {
            transport = tls_connect(transport, tls, self.http, self.is_read_ahead()).await?;
            used.tls = self.clock.now() - connected_at;
            used.resumed = transport.is_resumed();
        }
        stamps.reset_first_byte();
        Ok(Opened { transport, stamps, used })
    }

    /// Looks the name up where every connection does, and says how long that took.
    async fn look_up(&self) -> Result<Span, ExchangeFailure> {
        let is_asked = self.looks_up && self.dial.0.is_none() && self.route.unix_socket.is_none();
        if !is_asked || !self.route.is_named() {
            return Ok(Span::ZERO);
        }
        let started_at = self.clock.now();
        let route = self.route.clone();
        // The resolver of the system blocks, and the thread of a client must not.
        let found = tokio::task::spawn_blocking(move || route.refresh_blocking()).await;
        let failed = |detail: String| ExchangeFailure { kind: FailureKind::Dns, detail };
        found.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))?;
        Ok(self.clock.now() - started_at)
    }

    /// Whether TLS is read ahead: where reads are stamped by the kernel, as in a measurement, and are taken at once.
    fn is_read_ahead(&self) -> bool {
        self.rx_timestamps.is_some()
    }

    /// Whether requests use the absolute form: plain HTTP through an HTTP proxy.
    pub fn absolute_form(&self) -> bool {
        self.route.proxy.as_ref().is_some_and(|proxy| proxy.kind.is_http()) && self.tls.is_none()
    }

    /// Value of `Proxy-Authorization` for requests in absolute form.
    pub fn proxy_authorization(&self) -> Option<&http::HeaderValue> {
        self.route.proxy.as_ref().filter(|_| self.absolute_form()).and_then(|proxy| proxy.authorization.as_ref())
    }

    pub fn route(&self) -> &Route {
        &self.route
    }

    /// Connects to the target, or to the proxy in front of it.
    async fn open_transport(&self) -> Result<(Transport, Rc<Stamps>), ExchangeFailure> {
        let socket = match (&self.dial.0, &self.route.unix_socket) {
            (Some(dial), _) => Socket::Memory(dial(&self.route.target).await.map_err(|error| {
                let detail = format!("connect to {}: {error}", self.route.target.authority());
                ExchangeFailure { kind: FailureKind::Connect, detail }
            })?),
            (None, Some(path)) => Socket::Unix(UnixStream::connect(path).await.map_err(|error| {
                let detail = format!("connect to the Unix socket {}: {error}", path.display());
                ExchangeFailure { kind: FailureKind::Connect, detail }
            })?),
            (None, None) => Socket::Tcp(self.open_tcp().await?),
        };
        let stream = Stamped::new(socket, self.clock, ());
        let stamps = stream.stamps();
        Ok((Transport::Plain(stream), stamps))
    }

    /// Connects to the target through a proxy.
    async fn open_tunnel(&self, proxy: &Proxy) -> Result<(Transport, Rc<Stamps>), ExchangeFailure> {
        let failed = |detail: String| ExchangeFailure { kind: FailureKind::Proxy, detail };
        let Some(destinations) = tunnel::destinations(&self.route, proxy) else { return self.open_proxy(proxy).await };
        let place = self.route.target.host_and_port();
        let mut last_failure = format!("no address of {place} is known");
        for to in &destinations {
            let (mut transport, stamps) = self.open_proxy(proxy).await?;
            match tunnel::open(&mut transport, &self.route, proxy, to).await {
                Ok(()) => return Ok((transport, stamps)),
                Err(TunnelError::Destination(reason)) => {
                    last_failure = format!("the proxy {} did not reach {place}: {reason}", proxy.authority());
                }
                Err(TunnelError::Proxy(reason)) => {
                    return Err(failed(format!(
                        "the proxy {} opened no tunnel to {place}: {reason}",
                        proxy.authority()
                    )));
                }
            }
        }
        Err(failed(last_failure))
    }

    /// Connects to the proxy.
    async fn open_proxy(&self, proxy: &Proxy) -> Result<(Transport, Rc<Stamps>), ExchangeFailure> {
        let (transport, stamps) = self.open_transport().await?;
        let Some(tls) = &self.proxy_tls else { return Ok((transport, stamps)) };
        match tls_connect(transport, tls, HttpVersion::Http1, self.is_read_ahead()).await {
            Ok(transport) => Ok((transport, stamps)),
            Err(failure) => {
                let detail = format!("TLS with the proxy {}: {}", proxy.authority(), failure.detail);
                Err(ExchangeFailure { kind: FailureKind::Proxy, detail })
            }
        }
    }

    async fn open_tcp(&self) -> Result<TcpSocket, ExchangeFailure> {
        let is_proxied = self.route.proxy.is_some();
        let (kind, whom) = if is_proxied { (FailureKind::Proxy, "the proxy ") } else { (FailureKind::Connect, "") };
        match tcp::connect(&self.route.addresses().peer).await {
            Ok(stream) => {
                // Nagle together with delayed acknowledgements would hold small requests back by up to 40 ms.
                let _ = stream.set_nodelay(true);
                Ok(TcpSocket::new(stream, self.rx_timestamps.is_some()))
            }
            Err(Some((address, error))) => {
                Err(ExchangeFailure { kind, detail: format!("connect to {whom}{address}: {}", describe(&error)) })
            }
            Err(None) => Err(ExchangeFailure { kind, detail: "no address to connect to".to_owned() }),
        }
    }
}

/// The error text, with a hint if the error is a limit of this machine.
fn describe(error: &std::io::Error) -> String {
    let ours = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(|errno| Some(errno.raw_os_error()));
    if ours.contains(&error.raw_os_error()) {
        return format!("{error}: a limit of this machine, not a failure of the server; raise it (`ulimit -n`)");
    }
    error.to_string()
}

fn tls_peer(tls: &Arc<rustls::ClientConfig>, host: &str) -> Option<TlsPeer> {
    Some((TlsConnector::from(Arc::clone(tls)), ServerName::try_from(host.to_owned()).ok()?))
}

/// Performs the TLS handshake over a connection.
async fn tls_connect(
    below: Transport,
    tls: &TlsPeer,
    http: HttpVersion,
    is_read_ahead: bool,
) -> Result<Transport, ExchangeFailure> {
    let (connector, name) = tls;
    let below = ReadAhead::new(below, is_read_ahead);
    let stream = connector.connect(name.clone(), below).await.map_err(|error| handshake_failure(&error, http))?;
    if stream.get_ref().1.alpn_protocol() != Some(b"h2") && http == HttpVersion::Http2 {
        let detail = "the server does not offer HTTP/2 over TLS".to_owned();
        return Err(ExchangeFailure { kind: FailureKind::Tls, detail });
    }
    Ok(Transport::Tls(Box::new(stream)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;

    #[test]
    fn too_many_open_files_are_no_fault_of_the_server() {
        let error = std::io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error());
        assert!(
            describe(&error).contains("not a failure of the server; raise it (`ulimit -n`)"),
            "{}",
            describe(&error)
        );
        let refused = std::io::Error::from_raw_os_error(rustix::io::Errno::CONNREFUSED.raw_os_error());
        assert!(!describe(&refused).contains("ulimit"));
    }

    #[test]
    fn a_connection_that_was_opened_sends_small_writes_at_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            let url = format!("http://{}/v1", listener.local_addr().expect("it is bound"));
            let (config, clock) = (ClientConfig::default(), Clock::monotonic());
            let target = Target::parse(&url).expect("a URL");
            let route = Route::resolve_blocking(&target, &config, clock).expect("an address");
            let opened =
                Connector::new(&config, route, clock, Dial::tcp()).expect("a connector").open(&Cell::new(false)).await;
            let Transport::Plain(mut stream) = opened.expect("it listens").transport else {
                panic!("no TLS was asked for")
            };
            let Socket::Tcp(socket) = stream.inner_mut() else { panic!("no memory was given") };
            assert!(
                socket.stream().nodelay().expect("an open socket"),
                "a small request waits for the acknowledgement of the last"
            );
        });
    }
}
