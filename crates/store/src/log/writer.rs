//! The thread that writes the log: sleeps until something is due, takes rows from the queue, and tells what became of them.
//!
//! What is decided is decided in [`Batches`]; this knows threads, queues and clocks. Invariant: its memory is bounded; a row
//! leaves it when it was committed, or when the log ends.

use super::batches::{BatchCounts, Batches, LogFile, News};
use super::{LogConfig, Message, Shared, lock};
use crate::StoreError;
use crate::watched::WatchedFile;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use tokrate_core::{Span, Tick};

/// Between two attempts to write at the end.
const FAREWELL_PAUSE: Duration = Duration::from_millis(20);

/// Reads the queue and writes the database.
pub(super) struct Writer<F = WatchedFile> {
    config: LogConfig,
    receiver: Receiver<Message>,
    shared: Arc<Shared>,
    batches: Batches<F>,
    /// The time that its waits go by.
    steady: Box<dyn Fn() -> Tick + Send>,
    /// What was told of so far.
    told: BatchCounts,
    /// Rows turned away that were told as trouble already.
    turned_away: u64,
}

impl Writer {
    /// Opens the database, or leaves that for later if it is locked.
    pub fn open(config: LogConfig, receiver: Receiver<Message>, shared: Arc<Shared>) -> Result<Writer, StoreError> {
        let mut file = WatchedFile::new(config.path.clone(), config.most_bytes);
        let opened = file.open();
        let begun = Instant::now();
        let steady = Box::new(move || Tick::ZERO + Span::from(begun.elapsed()));
        let mut writer = Writer::over(file, config, receiver, shared, steady);
        match opened {
            Err(error) if error.is_locked() => writer.batches.fail(Tick::ZERO, &error),
            other => other?,
        }
        writer.tell();
        Ok(writer)
    }
}

impl<F: LogFile> Writer<F> {
    /// A writer of any file, with its own idea of time.
    pub fn over(
        file: F,
        config: LogConfig,
        receiver: Receiver<Message>,
        shared: Arc<Shared>,
        steady: Box<dyn Fn() -> Tick + Send>,
    ) -> Writer<F> {
        let batches = Batches::new(file, config.rules());
        Writer { config, receiver, shared, batches, steady, told: BatchCounts::default(), turned_away: 0 }
    }

    /// What is written to, with its decisions.
    pub fn batches(&self) -> &Batches<F> {
        &self.batches
    }

    /// Takes what was handed in, writes what is due, and looks after the file.
    pub fn turn(&mut self) {
        if self.shared.wanted.swap(false, Ordering::AcqRel) {
            self.batches.retry_now();
        }
        // Taken before the queue is emptied: whoever came before gets what was handed in before.
        let flushes = std::mem::take(&mut *lock(&self.shared.flushes));
        if self.write_all() {
            flushes.iter().for_each(|flush| flush.try_send(()).unwrap_or_default());
        } else {
            lock(&self.shared.flushes).extend(flushes);
        }
        let now = self.now();
        self.batches.tend(now, (self.config.wall_clock)());
        self.tell();
    }

    /// Counts what could not be written as lost.
    pub fn end(&mut self) {
        while let Ok(message) = self.receiver.try_recv() {
            self.hold(message);
        }
        self.batches.give_up();
        self.tell();
    }

    fn now(&self) -> Tick {
        (self.steady)()
    }

    /// Writes until every handle is gone.
    pub fn run(mut self) {
        loop {
            self.wait();
            if self.shared.closing.load(Ordering::Acquire) {
                return self.leave();
            }
            self.turn();
        }
    }

    /// Sleeps until there is something to do: a full batch, a row that has waited long enough, a retry, a flush, the end.
    fn wait(&mut self) {
        if self.batches.held() == 0 {
            // The nudge of a flush may have been taken along with rows; its mark was set before it was sent.
            if self.is_wanted() {
                return;
            }
            let idle = self.batches.tend_at().since(self.now());
            let Ok(message) = self.receiver.recv_timeout(idle.as_duration()) else { return };
            self.hold(message);
        }
        let batch_at = self.now() + self.config.batch_every;
        loop {
            let retry_at = self.batches.retry_at();
            let left = retry_at.unwrap_or(batch_at).since(self.now());
            // While the database cannot be used, a full batch is no reason to wake.
            let full =
                retry_at.is_none() && self.shared.waiting.load(Ordering::Relaxed) >= self.config.batch_rows as u64;
            if left.is_zero() || full || self.is_wanted() {
                return;
            }
            std::thread::park_timeout(left.as_duration());
        }
    }

    fn is_wanted(&self) -> bool {
        self.shared.closing.load(Ordering::Acquire) || self.shared.wanted.load(Ordering::Acquire)
    }

    /// Takes rows from the queue and writes them until there is none, or until writing fails; says whether there is none.
    fn write_all(&mut self) -> bool {
        loop {
            self.take_rows();
            if self.batches.held() == 0 {
                return true;
            }
            let now = self.now();
            let written = self.batches.write(now);
            self.tell();
            if !written {
                return false;
            }
            self.tell_turned_away();
        }
    }

    fn take_rows(&mut self) {
        while self.batches.held() < self.config.held_rows.max(1) {
            let Ok(message) = self.receiver.try_recv() else { return };
            self.hold(message);
        }
    }

    fn hold(&mut self, message: Message) {
        if let Message::Row(row) = message {
            self.batches.push(*row);
        }
    }

    /// Makes known what the batches have counted and said.
    fn tell(&mut self) {
        let counts = self.batches.counts();
        let settled = |counts: &BatchCounts| counts.written + counts.lost;
        self.shared.written.store(counts.written, Ordering::Relaxed);
        self.shared.gone.store(counts.lost, Ordering::Relaxed);
        self.shared.pruned.store(counts.pruned, Ordering::Relaxed);
        self.shared.waiting.fetch_sub(settled(&counts) - settled(&self.told), Ordering::Relaxed);
        self.told = counts;
        for news in self.batches.take_news() {
            match news {
                News::Fails(message) => self.shared.fail(message),
                News::Happened(message) => self.shared.happened(message),
                News::Works => self.shared.recover(),
            }
        }
    }

    /// Says, when writing works again, how many rows found the queue full.
    fn tell_turned_away(&mut self) {
        let turned_away = self.shared.turned_away.load(Ordering::Relaxed);
        if turned_away > self.turned_away {
            let rows = turned_away - self.turned_away;
            self.turned_away = turned_away;
            let path = self.config.path.display();
            self.shared.happened(format!(
                "write the log {path}: {rows} rows came faster than they could be written and were lost"
            ));
        }
    }

    /// Writes what is left for three quarters of the time that the last handle waits, and counts what could not be written.
    fn leave(mut self) {
        let last = Instant::now() + self.config.farewell.as_duration().mul_f64(0.75);
        self.batches.retry_now();
        while !self.write_all() && Instant::now() < last {
            std::thread::sleep(FAREWELL_PAUSE);
            self.batches.retry_now();
        }
        self.end();
    }
}
