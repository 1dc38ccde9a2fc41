//! The log's file in memory, on a disk that fills up, is locked, or loses the file.
//!
//! It decides nothing: what is tried again and counted is up to the real writer. Invariant: rows of a call are kept all or none.

use std::cell::RefCell;
use std::rc::Rc;
use tokrate_core::Tick;
use tokrate_meter::Attempt;
use tokrate_net::Clock;
use tokrate_store::{LogFile, StoreError};

/// What is wrong with a disk for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskTrouble {
    /// There is no room.
    Full,
    /// Another process has the file.
    Locked,
    /// The file was moved away at the beginning of the time.
    Moved,
}

/// A time of trouble.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadTime {
    /// When it begins.
    pub from: Tick,
    /// When it is over.
    pub until: Tick,
    /// What it is.
    pub trouble: DiskTrouble,
}

/// What lies on the disk.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Kept {
    /// Rows of the file that stands at the path.
    pub rows: Vec<Attempt>,
    /// Rows of files that were moved away.
    pub moved: Vec<Attempt>,
    /// Calls that failed.
    pub failures: u64,
    /// Times that were over or have begun, of files moved away.
    moves: usize,
}

/// The file.
pub(super) struct Disk {
    pub clock: Clock,
    pub bad: Vec<BadTime>,
    pub kept: Rc<RefCell<Kept>>,
}

impl Disk {
    /// The trouble of this moment.
    fn look(&self) -> Result<(), StoreError> {
        let now = self.clock.now();
        let path = std::path::PathBuf::from("/simulated/log.db");
        let mut kept = self.kept.borrow_mut();
        let moves = self.bad.iter().filter(|bad| bad.trouble == DiskTrouble::Moved && bad.from <= now).count();
        if moves > kept.moves {
            kept.moves = moves;
            let gone = std::mem::take(&mut kept.rows);
            let count = gone.len() as u64;
            kept.moved.extend(gone);
            kept.failures += 1;
            return Err(StoreError::Displaced { path, what: "it was moved", lost_rows: count });
        }
        let stands = |bad: &&BadTime| bad.from <= now && now < bad.until && bad.trouble != DiskTrouble::Moved;
        let Some(bad) = self.bad.iter().find(stands) else { return Ok(()) };
        kept.failures += 1;
        Err(match bad.trouble {
            DiskTrouble::Locked => StoreError::Locked { path },
            DiskTrouble::Full | DiskTrouble::Moved => StoreError::Full { path },
        })
    }
}

impl LogFile for Disk {
    fn append(&mut self, rows: &[Attempt]) -> Result<(), StoreError> {
        self.look()?;
        self.kept.borrow_mut().rows.extend_from_slice(rows);
        Ok(())
    }

    fn watch(&mut self) -> Result<(), StoreError> {
        match self.look() {
            Err(error @ StoreError::Displaced { .. }) => Err(error),
            _ => Ok(()),
        }
    }

    fn prune(&mut self, before_unix_ms: u64, most: u64) -> Result<u64, StoreError> {
        self.look()?;
        let mut kept = self.kept.borrow_mut();
        let mut left = most;
        kept.rows.retain(|row| {
            let goes = row.started_unix_ms < before_unix_ms && left > 0;
            left -= u64::from(goes);
            !goes
        });
        Ok(most - left)
    }

    fn newest_unix_ms(&mut self) -> Result<Option<u64>, StoreError> {
        self.look()?;
        Ok(self.kept.borrow().rows.iter().map(|row| row.started_unix_ms).max())
    }
}
