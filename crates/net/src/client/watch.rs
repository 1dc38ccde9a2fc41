//! Notices when an exchange takes too long, and when its request had left.
//!
//! It refuses to know HTTP. Invariant: it costs nothing per piece of a body: it looks at the stamps when a limit could be
//! over, no sooner.

use crate::clock::Clock;
use crate::exchange::{Departure, ExchangeFailure, Limits, Sink};
use crate::stamped::Stamps;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tokrate_core::{FailureKind, Span, Tick};

pub(super) struct Watch {
    clock: Clock,
    limits: Limits,
    started_at: Tick,
    followed: RefCell<Option<Followed>>,
    sent: Departure,
    sent_told: Cell<bool>,
}

/// A connection, and how it stood when the exchange began on it.
struct Followed {
    stamps: Rc<Stamps>,
    since: Tick,
    read_before: u64,
    wrote_before: u64,
}

impl Watch {
    pub(super) fn new(clock: Clock, limits: Limits) -> Watch {
        Watch {
            clock,
            limits,
            started_at: clock.now(),
            followed: RefCell::default(),
            sent: Departure::default(),
            sent_told: Cell::new(false),
        }
    }

    /// Watches this connection from now on.
    pub(super) fn follow(&self, stamps: &Rc<Stamps>) {
        *self.followed.borrow_mut() = Some(Followed {
            stamps: Rc::clone(stamps),
            since: self.clock.now(),
            read_before: stamps.read_bytes(),
            wrote_before: stamps.wrote_bytes(),
        });
    }

    /// To be filled when the request's last byte has been handed to the socket.
    pub(super) fn sent_mark(&self) -> Departure {
        Rc::clone(&self.sent)
    }

    /// Tells the sink when the request had been sent, if it was and the sink has not heard of it.
    pub(super) fn tell_sent(&self, sink: &mut impl Sink) {
        if let Some(at) = self.sent.get()
            && !self.sent_told.replace(true)
        {
            sink.sent(at);
        }
    }

    /// Bytes read and written since the exchange began on its connection.
    pub(super) fn bytes(&self) -> (u64, u64) {
        self.followed.borrow().as_ref().map_or((0, 0), |followed| {
            let stamps = &followed.stamps;
            (stamps.read_bytes() - followed.read_before, stamps.wrote_bytes() - followed.wrote_before)
        })
    }

    /// Completes when a limit is over.
    pub(super) async fn expiry(&self) -> ExchangeFailure {
        let Limits { idle, total, .. } = self.limits;
        let over_at = self.started_at + total;
        loop {
            let now = self.clock.now();
            if now >= over_at {
                let detail = format!("the request took longer than {total}");
                return ExchangeFailure { kind: FailureKind::TimedOut, detail };
            }
            // While a connection is being opened, the connect limit holds and not this one.
            let stalled_at = self.last_activity().unwrap_or(now) + idle;
            if now >= stalled_at {
                let detail = format!("no byte came for {idle}");
                return ExchangeFailure { kind: FailureKind::Stalled, detail };
            }
            let next = over_at.min(stalled_at);
            if next == Tick::MAX {
                // Nothing ever ends it: a timer would be for nothing.
                return std::future::pending().await;
            }
            tokio::time::sleep((next - now).max(Span::from_millis(1)).as_duration()).await;
        }
    }

    fn last_activity(&self) -> Option<Tick> {
        let followed = self.followed.borrow();
        let Followed { stamps, since, .. } = followed.as_ref()?;
        Some((*since).max(stamps.read_at()).max(stamps.wrote_at()))
    }
}
