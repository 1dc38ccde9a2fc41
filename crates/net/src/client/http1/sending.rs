//! A request on its way out.
//!
//! It refuses to read. Invariant: the departure is filled by the write that takes the request's last byte.

use crate::client::Dialer;
use crate::exchange::{Departure, Outgoing};
use crate::stamped::Stamps;
use crate::transport::Transport;
use bytes::Bytes;
use http::Method;
use http::header::{CONTENT_LENGTH, HOST, PROXY_AUTHORIZATION, TRANSFER_ENCODING};
use std::io::{self, IoSlice, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;

/// What the last write is offered at most. Below TLS several records make up a request; with a last piece of one record, the
/// mark cannot be set by an earlier one.
const LAST_PIECE_BYTES: usize = 16 * 1024;
/// Room for what every head has: method, version, names of fields, a length.
const FIXED_BYTES: usize = 80;

/// Head and body, and how much of them has gone.
pub(in crate::client) struct Sending {
    method: Method,
    head: Vec<u8>,
    body: Bytes,
    gone: usize,
    departure: Departure,
    is_expected: bool,
}

impl Sending {
    /// A request to `address`: a path, or a whole URL where a proxy wants it. `departure` is filled when it has left.
    pub fn new(outgoing: &Outgoing, address: &str, dialer: &Dialer, departure: Departure) -> Sending {
        let Outgoing { method, headers, body, .. } = outgoing;
        let fields: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        let mut head = Vec::with_capacity(address.len() + dialer.authority.len() + fields + FIXED_BYTES);
        for part in [method.as_str(), " ", address, " HTTP/1.1\r\nhost: ", &dialer.authority, "\r\n"] {
            head.extend_from_slice(part.as_bytes());
        }
        let own = dialer.connector.proxy_authorization().map(|value| (&PROXY_AUTHORIZATION, value));
        // Whom it is for, and how the body is marked off, is said once, and here.
        let theirs = headers.iter().filter(|(name, _)| ![HOST, CONTENT_LENGTH, TRANSFER_ENCODING].contains(name));
        for (name, value) in theirs.chain(own) {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                head.extend_from_slice(part);
            }
        }
        if !body.is_empty() || matches!(*method, Method::POST | Method::PUT | Method::PATCH) {
            write!(head, "content-length: {}\r\n", body.len()).expect("a vector takes everything");
        }
        head.extend_from_slice(b"\r\n");
        Sending { method: method.clone(), head, body: body.clone(), gone: 0, departure, is_expected: false }
    }

    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Writes what the connection takes; ready when all of it is gone.
    pub fn poll(
        &mut self,
        transport: &mut Transport,
        stamps: &Stamps,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let all = self.head.len() + self.body.len();
        let last_from = all.saturating_sub(LAST_PIECE_BYTES);
        while self.gone < all {
            if self.gone >= last_from && !self.is_expected {
                self.is_expected = true;
                stamps.expect_departure(self.departure.clone());
            }
            let until = if self.is_expected { all } else { last_from };
            let in_head = self.gone.min(self.head.len())..until.min(self.head.len());
            let in_body = self.gone.saturating_sub(self.head.len())..until.saturating_sub(self.head.len());
            let slices = [IoSlice::new(&self.head[in_head]), IoSlice::new(&self.body[in_body])];
            let taken = ready!(Pin::new(&mut *transport).poll_write_vectored(context, &slices))?;
            if taken == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.gone += taken;
        }
        Pin::new(transport).poll_flush(context)
    }
}
