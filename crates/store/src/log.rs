//! What a gateway holds of the log: a queue into one writer thread.
//!
//! It refuses to know databases. Invariant: [`Log::write`] never blocks and never fails; each row is written once, or counted
//! as lost.

mod batches;
mod clock;
mod writer;

pub use batches::{BatchCounts, BatchRules, Batches, LogFile, News};

use crate::{Sqlite, StoreError};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::SystemTime;
use tokrate_core::{Span, Tick};
use tokrate_meter::Attempt;

/// How a log is kept.
#[derive(Clone)]
pub struct LogConfig {
    /// The database file.
    pub path: PathBuf,
    /// So many rows go into one transaction at most.
    pub batch_rows: usize,
    /// So long a row waits for others at most.
    pub batch_every: Span,
    /// So many rows wait for the writer at most; further ones are lost.
    pub queue_rows: usize,
    /// So many rows wait in the writer for a database that cannot be written; then the queue fills.
    pub held_rows: usize,
    /// So long the writer waits before it tries again to write to such a database.
    pub retry_every: Span,
    /// Rows older than this are removed; `None` keeps them.
    pub retention: Option<Span>,
    /// So long a wall clock that jumped ahead must have kept to its new time before rows are removed by it.
    pub clock_settles: Span,
    /// The largest size of the file; `None` for any.
    pub most_bytes: Option<u64>,
    /// How long the end of the last handle waits for the rows that are still to be written.
    pub farewell: Span,
    /// The wall clock that retention goes by (ms since 1970).
    pub wall_clock: Arc<dyn Fn() -> u64 + Send + Sync>,
}

/// A handle of the log; clones write to the same. The log ends when the last one is dropped.
#[derive(Clone)]
pub struct Log {
    door: Arc<Door>,
}

/// The writer of a log made by [`Log::driven`].
#[doc(hidden)]
pub struct LogDriver<F>(writer::Writer<F>);

/// What became of the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogCounts {
    /// Rows committed to the file that stands at the path. Goes down if that turns out to have been moved, removed or replaced.
    pub written: u64,
    /// Rows that could not be kept, or that may have gone with a file that was moved, removed or replaced.
    pub lost: u64,
    /// Rows that wait to be written.
    pub waiting: u64,
    /// Rows removed because of their age.
    pub pruned: u64,
}

/// The caller's end of the queue. Dropping it ends the writer.
struct Door {
    sender: Option<SyncSender<Message>>,
    shared: Arc<Shared>,
    path: PathBuf,
    batch_rows: u64,
    farewell: Span,
    /// The writer's thread, to be woken.
    writer: Option<Thread>,
    thread: Option<JoinHandle<()>>,
    /// Breaks off when the writer has ended.
    ended: Mutex<Receiver<()>>,
}

enum Message {
    Row(Box<Attempt>),
    /// Wakes a writer that has nothing to do.
    Nudge,
}

/// What both ends see.
#[derive(Default)]
struct Shared {
    written: AtomicU64,
    /// Lost because the queue was full.
    turned_away: AtomicU64,
    /// Lost when the log ended, or with a file that was displaced.
    gone: AtomicU64,
    waiting: AtomicU64,
    pruned: AtomicU64,
    closing: AtomicBool,
    /// A flush was asked for since the writer looked.
    wanted: AtomicBool,
    /// Those who wait for everything to be written.
    flushes: Mutex<Vec<SyncSender<()>>>,
    trouble: Mutex<Trouble>,
}

/// So many messages wait to be said; further ones are only kept as the newest.
const UNSAID: usize = 16;

/// What went wrong.
#[derive(Default)]
struct Trouble {
    /// The newest error.
    message: Option<String>,
    /// Whether it still stands.
    stands: bool,
    /// What is still to be said, the oldest first.
    unsaid: VecDeque<String>,
}

impl LogConfig {
    /// A log in this file, with the usual sizes: batches of 512 rows or 200 ms, 8,192 rows in the queue and as many held,
    /// rows kept for ever.
    pub fn new(path: impl Into<PathBuf>) -> LogConfig {
        LogConfig {
            path: path.into(),
            batch_rows: 512,
            batch_every: Span::from_millis(200),
            queue_rows: 8_192,
            held_rows: 8_192,
            retry_every: Span::from_millis(500),
            retention: None,
            clock_settles: Span::from_secs(3_600),
            most_bytes: None,
            farewell: Span::from_secs(2),
            wall_clock: Arc::new(wall_clock),
        }
    }

    fn rules(&self) -> BatchRules {
        BatchRules {
            batch_rows: self.batch_rows,
            retry_every: self.retry_every,
            retention: self.retention,
            clock_settles: self.clock_settles,
        }
    }
}

impl Log {
    /// Opens the database and starts the writer. A database that another process has locked is waited for in the
    /// background.
    ///
    /// # Errors
    /// When the file is no log, is of a newer form or cannot be made, or when no thread can be started.
    pub fn open(config: LogConfig) -> Result<Log, StoreError> {
        let shared = Arc::new(Shared::default());
        let (sender, receiver) = sync_channel(config.queue_rows.max(1));
        let (alive, ended) = sync_channel(1);
        let (path, farewell) = (config.path.clone(), config.farewell);
        let batch_rows = config.batch_rows.max(1) as u64;
        let writer = writer::Writer::open(config, receiver, Arc::clone(&shared))?;
        let run = move || {
            writer.run();
            drop(alive);
        };
        let thread = std::thread::Builder::new().name("tokrate-log".to_owned()).spawn(run).map_err(|error| {
            StoreError::Open { path: path.clone(), message: format!("no thread for its writer: {error}") }
        })?;
        let writer = Some(thread.thread().clone());
        let door = Door {
            sender: Some(sender),
            shared,
            path,
            batch_rows,
            farewell,
            writer,
            thread: Some(thread),
            ended: Mutex::new(ended),
        };
        Ok(Log { door: Arc::new(door) })
    }

    /// A log whose writer has no thread: it writes to `file` when the caller has it do so, by the caller's idea of time. For
    /// simulations; nothing of it can be read by queries.
    #[doc(hidden)]
    pub fn driven<F: LogFile>(
        config: LogConfig,
        file: F,
        steady: impl Fn() -> Tick + Send + 'static,
    ) -> (Log, LogDriver<F>) {
        let shared = Arc::new(Shared::default());
        let (sender, receiver) = sync_channel(config.queue_rows.max(1));
        let (path, batch_rows) = (config.path.clone(), config.batch_rows.max(1) as u64);
        // As if its writer had ended: nobody waits for it.
        let (_, ended) = sync_channel(1);
        let door = Door {
            sender: Some(sender),
            shared: Arc::clone(&shared),
            path,
            batch_rows,
            farewell: config.farewell,
            writer: None,
            thread: None,
            ended: Mutex::new(ended),
        };
        let writer = writer::Writer::over(file, config, receiver, shared, Box::new(steady));
        (Log { door: Arc::new(door) }, LogDriver(writer))
    }

    /// Hands a row to the writer. Never blocks; a row for which there is no room is counted in [`Log::lost`].
    pub fn write(&self, attempt: Attempt) {
        let Some(sender) = &self.door.sender else { return };
        let shared = &self.door.shared;
        let waiting = shared.waiting.fetch_add(1, Ordering::Relaxed) + 1;
        if sender.try_send(Message::Row(Box::new(attempt))).is_err() {
            shared.waiting.fetch_sub(1, Ordering::Relaxed);
            shared.turned_away.fetch_add(1, Ordering::Relaxed);
        } else if waiting == self.door.batch_rows {
            self.door.wake();
        }
    }

    /// Rows that could not be kept.
    pub fn lost(&self) -> u64 {
        self.counts().lost
    }

    /// What became of the rows so far.
    pub fn counts(&self) -> LogCounts {
        let shared = &self.door.shared;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        LogCounts {
            written: of(&shared.written),
            lost: of(&shared.turned_away) + of(&shared.gone),
            waiting: of(&shared.waiting),
            pruned: of(&shared.pruned),
        }
    }

    /// The newest error, whether it still stands or not.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.door.shared.trouble).message.clone()
    }

    /// True while rows reach the database.
    pub fn is_well(&self) -> bool {
        !lock(&self.door.shared.trouble).stands
    }

    /// The oldest error that was not asked for before; each time that writing begins to fail, or fails otherwise, makes one. For
    /// who says it on standard error.
    pub fn new_trouble(&self) -> Option<String> {
        lock(&self.door.shared.trouble).unsaid.pop_front()
    }

    /// Waits until every row that was handed in before is written, at most for so long; says whether it is.
    pub fn flush(&self, most: Span) -> bool {
        let Some(sender) = &self.door.sender else { return false };
        let (done, wait) = sync_channel(1);
        lock(&self.door.shared.flushes).push(done);
        self.door.shared.wanted.store(true, Ordering::Release);
        // A full queue means that the writer does not sleep.
        if let Err(TrySendError::Disconnected(_)) = sender.try_send(Message::Nudge) {
            return false;
        }
        self.door.wake();
        wait.recv_timeout(most.as_duration()).is_ok()
    }

    /// Opens the database for queries, which never wait for the writer.
    ///
    /// # Errors
    /// As [`Sqlite::open_reader`].
    pub fn reader(&self) -> Result<Sqlite, StoreError> {
        Sqlite::open_reader(&self.door.path)
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.door.path
    }
}

impl Door {
    fn wake(&self) {
        self.writer.iter().for_each(Thread::unpark);
    }
}

impl<F: LogFile> LogDriver<F> {
    /// Does what the writer's thread does when it wakes: takes rows, writes what is due, looks after the file.
    pub fn turn(&mut self) {
        self.0.turn();
    }

    /// Rows that were taken and are not written yet.
    pub fn held(&self) -> usize {
        self.0.batches().held()
    }

    /// The file.
    pub fn file(&self) -> &F {
        self.0.batches().file()
    }

    /// The end of the log: what could not be written is lost.
    pub fn end(&mut self) {
        self.0.end();
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        drop(self.sender.take());
        self.wake();
        let ended = lock(&self.ended).recv_timeout(self.farewell.as_duration());
        // A writer that hangs in a dead file system is left to itself.
        if let (Err(RecvTimeoutError::Disconnected), Some(thread)) = (ended, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Notes an error.
    fn fail(&self, message: String) {
        let mut trouble = lock(&self.trouble);
        if !trouble.stands || trouble.message.as_deref() != Some(&message) {
            trouble.note(message);
        }
        trouble.stands = true;
    }

    /// Notes what went wrong while writing goes on.
    fn happened(&self, message: String) {
        lock(&self.trouble).note(message);
    }

    /// Notes that writing works.
    fn recover(&self) {
        lock(&self.trouble).stands = false;
    }
}

impl Trouble {
    fn note(&mut self, message: String) {
        if self.unsaid.len() < UNSAID {
            self.unsaid.push_back(message.clone());
        }
        self.message = Some(message);
    }
}

/// What a panic left behind is still whole: each lock is held for one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Milliseconds since 1970; 0 for a clock that stands before it.
fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
