//! The log file in memory, on a disk that can be full, locked or lose the file.
//!
//! Retries and counting are the real writer's. Invariant: rows of an append are stored all or none.

use std::cell::RefCell;
use std::rc::Rc;
use tokrate_core::Tick;
use tokrate_net::Clock;
use tokrate_record::{Attempt, Refusal};
use tokrate_store::{LogFile, StoreError};

/// A fault of the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskFault {
    /// The disk is full.
    Full,
    /// The file is locked by another process.
    Locked,
    /// The file is moved away when the fault begins.
    Moved,
}

/// A period with a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskOutage {
    /// When it begins.
    pub from: Tick,
    /// When it ends.
    pub until: Tick,
    /// The fault.
    pub fault: DiskFault,
}

/// The stored rows.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StoredRows {
    /// Rows of the current file.
    pub rows: Vec<Attempt>,
    /// Rows of files that were moved away.
    pub moved: Vec<Attempt>,
    /// Refusals of all files, as they were written.
    pub refusals: Vec<Refusal>,
    /// Failed operations.
    pub failures: u64,
    /// Moves so far.
    moves: usize,
}

/// The log file.
pub(super) struct Disk {
    pub clock: Clock,
    pub outages: Vec<DiskOutage>,
    pub kept: Rc<RefCell<StoredRows>>,
}

impl Disk {
    /// The fault at this time, if any.
    fn check_fault(&self) -> Result<(), StoreError> {
        let now = self.clock.now();
        let path = std::path::PathBuf::from("/simulated/log.db");
        let mut kept = self.kept.borrow_mut();
        let moves = self.outages.iter().filter(|outage| outage.fault == DiskFault::Moved && outage.from <= now).count();
        if moves > kept.moves {
            kept.moves = moves;
            let gone = std::mem::take(&mut kept.rows);
            let count = gone.len() as u64;
            kept.moved.extend(gone);
            kept.failures += 1;
            return Err(StoreError::Displaced { path, what: "it was moved", lost_rows: count });
        }
        let active =
            |outage: &&DiskOutage| outage.from <= now && now < outage.until && outage.fault != DiskFault::Moved;
        let Some(outage) = self.outages.iter().find(active) else { return Ok(()) };
        kept.failures += 1;
        Err(match outage.fault {
            DiskFault::Locked => StoreError::Locked { path },
            DiskFault::Full | DiskFault::Moved => StoreError::Full { path },
        })
    }
}

impl LogFile for Disk {
    fn append(&mut self, rows: &[Attempt]) -> Result<(), StoreError> {
        self.check_fault()?;
        self.kept.borrow_mut().rows.extend_from_slice(rows);
        Ok(())
    }

    fn append_refusals(&mut self, rows: &[Refusal]) -> Result<(), StoreError> {
        self.check_fault()?;
        self.kept.borrow_mut().refusals.extend_from_slice(rows);
        Ok(())
    }

    fn watch(&mut self) -> Result<(), StoreError> {
        match self.check_fault() {
            Err(error @ StoreError::Displaced { .. }) => Err(error),
            _ => Ok(()),
        }
    }

    fn prune(&mut self, before_unix_ms: u64, most: u64) -> Result<u64, StoreError> {
        self.check_fault()?;
        let mut kept = self.kept.borrow_mut();
        let mut left = most;
        kept.rows.retain(|row| {
            let goes = row.sample.started_unix_ms < before_unix_ms && left > 0;
            left -= u64::from(goes);
            !goes
        });
        Ok(most - left)
    }

    fn newest_unix_ms(&mut self) -> Result<Option<u64>, StoreError> {
        self.check_fault()?;
        Ok(self.kept.borrow().rows.iter().map(|row| row.sample.started_unix_ms).max())
    }
}
