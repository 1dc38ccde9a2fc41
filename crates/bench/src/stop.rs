//! Stop signal of a run, shared by threads and runtimes.
//!
//! Invariant: once set it stays set, and all waiters wake.

use std::time::Duration;
use tokio::sync::watch;
use tokrate_core::Span;
use tokrate_net::Clock;

/// Polling interval of a blocking wait; short enough for a user's interrupt.
const STEP: Duration = Duration::from_millis(50);

/// A stop flag that can be set once and awaited.
#[derive(Clone, Debug)]
pub struct Stop {
    sender: std::sync::Arc<watch::Sender<bool>>,
}

impl Default for Stop {
    fn default() -> Stop {
        Stop { sender: std::sync::Arc::new(watch::Sender::new(false)) }
    }
}

impl Stop {
    /// Ends the run: nothing more is started, requests in flight are cancelled and kept as far as they got.
    pub fn set(&self) {
        self.sender.send_replace(true);
    }

    /// Whether the run is to end.
    pub fn is_set(&self) -> bool {
        *self.sender.borrow()
    }

    /// Returns when the run is to end or the time is over.
    pub fn wait_blocking(&self, time: Span, clock: Clock) {
        let until = clock.now() + time;
        // Polled, so that an interrupt is noticed.
        while !self.is_set() && clock.now() < until {
            std::thread::sleep(STEP.min((until - clock.now()).as_duration()));
        }
    }

    /// Completes when the run is to end.
    pub async fn wait(&self) {
        // The sender lives in `self`, so the channel cannot close.
        let _ = self.sender.subscribe().wait_for(|set| *set).await;
    }
}
