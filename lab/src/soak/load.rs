//! The open-loop load: each client starts when the plan says, whether or not earlier ones have ended.
//!
//! Invariant: no more clients run at once than there are threads; one that had to wait for a thread is counted.

use super::client::{ClientResult, Connections, Door, run};
use super::plan::Plan;
use crate::bench::clock::now;
use anyhow::{Context, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Clients at once: about ten seconds of the default rate.
const MAX_CLIENTS: usize = 256;
/// One that starts later than this after it was due is late (ns).
const LATE_NS: u64 = 100_000_000;

/// State that the clients' threads share.
#[derive(Default)]
pub struct Shared {
    pub seen: Mutex<Vec<ClientResult>>,
    pub started: AtomicU64,
    pub late: AtomicU64,
    is_over: AtomicBool,
}

/// Running clients.
pub struct Load {
    pub shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts clients for that long.
    pub fn start(plan: Plan, door: Door, duration: Duration) -> Result<Load> {
        let (shared, connections) = (Arc::new(Shared::default()), Arc::new(Connections::default()));
        let (sender, receiver) = sync_channel::<u64>(0);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Vec::new();
        for _ in 0..MAX_CLIENTS {
            let (shared, connections, receiver, plan, door) =
                (Arc::clone(&shared), Arc::clone(&connections), Arc::clone(&receiver), plan.clone(), door.clone());
            let work = move || {
                while let Some(number) = next(&receiver) {
                    let seen = run(plan.task(number), &door, &connections);
                    shared.seen.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
                }
            };
            let builder = std::thread::Builder::new().name("client".to_owned()).stack_size(512 << 10);
            threads.push(builder.spawn(work).context("start a client")?);
        }
        let counted = Arc::clone(&shared);
        let send = move || {
            let from = now();
            let (mut due, mut number) = (from, 0);
            while due - from < duration.as_nanos() as u64 && !counted.is_over.load(Relaxed) {
                std::thread::sleep(Duration::from_nanos(due.saturating_sub(now())));
                // It fails only when every client's thread has panicked.
                if sender.send(number).is_err() {
                    return;
                }
                counted.started.fetch_add(1, Relaxed);
                counted.late.fetch_add(u64::from(now().saturating_sub(due) > LATE_NS), Relaxed);
                due += plan.gap(number).as_nanos();
                number += 1;
            }
        };
        threads.push(std::thread::Builder::new().name("crowd".to_owned()).spawn(send).context("start the clients")?);
        Ok(Load { shared, threads })
    }

    /// Whether more clients will start.
    pub fn is_running(&self) -> bool {
        self.threads.last().is_some_and(|sender| !sender.is_finished())
    }

    /// Starts no more clients.
    pub fn stop_early(&self) {
        self.shared.is_over.store(true, Relaxed);
    }

    /// Waits for the last client; all results.
    pub fn finish(self) -> Result<Vec<ClientResult>> {
        for thread in self.threads {
            thread.join().ok().context("collect a client's results: its thread panicked")?;
        }
        Ok(std::mem::take(&mut *self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// The number of the next task; `None` after the last.
fn next(receiver: &Mutex<Receiver<u64>>) -> Option<u64> {
    receiver.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
