//! The writer thread: sleeps until something is due, takes rows from the queue, and publishes counts and errors.
//!
//! Decisions are in [`Batches`]. Invariant: its memory is bounded; a row leaves it when it was committed, or when the log ends.

use super::batches::{BatchCounts, Batches, LogFile, WriterEvent};
use super::intake::Intake;
use super::{LogConfig, Message, Shared, lock};
use crate::StoreError;
use crate::watched::WatchedFile;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use tokrate_core::{Span, Tick};

/// Pause between attempts to write during shutdown.
const CLOSE_RETRY_PAUSE: Duration = Duration::from_millis(20);
/// How often the queue is looked at while the database fails, so that rows get out of the reach of a kill.
const LOOK_EVERY: Span = Span::from_millis(50);

/// Reads the queue and writes the database.
pub(super) struct Writer<F = WatchedFile> {
    config: LogConfig,
    intake: Intake,
    shared: Arc<Shared>,
    batches: Batches<F>,
    /// Counts published so far.
    published: BatchCounts,
    /// Rejected rows that were already reported.
    rejected: u64,
}

impl Writer {
    /// Opens the database, or leaves that for later if it is locked.
    pub fn open(config: LogConfig, receiver: Receiver<Message>, shared: Arc<Shared>) -> Result<Writer, StoreError> {
        let mut file = WatchedFile::new(config.path.clone(), config.max_bytes).shipped(config.shipping.is_some());
        let opened = file.open();
        let mut writer = Writer::over(file, config, receiver, shared);
        match opened {
            Err(error) if error.is_locked() => writer.batches.fail(writer.config.clock.now(), &error),
            other => other?,
        }
        let told = writer.intake.beside(&writer.config.path);
        told.into_iter().for_each(|message| writer.shared.notice(message));
        // What keys have spent is read from the database next.
        writer.write_from_disk();
        writer.publish();
        Ok(writer)
    }
}

impl<F: LogFile> Writer<F> {
    /// A writer of any file.
    pub fn over(file: F, config: LogConfig, receiver: Receiver<Message>, shared: Arc<Shared>) -> Writer<F> {
        let batches = Batches::new(file, config.rules());
        let intake = Intake::new(receiver, Arc::clone(&shared), config.max_held_rows);
        Writer { config, intake, shared, batches, published: BatchCounts::default(), rejected: 0 }
    }

    /// Its batches.
    pub fn batches(&self) -> &Batches<F> {
        &self.batches
    }

    /// Takes queued rows, writes what is due, and checks the file.
    pub fn step(&mut self) {
        if self.shared.flush_requested.swap(false, Ordering::AcqRel) {
            self.batches.retry_now();
        }
        // Taken before the queue is drained, so that a flush covers all rows queued before it.
        let flushes = std::mem::take(&mut *lock(&self.shared.flushes));
        if self.write_all() && self.write_refusals() && self.write_objects() {
            flushes.iter().for_each(|flush| flush.try_send(()).unwrap_or_default());
        } else {
            lock(&self.shared.flushes).extend(flushes);
        }
        let now = self.now();
        self.batches.maintain(now, self.config.clock.wall_unix_ms());
        self.publish();
    }

    /// Leaves what could not be written on disk, or counts it as lost.
    pub fn end(&mut self) {
        self.intake.drain_all();
        self.secure();
        self.intake.take(usize::MAX).for_each(|row| self.batches.push(row));
        self.take_refusals();
        let lost_refusals = self.batches.discard();
        self.shared.lost_refusals.fetch_add(lost_refusals, Ordering::Relaxed);
        self.publish();
    }

    fn now(&self) -> Tick {
        self.config.clock.now()
    }

    /// Writes until every handle is gone.
    pub fn run(mut self) {
        self.intake.take_turns();
        loop {
            self.wait();
            if self.shared.closing.load(Ordering::Acquire) {
                return self.finish();
            }
            self.step();
        }
    }

    /// Sleeps until there is something to do: a full batch, a row that has waited long enough, a retry, a flush, the end.
    fn wait(&mut self) {
        if self.batches.held() == 0 && self.intake.is_empty() {
            // The wake-up of a flush may have been taken together with rows; its flag was set before.
            if self.is_flush_requested() {
                return;
            }
            let idle = self.batches.maintain_at().since(self.now());
            if self.intake.wait(idle.as_duration()).is_err() {
                return;
            }
        }
        let batch_at = self.now() + self.config.batch_every;
        loop {
            let retry_at = self.batches.retry_at();
            let left = retry_at.unwrap_or(batch_at).since(self.now());
            // While the database fails, a full batch does not wake the writer.
            let full = retry_at.is_none()
                && (self.intake.on_disk() > 0
                    || self.shared.waiting.load(Ordering::Relaxed) >= self.config.batch_rows as u64);
            if left.is_zero() || full || self.is_flush_requested() {
                return;
            }
            match retry_at {
                None => std::thread::park_timeout(left.as_duration()),
                Some(_) => {
                    std::thread::park_timeout(left.min(LOOK_EVERY).as_duration());
                    self.intake.drain(self.may_spill());
                    self.secure();
                }
            }
        }
    }

    fn is_flush_requested(&self) -> bool {
        self.shared.closing.load(Ordering::Acquire) || self.shared.flush_requested.load(Ordering::Acquire)
    }

    /// Writes rows until none waits or writing fails; returns whether none waits.
    fn write_all(&mut self) -> bool {
        loop {
            self.intake.drain(self.may_spill());
            // Rows on disk are older than those in memory.
            if self.intake.on_disk() == 0 {
                let room = self.config.max_held_rows.max(1).saturating_sub(self.batches.held());
                self.intake.take(room).for_each(|row| self.batches.push(row));
            }
            let written = match self.batches.held() {
                0 if self.intake.is_empty() => return true,
                0 => self.write_from_disk(),
                _ => {
                    let now = self.now();
                    self.batches.write(now, &mut || self.intake.pause())
                }
            };
            if !written {
                self.secure();
            }
            self.publish();
            if !written {
                return false;
            }
            self.tell_turned_away();
        }
    }

    /// Writes the next rows that wait on disk.
    fn write_from_disk(&mut self) -> bool {
        loop {
            let (rows, is_left_over) = match self.intake.take_from_disk(self.config.batch_rows.max(1)) {
                Ok(taken) => taken,
                Err(error) => {
                    let rows = self.intake.give_up_disk();
                    self.batches.count_lost(rows);
                    self.shared.notice(format!("{error}; {rows} rows that waited there are not written"));
                    return true;
                }
            };
            if rows.is_empty() {
                return true;
            }
            let now = self.now();
            if !self.batches.write_rows(now, &rows, is_left_over, &mut || self.intake.pause()) {
                return false;
            }
            self.intake.written();
            // Those of an earlier process come first of all.
            if !is_left_over {
                return true;
            }
        }
    }

    /// Puts all rows on disk while the database cannot be written, where a kill does not reach them.
    fn secure(&mut self) {
        if self.may_spill() {
            let left = self.intake.keep_on_disk(self.batches.withdraw());
            left.into_iter().for_each(|row| self.batches.push(row));
        }
    }

    /// Whether rows may wait on disk: where it is full, they would take the room that is missing.
    fn may_spill(&self) -> bool {
        !self.batches.is_full()
    }

    /// Writes what was refused; returns whether nothing is left. Rows go first.
    fn write_refusals(&mut self) -> bool {
        self.take_refusals();
        if !self.batches.has_refusals() {
            return true;
        }
        let now = self.now();
        let written = self.batches.write_refusals(now);
        self.publish();
        written
    }

    /// Writes which objects were made; returns whether nothing is left.
    fn write_objects(&mut self) -> bool {
        let objects = std::mem::take(&mut *lock(&self.shared.objects));
        if !objects.is_empty() {
            self.batches.push_objects(objects);
        }
        let now = self.now();
        let written = self.batches.write_objects(now);
        self.publish();
        written
    }

    fn take_refusals(&mut self) {
        for row in lock(&self.shared.refusals).take() {
            let count = row.count;
            if !self.batches.push_refusal(row) {
                self.shared.lost_refusals.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// Publishes counts and events of the batches.
    fn publish(&mut self) {
        let counts = self.batches.counts();
        let settled = |counts: &BatchCounts| counts.written + counts.lost;
        self.shared.written.store(counts.written, Ordering::Relaxed);
        self.shared.lost_rows.store(counts.lost, Ordering::Relaxed);
        self.shared.pruned.store(counts.pruned, Ordering::Relaxed);
        self.shared.waiting.fetch_sub(settled(&counts) - settled(&self.published), Ordering::Relaxed);
        self.published = counts;
        self.intake.publish();
        // Where the database fails as well, its error is the one to tell.
        let failure = self.intake.take_failure().filter(|_| self.batches.retry_at().is_none());
        failure.into_iter().for_each(|message| self.shared.notice(message));
        for events in self.batches.take_events() {
            match events {
                WriterEvent::Failing(message) => self.shared.fail(message),
                WriterEvent::Notice(message) => self.shared.notice(message),
                WriterEvent::Working => self.shared.recover(),
            }
        }
    }

    /// Reports, once writing works again, how many rows the full queue rejected.
    fn tell_turned_away(&mut self) {
        let rejected = self.shared.rejected.load(Ordering::Relaxed);
        if rejected > self.rejected {
            let rows = rejected - self.rejected;
            self.rejected = rejected;
            let path = self.config.path.display();
            self.shared.notice(format!(
                "write the log {path}: {rows} rows arrived faster than they could be written and were lost"
            ));
        }
    }

    /// Writes the rest for three quarters of the close timeout, and counts what could not be written.
    fn finish(&mut self) {
        let last = self.now() + Span::from_nanos(self.config.close_timeout.as_nanos() / 4 * 3);
        self.batches.retry_now();
        while !(self.write_all() && self.write_refusals() && self.write_objects()) && self.now() < last {
            std::thread::sleep(CLOSE_RETRY_PAUSE);
            self.batches.retry_now();
        }
        self.end();
    }
}

#[cfg(test)]
mod tests;
