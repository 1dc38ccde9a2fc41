//! The trace of one call while it runs: its own span, and those of its attempts as they are settled.
//!
//! Invariant: a trace is finished once, when the last who holds it lets go: the client's answer has ended and every attempt of it
//! was settled, losers that are read on in the background included.

use super::context::TraceContext;
use super::finished::{AttemptSpan, FinishedTrace, RefusedSpan};
use super::identity::attempt_id;
use super::queue::TraceQueue;
use http::HeaderMap;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use tokrate_core::{Span, Tick};

/// The trace of a call that runs.
pub(crate) struct ActiveTrace {
    queue: Arc<TraceQueue>,
    context: TraceContext,
    has_parent: bool,
    span_id: [u8; 8],
    operation: &'static str,
    epoch_unix_ns: u64,
    started_at: Tick,
    ended_at: Cell<Option<Tick>>,
    status: Cell<Option<u16>>,
    is_stream: Cell<bool>,
    hold: Cell<Option<Span>>,
    refused: RefCell<Option<RefusedSpan>>,
    attempts: RefCell<Vec<AttemptSpan>>,
}

/// When a call began, on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning {
    pub at: Tick,
    pub unix_ns: u64,
}

impl ActiveTrace {
    /// The trace of a call with these headers.
    pub fn begin(
        queue: &Arc<TraceQueue>,
        headers: &HeaderMap,
        operation: &'static str,
        began: Beginning,
    ) -> ActiveTrace {
        let client = TraceContext::of(headers);
        let has_parent = client.is_some();
        let (span_id, own) = queue.next_identity();
        let context = client.unwrap_or_else(|| TraceContext {
            trace_id: own,
            span_id: [0; 8],
            is_sampled: queue.is_in_share(&own),
            state: None,
        });
        ActiveTrace {
            queue: Arc::clone(queue),
            context,
            has_parent,
            span_id,
            operation,
            epoch_unix_ns: began.unix_ns.saturating_sub(began.at.as_nanos()),
            started_at: began.at,
            ended_at: Cell::new(None),
            status: Cell::new(None),
            is_stream: Cell::new(false),
            hold: Cell::new(None),
            refused: RefCell::new(None),
            attempts: RefCell::default(),
        }
    }

    /// What an attempt's request says of the trace; `None` if lanes are not told.
    pub fn context_for(&self, number: usize) -> Option<TraceContext> {
        self.queue
            .propagates()
            .then(|| TraceContext { span_id: attempt_id(self.span_id, number), ..self.context.clone() })
    }

    /// The client's answer has ended.
    pub fn end(&self, at: Tick, is_stream: bool, hold: Option<Span>) {
        self.ended_at.set(Some(at));
        self.is_stream.set(is_stream);
        self.hold.set(hold);
    }

    /// The status of the response.
    pub fn set_status(&self, status: u16) {
        self.status.set(Some(status));
    }

    /// The request was refused before a lane was asked.
    pub fn refuse(&self, at: Tick, refused: RefusedSpan) {
        self.ended_at.set(Some(at));
        *self.refused.borrow_mut() = Some(refused);
    }

    /// An attempt was settled.
    pub fn add(&self, attempt: AttemptSpan) {
        self.attempts.borrow_mut().push(attempt);
    }
}

impl Drop for ActiveTrace {
    fn drop(&mut self) {
        let (mut attempts, refused) = (self.attempts.take(), self.refused.take());
        // The client left before its request was read, or the gateway ends.
        if attempts.is_empty() && refused.is_none() {
            return;
        }
        attempts.sort_by_key(|attempt| attempt.row.attempt);
        let last = attempts.iter().map(|attempt| attempt.ended_at).max();
        let context = TraceContext { state: self.context.state.take(), ..self.context };
        self.queue.push(FinishedTrace {
            context,
            span_id: self.span_id,
            has_parent: self.has_parent,
            operation: self.operation,
            epoch_unix_ns: self.epoch_unix_ns,
            started_at: self.started_at,
            ended_at: self.ended_at.get().or(last).unwrap_or(self.started_at),
            status: self.status.get(),
            is_stream: self.is_stream.get(),
            hold: self.hold.get(),
            refused,
            attempts,
        });
    }
}
