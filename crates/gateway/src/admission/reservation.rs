//! What is held of a key's limits while an attempt runs.
//!
//! It does not know how much an attempt may use: see `cost`. Invariant: what is held is settled once, or free again.

use crate::state::lock::locked;
use crate::state::plan::Key;
use std::sync::Arc;
use tokrate_core::Money;
use tokrate_net::Clock;
use tokrate_route::HeldForAttempt;

/// What is held of a key's limits for one attempt. Dropped without being settled, all of it is free again.
pub(crate) struct KeyReservation {
    key: Arc<Key>,
    clock: Clock,
    held: Option<HeldForAttempt>,
}

impl KeyReservation {
    pub fn new(key: Arc<Key>, clock: Clock, held: HeldForAttempt) -> KeyReservation {
        KeyReservation { key, clock, held: Some(held) }
    }

    /// The attempt has ended, and this is what it used.
    pub fn settle(mut self, tokens: u64, cost: Money) {
        if let Some(held) = self.held.take() {
            locked(&self.key.meter).settle(self.clock.now(), held, tokens, cost);
        }
    }

    /// The attempt goes to a lane where it costs no more than that.
    pub fn lower(&mut self, most: Money) {
        if let Some(held) = &mut self.held {
            locked(&self.key.meter).lower(held, most);
        }
    }
}

impl Drop for KeyReservation {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            locked(&self.key.meter).release(self.clock.now(), held);
        }
    }
}
