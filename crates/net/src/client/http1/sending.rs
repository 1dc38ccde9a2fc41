//! A request on its way out.
//!
//! It refuses to read. Invariant: the departure is filled by the write that takes the request's last byte.

use crate::exchange::{Departure, Outgoing};
use crate::stamped::Stamps;
use crate::transport::Transport;
use bytes::Bytes;
use http::Method;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;

/// What the last write is offered at most. Below TLS several records make up a request; with a last piece of one record, the
/// mark cannot be set by an earlier one.
const LAST_PIECE_BYTES: usize = 16 * 1024;

/// Head and body, and how much of them has gone.
pub(super) struct Sending {
    head: Vec<u8>,
    body: Bytes,
    gone: usize,
    departure: Departure,
    is_expected: bool,
}

impl Sending {
    /// A request to `address`: a path, or a whole URL where a proxy wants it. `departure` is filled when it has left.
    pub fn new(outgoing: Outgoing, address: &str, departure: Departure) -> Sending {
        let Outgoing { method, headers, body, .. } = outgoing;
        let fields: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        let mut head = Vec::with_capacity(method.as_str().len() + address.len() + fields + 64);
        for part in [method.as_str().as_bytes(), b" ", address.as_bytes(), b" HTTP/1.1\r\n"] {
            head.extend_from_slice(part);
        }
        for (name, value) in &headers {
            // How the body is marked off is said below, once.
            if *name == CONTENT_LENGTH || *name == TRANSFER_ENCODING {
                continue;
            }
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                head.extend_from_slice(part);
            }
        }
        if !body.is_empty() || matches!(method, Method::POST | Method::PUT | Method::PATCH) {
            head.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
        }
        head.extend_from_slice(b"\r\n");
        Sending { head, body, gone: 0, departure, is_expected: false }
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
