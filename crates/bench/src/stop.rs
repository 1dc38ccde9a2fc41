//! The wish to end a run early, carried across threads and runtimes.
//!
//! It refuses to know signals. Invariant: once set it stays set, and everyone who waits is told.

use std::time::Duration;
use tokio::sync::watch;
use tokrate_core::Span;

/// How often a thread that waits looks whether the run is to end.
const STEP: Duration = Duration::from_millis(50);

/// A switch that can be set once and waited for.
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
    /// Ends the run: nothing more is started, what is in flight is cancelled and kept as far as it came.
    pub fn set(&self) {
        self.sender.send_replace(true);
    }

    /// Whether the run is to end.
    pub fn is_set(&self) -> bool {
        *self.sender.borrow()
    }

    /// Returns when the run is to end or the time is over.
    pub fn wait_blocking(&self, time: Span) {
        let until = std::time::Instant::now() + time.as_duration();
        // Looked at often enough for a user who wants to end.
        while !self.is_set() && std::time::Instant::now() < until {
            std::thread::sleep(STEP.min(until.saturating_duration_since(std::time::Instant::now())));
        }
    }

    /// Completes when the run is to end.
    pub async fn wait(&self) {
        // The sender lives in `self`, so the channel cannot close.
        let _ = self.sender.subscribe().wait_for(|set| *set).await;
    }
}
