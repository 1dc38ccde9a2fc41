//! IdleTurns of the writer: it works when the CPU has nothing better to do, or when its patience ends.
//!
//! A thread of the lowest priority hands out the turns: that it runs at all means that no thread which serves calls waits for a CPU.
//! It holds no lock and no row, so nobody ever waits for it longer than they want.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Asks for turns. Belongs to one thread.
#[derive(Debug)]
pub(super) struct IdleTurns {
    state: Arc<State>,
    /// The thread that hands them out.
    giver: Thread,
}

#[derive(Debug)]
struct State {
    /// The thread that asks.
    asker: Thread,
    /// Number of the last turn asked for, and of the last one given.
    asked: AtomicU64,
    given: AtomicU64,
    ended: AtomicBool,
}

impl IdleTurns {
    /// IdleTurns for the calling thread; `None` where the system has no such priorities, or no thread to spare.
    pub fn for_this_thread() -> Option<IdleTurns> {
        let state = Arc::new(State {
            asker: std::thread::current(),
            asked: AtomicU64::new(0),
            given: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        });
        let (shared, (ready, is_low)) = (Arc::clone(&state), std::sync::mpsc::sync_channel(1));
        let give = move || {
            let is_low = lower_priority();
            // An error means that nobody waits for turns any more.
            let _ = ready.send(is_low);
            if is_low {
                shared.give();
            }
        };
        let thread = std::thread::Builder::new().name("tokrate-turns".to_owned()).spawn(give).ok()?;
        is_low.recv().ok()?.then(|| IdleTurns { state, giver: thread.thread().clone() })
    }

    /// Waits for a turn, at most so long; returns whether it got one.
    #[allow(clippy::disallowed_methods, reason = "waits in real time for a thread of this process")]
    pub fn wait(&self, patience: Duration) -> bool {
        let turn = self.state.asked.load(Ordering::Relaxed) + 1;
        self.state.asked.store(turn, Ordering::Release);
        self.giver.unpark();
        let begun = Instant::now();
        while self.state.given.load(Ordering::Acquire) < turn {
            let Some(left) = patience.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) else {
                return false;
            };
            // A row may wake this thread as well.
            std::thread::park_timeout(left);
        }
        true
    }
}

impl Drop for IdleTurns {
    fn drop(&mut self) {
        // Not joined: on CPUs that are all busy it may take its time.
        self.state.ended.store(true, Ordering::Release);
        self.giver.unpark();
    }
}

impl State {
    fn give(&self) {
        while !self.ended.load(Ordering::Acquire) {
            let asked = self.asked.load(Ordering::Acquire);
            if asked > self.given.load(Ordering::Relaxed) {
                self.given.store(asked, Ordering::Release);
                self.asker.unpark();
            } else {
                std::thread::park();
            }
        }
    }
}

/// Gives the calling thread the lowest ordinary priority; it cannot take that back.
#[cfg(target_os = "linux")]
fn lower_priority() -> bool {
    // The highest niceness. On Linux it is the thread's own.
    rustix::process::setpriority_process(Some(rustix::thread::gettid()), 19).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn lower_priority() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn each_turn_that_is_asked_for_is_given_and_one_that_is_not_ends_with_the_patience() {
        let turns = IdleTurns::for_this_thread().expect("a thread");
        for turn in 1..=100 {
            // A CPU is idle within a minute.
            assert!(turns.wait(Duration::from_secs(60)));
            assert_eq!(turns.state.given.load(Ordering::Acquire), turn);
        }
        let giver = turns.giver.clone();
        let state = Arc::clone(&turns.state);
        drop(turns);
        // Nobody gives any more.
        let alone = IdleTurns { state, giver };
        assert!(!alone.wait(Duration::ZERO) || alone.state.asked.load(Ordering::Relaxed) == 101);
    }
}
