//! Writes a request. Invariant: the departure is set by the write that takes the request's last byte.

use crate::client::Dialer;
use crate::client::upload::take_piece;
use crate::exchange::{ExchangeFailure, Outgoing, StreamedUpload};
use crate::stamped::Departure;
use crate::stamped::Stamps;
use crate::transport::Transport;
use crate::upgraded::asks_to_upgrade;
use bytes::{Buf, Bytes};
use http::Method;
use http::header::{CONTENT_LENGTH, HOST, PROXY_AUTHORIZATION, TRANSFER_ENCODING};
use std::io::{self, IoSlice, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;
use tokrate_core::FailureKind;

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
    /// What follows the body, as it comes.
    rest: Option<StreamedUpload>,
    piece: Bytes,
    /// Why the rest cannot be had.
    broken: Option<String>,
}

impl RequestWriter {
    /// A request to `address`: a path, or a whole URL where a proxy wants it. `departure` is set when it was sent.
    pub fn new(
        outgoing: &Outgoing,
        rest: Option<StreamedUpload>,
        address: &str,
        dialer: &Dialer,
        departure: Departure,
    ) -> RequestWriter {
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
            let length = body.len() as u64 + rest.as_ref().map_or(0, |rest| rest.length);
            write!(head, "content-length: {length}\r\n").expect("a vector takes everything");
        }
        head.extend_from_slice(b"\r\n");
        let asks_to_upgrade = asks_to_upgrade(headers);
        let (method, body) = (method.clone(), body.clone());
        let (piece, broken) = (Bytes::new(), None);
        let rest = rest.filter(|rest| rest.length > 0);
        RequestWriter {
            method,
            head,
            body,
            written: 0,
            departure,
            is_marked: false,
            asks_to_upgrade,
            rest,
            piece,
            broken,
        }
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
            if self.written >= last_from && !self.is_marked && self.rest.is_none() {
                self.is_marked = true;
                stamps.mark_next_write(self.departure.clone());
            }
            let until = if self.is_marked || self.rest.is_some() { all } else { last_from };
            let in_head = self.written.min(self.head.len())..until.min(self.head.len());
            let in_body = self.written.saturating_sub(self.head.len())..until.saturating_sub(self.head.len());
            let slices = [IoSlice::new(&self.head[in_head]), IoSlice::new(&self.body[in_body])];
            let taken = ready!(Pin::new(&mut *transport).poll_write_vectored(context, &slices))?;
            if taken == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += taken;
        }
        ready!(self.poll_rest(transport, stamps, context))?;
        Pin::new(transport).poll_flush(context)
    }

    /// Writes what follows the body.
    fn poll_rest(
        &mut self,
        transport: &mut Transport,
        stamps: &Stamps,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while let Some(rest) = &mut self.rest {
            if self.piece.is_empty() {
                // What was written so far must not wait for what is to come.
                ready!(Pin::new(&mut *transport).poll_flush(context))?;
                match ready!(take_piece(rest, context)) {
                    Ok(piece) => self.piece = piece,
                    Err(error) => {
                        self.broken = Some(error.to_string());
                        return Poll::Ready(Err(error));
                    }
                }
            }
            if rest.length == 0 && !self.is_marked {
                self.is_marked = true;
                stamps.mark_next_write(self.departure.clone());
            }
            let taken = ready!(Pin::new(&mut *transport).poll_write(context, &self.piece))?;
            if taken == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.piece.advance(taken);
            if self.piece.is_empty() && rest.length == 0 {
                self.rest = None;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Why the body cannot be sent to its end, if that is the client's doing.
    pub fn broken_upload(&self) -> Option<ExchangeFailure> {
        let detail = self.broken.clone()?;
        Some(ExchangeFailure { kind: FailureKind::BadRequest, detail })
    }
}
