//! What a log's writer decides: which rows make a batch, when to try again, what counts as written and what as lost, and which
//! rows are old enough to be removed.
//!
//! It has no thread, no queue and no clock: whoever drives it hands in rows and times, and the file stands behind a trait.
//! [`super::writer`] drives it on a thread with SQLite behind; a simulated world can do both itself.
//!
//! Invariant: each row that was pushed is held, written or lost, and never two of these; `written` holds only rows that were
//! committed to the file that still stands.

use super::clock::ClockGuard;
use crate::StoreError;
use tokrate_core::{Span, Tick};
use tokrate_meter::Attempt;

/// So many old rows are removed at once, so that new ones do not wait.
const PRUNE_ROWS: u64 = 2_000;
/// How often old rows are looked for.
const PRUNE_EVERY: Span = Span::from_secs(60);
/// How often a writer with nothing to do looks whether its file is still there; a stat of three files costs microseconds.
const WATCH_EVERY: Span = Span::from_secs(5);
/// So many messages wait to be taken; older ones are dropped, as a driver takes them after each step.
const NEWS: usize = 16;

/// The file that a writer writes: opened when it is needed, and watched.
pub trait LogFile {
    /// Commits rows to the file that stands at the path, all or none of them.
    ///
    /// # Errors
    /// When they are not committed. [`StoreError::Displaced`] says besides that rows of earlier calls may be gone; the next
    /// call begins with the file that stands at the path then.
    fn append(&mut self, rows: &[Attempt]) -> Result<(), StoreError>;

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

/// What a writer goes by.
#[derive(Clone, Copy, Debug)]
pub struct BatchRules {
    /// So many rows go into one transaction at most.
    pub batch_rows: usize,
    /// So long the writer waits before it tries again after an error.
    pub retry_every: Span,
    /// Rows older than this are removed; `None` keeps them.
    pub retention: Option<Span>,
    /// So long a wall clock that jumped ahead must have kept to its new time before rows are removed by it.
    pub clock_settles: Span,
}

/// What became of the rows that a writer was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BatchCounts {
    /// Committed to the file that stands at the path. Goes down when that file turns out to be displaced.
    pub written: u64,
    /// Given up at the end, or (perhaps) gone with a file that was moved, removed or replaced.
    pub lost: u64,
    /// Removed because of their age.
    pub pruned: u64,
}

/// What a writer has to say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum News {
    /// Writing fails, and why; it stands until [`News::Works`].
    Fails(String),
    /// Something happened that a person should read, while writing goes on.
    Happened(String),
    /// Writing works.
    Works,
}

/// The decisions of a writer.
#[derive(Debug)]
pub struct Batches<F> {
    file: F,
    rules: BatchRules,
    held: Vec<Attempt>,
    counts: BatchCounts,
    /// When to try again after an error.
    retry_at: Option<Tick>,
    prune_at: Tick,
    watch_at: Tick,
    /// Guards what is removed against a clock that is wrong; `None` until the newest row of the file is known.
    clock: Option<ClockGuard>,
    news: Vec<News>,
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
            counts,
            retry_at: None,
            prune_at,
            watch_at,
            clock: None,
            news: Vec::new(),
        }
    }

    /// Takes a row. How many are held is the driver's to bound.
    pub fn push(&mut self, row: Attempt) {
        self.held.push(row);
    }

    /// Rows that are neither written nor lost yet.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// What became of the others.
    pub fn counts(&self) -> BatchCounts {
        self.counts
    }

    /// When writing is tried again after an error; `None` while it works.
    pub fn retry_at(&self) -> Option<Tick> {
        self.retry_at
    }

    /// When [`Batches::tend`] has something to do.
    pub fn tend_at(&self) -> Tick {
        self.rules.retention.map_or(self.watch_at, |_| self.watch_at.min(self.prune_at))
    }

    /// Tries again at once, whatever failed before.
    pub fn retry_now(&mut self) {
        self.retry_at = None;
    }

    /// What was not taken yet, in its order.
    pub fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// The file.
    pub fn file(&self) -> &F {
        &self.file
    }

    /// Notes an error that the driver met.
    pub fn fail(&mut self, now: Tick, error: &StoreError) {
        self.retry_at = Some(now + self.rules.retry_every);
        self.say(News::Fails(error.to_string()));
    }

    /// Writes what is held, batch by batch, unless the time to try again has not come; says whether nothing is left.
    pub fn write(&mut self, now: Tick) -> bool {
        let mut displaced = false;
        while !self.held.is_empty() {
            if self.retry_at.is_some_and(|at| now < at) {
                return false;
            }
            let rows = self.held.len().min(self.rules.batch_rows.max(1));
            let written = self.learn_newest().and_then(|()| self.file.append(&self.held[..rows]));
            match written {
                Ok(()) => {
                    self.held.drain(..rows);
                    self.counts.written += rows as u64;
                    self.works();
                }
                // The file at the path now is as good as any; if that one goes at once too, something is amiss.
                Err(error) if self.displaced(&error) && !displaced => displaced = true,
                Err(error) => {
                    self.fail(now, &error);
                    return false;
                }
            }
        }
        true
    }

    /// Looks after the file and removes rows that are too old, if it is time. `wall_unix_ms` is the wall clock (ms since 1970).
    pub fn tend(&mut self, now: Tick, wall_unix_ms: u64) {
        if now >= self.watch_at {
            self.watch_at = now + WATCH_EVERY;
            if let Err(error) = self.file.watch()
                && !self.displaced(&error)
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

    /// Gives up what is held; it is lost.
    pub fn give_up(&mut self) {
        self.counts.lost += self.held.len() as u64;
        self.held.clear();
    }

    /// Removes a step's worth of rows that are too old.
    fn prune(&mut self, now: Tick, wall_unix_ms: u64, retention: Span) {
        self.prune_at = now + PRUNE_EVERY;
        let step = self.learn_newest().and_then(|()| {
            let Some(clock) = &mut self.clock else { return Ok(0) };
            if let Some(doubt) = clock.doubt(now, wall_unix_ms) {
                self.news.extend(doubt.message.map(News::Happened));
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
            Err(error) if self.displaced(&error) => self.prune_at = now,
            Err(error) => self.fail(now, &error),
        }
    }

    /// Asks for the newest row before the first of this writer's own is written: those bear the clock that is to be checked.
    fn learn_newest(&mut self) -> Result<(), StoreError> {
        if let (None, Some(retention)) = (&self.clock, self.rules.retention) {
            let newest = self.file.newest_unix_ms()?;
            self.clock = Some(ClockGuard::new(newest, retention, self.rules.clock_settles));
        }
        Ok(())
    }

    /// If an error says that the file was displaced, counts the rows that went with it.
    fn displaced(&mut self, error: &StoreError) -> bool {
        let StoreError::Displaced { gone, .. } = error else { return false };
        self.counts.written = self.counts.written.saturating_sub(*gone);
        self.counts.lost += gone;
        self.say(News::Happened(error.to_string()));
        true
    }

    fn works(&mut self) {
        self.retry_at = None;
        self.say(News::Works);
    }

    fn say(&mut self, news: News) {
        if self.news.last() == Some(&news) {
            return;
        }
        if self.news.len() == NEWS {
            self.news.remove(0);
        }
        self.news.push(news);
    }
}

#[cfg(test)]
mod tests;
