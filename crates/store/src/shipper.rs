//! Sends what waits in a spool to ClickHouse, in a thread of its own that nobody waits for.
//!
//! Invariant: an entry leaves the spool once the server has it, and a batch that is sent again, after whatever kill, has the token it
//! had; so each row is there once.

use crate::clickhouse::{ClickHouse, Tables};
use crate::database::Format;
use crate::outgoing::{MAX_ENTRIES, Outgoing, Shipped};
use crate::{StoreError, clickhouse, monitor, schema};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokrate_core::Span;

/// Between two looks into the spool: ClickHouse wants few large batches.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After the first failure; doubled after each further one, up to `LONGEST_WAIT`.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What a file holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Warehouse {
    /// A gateway's log.
    Log,
    /// A monitor's database.
    Monitor,
}

/// Where rows go beside the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shipping {
    /// The database.
    pub to: ClickHouse,
    /// How long rows are kept there; `None` for ever.
    pub keep: Option<Span>,
}

/// The thread that empties a spool. It ends when this is dropped, after one last try.
#[derive(Debug)]
pub struct Shipper {
    is_stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Warehouse {
    fn parts(self) -> (&'static Format, &'static Tables) {
        match self {
            Warehouse::Log => (&schema::LOG, &clickhouse::LOG),
            Warehouse::Monitor => (&monitor::MONITOR, &clickhouse::MONITOR),
        }
    }
}

impl Shipping {
    /// Makes the tables in ClickHouse, or brings them to the newest version.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses, or a newer tokrate has made them.
    pub fn prepare(&self, what: Warehouse) -> Result<(), StoreError> {
        self.to.prepare(what.parts().1, self.keep)
    }

    /// Sends the batch that is under way in a spool, or the next one.
    ///
    /// # Errors
    /// When the spool cannot be used, or the server does not take the batch; it is then sent again by the next call.
    pub fn step(&self, spool: &mut Outgoing) -> Result<Shipped, StoreError> {
        let Some(batch) = spool.batch()? else { return Ok(Shipped::default()) };
        let mut entries = 0;
        for (table, rows) in batch.tables {
            entries += rows.iter().filter(|byte| **byte == b'\n').count() as u64;
            self.to.insert(table, &batch.token, rows)?;
        }
        spool.taken(batch.last)?;
        Ok(Shipped { entries })
    }
}

impl Outgoing {
    /// Opens the spool of a log or of a monitor's database.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub fn of(path: &Path, what: Warehouse) -> Result<Outgoing, StoreError> {
        Outgoing::open(path, what.parts().0)
    }
}

impl Shipper {
    /// Empties the spool of a file from now on. `notice` gets what users should know.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(
        path: PathBuf,
        what: Warehouse,
        shipping: Shipping,
        notice: impl FnMut(String) + Send + 'static,
    ) -> Result<Shipper, StoreError> {
        let is_stopping = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_stopping);
        let failed = path.clone();
        let run = move || Ship { path, what, shipping, notice, is_prepared: false, failure: None }.run(&seen);
        let thread = std::thread::Builder::new().name("tokrate-clickhouse".to_owned()).spawn(run);
        let no_thread =
            |error| StoreError::Open { path: failed, message: format!("no thread for ClickHouse: {error}") };
        Ok(Shipper { is_stopping, thread: Some(thread.map_err(no_thread)?) })
    }
}

impl Drop for Shipper {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It tries once more, within the limits of one request.
            let _ = thread.join();
        }
    }
}

struct Ship<N> {
    path: PathBuf,
    what: Warehouse,
    shipping: Shipping,
    notice: N,
    is_prepared: bool,
    /// The latest failure that users know of.
    failure: Option<String>,
}

impl<N: FnMut(String)> Ship<N> {
    fn run(mut self, is_stopping: &AtomicBool) {
        let mut wait = FIRST_WAIT;
        loop {
            // Looked at before the spool, so that what was written before the end is sent.
            let is_last = is_stopping.load(Ordering::Acquire);
            let pause = match self.empty() {
                Ok(()) => {
                    wait = FIRST_WAIT;
                    LOOK_EVERY
                }
                Err(error) => {
                    self.failed(&error);
                    let pause = wait;
                    wait = LONGEST_WAIT.min(wait * 2);
                    pause
                }
            };
            if is_last {
                return;
            }
            if !is_stopping.load(Ordering::Acquire) {
                std::thread::park_timeout(pause);
            }
        }
    }

    /// Sends all that waits.
    fn empty(&mut self) -> Result<(), StoreError> {
        // A log may be moved away while it is written; then another file stands there.
        let mut spool = Outgoing::of(&self.path, self.what)?;
        self.bound(&mut spool)?;
        if !self.is_prepared {
            self.shipping.prepare(self.what)?;
            self.is_prepared = true;
        }
        while self.shipping.step(&mut spool)?.entries > 0 {
            if self.failure.take().is_some() {
                let shown = self.shipping.to.shown().display();
                (self.notice)(format!("{shown} takes rows again; what waited is being sent"));
            }
        }
        Ok(())
    }

    fn bound(&mut self, spool: &mut Outgoing) -> Result<(), StoreError> {
        let dropped = spool.bound(MAX_ENTRIES)?;
        if dropped > 0 {
            let path = self.path.display();
            (self.notice)(format!(
                "more than {MAX_ENTRIES} rows wait in {path} for ClickHouse: the oldest {dropped} were dropped from there, and are in this file alone"
            ));
        }
        Ok(())
    }

    fn failed(&mut self, error: &StoreError) {
        // Tables may have been dropped meanwhile.
        self.is_prepared &= !matches!(error, StoreError::Refused { .. });
        let message = error.to_string();
        if self.failure.as_ref() != Some(&message) {
            let waiting = Outgoing::of(&self.path, self.what).and_then(|spool| spool.waiting());
            let waiting = waiting.map_or_else(|_| "rows".to_owned(), |count| format!("{count} rows"));
            let path = self.path.display();
            (self.notice)(format!("failed to {message}; {waiting} wait in {path} and are sent later"));
            self.failure = Some(message);
        }
    }
}
