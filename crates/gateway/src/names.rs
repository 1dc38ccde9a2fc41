//! Keeps the addresses of lanes' hosts fresh while the gateway runs.
//!
//! It refuses to touch open connections: new ones go where a name leads now. Invariant: a name that cannot be resolved keeps
//! the addresses it had.

use crate::error::GatewayError;
use crate::house::House;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often names are resolved again.
const EVERY: Duration = Duration::from_secs(60);

/// The thread that does it; it ends when this is dropped.
pub(crate) struct Names {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Names {
    /// Watches over the plan of the day, whichever that is.
    pub fn watch(house: &Arc<House>) -> Result<Names, GatewayError> {
        // Not kept alive by this: the log is closed when the gateway ends.
        let house = Arc::downgrade(house);
        let (end, ended) = channel::<()>();
        let thread = std::thread::Builder::new()
            .name("tokrate-names".to_owned())
            .spawn(move || {
                while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                    let Some(plan) = house.upgrade().map(|house| house.plan()) else { return };
                    for endpoint in plan.lanes.iter().flat_map(|lane| &lane.endpoints) {
                        // The old addresses stay; if they are dead, calls to this lane say so.
                        let _ = endpoint.route.refresh_blocking();
                    }
                }
            })
            .map_err(GatewayError::Thread)?;
        Ok(Names { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.end = None;
        // A look-up under way is not waited for: it can take as long as the resolver likes.
        if let Some(thread) = self.thread.take().filter(JoinHandle::is_finished) {
            let _ = thread.join();
        }
    }
}
