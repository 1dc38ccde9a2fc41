//! Who runs: slots, the queue before them, and how fast those who run go.
//!
//! It refuses to know what is answered. Invariant: never more holders than slots, and nobody overtakes in the queue.
//!
//! Here is the place for schedulers that batch by steps or bound prefill by a token budget: they differ in whom they
//! admit and in how many they count as decoding, and in nothing else of the engine.

use crate::law::{Law, Scheduler};
use std::collections::VecDeque;

/// The state of a scheduler. Streams are named by their place in the engine's table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schedule {
    queue: VecDeque<usize>,
    holding: u32,
    decoding: u32,
}

impl Schedule {
    pub fn queued(&self) -> u32 {
        u32::try_from(self.queue.len()).unwrap_or(u32::MAX)
    }

    pub fn holding(&self) -> u32 {
        self.holding
    }

    pub fn decoding(&self) -> u32 {
        self.decoding
    }

    /// Whether one more request would have to queue beyond the limit.
    pub fn is_full(&self, law: &Law) -> bool {
        let Scheduler::Slots = law.scheduler;
        self.holding >= law.slots && law.queue_limit.is_some_and(|limit| self.queued() >= limit)
    }

    pub fn enqueue(&mut self, stream: usize) {
        self.queue.push_back(stream);
    }

    /// Takes out of the queue whoever left before its turn.
    pub fn leave_queue(&mut self, stream: usize) {
        self.queue.retain(|&queued| queued != stream);
    }

    /// The next stream that gets a slot now, if there is one.
    pub fn admit(&mut self, law: &Law) -> Option<usize> {
        let Scheduler::Slots = law.scheduler;
        if self.holding >= law.slots {
            return None;
        }
        let stream = self.queue.pop_front()?;
        self.holding += 1;
        Some(stream)
    }

    pub fn release(&mut self) {
        self.holding -= 1;
    }

    pub fn start_decoding(&mut self) {
        self.decoding += 1;
    }

    pub fn stop_decoding(&mut self) {
        self.decoding -= 1;
    }
}
