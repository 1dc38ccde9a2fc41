//! Opening connections: TCP, proxy, TLS, each timed.
//!
//! It refuses to know HTTP beyond a proxy's CONNECT. Invariant: stamps are taken below TLS.

use crate::clock::Clock;
use crate::config::{ClientConfig, HttpVersion};
use crate::error::NetError;
use crate::exchange::{ConnectionUse, ExchangeFailure};
use crate::route::Route;
use crate::stamped::{Stamped, Stamps};
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokrate_core::FailureKind;

/// Longest answer of a proxy to CONNECT.
const PROXY_ANSWER_MOST: usize = 16 * 1024;

/// An open connection.
pub(crate) enum Transport {
    Plain(Stamped<TcpStream>),
    Tls(Box<TlsStream<Stamped<TcpStream>>>),
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
    tls: Option<(tokio_rustls::TlsConnector, ServerName<'static>)>,
}

impl Connector {
    pub fn new(config: &ClientConfig, route: Route, clock: Clock) -> Result<Connector, NetError> {
        let tls = if route.target.is_tls() {
            let name = ServerName::try_from(route.target.host().to_owned())
                .map_err(|_| NetError::Url { url: route.target.to_string(), reason: "its host cannot be a name in a certificate" })?;
            Some((tokio_rustls::TlsConnector::from(Arc::new(tls_config(config)?)), name))
        } else {
            None
        };
        Ok(Connector { route, clock, tls })
    }

    /// Opens one. The caller bounds the time.
    pub async fn open(&self) -> Result<Opened, ExchangeFailure> {
        let started_at = self.clock.now();
        let stream = self.open_tcp().await?;
        let mut stream = Stamped::new(stream, self.clock, ());
        if self.tunnels() {
            self.open_tunnel(&mut stream).await?;
        }
        let stamps = stream.stamps();
        let connected_at = self.clock.now();
        let mut used = ConnectionUse { new: true, connect: connected_at - started_at, ..ConnectionUse::default() };
        let transport = match &self.tls {
            None => Transport::Plain(stream),
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await.map_err(tls_failure)?;
                used.tls = self.clock.now() - connected_at;
                Transport::Tls(Box::new(stream))
            }
        };
        Ok(Opened { transport, stamps, used })
    }

    /// Whether requests carry the whole URL, as plain HTTP through a proxy wants it.
    pub fn absolute_form(&self) -> bool {
        self.route.proxy.is_some() && !self.route.target.is_tls()
    }

    /// The proxy's own header on plain HTTP requests.
    pub fn proxy_authorization(&self) -> Option<&http::HeaderValue> {
        self.route.proxy.as_ref().filter(|_| self.absolute_form()).and_then(|proxy| proxy.authorization.as_ref())
    }

    pub fn route(&self) -> &Route {
        &self.route
    }

    fn tunnels(&self) -> bool {
        self.route.proxy.is_some() && self.route.target.is_tls()
    }

    async fn open_tcp(&self) -> Result<TcpStream, ExchangeFailure> {
        let mut last = None;
        for address in self.route.addresses.iter() {
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
    async fn open_tunnel(&self, stream: &mut Stamped<TcpStream>) -> Result<(), ExchangeFailure> {
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

fn tls_failure(error: io::Error) -> ExchangeFailure {
    let detail = match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidMessage(_)) => "the server does not speak TLS on this port; use http://".to_owned(),
        Some(rustls::Error::InvalidCertificate(reason)) => format!("the server's certificate is not good: {reason}"),
        Some(reason) => reason.to_string(),
        None => format!("the connection broke during the TLS handshake: {error}"),
    };
    ExchangeFailure { kind: FailureKind::Tls, detail }
}

fn tls_config(config: &ClientConfig) -> Result<rustls::ClientConfig, NetError> {
    let mut roots = rustls::RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(native.certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    if let Some(path) = &config.ca_file {
        let wrong = |reason: String| NetError::Authorities { path: path.clone(), reason };
        let pem = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let mut count = 0;
        for certificate in rustls::pki_types::CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
            roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
            count += 1;
        }
        if count == 0 {
            return Err(wrong("it holds no certificate".to_owned()));
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    // One protocol is offered, so that a run never mixes two.
    tls.alpn_protocols = match config.http {
        HttpVersion::Http1 => vec![b"http/1.1".to_vec()],
        HttpVersion::Http2 => vec![b"h2".to_vec()],
    };
    Ok(tls)
}

macro_rules! either {
    ($self:expr, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Transport::Plain($stream) => {
                let $stream = Pin::new($stream);
                $call
            }
            Transport::Tls($stream) => {
                let $stream = Pin::new($stream.as_mut());
                $call
            }
        }
    };
}

impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_read(context, buffer))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Transport::Plain(stream) => stream.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_shutdown(context))
    }
}
