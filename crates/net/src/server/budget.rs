//! Limits the memory that all request bodies take together.
//!
//! Invariant: all shares together never exceed the budget, and a share is returned when it is dropped, on any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Larger shares leave a part of the budget to smaller ones, so that few large bodies cannot block all others.
const LARGE_BYTES: usize = 1 << 20;
/// That part is 1/4.
const SMALL_BODY_SHARE: usize = 4;

/// Bytes that all bodies may hold together.
#[derive(Debug)]
pub struct ByteBudget {
    limit: usize,
    held: AtomicUsize,
}

/// What one body holds of a budget.
#[derive(Debug)]
pub struct ByteShare {
    of: Arc<ByteBudget>,
    bytes: usize,
}

impl ByteBudget {
    /// A budget of `limit` bytes.
    pub fn new(limit: usize) -> Arc<ByteBudget> {
        Arc::new(ByteBudget { limit, held: AtomicUsize::new(0) })
    }

    /// Bytes that are held now.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// A share that holds nothing yet.
    pub fn share(self: &Arc<Self>) -> ByteShare {
        ByteShare { of: Arc::clone(self), bytes: 0 }
    }

    /// The limit that applies to a share of that size.
    fn room_for(&self, bytes: usize) -> usize {
        self.limit - if bytes > LARGE_BYTES { self.limit / SMALL_BODY_SHARE } else { 0 }
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

    /// Moves up to `bytes` bytes to a new share.
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

    /// Changes its size, if the budget has room; returns whether it has.
    #[must_use]
    pub fn resize(&mut self, bytes: usize) -> bool {
        let Some(more) = bytes.checked_sub(self.bytes) else {
            self.of.held.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
            self.bytes = bytes;
            return true;
        };
        let limit = self.of.room_for(bytes);
        let grown = |held: usize| held.checked_add(more).filter(|held| *held <= limit);
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
