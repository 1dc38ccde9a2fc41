//! Opening connections: TCP, a Unix socket or memory, a proxy's tunnel, TLS, each timed.
//!
//! It refuses to know HTTP beyond a proxy's CONNECT. Invariant: one call keeps at most one connection and retries nothing but
//! the further addresses of the same name.

mod socks5;
mod tunnel;

use crate::clock::Clock;
use crate::config::{ClientConfig, HttpVersion};
use crate::error::NetError;
use crate::exchange::{ConnectionUse, ExchangeFailure};
use crate::proxy::Proxy;
use crate::route::Route;
use crate::rx_timestamp::TcpSocket;
use crate::stamped::{Stamped, Stamps};
use crate::target::Target;
use crate::tls::handshake_failure;
use crate::transport::{MemoryStream, Socket, Transport};
use rustls::pki_types::ServerName;
use socks5::Refused;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokrate_core::FailureKind;

/// How connections to targets are opened: over sockets, or by the caller, in memory.
#[derive(Clone, Default)]
pub struct Dial(Option<Rc<MemoryDial>>);

/// Opens a connection to a target in memory.
type MemoryDial = dyn Fn(&Target) -> Pin<Box<dyn Future<Output = io::Result<Box<dyn MemoryStream>>>>>;

impl Dial {
    /// Over TCP, or the Unix socket of the route.
    pub fn tcp() -> Dial {
        Dial(None)
    }

    /// By `open`, which hands out one end of a connection in memory or says why there is none; no address is looked up for it.
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

/// An open connection with what is known of it.
pub(crate) struct Opened {
    pub transport: Transport,
    pub stamps: Rc<Stamps>,
    pub used: ConnectionUse,
}

/// TLS with one peer.
type Encryption = (TlsConnector, ServerName<'static>);

/// Opens connections along one route.
pub(crate) struct Connector {
    route: Route,
    clock: Clock,
    http: HttpVersion,
    rx_timestamps: bool,
    tls: Option<Encryption>,
    proxy_tls: Option<Encryption>,
    dial: Dial,
}

impl Connector {
    pub fn new(config: &ClientConfig, route: Route, clock: Clock, dial: Dial) -> Result<Connector, NetError> {
        let reason = "its host cannot be a name in a certificate";
        let tls = match &route.tls {
            None => None,
            Some(tls) => Some(
                encryption(tls, route.target.host())
                    .ok_or_else(|| NetError::Url { url: route.target.to_string(), reason })?,
            ),
        };
        let proxy_tls = match (&route.proxy_tls, &route.proxy) {
            (Some(tls), Some(proxy)) => Some(
                encryption(tls, &proxy.host)
                    .ok_or_else(|| NetError::Url { url: format!("https://{}", proxy.place()), reason })?,
            ),
            _ => None,
        };
        let (http, rx_timestamps) = (config.http, config.rx_timestamps);
        let connector = Connector { route, clock, http, rx_timestamps, tls, proxy_tls, dial };
        if connector.absolute_form() && config.http == HttpVersion::Http2 {
            return Err(NetError::ProxiedHttp2);
        }
        Ok(connector)
    }

    /// Opens one. The caller bounds the time.
    pub async fn open(&self) -> Result<Opened, ExchangeFailure> {
        let started_at = self.clock.now();
        let (mut transport, stamps) = match &self.route.proxy {
            None => self.open_first().await?,
            Some(proxy) => self.open_through(proxy).await?,
        };
        let connected_at = self.clock.now();
        let mut used = ConnectionUse { new: true, connect: connected_at - started_at, ..ConnectionUse::default() };
        if let Some(tls) = &self.tls {
            transport = encrypted(transport, tls, self.http).await?;
            used.tls = self.clock.now() - connected_at;
        }
        stamps.is_opened();
        Ok(Opened { transport, stamps, used })
    }

    /// Whether requests carry the whole URL, as plain HTTP through a proxy of HTTP wants it.
    pub fn absolute_form(&self) -> bool {
        self.route.proxy.as_ref().is_some_and(|proxy| proxy.kind.is_http()) && self.tls.is_none()
    }

    /// The proxy's own header on plain HTTP requests.
    pub fn proxy_authorization(&self) -> Option<&http::HeaderValue> {
        self.route.proxy.as_ref().filter(|_| self.absolute_form()).and_then(|proxy| proxy.authorization.as_ref())
    }

    pub fn route(&self) -> &Route {
        &self.route
    }

    /// To the target, or to the proxy in front of it.
    async fn open_first(&self) -> Result<(Transport, Rc<Stamps>), ExchangeFailure> {
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

    /// To the target, through a proxy.
    async fn open_through(&self, proxy: &Proxy) -> Result<(Transport, Rc<Stamps>), ExchangeFailure> {
        let failed = |detail: String| ExchangeFailure { kind: FailureKind::Proxy, detail };
        let Some(destinations) = tunnel::destinations(&self.route, proxy) else { return self.open_proxy(proxy).await };
        let place = self.route.target.host_and_port();
        let mut unreached = format!("no address of {place} is known");
        for to in &destinations {
            let (mut transport, stamps) = self.open_proxy(proxy).await?;
            match tunnel::open(&mut transport, &self.route, proxy, to).await {
                Ok(()) => return Ok((transport, stamps)),
                Err(Refused::Destination(why)) => {
                    unreached = format!("the proxy {} did not reach {place}: {why}", proxy.place());
                }
                Err(Refused::Proxy(why)) => {
                    return Err(failed(format!("the proxy {} gave no tunnel to {place}: {why}", proxy.place())));
                }
            }
        }
        Err(failed(unreached))
    }

    /// To the proxy.
    async fn open_proxy(&self, proxy: &Proxy) -> Result<(Transport, Rc<Stamps>), ExchangeFailure> {
        let (transport, stamps) = self.open_first().await?;
        let Some(tls) = &self.proxy_tls else { return Ok((transport, stamps)) };
        match encrypted(transport, tls, HttpVersion::Http1).await {
            Ok(transport) => Ok((transport, stamps)),
            Err(failure) => {
                let detail = format!("TLS with the proxy {}: {}", proxy.place(), failure.detail);
                Err(ExchangeFailure { kind: FailureKind::Proxy, detail })
            }
        }
    }

    async fn open_tcp(&self) -> Result<TcpSocket, ExchangeFailure> {
        let is_proxied = self.route.proxy.is_some();
        let (kind, whom) = if is_proxied { (FailureKind::Proxy, "the proxy ") } else { (FailureKind::Connect, "") };
        let mut last = None;
        for address in &self.route.addresses().first {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    // Small requests must leave at once; without it the worst is 40 ms of delay.
                    let _ = stream.set_nodelay(true);
                    return Ok(TcpSocket::new(stream, self.rx_timestamps));
                }
                Err(error) => last = Some(format!("connect to {whom}{address}: {}", said(&error))),
            }
        }
        Err(ExchangeFailure { kind, detail: last.unwrap_or_else(|| "no address to connect to".to_owned()) })
    }
}

/// What an error of the system says; of one that is this machine's own, that it is.
fn said(error: &std::io::Error) -> String {
    let ours = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(|errno| Some(errno.raw_os_error()));
    if ours.contains(&error.raw_os_error()) {
        return format!("{error}: a limit of this machine and no fault of the server; raise it (`ulimit -n`)");
    }
    error.to_string()
}

fn encryption(tls: &Arc<rustls::ClientConfig>, host: &str) -> Option<Encryption> {
    Some((TlsConnector::from(Arc::clone(tls)), ServerName::try_from(host.to_owned()).ok()?))
}

/// The same connection with TLS on it.
async fn encrypted(below: Transport, tls: &Encryption, http: HttpVersion) -> Result<Transport, ExchangeFailure> {
    let (connector, name) = tls;
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
        assert!(said(&error).contains("no fault of the server; raise it (`ulimit -n`)"), "{}", said(&error));
        let refused = std::io::Error::from_raw_os_error(rustix::io::Errno::CONNREFUSED.raw_os_error());
        assert!(!said(&refused).contains("ulimit"));
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
            let opened = Connector::new(&config, route, clock, Dial::tcp()).expect("a connector").open().await;
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
