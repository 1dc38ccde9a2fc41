//! A log whose writer has no thread: what it writes, counts and says, turn by turn.
//!
//! It knows no database. Invariant: each row is in the file, held, or counted as lost.

use crate::rows::row;
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use tokrate_core::{Span, Tick};
use tokrate_record::{Attempt, Refusal, RefusalReason};
use tokrate_store::{Log, LogClock, LogConfig, LogDriver, LogFile, StoreError};

/// The names of its rows' calls.
#[derive(Default)]
struct Memory {
    is_locked: Cell<bool>,
    calls: RefCell<Vec<String>>,
    refusals: RefCell<Vec<Refusal>>,
}

impl LogFile for Memory {
    fn append(&mut self, rows: &[Attempt]) -> Result<(), StoreError> {
        if self.is_locked.get() {
            return Err(StoreError::Locked { path: PathBuf::from("LOG") });
        }
        self.calls.borrow_mut().extend(rows.iter().map(|row| row.call.clone()));
        Ok(())
    }

    fn append_refusals(&mut self, rows: &[Refusal]) -> Result<(), StoreError> {
        if self.is_locked.get() {
            return Err(StoreError::Locked { path: PathBuf::from("LOG") });
        }
        self.refusals.borrow_mut().extend_from_slice(rows);
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

/// Each look at its clock finds a second more than the last.
fn driven() -> (Log, LogDriver<Memory>) {
    let seconds = AtomicU64::new(0);
    let monotonic = move || Tick::ZERO + Span::from_secs(seconds.fetch_add(1, Ordering::Relaxed));
    Log::driven(LogConfig::new("LOG", LogClock::new(monotonic, || 0)), Memory::default())
}

#[test]
fn rows_are_written_when_it_is_their_turn_and_what_is_held_at_the_end_is_lost() {
    let (log, mut driver) = driven();
    log.write(row(0));
    assert_eq!((driver.file().calls.borrow().len(), log.counts().waiting), (0, 1));
    driver.step();
    assert_eq!(*driver.file().calls.borrow(), ["call-0"]);
    driver.file().is_locked.set(true);
    (1..4).for_each(|n| log.write(row(n)));
    driver.step();
    assert_eq!((driver.held(), log.counts().waiting, log.is_healthy()), (3, 3, false));
    log.write(row(4));
    driver.end();
    let counts = log.counts();
    assert_eq!((counts.written, counts.lost, counts.waiting, driver.held()), (1, 4, 0, 0));
    assert_eq!(log.path().to_str(), Some("LOG"));
}

#[test]
fn trouble_is_said_each_time_it_begins_and_of_what_nobody_hears_the_first_sixteen_are_kept() {
    let (log, mut driver) = driven();
    let mut outages = |number: u64| {
        for n in 0..number {
            driver.file().is_locked.set(true);
            log.write(row(n));
            driver.step();
            driver.step();
            driver.file().is_locked.set(false);
            driver.step();
            assert!(log.is_healthy());
        }
        std::iter::from_fn(|| log.take_failure()).count()
    };
    assert_eq!([3, 16, 20].map(&mut outages), [3, 16, 16]);
}

#[test]
fn a_flood_of_refusals_is_one_row_and_pushes_out_no_row_of_an_attempt() {
    let (log, mut driver) = driven();
    let refusal = || Refusal::new(60_000, RefusalReason::Unauthorized, 401);
    log.write(row(0));
    // More than the queue and the writer hold together.
    (0..20_000).for_each(|_| log.refuse(refusal()));
    log.write(row(1));
    driver.step();
    assert_eq!(*driver.file().calls.borrow(), ["call-0", "call-1"]);
    assert_eq!(*driver.file().refusals.borrow(), [Refusal { count: 20_000, ..refusal() }]);
    driver.file().is_locked.set(true);
    (0..3).for_each(|_| log.refuse(refusal()));
    driver.step();
    assert!(!log.is_healthy());
    driver.end();
    let counts = log.counts();
    assert_eq!((counts.written, counts.lost, counts.waiting, counts.lost_refusals), (2, 0, 0, 3));
}
