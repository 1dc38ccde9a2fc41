//! Getting through a proxy to the target: CONNECT of HTTP, or SOCKS5.
//!
//! It refuses to open connections. Invariant: what is read from the stream afterwards is the target's.

use super::socks5::{self, Destination, Refused};
use crate::proxy::{Proxy, ProxyKind};
use crate::route::Route;
use std::net::IpAddr;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Longest answer of a proxy to CONNECT.
const ANSWER_MOST: usize = 16 * 1024;

/// What a proxy can be asked for, in turn, until one of them is reached; `None` if it is handed the requests themselves.
pub(super) fn destinations(route: &Route, proxy: &Proxy) -> Option<Vec<Destination>> {
    let (host, port) = (route.target.host(), route.target.port());
    Some(match proxy.kind {
        ProxyKind::Http | ProxyKind::Https if route.tls.is_none() => return None,
        ProxyKind::Socks5 => route.addresses().beyond.iter().copied().map(Destination::Address).collect(),
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
) -> Result<(), Refused> {
    match proxy.kind {
        ProxyKind::Http | ProxyKind::Https => connect(stream, &route.target.host_and_port(), proxy).await,
        ProxyKind::Socks5 | ProxyKind::Socks5Names => socks5::ask(stream, to, proxy.login.as_ref()).await,
    }
}

async fn connect(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    authority: &str,
    proxy: &Proxy,
) -> Result<(), Refused> {
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
    // One byte at a time, so that nothing of what follows the answer is swallowed. It is short and read once.
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await?);
        if answer.len() > ANSWER_MOST {
            return Err(Refused::Proxy("its answer has no end".to_owned()));
        }
    }
    let line = String::from_utf8_lossy(answer.split(|&byte| byte == b'\r').next().unwrap_or_default()).into_owned();
    match line.split(' ').nth(1) {
        Some(status) if status.starts_with('2') => Ok(()),
        _ => Err(Refused::Proxy(format!("it answers {line}"))),
    }
}
