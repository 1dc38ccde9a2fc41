//! Server processes: start, stop, and resource use from `/proc`.
//!
//! Invariant: what was started ends with the soak, however that ends.

use crate::bench::GuardedProcess;
use crate::bench::clock::now;
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::net::SocketAddr;
use std::time::Duration;

/// How long a server may take to start and to stop, on a loaded machine.
pub const START_STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// Interval of polling while waiting for a server.
pub const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A process that ends when this is dropped.
pub struct Server(pub GuardedProcess);

/// Resource use of a process, from `/proc`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ResourceUsage {
    pub resident_kib: u64,
    /// Anonymous and shared memory; the rest of the resident set are pages of the program's file, which the kernel can reclaim.
    pub anonymous_kib: u64,
    pub peak_kib: u64,
    pub threads: u64,
    pub descriptors: u64,
}

impl Server {
    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let process = Pid::from_raw(self.0.process() as i32).context("signal a program: it has no process id")?;
        kill_process(process, signal).context("signal a program")
    }

    /// Sends SIGTERM and waits for the end.
    pub fn stop(&self, timeout: Duration) -> Result<()> {
        self.signal(Signal::TERM)?;
        let asked_at = now();
        while self.0.is_alive() {
            ensure!(now() - asked_at < timeout.as_nanos() as u64, "end a program within {} s", timeout.as_secs());
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Its resource use now.
    pub fn resources(&self) -> Result<ResourceUsage> {
        let process = format!("/proc/{}", self.0.process());
        let status = std::fs::read_to_string(format!("{process}/status")).context("read the gateway's resources")?;
        let number = |name: &str| -> Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            number.with_context(|| format!("read the gateway's resources: no {name}"))
        };
        let descriptors =
            std::fs::read_dir(format!("{process}/fd")).context("count the gateway's descriptors")?.count();
        Ok(ResourceUsage {
            resident_kib: number("VmRSS:")?,
            anonymous_kib: number("RssAnon:")? + number("RssShmem:")?,
            peak_kib: number("VmHWM:")?,
            threads: number("Threads:")?,
            descriptors: descriptors as u64,
        })
    }
}

/// Waits until a server has printed `text` with an address after it; that address.
pub fn address_after(server: &Server, text: &str) -> Result<SocketAddr> {
    let from = now();
    loop {
        let output = std::fs::read_to_string(&server.0.log).unwrap_or_default();
        if let Some((_, rest)) = output.split_once(text)
            && let Some(end) = rest.find(['/', '\n'])
        {
            return rest[..end].parse().with_context(|| format!("read an address: {}", &rest[..end]));
        }
        if !server.0.is_alive() || now() - from > START_STOP_TIMEOUT.as_nanos() as u64 {
            bail!("find the address it listens on: {}", server.0.last_output());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}
