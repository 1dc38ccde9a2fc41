//! The writer's receiving end: rows from the queue, in memory while there are few and on disk when there are many.

use super::idle_turns::IdleTurns;
use super::overflow::Overflow;
use super::{Message, Shared};
use crate::StoreError;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use tokrate_record::Attempt;

/// More rows than these go to disk: a sixteenth of what may be in memory, so that there is time to write them before it is full.
const SPILL_ROWS: usize = 2_048;
/// So many at a time: some 50 us of work, which no call waits for long. One time a millisecond is enough for 64,000 rows a second.
const SPILL_PIECE: usize = 64;
/// How long a few rows of a batch wait for an idle CPU, and how often the queue is emptied meanwhile. A batch of 512 is then
/// written within half a second.
const LOOKS: u32 = 4;
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Bytes on disk from which nothing waits for an idle CPU: some 200,000 rows, seconds of work for the database.
const HURRY_BYTES: u64 = 64 << 20;

/// Rows on their way to the database.
pub(super) struct Intake {
    receiver: Receiver<Message>,
    shared: Arc<Shared>,
    /// Rows from the queue.
    rows: VecDeque<Attempt>,
    /// Most of them.
    max_rows: usize,
    /// Rows on disk; `None` for a log without files.
    overflow: Option<Overflow>,
    /// Why rows cannot go there, if that was not told yet, and whether it was.
    overflow_failure: Option<String>,
    has_told_failure: bool,
    turns: Option<IdleTurns>,
}

impl Intake {
    /// Of a log in memory.
    pub fn new(receiver: Receiver<Message>, shared: Arc<Shared>, max_rows: usize) -> Intake {
        let (rows, max_rows) = (VecDeque::new(), max_rows.max(1));
        Intake {
            receiver,
            shared,
            rows,
            max_rows,
            overflow: None,
            overflow_failure: None,
            has_told_failure: false,
            turns: None,
        }
    }

    /// Lets rows wait on disk beside a log, and takes up those that an earlier process left there. Returns what is to be told.
    pub fn beside(&mut self, log: &Path) -> Option<String> {
        let mut overflow = Overflow::beside(log);
        let recovered = overflow.recover();
        let path = overflow.path().display().to_string();
        match recovered {
            Ok(cut) => {
                self.shared.waiting.fetch_add(overflow.rows(), Ordering::Relaxed);
                self.overflow = Some(overflow);
                self.publish();
                (cut > 0).then(|| format!("read {path}: its last {cut} bytes are no whole row and were dropped"))
            }
            Err(error) => {
                Some(format!("read {path}: {error}; rows in it are not written, move it away to go on without"))
            }
        }
    }

    /// From now on the calling thread writes, when a CPU is idle.
    pub fn take_turns(&mut self) {
        self.turns = IdleTurns::for_this_thread();
    }

    /// Whether no row waits here.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.on_disk() == 0
    }

    /// Rows on disk.
    pub fn on_disk(&self) -> u64 {
        self.overflow.as_ref().map_or(0, Overflow::rows)
    }

    /// Waits for a message, at most so long.
    pub fn wait(&mut self, most: Duration) -> Result<(), RecvTimeoutError> {
        let message = self.receiver.recv_timeout(most)?;
        self.keep(message);
        Ok(())
    }

    /// Empties the queue; some of what are too many rows go to disk if `may_spill`.
    pub fn drain(&mut self, may_spill: bool) {
        while self.rows.len() < self.max_rows {
            let Ok(message) = self.receiver.try_recv() else { break };
            self.keep(message);
        }
        let excess = self.rows.len().saturating_sub(SPILL_ROWS);
        if may_spill && excess > 0 {
            // The more the closer the queue is to being full.
            self.spill(SPILL_PIECE.max(excess / 8));
        }
    }

    /// Empties the queue at the end, when nothing else does.
    pub fn drain_all(&mut self) {
        while let Ok(message) = self.receiver.try_recv() {
            self.keep(message);
        }
    }

    /// The next rows in memory, at most so many.
    pub fn take(&mut self, most: usize) -> impl Iterator<Item = Attempt> {
        self.rows.drain(..most.min(self.rows.len()))
    }

    /// The next rows on disk, at most so many, and whether the database may have them already. They stay there until [`Intake::written`].
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn take_from_disk(&mut self, most: usize) -> Result<(Vec<Attempt>, bool), StoreError> {
        let Some(overflow) = &mut self.overflow else { return Ok((Vec::new(), false)) };
        let is_left_over = overflow.is_left_over();
        Ok((overflow.take(most as u64)?, is_left_over))
    }

    /// The rows taken from disk last are in the database.
    pub fn written(&mut self) {
        if let Some(Err(error)) = self.overflow.as_mut().map(Overflow::written) {
            self.fail(&error);
        }
    }

    /// Rows on disk that cannot be read stay there and are no longer asked for; says how many.
    pub fn give_up_disk(&mut self) -> u64 {
        self.overflow.take().map_or(0, |overflow| overflow.rows())
    }

    /// Puts rows on disk that were taken before, and those in memory behind them; gives back what cannot be kept there.
    pub fn keep_on_disk(&mut self, mut rows: Vec<Attempt>) -> Vec<Attempt> {
        rows.extend(self.rows.drain(..));
        self.rows = rows.into();
        self.spill(usize::MAX);
        self.rows.drain(..).collect()
    }

    /// Between the pieces of a batch: waits until a CPU is idle, but not long, and keeps the queue from filling meanwhile.
    pub fn pause(&mut self) {
        let is_asked_to_hurry = self.shared.closing.load(Ordering::Acquire)
            || self.shared.flush_requested.load(Ordering::Acquire)
            || self.overflow.as_ref().is_some_and(|overflow| overflow.bytes() > HURRY_BYTES);
        for _ in 0..LOOKS {
            let Some(turns) = self.turns.as_ref().filter(|_| !is_asked_to_hurry) else { break };
            if turns.wait(LOOK_EVERY) {
                break;
            }
            self.drain(true);
        }
        self.drain(true);
    }

    /// A failure to keep rows on disk that was not told yet.
    pub fn take_failure(&mut self) -> Option<String> {
        self.overflow_failure.take()
    }

    fn keep(&mut self, message: Message) {
        if let Message::Row(row) = message {
            self.rows.push_back(*row);
        }
    }

    /// Puts the oldest rows on disk, at most so many.
    fn spill(&mut self, most: usize) {
        let Some(overflow) = &mut self.overflow else { return };
        let mut left = most.min(self.rows.len());
        while left > 0 {
            let (oldest, _) = self.rows.as_slices();
            let oldest = &oldest[..left.min(oldest.len())];
            if let Err(error) = overflow.push(oldest) {
                return self.fail(&error);
            }
            let count = oldest.len();
            self.rows.drain(..count);
            left -= count;
        }
        self.has_told_failure = false;
        self.publish();
    }

    /// Publishes how many rows are on disk. Those that leave it are taken from the waiting ones first, or it would look as if memory
    /// were full.
    pub fn publish(&self) {
        self.shared.on_disk.store(self.on_disk(), Ordering::Relaxed);
    }

    fn fail(&mut self, error: &std::io::Error) {
        let Some(overflow) = &self.overflow else { return };
        if !self.has_told_failure {
            self.has_told_failure = true;
            let path = overflow.path().display();
            self.overflow_failure =
                Some(format!("write {path}, where rows wait that are too many for memory: {error}"));
        }
    }
}
