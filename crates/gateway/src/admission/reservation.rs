//! What is reserved of a key's limits while an attempt runs. How much that is: see `estimate`.
//!
//! Invariant: a reservation is settled once, or released.

use crate::state::lock::locked;
use crate::state::plan::Key;
use std::sync::Arc;
use tokrate_core::Money;
use tokrate_net::Clock;
use tokrate_route::ReservationRequest;

/// A reservation for one attempt; released if it is dropped without being settled.
pub(crate) struct KeyReservation {
    key: Arc<Key>,
    clock: Clock,
    held: Option<tokrate_route::KeyReservation>,
    /// The most that the attempt may use.
    most: (u64, Money),
}

impl KeyReservation {
    pub fn new(
        key: Arc<Key>,
        clock: Clock,
        held: tokrate_route::KeyReservation,
        need: ReservationRequest,
    ) -> KeyReservation {
        KeyReservation { key, clock, held: Some(held), most: (need.tokens, need.max_cost) }
    }

    /// What the attempt used will never be known: it counts as the most that it may have been, which is returned.
    pub fn settle_whole(self) -> Money {
        let (tokens, cost) = self.most;
        self.settle(tokens, cost);
        cost
    }

    /// The attempt has ended, and this is what it used.
    pub fn settle(mut self, tokens: u64, cost: Money) {
        if let Some(held) = self.held.take() {
            locked(&self.key.meter).settle(self.clock.now(), held, tokens, cost);
        }
    }

    /// Lowers the reservation to the most that the chosen lane can cost.
    pub fn lower(&mut self, most: Money) {
        self.most.1 = self.most.1.min(most);
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
