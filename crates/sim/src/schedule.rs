//! The scheduler: slots, the queue in front of them, and the number of decoding streams.
//!
//! Invariant: never more running streams than slots; the queue is first in, first out.
//!
//! Schedulers that batch by steps or limit prefill by a token budget would go here: they differ only in what they admit and
//! in how many streams they count as decoding.

use crate::law::{Law, Scheduler};
use std::collections::VecDeque;

/// The state of the scheduler. Streams are identified by their index in the engine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schedule {
    queue: VecDeque<usize>,
    running: u32,
    decoding: u32,
}

impl Schedule {
    pub fn queued(&self) -> u32 {
        u32::try_from(self.queue.len()).unwrap_or(u32::MAX)
    }

    pub fn running(&self) -> u32 {
        self.running
    }

    pub fn decoding(&self) -> u32 {
        self.decoding
    }

    /// Whether one more request would exceed the queue limit.
    pub fn is_full(&self, law: &Law) -> bool {
        let Scheduler::Slots = law.scheduler;
        self.running >= law.slots && law.queue_limit.is_some_and(|limit| self.queued() >= limit)
    }

    pub fn enqueue(&mut self, stream: usize) {
        self.queue.push_back(stream);
    }

    /// Removes a cancelled stream from the queue.
    pub fn remove_from_queue(&mut self, stream: usize) {
        self.queue.retain(|&queued| queued != stream);
    }

    /// The next stream that gets a slot, if there is one.
    pub fn admit(&mut self, law: &Law) -> Option<usize> {
        let Scheduler::Slots = law.scheduler;
        if self.running >= law.slots {
            return None;
        }
        let stream = self.queue.pop_front()?;
        self.running += 1;
        debug_assert!(self.running <= law.slots, "never more running streams than slots");
        Some(stream)
    }

    /// Gives a slot to a queued stream, whatever the law's slots: a scheduler of its own has admitted it.
    pub fn take(&mut self, stream: usize) {
        self.remove_from_queue(stream);
        self.running += 1;
    }

    pub fn release(&mut self) {
        self.running -= 1;
    }

    pub fn start_decoding(&mut self) {
        self.decoding += 1;
        debug_assert!(self.decoding <= self.running, "only running streams decode");
    }

    pub fn stop_decoding(&mut self) {
        self.decoding -= 1;
    }
}
