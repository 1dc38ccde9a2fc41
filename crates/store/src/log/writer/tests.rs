//! How long the writer tries to write what is left when the log is closed, by a clock that only the writer moves.

use super::*;
use crate::LogClock;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::channel;
use tokrate_record::{Attempt, Refusal};

/// What each look at the clock adds to it. A try looks twice, so that one falls on the very end of three seconds.
const STEP: Span = Span::from_millis(500);
/// A writer that has not stopped by then never does.
const TOO_MANY: u32 = 50;

/// A file that is locked for so many tries.
struct LockedFile {
    locked_for: u32,
    tries: u32,
    rows: usize,
}

impl LogFile for LockedFile {
    fn append(&mut self, rows: &[Attempt]) -> Result<(), StoreError> {
        self.tries += 1;
        assert!(self.tries < TOO_MANY, "it never stops");
        if self.tries <= self.locked_for {
            return Err(StoreError::Locked { path: PathBuf::from("LOG") });
        }
        self.rows += rows.len();
        Ok(())
    }

    fn append_refusals(&mut self, _: &[Refusal]) -> Result<(), StoreError> {
        Ok(())
    }

    fn watch(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn prune(&mut self, _: u64, _: u64) -> Result<u64, StoreError> {
        Ok(0)
    }

    fn newest_unix_ms(&mut self) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }
}

/// Closes a log with three rows in its queue: how often their writing was tried, how many were written, how many lost.
fn closed(locked_for: u32) -> (u32, usize, u64) {
    let (sender, receiver) = channel();
    (0..3).for_each(|_| sender.send(Message::Row(Box::default())).expect("the writer has its end"));
    drop(sender);
    let steps = AtomicU64::new(0);
    let monotonic = move || Tick::ZERO + Span::from_nanos(steps.fetch_add(1, Ordering::Relaxed) * STEP.as_nanos());
    let file = LockedFile { locked_for, tries: 0, rows: 0 };
    let config =
        LogConfig { close_timeout: Span::from_secs(4), ..LogConfig::new("LOG", LogClock::new(monotonic, || 0)) };
    let shared = Arc::new(Shared::default());
    shared.waiting.store(3, Ordering::Relaxed);
    let mut writer = Writer::over(file, config, receiver, Arc::clone(&shared));
    writer.finish();
    let file = writer.batches().file();
    (file.tries, file.rows, shared.lost_rows.load(Ordering::Relaxed))
}

#[test]
fn a_file_that_is_locked_at_the_end_is_tried_for_three_quarters_of_the_close_timeout() {
    // Of the four seconds three; each try takes one.
    assert_eq!(closed(u32::MAX), (3, 0, 3), "they are lost then");
}

#[test]
fn a_file_that_is_free_again_before_the_end_gets_its_rows_once() {
    for (locked_for, tries) in [(0, 1), (1, 2), (2, 3)] {
        assert_eq!(closed(locked_for), (tries, 3, 0), "locked for {locked_for} tries");
    }
}
