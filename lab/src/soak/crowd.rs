//! All clients: each starts when the plan says, whatever became of those before it.
//!
//! It does not judge. Invariant: no more clients are at work at once than there are threads; one that had to wait for a
//! thread is counted.

use super::client::{Connections, Seen, carry_out};
use super::plan::Plan;
use crate::bench::clock::now;
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Clients at work at once.
const CLIENTS_MOST: usize = 256;
/// One that starts later than this after it was due is late (ns).
const LATE_NS: u64 = 100_000_000;

/// What the clients have seen so far.
#[derive(Default)]
pub struct Witness {
    pub seen: Mutex<Vec<Seen>>,
    pub started: AtomicU64,
    pub late: AtomicU64,
    is_over: AtomicBool,
}

/// Clients at work.
pub struct Crowd {
    pub witness: Arc<Witness>,
    threads: Vec<JoinHandle<()>>,
}

impl Crowd {
    /// Sends clients for so long.
    pub fn start(plan: Plan, address: SocketAddr, lasting: Duration) -> Result<Crowd> {
        let (witness, connections) = (Arc::new(Witness::default()), Arc::new(Connections::default()));
        let (sender, receiver) = sync_channel::<u64>(0);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Vec::new();
        for _ in 0..CLIENTS_MOST {
            let (witness, connections, receiver, plan) =
                (Arc::clone(&witness), Arc::clone(&connections), Arc::clone(&receiver), plan.clone());
            let work = move || {
                while let Some(number) = next(&receiver) {
                    let seen = carry_out(plan.errand(number), address, &connections);
                    witness.seen.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
                }
            };
            let builder = std::thread::Builder::new().name("client".to_owned()).stack_size(512 << 10);
            threads.push(builder.spawn(work).context("start a client")?);
        }
        let counted = Arc::clone(&witness);
        let send = move || {
            let from = now();
            let (mut due, mut number) = (from, 0);
            while due - from < lasting.as_nanos() as u64 && !counted.is_over.load(Relaxed) {
                std::thread::sleep(Duration::from_nanos(due.saturating_sub(now())));
                // It fails only when every client's thread has broken down.
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
        Ok(Crowd { witness, threads })
    }

    /// Whether clients still come.
    pub fn is_coming(&self) -> bool {
        self.threads.last().is_some_and(|sender| !sender.is_finished())
    }

    /// Sends no more.
    pub fn end_early(&self) {
        self.witness.is_over.store(true, Relaxed);
    }

    /// Waits for the last of them; all that was seen.
    pub fn finish(self) -> Result<Vec<Seen>> {
        for thread in self.threads {
            thread.join().ok().context("hear from a client: its thread broke down")?;
        }
        Ok(std::mem::take(&mut *self.witness.seen.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// The number of the next errand; nothing when there is none any more.
fn next(receiver: &Mutex<Receiver<u64>>) -> Option<u64> {
    receiver.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
