//! Opens a tunnel through a proxy: HTTP CONNECT or SOCKS5. Invariant: what is read from the stream afterwards is the target's.

use super::socks5::{self, Destination, TunnelError};
use crate::proxy::{Proxy, ProxyKind};
use crate::route::Route;
use std::net::IpAddr;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Largest response head to CONNECT; real ones are a few hundred bytes.
const MAX_CONNECT_RESPONSE_BYTES: usize = 16 * 1024;

/// Destinations to try in order; `None` if requests go to the proxy itself (plain HTTP).
pub(super) fn destinations(route: &Route, proxy: &Proxy) -> Option<Vec<Destination>> {
    let (host, port) = (route.target.host(), route.target.port());
    Some(match proxy.kind {
        ProxyKind::Http | ProxyKind::Https if route.tls.is_none() => return None,
        ProxyKind::Socks5 => route.addresses().behind_proxy.iter().copied().map(Destination::Address).collect(),
        _ => vec![match host.parse::<IpAddr>() {
            Ok(ip) => Destination::Address((ip, port).into()),
            Err(_) => Destination::Name(host.to_owned(), port),
        }],
    })
}

/// Asks the proxy for a tunnel to the target.
pub(super) async fn open(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    route: &Route,
    proxy: &Proxy,
    to: &Destination,
) -> Result<(), TunnelError> {
    match proxy.kind {
        ProxyKind::Http | ProxyKind::Https => connect(stream, &route.target.host_and_port(), proxy).await,
        ProxyKind::Socks5 | ProxyKind::Socks5h => socks5::connect(stream, to, proxy.credentials.as_ref()).await,
    }
}

async fn connect(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    authority: &str,
    proxy: &Proxy,
) -> Result<(), TunnelError> {
    let mut request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n").into_bytes();
    if let Some(value) = &proxy.authorization {
        request.extend_from_slice(b"Proxy-Authorization: ");
        request.extend_from_slice(value.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    stream.write_all(&request).await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    // Byte by byte, so that nothing after the head is consumed. It is short and read once per connection.
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await?);
        if answer.len() > MAX_CONNECT_RESPONSE_BYTES {
            return Err(TunnelError::Proxy("its response head is too long".to_owned()));
        }
    }
    let line = String::from_utf8_lossy(answer.split(|&byte| byte == b'\r').next().unwrap_or_default()).into_owned();
    match line.split(' ').nth(1) {
        Some(status) if status.starts_with('2') => Ok(()),
        _ => Err(TunnelError::Proxy(format!("it answers {line}"))),
    }
}
