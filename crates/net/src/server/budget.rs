//! How much memory the bodies of all requests may take together.
//!
//! It does not know bodies. Invariant: what all shares hold together never exceeds the budget, and a share gives back what it
//! holds when it is dropped, on whichever thread that is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Shares beyond this size leave a part of the budget to smaller ones, so that few large bodies do not keep out all others.
const LARGE_BYTES: usize = 1 << 20;
/// That part: one in so many.
const KEPT_FOR_SMALL: usize = 4;

/// So many bytes for all bodies that are held.
#[derive(Debug)]
pub struct ByteBudget {
    most: usize,
    held: AtomicUsize,
}

/// What one body holds of a budget.
#[derive(Debug)]
pub struct ByteShare {
    of: Arc<ByteBudget>,
    bytes: usize,
}

impl ByteBudget {
    /// A budget of so many bytes, none of which is held.
    pub fn new(most: usize) -> Arc<ByteBudget> {
        Arc::new(ByteBudget { most, held: AtomicUsize::new(0) })
    }

    /// Bytes that are held now.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// A share that holds nothing yet.
    pub fn share(self: &Arc<Self>) -> ByteShare {
        ByteShare { of: Arc::clone(self), bytes: 0 }
    }

    /// What a share of that size may leave of the budget at most.
    fn room_for(&self, bytes: usize) -> usize {
        self.most - if bytes > LARGE_BYTES { self.most / KEPT_FOR_SMALL } else { 0 }
    }
}

impl ByteShare {
    /// Another share of the same budget, which holds nothing.
    pub(super) fn empty(&self) -> ByteShare {
        self.of.share()
    }

    /// What it holds (bytes).
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Another share, which takes over so many of the bytes that this one holds, or all of them.
    pub fn split(&mut self, bytes: usize) -> ByteShare {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        ByteShare { of: Arc::clone(&self.of), bytes }
    }

    /// Whether it could hold so many bytes now.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        self.of.held().checked_add(more).is_some_and(|held| held <= self.of.room_for(bytes))
    }

    /// Holds so many bytes from now on, if the budget has room for them; tells whether it does.
    #[must_use]
    pub fn resize(&mut self, bytes: usize) -> bool {
        let Some(more) = bytes.checked_sub(self.bytes) else {
            self.of.held.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
            self.bytes = bytes;
            return true;
        };
        let most = self.of.room_for(bytes);
        let grown = |held: usize| held.checked_add(more).filter(|held| *held <= most);
        let has_room = self.of.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_ok();
        if has_room {
            self.bytes = bytes;
        }
        has_room
    }
}

impl Drop for ByteShare {
    fn drop(&mut self) {
        self.of.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_never_hold_more_than_the_budget_and_give_back_what_they_held() {
        let budget = ByteBudget::new(1_000);
        let (mut one, mut other) = (budget.share(), budget.share());
        assert!(one.resize(600) && other.has_room_for(400) && !other.has_room_for(401));
        assert!(!other.resize(401) && other.resize(400) && !one.resize(601));
        assert!(one.resize(100) && other.resize(900) && budget.held() == 1_000);
        drop(other);
        assert!(one.resize(1_000) && !one.resize(usize::MAX));
        drop(one);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn large_bodies_leave_room_to_small_ones() {
        let budget = ByteBudget::new(8 << 20);
        let mut large: Vec<ByteShare> = (0..4).map(|_| budget.share()).collect();
        let held = large.iter_mut().filter(|share| share.has_room_for(2 << 20)).map(|share| share.resize(2 << 20));
        assert_eq!(held.filter(|held| *held).count(), 3);
        let mut small = budget.share();
        assert!(small.resize(1 << 20) && !large[3].resize(2 << 20));
    }
}
