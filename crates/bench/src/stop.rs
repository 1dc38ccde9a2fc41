//! The wish to end a run early, carried across threads and runtimes.
//!
//! It refuses to know signals. Invariant: once set it stays set, and everyone who waits is told.

use tokio::sync::watch;

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

    /// Completes when the run is to end.
    pub async fn wait(&self) {
        // The sender lives in `self`, so the channel cannot close.
        let _ = self.sender.subscribe().wait_for(|set| *set).await;
    }
}
