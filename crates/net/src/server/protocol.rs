//! Detects HTTP/1.1 or HTTP/2 from the first bytes of a connection. Invariant: the bytes read are passed on, first and in one piece.

use tokio::io::{AsyncRead, AsyncReadExt};

/// Connection preface of HTTP/2 clients (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Size of the first read: fits a usual head and a short body.
const FIRST_BYTES: usize = 4096;

/// Versions of HTTP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Version {
    Http1,
    Http2,
}

/// Reads until the version is clear; returns it with the bytes read, or `None` if the client left.
pub(super) async fn detect<T: AsyncRead + Unpin>(inner: &mut T) -> Option<(Version, Vec<u8>)> {
    let mut first = Vec::with_capacity(FIRST_BYTES);
    loop {
        if inner.read_buf(&mut first).await.ok()? == 0 {
            return None;
        }
        let seen = first.len().min(PREFACE.len());
        let version = match first[..seen] == PREFACE[..seen] {
            true if seen < PREFACE.len() => continue,
            true => Version::Http2,
            false => Version::Http1,
        };
        return Some((version, first));
    }
}
