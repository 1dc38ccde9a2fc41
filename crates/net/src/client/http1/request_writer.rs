//! Writes a request. Invariant: the departure is set by the write that takes the request's last byte.

use crate::client::Dialer;
use crate::exchange::Outgoing;
use crate::stamped::Departure;
use crate::stamped::Stamps;
use crate::transport::Transport;
use crate::upgraded::asks_to_upgrade;
use bytes::Bytes;
use http::Method;
use http::header::{CONTENT_LENGTH, HOST, PROXY_AUTHORIZATION, TRANSFER_ENCODING};
use std::io::{self, IoSlice, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;

/// Most bytes of the last write: one TLS record. With a larger one, the write of an earlier record would set the departure.
const LAST_PIECE_BYTES: usize = 16 * 1024;
/// Capacity for the fixed parts of a head: method, version, field names, a length.
const FIXED_BYTES: usize = 80;

/// Head and body, and how much of them was written.
pub(in crate::client) struct RequestWriter {
    method: Method,
    head: Vec<u8>,
    body: Bytes,
    written: usize,
    departure: Departure,
    is_marked: bool,
    asks_to_upgrade: bool,
}

impl RequestWriter {
    /// A request to `address`: a path, or a whole URL where a proxy wants it. `departure` is set when it was sent.
    pub fn new(outgoing: &Outgoing, address: &str, dialer: &Dialer, departure: Departure) -> RequestWriter {
        let Outgoing { method, headers, body, .. } = outgoing;
        let fields: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        let mut head = Vec::with_capacity(address.len() + dialer.authority.len() + fields + FIXED_BYTES);
        for part in [method.as_str(), " ", address, " HTTP/1.1\r\nhost: ", &dialer.authority, "\r\n"] {
            head.extend_from_slice(part.as_bytes());
        }
        let proxy_field = dialer.connector.proxy_authorization().map(|value| (&PROXY_AUTHORIZATION, value));
        // Host and framing headers are set here, once.
        let fields_to_send =
            headers.iter().filter(|(name, _)| ![HOST, CONTENT_LENGTH, TRANSFER_ENCODING].contains(name));
        for (name, value) in fields_to_send.chain(proxy_field) {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                head.extend_from_slice(part);
            }
        }
        if !body.is_empty() || matches!(*method, Method::POST | Method::PUT | Method::PATCH) {
            write!(head, "content-length: {}\r\n", body.len()).expect("a vector takes everything");
        }
        head.extend_from_slice(b"\r\n");
        let asks_to_upgrade = asks_to_upgrade(headers);
        let (method, body) = (method.clone(), body.clone());
        RequestWriter { method, head, body, written: 0, departure, is_marked: false, asks_to_upgrade }
    }

    /// Whether a 101 is an answer to it.
    pub fn asks_to_upgrade(&self) -> bool {
        self.asks_to_upgrade
    }

    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Writes as much as the connection takes; ready when everything was written.
    pub fn poll(
        &mut self,
        transport: &mut Transport,
        stamps: &Stamps,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let all = self.head.len() + self.body.len();
        let last_from = all.saturating_sub(LAST_PIECE_BYTES);
        while self.written < all {
            if self.written >= last_from && !self.is_marked {
                self.is_marked = true;
                stamps.mark_next_write(self.departure.clone());
            }
            let until = if self.is_marked { all } else { last_from };
            let in_head = self.written.min(self.head.len())..until.min(self.head.len());
            let in_body = self.written.saturating_sub(self.head.len())..until.saturating_sub(self.head.len());
            let slices = [IoSlice::new(&self.head[in_head]), IoSlice::new(&self.body[in_body])];
            let taken = ready!(Pin::new(&mut *transport).poll_write_vectored(context, &slices))?;
            if taken == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += taken;
        }
        Pin::new(transport).poll_flush(context)
    }
}
