//! The log as a gateway uses it: a bounded queue into one writer thread, and a file for rows that are too many for memory.
//!
//! Invariant: [`Log::write`] never blocks and never fails; each row is written once, left on disk for the next start, or counted as lost.

mod batches;
mod clock;
mod idle_turns;
mod intake;
mod overflow;
mod refusals;
mod writer;

pub use batches::{BatchCounts, BatchRules, Batches, LogFile, WriterEvent};
pub use clock::LogClock;

use crate::{Shipper, Shipping, Sqlite, StoreError, StoredObject, Warehouse};
use refusals::PendingRefusals;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, Thread};
use tokrate_core::Span;
use tokrate_record::{Attempt, Refusal};

/// Settings of a log.
#[derive(Clone)]
pub struct LogConfig {
    /// The database file.
    pub path: PathBuf,
    /// Most rows of one transaction.
    pub batch_rows: usize,
    /// Longest time that a row waits for a batch to fill.
    pub batch_every: Span,
    /// Capacity of the queue; further rows are lost.
    pub queue_rows: usize,
    /// Most rows buffered in the writer while neither the database nor the file beside it can be written; then the queue fills.
    pub max_held_rows: usize,
    /// Delay before a failed write is retried.
    pub retry_every: Span,
    /// Rows older than this are removed; `None` keeps them.
    pub retention: Option<Span>,
    /// How long a wall clock that jumped ahead must be stable before it is used to remove rows.
    pub clock_settle_time: Span,
    /// Largest size of the file; `None` for no limit.
    pub max_bytes: Option<u64>,
    /// How long dropping the last handle waits for queued rows.
    pub close_timeout: Span,
    /// Where rows go beside the file.
    pub shipping: Option<Shipping>,
    /// The clock that the writer uses.
    pub clock: LogClock,
}

/// A handle of the log; clones write to the same. The log ends when the last one is dropped.
#[derive(Clone)]
pub struct Log {
    queue: Arc<Queue>,
}

/// The writer of a log made by [`Log::driven`].
#[doc(hidden)]
pub struct LogDriver<F>(writer::Writer<F>);

/// Row counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogCounts {
    /// Rows committed to the file at the path. Decreases if the file turns out to have been moved, removed or replaced.
    pub written: u64,
    /// Rows that could not be kept, or may be lost with a file that was moved, removed or replaced.
    pub lost: u64,
    /// Rows that wait to be written.
    pub waiting: u64,
    /// Those of them that wait on disk, in `<log>-overflow`: the next start writes them if this process ends before.
    pub on_disk: u64,
    /// Rows removed because of their age.
    pub pruned: u64,
    /// Refused requests that could not be kept. The other counts are of attempts' rows only.
    pub lost_refusals: u64,
}

/// The sending side of the queue. Dropping it ends the writer.
struct Queue {
    sender: Option<Sender<Message>>,
    shared: Arc<Shared>,
    path: PathBuf,
    batch_rows: u64,
    /// Most rows in memory, in the queue and in the writer.
    max_rows: u64,
    close_timeout: Span,
    /// The writer's thread, to be woken.
    writer: Option<Thread>,
    thread: Option<JoinHandle<()>>,
    /// Disconnects when the writer has ended.
    ended: Mutex<Receiver<()>>,
    /// Sends rows on; ends after the writer.
    shipper: Option<Shipper>,
}

enum Message {
    Row(Box<Attempt>),
    /// Wakes an idle writer.
    Wake,
}

/// State shared with the writer.
#[derive(Default)]
struct Shared {
    written: AtomicU64,
    /// Lost because the queue was full.
    rejected: AtomicU64,
    /// Lost when the log ended, or with a file that was displaced.
    lost_rows: AtomicU64,
    waiting: AtomicU64,
    on_disk: AtomicU64,
    pruned: AtomicU64,
    refusals: Mutex<PendingRefusals>,
    lost_refusals: AtomicU64,
    /// Objects to be written.
    objects: Mutex<Vec<StoredObject>>,
    closing: AtomicBool,
    /// A flush was requested since the writer last checked.
    flush_requested: AtomicBool,
    /// Pending calls of `flush`.
    flushes: Mutex<Vec<SyncSender<()>>>,
    failure: Mutex<Failures>,
}

/// Most errors queued for [`Log::take_failure`]; further ones are only kept as the latest.
const MAX_UNREPORTED: usize = 16;

/// Errors of the writer.
#[derive(Default)]
struct Failures {
    /// The latest error.
    message: Option<String>,
    /// Whether it is still failing.
    is_current: bool,
    /// Errors not yet taken, oldest first.
    unreported: VecDeque<String>,
}

impl LogConfig {
    /// A log in this file, with default sizes: batches of 512 rows or 200 ms, 24,576 rows in the queue and 8,192 buffered,
    /// rows kept for ever.
    pub fn new(path: impl Into<PathBuf>, clock: LogClock) -> LogConfig {
        LogConfig {
            path: path.into(),
            batch_rows: 512,
            batch_every: Span::from_millis(200),
            // Half a second of calls on a machine that does nothing else, for a disk that stalls so long.
            queue_rows: 24_576,
            max_held_rows: 8_192,
            retry_every: Span::from_millis(500),
            retention: None,
            clock_settle_time: Span::from_secs(3_600),
            max_bytes: None,
            close_timeout: Span::from_secs(2),
            shipping: None,
            clock,
        }
    }

    /// Most rows in memory.
    fn max_rows(&self) -> u64 {
        (self.queue_rows.max(1) + self.max_held_rows.max(1)) as u64
    }

    fn rules(&self) -> BatchRules {
        BatchRules {
            batch_rows: self.batch_rows,
            retry_every: self.retry_every,
            retention: self.retention,
            clock_settle_time: self.clock_settle_time,
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
        let (sender, receiver) = channel();
        let (alive, ended) = sync_channel(1);
        let (path, close_timeout) = (config.path.clone(), config.close_timeout);
        let (batch_rows, max_rows) = (config.batch_rows.max(1) as u64, config.max_rows());
        let shipping = config.shipping.clone();
        let writer = writer::Writer::open(config, receiver, Arc::clone(&shared))?;
        let run = move || {
            writer.run();
            drop(alive);
        };
        let thread = std::thread::Builder::new().name("tokrate-log".to_owned()).spawn(run).map_err(|error| {
            StoreError::Open { path: path.clone(), message: format!("no thread for its writer: {error}") }
        })?;
        let writer = Some(thread.thread().clone());
        let mut queue = Queue {
            sender: Some(sender),
            shared: Arc::clone(&shared),
            path: path.clone(),
            batch_rows,
            max_rows,
            close_timeout,
            writer,
            thread: Some(thread),
            ended: Mutex::new(ended),
            shipper: None,
        };
        if let Some(shipping) = shipping {
            let notice = move |message| shared.notice(message);
            queue.shipper = Some(Shipper::start(path, Warehouse::Log, shipping, notice)?);
        }
        Ok(Log { queue: Arc::new(queue) })
    }

    /// A log without a thread: it writes to `file` when the caller steps it. For simulations; it cannot be queried.
    #[doc(hidden)]
    pub fn driven<F: LogFile>(config: LogConfig, file: F) -> (Log, LogDriver<F>) {
        let shared = Arc::new(Shared::default());
        let (sender, receiver) = channel();
        let (path, batch_rows, max_rows) = (config.path.clone(), config.batch_rows.max(1) as u64, config.max_rows());
        // As if the writer had ended, so that dropping the log does not wait.
        let (_, ended) = sync_channel(1);
        let queue = Queue {
            sender: Some(sender),
            shared: Arc::clone(&shared),
            path,
            batch_rows,
            max_rows,
            close_timeout: config.close_timeout,
            writer: None,
            thread: None,
            ended: Mutex::new(ended),
            shipper: None,
        };
        let writer = writer::Writer::over(file, config, receiver, shared);
        (Log { queue: Arc::new(queue) }, LogDriver(writer))
    }

    /// Queues a row. Never blocks; if too many are in memory, the row is counted in [`Log::lost`].
    pub fn write(&self, attempt: Attempt) {
        let Some(sender) = &self.queue.sender else { return };
        let shared = &self.queue.shared;
        let waiting = shared.waiting.fetch_add(1, Ordering::Relaxed) + 1;
        let in_memory = waiting.saturating_sub(shared.on_disk.load(Ordering::Relaxed));
        if in_memory > self.queue.max_rows || sender.send(Message::Row(Box::new(attempt))).is_err() {
            shared.waiting.fetch_sub(1, Ordering::Relaxed);
            shared.rejected.fetch_add(1, Ordering::Relaxed);
        } else if waiting.is_multiple_of(self.queue.batch_rows) {
            self.queue.wake();
        }
    }

    /// Counts a refused request, to be written with the next batch, or within seconds if no row comes. It takes no room in the queue.
    pub fn refuse(&self, refusal: Refusal) {
        let shared = &self.queue.shared;
        let count = refusal.count;
        if !lock(&shared.refusals).add(refusal) {
            shared.lost_refusals.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Keeps whose an object is, with the next batch, or within seconds if no row comes. Beyond some thousands that wait the oldest go.
    pub fn remember(&self, object: StoredObject) {
        let mut waiting = lock(&self.queue.shared.objects);
        if waiting.len() >= batches::MAX_WAITING_OBJECTS {
            waiting.remove(0);
        }
        waiting.push(object);
    }

    /// Rows that could not be kept.
    pub fn lost(&self) -> u64 {
        self.counts().lost
    }

    /// What became of the rows so far.
    pub fn counts(&self) -> LogCounts {
        let shared = &self.queue.shared;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        LogCounts {
            written: of(&shared.written),
            lost: of(&shared.rejected) + of(&shared.lost_rows),
            waiting: of(&shared.waiting),
            on_disk: of(&shared.on_disk),
            pruned: of(&shared.pruned),
            lost_refusals: of(&shared.lost_refusals),
        }
    }

    /// The latest error, resolved or not.
    pub fn failure(&self) -> Option<String> {
        lock(&self.queue.shared.failure).message.clone()
    }

    /// Whether rows reach the database.
    pub fn is_healthy(&self) -> bool {
        !lock(&self.queue.shared.failure).is_current
    }

    /// Takes the oldest error not taken before, for reporting. There is one each time that writing starts to fail or fails differently.
    pub fn take_failure(&self) -> Option<String> {
        lock(&self.queue.shared.failure).unreported.pop_front()
    }

    /// Waits until every queued row and every refusal is written, at most `timeout`; returns whether it is.
    pub fn flush(&self, timeout: Span) -> bool {
        let Some(sender) = &self.queue.sender else { return false };
        let (done, wait) = sync_channel(1);
        lock(&self.queue.shared.flushes).push(done);
        self.queue.shared.flush_requested.store(true, Ordering::Release);
        if sender.send(Message::Wake).is_err() {
            return false;
        }
        self.queue.wake();
        wait.recv_timeout(timeout.as_duration()).is_ok()
    }

    /// Opens the database for queries, which never wait for the writer.
    ///
    /// # Errors
    /// As [`Sqlite::open_reader`].
    pub fn reader(&self) -> Result<Sqlite, StoreError> {
        Sqlite::open_reader(&self.queue.path)
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.queue.path
    }
}

impl Queue {
    fn wake(&self) {
        self.writer.iter().for_each(Thread::unpark);
    }
}

impl<F: LogFile> LogDriver<F> {
    /// One step of the writer: takes rows, writes what is due, checks the file.
    pub fn step(&mut self) {
        self.0.step();
    }

    /// Rows taken but not yet written.
    pub fn held(&self) -> usize {
        self.0.batches().held()
    }

    /// The file.
    pub fn file(&self) -> &F {
        self.0.batches().file()
    }

    /// Ends the log; rows not written are lost.
    pub fn end(&mut self) {
        self.0.end();
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        drop(self.sender.take());
        self.wake();
        let ended = lock(&self.ended).recv_timeout(self.close_timeout.as_duration());
        // A writer that hangs in a dead file system is not joined.
        if let (Err(RecvTimeoutError::Disconnected), Some(thread)) = (ended, self.thread.take()) {
            let _ = thread.join();
        }
        drop(self.shipper.take());
    }
}

impl Shared {
    /// Records an error of writing.
    fn fail(&self, message: String) {
        let mut failure = lock(&self.failure);
        if !failure.is_current || failure.message.as_deref() != Some(&message) {
            failure.note(message);
        }
        failure.is_current = true;
    }

    /// Records an error that does not stop writing.
    fn notice(&self, message: String) {
        lock(&self.failure).note(message);
    }

    /// Records that writing works.
    fn recover(&self) {
        lock(&self.failure).is_current = false;
    }
}

impl Failures {
    fn note(&mut self, message: String) {
        if self.unreported.len() < MAX_UNREPORTED {
            self.unreported.push_back(message.clone());
        }
        self.message = Some(message);
    }
}

/// Ignores poisoning: no critical section can leave the data inconsistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
