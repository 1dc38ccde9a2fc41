//! Applies the timeouts of an exchange and records when its request was sent.
//!
//! Invariant: it costs nothing per piece of a body: it wakes only when a timeout could have expired.

use crate::clock::Clock;
use crate::exchange::{ExchangeFailure, Limits, Sink};
use crate::stamped::Departure;
use crate::stamped::Stamps;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tokrate_core::{FailureKind, Span, Tick};

pub(super) struct ExchangeWatch {
    clock: Clock,
    limits: Limits,
    started_at: Tick,
    baseline: RefCell<Option<Baseline>>,
    sent: Departure,
    sent_reported: Cell<bool>,
}

/// A connection and its counters when the exchange began on it.
struct Baseline {
    stamps: Rc<Stamps>,
    since: Tick,
    read_before: u64,
    wrote_before: u64,
}

impl ExchangeWatch {
    pub(super) fn new(clock: Clock, limits: Limits) -> ExchangeWatch {
        ExchangeWatch {
            clock,
            limits,
            started_at: clock.now(),
            baseline: RefCell::default(),
            sent: Departure::default(),
            sent_reported: Cell::new(false),
        }
    }

    /// Applies timeouts to this connection from now on.
    pub(super) fn track(&self, stamps: &Rc<Stamps>) {
        *self.baseline.borrow_mut() = Some(Baseline {
            stamps: Rc::clone(stamps),
            since: self.clock.now(),
            read_before: stamps.read_bytes(),
            wrote_before: stamps.wrote_bytes(),
        });
    }

    /// Set when the request's last byte was handed to the socket.
    pub(super) fn sent_mark(&self) -> Departure {
        Rc::clone(&self.sent)
    }

    /// The request is sent once more: it counts from then.
    pub(super) fn restart(&self) {
        self.sent.set(None);
        self.sent_reported.set(false);
    }

    /// Reports to the sink when the request was sent, once.
    pub(super) fn report_sent(&self, sink: &mut impl Sink) {
        if let Some(at) = self.sent.get()
            && !self.sent_reported.replace(true)
        {
            sink.sent(at);
        }
    }

    /// Bytes read and written since the exchange began on its connection.
    pub(super) fn bytes(&self) -> (u64, u64) {
        self.baseline.borrow().as_ref().map_or((0, 0), |baseline| {
            let stamps = &baseline.stamps;
            (stamps.read_bytes() - baseline.read_before, stamps.wrote_bytes() - baseline.wrote_before)
        })
    }

    /// Completes when a timeout expires.
    pub(super) async fn expiry(&self) -> ExchangeFailure {
        let Limits { idle, total, .. } = self.limits;
        if (idle, total) == (Span::MAX, Span::MAX) {
            return std::future::pending().await;
        }
        let over_at = self.started_at + total;
        loop {
            let now = self.clock.now();
            if now >= over_at {
                let detail = format!("the request took longer than {total}");
                return ExchangeFailure { kind: FailureKind::TimedOut, detail };
            }
            // While a connection is being opened, the connect timeout applies instead.
            let stalled_at = self.last_activity().unwrap_or(now) + idle;
            if now >= stalled_at {
                let detail = format!("no byte came for {idle}");
                return ExchangeFailure { kind: FailureKind::Stalled, detail };
            }
            let next = over_at.min(stalled_at);
            tokio::time::sleep((next - now).max(Span::from_millis(1)).as_duration()).await;
        }
    }

    fn last_activity(&self) -> Option<Tick> {
        let baseline = self.baseline.borrow();
        let Baseline { stamps, since, .. } = baseline.as_ref()?;
        Some((*since).max(stamps.read_at()).max(stamps.wrote_at()))
    }
}
