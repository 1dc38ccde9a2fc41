//! Opening connections: TCP or memory, a proxy's tunnel, TLS, each timed.
//!
//! It refuses to know HTTP beyond a proxy's CONNECT. Invariant: one call opens at most one connection and retries nothing but
//! the further addresses of the same name.

use crate::clock::Clock;
use crate::config::{ClientConfig, HttpVersion};
use crate::error::NetError;
use crate::exchange::{ConnectionUse, ExchangeFailure};
use crate::route::Route;
use crate::stamped::{Stamped, Stamps};
use crate::target::Target;
use crate::tls::handshake_failure;
use crate::transport::{MemoryStream, Socket, Transport};
use rustls::pki_types::ServerName;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, TlsStream};
use tokrate_core::FailureKind;

/// Longest answer of a proxy to CONNECT.
const PROXY_ANSWER_MOST: usize = 16 * 1024;

/// How connections to targets are opened: over TCP, or by the caller, in memory.
#[derive(Clone, Default)]
pub struct Dial(Option<Rc<MemoryDial>>);

/// Opens a connection to a target in memory.
type MemoryDial = dyn Fn(&Target) -> Pin<Box<dyn Future<Output = io::Result<Box<dyn MemoryStream>>>>>;

impl Dial {
    /// Over TCP.
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

/// Opens connections along one route.
pub(crate) struct Connector {
    route: Route,
    clock: Clock,
    http: HttpVersion,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    dial: Dial,
}

impl Connector {
    pub fn new(config: &ClientConfig, route: Route, clock: Clock, dial: Dial) -> Result<Connector, NetError> {
        let tls = match &route.tls {
            None => None,
            Some(tls) => {
                let reason = "its host cannot be a name in a certificate";
                let name = ServerName::try_from(route.target.host().to_owned())
                    .map_err(|_| NetError::Url { url: route.target.to_string(), reason })?;
                Some((TlsConnector::from(Arc::clone(tls)), name))
            }
        };
        let connector = Connector { route, clock, http: config.http, tls, dial };
        if connector.absolute_form() && config.http == HttpVersion::Http2 {
            return Err(NetError::ProxiedHttp2);
        }
        Ok(connector)
    }

    /// Opens one. The caller bounds the time.
    pub async fn open(&self) -> Result<Opened, ExchangeFailure> {
        let started_at = self.clock.now();
        let socket = match &self.dial.0 {
            Some(dial) => Socket::Memory(dial(&self.route.target).await.map_err(|error| {
                let detail = format!("connect to {}: {error}", self.route.target.authority());
                ExchangeFailure { kind: FailureKind::Connect, detail }
            })?),
            None => Socket::Tcp(self.open_tcp().await?),
        };
        let mut stream = Stamped::new(socket, self.clock, ());
        if self.route.proxy.is_some() && self.tls.is_some() {
            self.open_tunnel(&mut stream).await?;
        }
        let stamps = stream.stamps();
        let connected_at = self.clock.now();
        let mut used = ConnectionUse { new: true, connect: connected_at - started_at, ..ConnectionUse::default() };
        let transport = match &self.tls {
            None => Transport::Plain(stream),
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await;
                let stream = stream.map_err(|error| handshake_failure(&error, self.http))?;
                used.tls = self.clock.now() - connected_at;
                if stream.get_ref().1.alpn_protocol() != Some(b"h2") && self.http == HttpVersion::Http2 {
                    let detail = "the server does not offer HTTP/2 over TLS".to_owned();
                    return Err(ExchangeFailure { kind: FailureKind::Tls, detail });
                }
                Transport::Tls(Box::new(TlsStream::Client(stream)))
            }
        };
        Ok(Opened { transport, stamps, used })
    }

    /// Whether requests carry the whole URL, as plain HTTP through a proxy wants it.
    pub fn absolute_form(&self) -> bool {
        self.route.proxy.is_some() && self.tls.is_none()
    }

    /// The proxy's own header on plain HTTP requests.
    pub fn proxy_authorization(&self) -> Option<&http::HeaderValue> {
        self.route.proxy.as_ref().filter(|_| self.absolute_form()).and_then(|proxy| proxy.authorization.as_ref())
    }

    pub fn route(&self) -> &Route {
        &self.route
    }

    async fn open_tcp(&self) -> Result<TcpStream, ExchangeFailure> {
        let mut last = None;
        for address in self.route.addresses().iter() {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    // Small requests must leave at once; without it the worst is 40 ms of delay.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(error) => last = Some(format!("connect to {address}: {error}")),
            }
        }
        let kind = if self.route.proxy.is_some() { FailureKind::Proxy } else { FailureKind::Connect };
        Err(ExchangeFailure { kind, detail: last.unwrap_or_else(|| "no address to connect to".to_owned()) })
    }

    /// Asks the proxy for a tunnel to the target.
    async fn open_tunnel(&self, stream: &mut Stamped<Socket>) -> Result<(), ExchangeFailure> {
        let failed = |detail: String| ExchangeFailure { kind: FailureKind::Proxy, detail };
        let authority = self.route.target.host_and_port();
        let mut request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n").into_bytes();
        if let Some(value) = self.route.proxy.as_ref().and_then(|proxy| proxy.authorization.as_ref()) {
            request.extend_from_slice(b"Proxy-Authorization: ");
            request.extend_from_slice(value.as_bytes());
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        stream.write_all(&request).await.map_err(|error| failed(format!("write to the proxy: {error}")))?;
        let mut answer = Vec::new();
        // One byte at a time, so that nothing of what follows the answer is swallowed. It is short and read once.
        while !answer.ends_with(b"\r\n\r\n") {
            let byte = stream.read_u8().await.map_err(|error| failed(format!("read the proxy's answer: {error}")))?;
            answer.push(byte);
            if answer.len() > PROXY_ANSWER_MOST {
                return Err(failed("the proxy's answer has no end".to_owned()));
            }
        }
        let line = String::from_utf8_lossy(answer.split(|&byte| byte == b'\r').next().unwrap_or_default()).into_owned();
        match line.split(' ').nth(1) {
            Some(status) if status.starts_with('2') => Ok(()),
            _ => Err(failed(format!("the proxy refused the tunnel: {line}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;

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
            let Socket::Tcp(stream) = stream.inner_mut() else { panic!("no memory was given") };
            assert!(
                stream.nodelay().expect("an open socket"),
                "a small request waits for the acknowledgement of the last"
            );
        });
    }
}
