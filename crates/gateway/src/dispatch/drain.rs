//! Reads losers to their end in the background, so that their exact cost is known.
//!
//! Invariant: a drain ends by itself, at its limit of time or of bytes.

use crate::settle::account::{Account, AttemptLease, AttemptOutcome};
use crate::upstream::attempt::Attempt;
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use tokio::task::JoinSet;
use tokrate_core::{Span, Tick};
use tokrate_record::AttemptEnd;

/// The limits of a drain.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub number: usize,
    pub until: Tick,
    pub max_bytes: u64,
}

/// Reads an attempt to its end in a task of its own, then settles it.
pub(crate) fn spawn(drains: &Drains, account: Rc<Account>, attempt: Attempt, lease: AttemptLease, bounds: Bounds) {
    drains.0.borrow_mut().spawn_local(async move {
        // Dropping the task at shutdown settles the attempt as well.
        let mut draining = Draining { account, attempt, lease: Some(lease), number: bounds.number };
        let time_left: Span = bounds.until - draining.account.shared.clock.now();
        let mut bytes_left = bounds.max_bytes;
        let read = poll_fn(|context| {
            let has_ended = draining.attempt.poll(context);
            // The bytes are discarded.
            let bytes = draining.attempt.body.borrow_mut().take_ready();
            bytes_left = bytes_left.saturating_sub(bytes.map_or(0, |bytes| bytes.len() as u64));
            match has_ended || bytes_left == 0 {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        });
        // At the time limit the attempt is settled with what is known by then.
        let _ = tokio::time::timeout(time_left.as_duration(), read).await;
        drop(draining);
    });
}

/// The drains of one worker thread.
#[derive(Default)]
pub(crate) struct Drains(RefCell<JoinSet<()>>);

impl Drains {
    /// Waits until all have ended, up to a time limit, and aborts the rest.
    pub async fn end(&self, timeout: Span) {
        let mut drains = self.0.take();
        let all = async { while drains.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(timeout.as_duration(), all).await;
    }

    /// Removes drains that have ended.
    pub fn reap(&self) {
        while self.0.borrow_mut().try_join_next().is_some() {}
    }
}

struct Draining {
    account: Rc<Account>,
    attempt: Attempt,
    lease: Option<AttemptLease>,
    number: usize,
}

impl Drop for Draining {
    fn drop(&mut self) {
        self.attempt.cancel(self.account.shared.clock.now());
        if let Some(lease) = self.lease.take() {
            let outcome = AttemptOutcome {
                number: self.number,
                end: AttemptEnd::Lost,
                won: false,
                failure: None,
                retry_after: None,
                overhead: None,
                hold: None,
                is_beside: false,
            };
            self.account.settle(&self.attempt, lease, outcome);
        }
    }
}
