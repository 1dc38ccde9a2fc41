//! The writer's decisions: batching, retries, counting of written and lost rows, retention.
//!
//! It has no thread, queue or clock: the driver passes rows and times, and the file is a trait. [`super::writer`] drives it on a thread
//! with SQLite; a simulation can do both itself.
//!
//! Invariant: each pushed row is held, written or lost, and never two of these; `written` counts only rows committed to the file that
//! is still at the path.

use super::clock::ClockGuard;
use super::refusals::PendingRefusals;
use crate::{StoreError, StoredObject};
use tokrate_core::{Span, Tick};
use tokrate_record::{Attempt, Refusal};

/// Most old rows removed in one step, so that new rows do not wait long.
const PRUNE_ROWS: u64 = 2_000;
/// Interval of removing old rows.
const PRUNE_EVERY: Span = Span::from_secs(60);
/// Interval of checking that the file was not replaced; a stat of three files costs microseconds.
const WATCH_EVERY: Span = Span::from_secs(5);
/// Most objects that wait to be written.
pub(super) const MAX_WAITING_OBJECTS: usize = 4_096;
/// Most pending events; older ones are dropped. A driver takes them after each step.
const MAX_EVENTS: usize = 16;

/// The file of a writer: opened on demand, and checked for replacement.
pub trait LogFile {
    /// Commits rows to the file that stands at the path, all or none of them.
    ///
    /// # Errors
    /// When they are not committed. [`StoreError::Displaced`] says besides that rows of earlier calls may be gone; the next
    /// call begins with the file that stands at the path then.
    fn append(&mut self, rows: &[Attempt]) -> Result<(), StoreError>;

    /// The same in pieces of a few rows, with a pause before each.
    ///
    /// # Errors
    /// As [`LogFile::append`].
    fn append_in_pieces(&mut self, rows: &[Attempt], pause: &mut dyn FnMut()) -> Result<(), StoreError> {
        pause();
        self.append(rows)
    }

    /// Commits those of the rows that the file does not have.
    ///
    /// # Errors
    /// As [`LogFile::append`].
    fn append_missing(&mut self, rows: &[Attempt]) -> Result<(), StoreError> {
        self.append(rows)
    }

    /// Commits refusals, all or none of them; one that is like a row of the file is added to it.
    ///
    /// # Errors
    /// As [`LogFile::append`].
    fn append_refusals(&mut self, rows: &[Refusal]) -> Result<(), StoreError>;

    /// Commits objects, all or none of them; one of the same name is replaced.
    ///
    /// # Errors
    /// As [`LogFile::append`].
    fn append_objects(&mut self, _objects: &[StoredObject]) -> Result<(), StoreError> {
        Ok(())
    }

    /// Looks whether an open file is still the one that was opened.
    ///
    /// # Errors
    /// [`StoreError::Displaced`] if not, once; [`StoreError::Locked`] if another process must let go of the old one first.
    fn watch(&mut self) -> Result<(), StoreError>;

    /// Removes rows that were begun before a wall time (ms since 1970), the oldest first and at most `most`; says how many.
    ///
    /// # Errors
    /// As [`LogFile::append`].
    fn prune(&mut self, before_unix_ms: u64, most: u64) -> Result<u64, StoreError>;

    /// When the newest row was begun (ms since 1970); `None` without rows.
    ///
    /// # Errors
    /// As [`LogFile::append`].
    fn newest_unix_ms(&mut self) -> Result<Option<u64>, StoreError>;
}

/// Rules of a writer.
#[derive(Clone, Copy, Debug)]
pub struct BatchRules {
    /// Most rows of one transaction.
    pub batch_rows: usize,
    /// Delay before a retry after an error.
    pub retry_every: Span,
    /// Rows older than this are removed; `None` keeps them.
    pub retention: Option<Span>,
    /// How long a wall clock that jumped ahead must be stable before it is used to remove rows.
    pub clock_settle_time: Span,
}

/// Row counts of a writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BatchCounts {
    /// Committed to the file that stands at the path. Goes down when that file turns out to be displaced.
    pub written: u64,
    /// Given up at the end, or (perhaps) gone with a file that was moved, removed or replaced.
    pub lost: u64,
    /// Removed because of their age.
    pub pruned: u64,
}

/// An event of a writer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WriterEvent {
    /// Writing fails with this error, until [`WriterEvent::Working`].
    Failing(String),
    /// Something to report while writing continues.
    Notice(String),
    /// Writing works.
    Working,
}

/// The decisions of a writer.
#[derive(Debug)]
pub struct Batches<F> {
    file: F,
    rules: BatchRules,
    held: Vec<Attempt>,
    refusals: PendingRefusals,
    objects: Vec<StoredObject>,
    counts: BatchCounts,
    /// When to retry after an error.
    retry_at: Option<Tick>,
    /// Whether the last error was a full disk, and nothing was written since.
    is_full: bool,
    prune_at: Tick,
    watch_at: Tick,
    /// Guards retention against a wrong wall clock; `None` until the newest row of the file is known.
    clock: Option<ClockGuard>,
    events: Vec<WriterEvent>,
}

impl<F: LogFile> Batches<F> {
    /// A writer of this file, with no rows yet.
    pub fn new(file: F, rules: BatchRules) -> Batches<F> {
        let (prune_at, watch_at) = (Tick::ZERO, Tick::ZERO);
        let counts = BatchCounts::default();
        Batches {
            file,
            rules,
            held: Vec::new(),
            refusals: PendingRefusals::default(),
            objects: Vec::new(),
            counts,
            retry_at: None,
            is_full: false,
            prune_at,
            watch_at,
            clock: None,
            events: Vec::new(),
        }
    }

    /// Takes a row. The driver bounds how many are held.
    pub fn push(&mut self, row: Attempt) {
        self.held.push(row);
    }

    /// Takes a refusal; false if there is no room for it.
    pub fn push_refusal(&mut self, row: Refusal) -> bool {
        self.refusals.add(row)
    }

    /// Takes objects. The driver bounds how many wait.
    pub fn push_objects(&mut self, objects: Vec<StoredObject>) {
        self.objects.extend(objects);
        // While the file cannot be written, the newest are kept.
        let excess = self.objects.len().saturating_sub(MAX_WAITING_OBJECTS);
        self.objects.drain(..excess);
    }

    /// Rows that are neither written nor lost yet.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Whether refusals wait.
    pub fn has_refusals(&self) -> bool {
        !self.refusals.is_empty()
    }

    /// What became of the others.
    pub fn counts(&self) -> BatchCounts {
        self.counts
    }

    /// When writing is tried again after an error; `None` while it works.
    pub fn retry_at(&self) -> Option<Tick> {
        self.retry_at
    }

    /// When [`Batches::maintain`] has something to do.
    pub fn maintain_at(&self) -> Tick {
        self.rules.retention.map_or(self.watch_at, |_| self.watch_at.min(self.prune_at))
    }

    /// Whether writing fails because there is no room.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Gives back the held rows.
    pub fn withdraw(&mut self) -> Vec<Attempt> {
        std::mem::take(&mut self.held)
    }

    /// Tries again at once, whatever failed before.
    pub fn retry_now(&mut self) {
        self.retry_at = None;
    }

    /// Takes the pending events, in order.
    pub fn take_events(&mut self) -> Vec<WriterEvent> {
        std::mem::take(&mut self.events)
    }

    /// The file.
    pub fn file(&self) -> &F {
        &self.file
    }

    /// Records an error of the driver.
    pub fn fail(&mut self, now: Tick, error: &StoreError) {
        self.retry_at = Some(now + self.rules.retry_every);
        self.is_full = matches!(error, StoreError::Full { .. });
        self.emit(WriterEvent::Failing(error.to_string()));
    }

    /// Writes the held rows in batches, unless a retry is not yet due; returns whether all were written. There is a pause before every few
    /// rows.
    pub fn write(&mut self, now: Tick, pause: &mut dyn FnMut()) -> bool {
        self.write_all(
            now,
            |batches| batches.held.is_empty(),
            |batches| {
                let rows = batches.held.len().min(batches.rules.batch_rows.max(1));
                batches.file.append_in_pieces(&batches.held[..rows], pause)?;
                batches.held.drain(..rows);
                batches.counts.written += rows as u64;
                Ok(())
            },
        )
    }

    /// Writes one batch of rows that are not held, unless a retry is not yet due; returns whether they are written. `perhaps_written` are
    /// rows of which the file may have some.
    pub fn write_rows(&mut self, now: Tick, rows: &[Attempt], perhaps_written: bool, pause: &mut dyn FnMut()) -> bool {
        let is_done = std::cell::Cell::new(false);
        self.write_all(
            now,
            |_| is_done.get(),
            |batches| {
                match perhaps_written {
                    true => batches.file.append_missing(rows)?,
                    false => batches.file.append_in_pieces(rows, pause)?,
                }
                batches.counts.written += rows.len() as u64;
                is_done.set(true);
                Ok(())
            },
        )
    }

    /// Writes the refusals, unless a retry is not yet due; returns whether there are none left.
    pub fn write_refusals(&mut self, now: Tick) -> bool {
        self.write_all(
            now,
            |batches| batches.refusals.is_empty(),
            |batches| {
                batches.file.append_refusals(&batches.refusals.rows())?;
                batches.refusals.take();
                Ok(())
            },
        )
    }

    /// Writes the objects, unless a retry is not yet due; returns whether there are none left.
    pub fn write_objects(&mut self, now: Tick) -> bool {
        self.write_all(
            now,
            |batches| batches.objects.is_empty(),
            |batches| {
                batches.file.append_objects(&batches.objects)?;
                batches.objects.clear();
                Ok(())
            },
        )
    }

    /// Writes one batch after another until it is done; false if one could not be written, or a retry is not yet due.
    fn write_all(
        &mut self,
        now: Tick,
        is_done: impl Fn(&Self) -> bool,
        mut write: impl FnMut(&mut Self) -> Result<(), StoreError>,
    ) -> bool {
        let mut is_displaced = false;
        while !is_done(self) {
            if self.retry_at.is_some_and(|at| now < at) {
                return false;
            }
            match self.load_newest().and_then(|()| write(self)) {
                Ok(()) => self.mark_working(),
                // Try once more with the file that is at the path now.
                Err(error) if self.is_displaced(&error) && !is_displaced => is_displaced = true,
                Err(error) => {
                    self.fail(now, &error);
                    return false;
                }
            }
        }
        true
    }

    /// Checks the file and removes old rows, if due. `wall_unix_ms` is the wall clock (ms since 1970).
    pub fn maintain(&mut self, now: Tick, wall_unix_ms: u64) {
        if now >= self.watch_at {
            self.watch_at = now + WATCH_EVERY;
            if let Err(error) = self.file.watch()
                && !self.is_displaced(&error)
            {
                self.fail(now, &error);
            }
        }
        if let Some(retention) = self.rules.retention
            && now >= self.prune_at
        {
            self.prune(now, wall_unix_ms, retention);
        }
    }

    /// Counts rows as lost that are not held here.
    pub fn count_lost(&mut self, rows: u64) {
        self.counts.lost += rows;
    }

    /// Discards the held rows and counts them as lost; returns how many refused requests are lost besides.
    pub fn discard(&mut self) -> u64 {
        self.counts.lost += self.held.len() as u64;
        self.held.clear();
        self.refusals.take().iter().map(|row| row.count).sum()
    }

    /// Removes old rows, up to one step.
    fn prune(&mut self, now: Tick, wall_unix_ms: u64, retention: Span) {
        self.prune_at = now + PRUNE_EVERY;
        let step = self.load_newest().and_then(|()| {
            let Some(clock) = &mut self.clock else { return Ok(0) };
            if let Some(doubt) = clock.check(now, wall_unix_ms) {
                self.events.extend(doubt.message.map(WriterEvent::Notice));
                return Ok(0);
            }
            self.file.prune(wall_unix_ms.saturating_sub(retention.as_nanos() / 1_000_000), PRUNE_ROWS)
        });
        match step {
            Ok(removed) => {
                self.counts.pruned += removed;
                if removed == PRUNE_ROWS {
                    self.prune_at = now;
                }
            }
            Err(error) if self.is_displaced(&error) => self.prune_at = now,
            Err(error) => self.fail(now, &error),
        }
    }

    /// Loads the time of the newest row before this writer's first row, which would carry the clock that is to be checked.
    fn load_newest(&mut self) -> Result<(), StoreError> {
        if let (None, Some(retention)) = (&self.clock, self.rules.retention) {
            let newest = self.file.newest_unix_ms()?;
            self.clock = Some(ClockGuard::new(newest, retention, self.rules.clock_settle_time));
        }
        Ok(())
    }

    /// If an error says that the file was displaced, counts the rows that went with it.
    fn is_displaced(&mut self, error: &StoreError) -> bool {
        let StoreError::Displaced { lost_rows, .. } = error else { return false };
        self.counts.written = self.counts.written.saturating_sub(*lost_rows);
        self.counts.lost += lost_rows;
        self.emit(WriterEvent::Notice(error.to_string()));
        true
    }

    fn mark_working(&mut self) {
        (self.retry_at, self.is_full) = (None, false);
        self.emit(WriterEvent::Working);
    }

    fn emit(&mut self, events: WriterEvent) {
        if self.events.last() == Some(&events) {
            return;
        }
        if self.events.len() == MAX_EVENTS {
            self.events.remove(0);
        }
        self.events.push(events);
    }
}

#[cfg(test)]
mod tests;
