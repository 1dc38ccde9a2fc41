//! The thread that writes the log: gathers rows, writes batches, waits out trouble, removes what is old.
//!
//! It refuses to know who hands rows in. Invariant: its memory is bounded; a row leaves it when a transaction with it was
//! committed to the file that stands at the path, or when the log ends.

use super::{LogConfig, Message, Shared, lock};
use crate::{Sqlite, Store, StoreError};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use tokrate_core::Span;
use tokrate_meter::Attempt;

/// How long one write waits for a lock of another process before the rows are held and it is tried again.
const PATIENCE: Span = Span::from_millis(100);
/// Between two attempts to write at the end.
const FAREWELL_PAUSE: Duration = Duration::from_millis(20);
/// So many old rows are removed at once, so that new ones do not wait.
const PRUNE_ROWS: u64 = 2_000;
/// How often old rows are looked for.
const PRUNE_EVERY: Duration = Duration::from_secs(60);

/// Reads the queue and writes the database.
pub(super) struct Writer {
    config: LogConfig,
    receiver: Receiver<Message>,
    shared: Arc<Shared>,
    /// The database, while it can be used, and which file it is.
    open: Option<(Sqlite, Identity)>,
    held: Vec<Attempt>,
    /// When to try again after an error.
    retry_at: Option<Instant>,
    prune_at: Instant,
    /// Rows turned away that were told as trouble already.
    turned_away: u64,
}

/// Which file stands at a path.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity(u64, u64);

impl Writer {
    /// Opens the database, or leaves that for later if it is locked.
    pub fn open(config: LogConfig, receiver: Receiver<Message>, shared: Arc<Shared>) -> Result<Writer, StoreError> {
        let now = Instant::now();
        let mut writer = Writer {
            config,
            receiver,
            shared,
            open: None,
            held: Vec::new(),
            retry_at: None,
            prune_at: now,
            turned_away: 0,
        };
        match writer.database().map(|_| ()) {
            Err(error) if error.is_locked() => writer.fail(&error),
            other => other?,
        }
        Ok(writer)
    }

    /// Writes until every handle is gone.
    pub fn run(mut self) {
        loop {
            self.wait();
            if self.shared.closing.load(Ordering::Acquire) {
                return self.leave();
            }
            if self.shared.wanted.swap(false, Ordering::AcqRel) {
                self.retry_at = None;
            }
            // Taken before the queue is emptied: whoever came before gets what was handed in before.
            let flushes = std::mem::take(&mut *lock(&self.shared.flushes));
            if self.write_all() {
                flushes.iter().for_each(|flush| flush.try_send(()).unwrap_or_default());
            } else {
                lock(&self.shared.flushes).extend(flushes);
            }
            self.prune();
        }
    }

    /// Sleeps until there is something to do: a full batch, a row that has waited long enough, a retry, a flush, the end.
    fn wait(&mut self) {
        let now = Instant::now();
        if self.held.is_empty() {
            // The nudge of a flush may have been taken along with rows; its mark was set before it was sent.
            if self.is_wanted() {
                return;
            }
            let idle = match self.config.retention {
                Some(_) => self.prune_at.saturating_duration_since(now),
                None => Duration::MAX,
            };
            let message = match idle {
                Duration::MAX => self.receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
                idle => self.receiver.recv_timeout(idle),
            };
            let Ok(message) = message else { return };
            self.hold(message);
        }
        let batch_at = Instant::now() + self.config.batch_every.as_duration();
        let until = self.retry_at.unwrap_or(batch_at);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            // While the database cannot be used, a full batch is no reason to wake.
            let full =
                self.retry_at.is_none() && self.shared.waiting.load(Ordering::Relaxed) >= self.config.batch_rows as u64;
            if left.is_zero() || full || self.is_wanted() {
                return;
            }
            std::thread::park_timeout(left);
        }
    }

    fn is_wanted(&self) -> bool {
        self.shared.closing.load(Ordering::Acquire) || self.shared.wanted.load(Ordering::Acquire)
    }

    /// Takes rows from the queue and writes them until there is none, or until writing fails; says whether there is none.
    fn write_all(&mut self) -> bool {
        loop {
            self.take_rows();
            if self.held.is_empty() {
                return true;
            }
            if self.retry_at.is_some_and(|at| Instant::now() < at) {
                return false;
            }
            let rows = self.held.len().min(self.config.batch_rows.max(1));
            match self.write_batch(rows) {
                Ok(()) => {
                    self.held.drain(..rows);
                    self.shared.written.fetch_add(rows as u64, Ordering::Relaxed);
                    self.shared.waiting.fetch_sub(rows as u64, Ordering::Relaxed);
                    self.well();
                }
                Err(error) => {
                    self.fail(&error);
                    return false;
                }
            }
        }
    }

    fn take_rows(&mut self) {
        while self.held.len() < self.config.held_rows.max(1) {
            let Ok(message) = self.receiver.try_recv() else { return };
            self.hold(message);
        }
    }

    fn hold(&mut self, message: Message) {
        if let Message::Row(row) = message {
            self.held.push(*row);
        }
    }

    fn write_batch(&mut self, rows: usize) -> Result<(), StoreError> {
        let path = self.config.path.clone();
        // A file that was moved or removed takes rows without a word, and nobody would ever see them.
        if self.open.as_ref().is_some_and(|(_, identity)| Identity::of(&path) != Some(*identity)) {
            self.open = None;
        }
        let held = std::mem::take(&mut self.held);
        let written = self.database().and_then(|store| store.append(&held[..rows]));
        self.held = held;
        let identity = self.open.as_ref().map(|(_, identity)| *identity);
        match written {
            Ok(()) if identity == Identity::of(&path) => Ok(()),
            Ok(()) => {
                self.open = None;
                Err(vanished(&path))
            }
            Err(error) => Err(error),
        }
    }

    /// The database; opens it if it is not open.
    fn database(&mut self) -> Result<&mut Sqlite, StoreError> {
        if self.open.is_none() {
            let path = &self.config.path;
            let mut store = Sqlite::open_patient(path, PATIENCE)?;
            if let Some(bytes) = self.config.most_bytes {
                store.limit(bytes)?;
            }
            let identity = Identity::of(path).ok_or_else(|| vanished(path))?;
            self.open = Some((store, identity));
        }
        Ok(self.open.as_mut().map(|(store, _)| store).expect("opened above"))
    }

    /// Removes a step's worth of rows that are too old, if it is time.
    fn prune(&mut self) {
        let Some(retention) = self.config.retention else { return };
        let now = Instant::now();
        if now < self.prune_at {
            return;
        }
        let before = (self.config.wall_clock)().saturating_sub(retention.as_nanos() / 1_000_000);
        self.prune_at = now + PRUNE_EVERY;
        match self.database().and_then(|store| store.prune(before, PRUNE_ROWS)) {
            Ok(removed) => {
                self.shared.pruned.fetch_add(removed, Ordering::Relaxed);
                if removed == PRUNE_ROWS {
                    self.prune_at = now;
                }
            }
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&mut self, error: &StoreError) {
        self.retry_at = Some(Instant::now() + self.config.retry_every.as_duration());
        self.shared.fail(error.to_string());
        // What is wrong with the file may be right after it was opened anew; a lock is not.
        if !error.is_locked() {
            self.open = None;
        }
    }

    fn well(&mut self) {
        self.retry_at = None;
        let turned_away = self.shared.turned_away.load(Ordering::Relaxed);
        if turned_away > self.turned_away {
            let rows = turned_away - self.turned_away;
            self.turned_away = turned_away;
            let path = self.config.path.display();
            self.shared.fail(format!(
                "write the log {path}: {rows} rows came faster than they could be written and were lost"
            ));
        }
        self.shared.recover();
    }

    /// Writes what is left for three quarters of the time that the last handle waits, and counts what could not be written.
    fn leave(mut self) {
        let last = Instant::now() + self.config.farewell.as_duration().mul_f64(0.75);
        self.retry_at = None;
        while !self.write_all() && Instant::now() < last {
            std::thread::sleep(FAREWELL_PAUSE);
            self.retry_at = None;
        }
        let mut left = self.held.len() as u64;
        self.held.clear();
        while let Ok(message) = self.receiver.try_recv() {
            left += u64::from(matches!(message, Message::Row(_)));
        }
        self.shared.left_behind.fetch_add(left, Ordering::Relaxed);
        self.shared.waiting.fetch_sub(left, Ordering::Relaxed);
    }
}

fn vanished(path: &Path) -> StoreError {
    StoreError::Open { path: path.to_owned(), message: "it was moved or removed while it was written".to_owned() }
}

impl Identity {
    #[cfg(unix)]
    fn of(path: &Path) -> Option<Identity> {
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::metadata(path).ok()?;
        Some(Identity(metadata.dev(), metadata.ino()))
    }

    /// Elsewhere a file that is open cannot be removed.
    #[cfg(not(unix))]
    fn of(path: &Path) -> Option<Identity> {
        path.exists().then_some(Identity(0, 0))
    }
}
