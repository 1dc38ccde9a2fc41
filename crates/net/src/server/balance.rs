//! Which of several threads serves a new connection: the one that has fewest. Whichever thread is free first accepts, and by chance one
//! would serve most of a few clients while another is idle.
//!
//! Invariant: a connection belongs to one thread at a time, and none is left to a thread that no longer accepts.

use super::connections::ConnectionPermit;
use std::collections::VecDeque;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// A connection on its way to the thread that will serve it.
#[derive(Debug)]
pub(super) struct Handed {
    pub stream: TcpStream,
    pub permit: ConnectionPermit,
    pub place: Place,
}

/// The threads that share a listening socket.
#[derive(Debug, Default)]
struct Thread {
    /// Connections that it serves or was handed.
    connections: AtomicUsize,
    /// What other threads have accepted for it.
    inbox: Mutex<VecDeque<Handed>>,
    arrived: Notify,
    /// Whether it accepts no more; set with the inbox locked.
    closed: AtomicBool,
}

impl Thread {
    fn inbox(&self) -> MutexGuard<'_, VecDeque<Handed>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread's seat among those that share a socket. Dropping it ends what it accepts.
#[derive(Debug)]
pub(super) struct Seat {
    threads: Arc<[Thread]>,
    own: usize,
}

/// Counts a connection for its thread until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    threads: Arc<[Thread]>,
    of: usize,
}

impl Seat {
    /// Seats for so many threads.
    pub fn for_threads(count: usize) -> Vec<Seat> {
        let threads: Arc<[Thread]> = (0..count).map(|_| Thread::default()).collect();
        (0..count).map(|own| Seat { threads: Arc::clone(&threads), own }).collect()
    }

    /// A place for a new connection at the thread that has fewest: this one where several have.
    pub fn place(&self) -> Place {
        let load = |thread: usize| (self.threads[thread].connections.load(Ordering::Relaxed), thread != self.own);
        let open = |thread: &usize| *thread == self.own || !self.threads[*thread].closed.load(Ordering::Acquire);
        let of = (0..self.threads.len()).filter(open).min_by_key(|thread| load(*thread)).unwrap_or(self.own);
        self.threads[of].connections.fetch_add(1, Ordering::Relaxed);
        Place { threads: Arc::clone(&self.threads), of }
    }

    /// Whether a place is this thread's own.
    pub fn owns(&self, place: &Place) -> bool {
        place.of == self.own
    }

    /// Hands a connection to the thread of its place; gives it back if that accepts no more.
    pub fn hand(&self, handed: Handed) -> Option<Handed> {
        let thread = &self.threads[handed.place.of];
        let mut inbox = thread.inbox();
        if thread.closed.load(Ordering::Acquire) {
            return Some(handed);
        }
        inbox.push_back(handed);
        drop(inbox);
        thread.arrived.notify_one();
        None
    }

    /// The next connection that another thread handed to this one. Cancel-safe.
    pub async fn handed(&self) -> Handed {
        let thread = &self.threads[self.own];
        loop {
            let arrived = thread.arrived.notified();
            if let Some(handed) = thread.inbox().pop_front() {
                return handed;
            }
            arrived.await;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let thread = &self.threads[self.own];
        let mut inbox = thread.inbox();
        thread.closed.store(true, Ordering::Release);
        let left = std::mem::take(&mut *inbox);
        drop(inbox);
        // Closed, as connections in the listener's backlog are.
        drop(left);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.threads[self.of].connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_gets_as_many_connections_as_the_others_and_room_that_is_left_is_filled_again() {
        let seats = Seat::for_threads(3);
        let count = |thread: usize| seats[0].threads[thread].connections.load(Ordering::Relaxed);
        // One thread accepts all.
        let mut places: Vec<Place> = (0..9).map(|_| seats[1].place()).collect();
        assert_eq!([count(0), count(1), count(2)], [3, 3, 3]);
        places.retain(|place| place.of != 2);
        let again: Vec<usize> = (0..3).map(|_| seats[0].place().of).collect();
        // Each was given up at once.
        assert_eq!(again, [2, 2, 2]);
        let kept: Vec<Place> = (0..4).map(|_| seats[0].place()).collect();
        assert_eq!(
            kept.iter().map(|place| place.of).collect::<Vec<_>>(),
            [2, 2, 2, 0],
            "its own where all have as many"
        );
        drop((places, kept));
        assert_eq!([count(0), count(1), count(2)], [0, 0, 0]);
    }

    #[test]
    fn a_thread_that_accepts_no_more_is_given_nothing() {
        let mut seats = Seat::for_threads(2);
        let gone = seats.pop().expect("two");
        let held = seats[0].place();
        assert_eq!(seats[0].place().of, 1);
        drop(gone);
        assert_eq!(seats[0].place().of, 0);
        drop(held);
    }
}
