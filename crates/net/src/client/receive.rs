//! Passes what is received to the sink with its timestamps. Invariant: the sink gets `sent` before the head, the head before the body.

use super::failure::{Stage, failure_of};
use super::timeouts::ExchangeWatch;
use crate::exchange::{ExchangeFailure, Head, Sink};
use crate::stamped::Stamps;
use bytes::Bytes;
use http::StatusCode;
use http_body::Frame;
use hyper::body::Incoming;
use tokrate_core::FailureKind;

pub(super) struct Receiver<'a, S> {
    sink: &'a mut S,
    watch: &'a ExchangeWatch,
    stamps: &'a Stamps,
    /// Bytes that had been read from the connection before this exchange.
    read_before: u64,
    room: u64,
    max_body_bytes: u64,
    proxied: bool,
}

impl<'a, S: Sink> Receiver<'a, S> {
    pub(super) fn new(
        sink: &'a mut S,
        watch: &'a ExchangeWatch,
        stamps: &'a Stamps,
        max_body_bytes: u64,
        proxied: bool,
    ) -> Receiver<'a, S> {
        let read_before = stamps.read_bytes();
        Receiver { sink, watch, stamps, read_before, room: max_body_bytes, max_body_bytes, proxied }
    }

    /// The stage of an answer whose head is incomplete.
    pub(super) fn stage(&self) -> Stage {
        if self.stamps.read_bytes() == self.read_before { Stage::AwaitingResponse } else { Stage::Head }
    }

    /// Whether the sink's buffer is full.
    pub(super) fn is_full(&self) -> bool {
        self.sink.is_full()
    }

    /// Passes on the head.
    pub(super) fn head(&mut self, head: &Head) -> Result<(), ExchangeFailure> {
        self.watch.report_sent(self.sink);
        if self.proxied && head.status == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
            let detail = "the proxy requires a user and a password; write them into its URL".to_owned();
            return Err(ExchangeFailure { kind: FailureKind::Proxy, detail });
        }
        self.sink.head(self.stamps.read_at(), head);
        Ok(())
    }

    /// Passes on a piece of the body.
    pub(super) fn body(&mut self, bytes: &[u8]) -> Result<(), ExchangeFailure> {
        let Some(room) = self.room.checked_sub(bytes.len() as u64) else {
            let detail = format!("the answer is larger than {} bytes", self.max_body_bytes);
            return Err(ExchangeFailure { kind: FailureKind::TooLarge, detail });
        };
        self.room = room;
        self.sink.body(self.stamps.read_at(), bytes);
        Ok(())
    }

    /// Passes on that the body has ended.
    pub(super) fn ended(&mut self) {
        self.sink.ended(self.stamps.read_at());
    }

    /// Passes on that the body may have ended.
    pub(super) fn unsealed(&mut self) {
        self.sink.unsealed();
    }

    /// Passes on the head of hyper's response.
    pub(super) fn begin(
        &mut self,
        response: hyper::Result<http::Response<Incoming>>,
    ) -> Result<Incoming, ExchangeFailure> {
        self.watch.report_sent(self.sink);
        // What was read meanwhile may belong to other streams, and a head comes whole.
        let stage = Stage::AwaitingResponse;
        let (parts, body) = response.map_err(|error| failure_of(&error, stage, self.stamps))?.into_parts();
        self.head(&Head { status: parts.status, headers: parts.headers, version: parts.version })?;
        Ok(body)
    }

    /// Passes on a frame of its body.
    pub(super) fn take(&mut self, frame: hyper::Result<Frame<Bytes>>) -> Result<(), ExchangeFailure> {
        let frame = frame.map_err(|error| failure_of(&error, Stage::Body, self.stamps))?;
        frame.data_ref().map_or(Ok(()), |bytes| self.body(bytes))
    }
}
