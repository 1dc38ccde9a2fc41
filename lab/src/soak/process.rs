//! Servers that are started, asked to end, and looked at from outside.
//!
//! Invariant: what was started ends with the soak, however that ends.

use crate::bench::Guarded;
use crate::bench::clock::now;
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::net::SocketAddr;
use std::time::Duration;

/// How long the start of a server may take, and its end.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// How often somebody who waits looks.
pub const LOOK: Duration = Duration::from_millis(5);

/// A process that ends when this is dropped.
pub struct Server(pub Guarded);

/// What `/proc` says of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Vitals {
    pub resident_kib: u64,
    /// What it has written to; the rest are pages of the program's file, which the kernel takes back when it wants.
    pub own_kib: u64,
    pub peak_kib: u64,
    pub threads: u64,
    pub descriptors: u64,
}

impl Server {
    /// Tells it something.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let process = Pid::from_raw(self.0.process() as i32).context("signal a program: it has no number")?;
        kill_process(process, signal).context("signal a program")
    }

    /// Asks it to end and waits until it has.
    pub fn stop(&self, patience: Duration) -> Result<()> {
        self.signal(Signal::TERM)?;
        let asked_at = now();
        while self.0.is_alive() {
            ensure!(now() - asked_at < patience.as_nanos() as u64, "end a program within {} s", patience.as_secs());
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// How it is now.
    pub fn vitals(&self) -> Result<Vitals> {
        let process = format!("/proc/{}", self.0.process());
        let status = std::fs::read_to_string(format!("{process}/status")).context("look at the gateway")?;
        let number = |name: &str| -> Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            number.with_context(|| format!("look at the gateway: no {name}"))
        };
        let descriptors =
            std::fs::read_dir(format!("{process}/fd")).context("count the gateway's descriptors")?.count();
        Ok(Vitals {
            resident_kib: number("VmRSS:")?,
            own_kib: number("RssAnon:")? + number("RssShmem:")?,
            peak_kib: number("VmHWM:")?,
            threads: number("Threads:")?,
            descriptors: descriptors as u64,
        })
    }
}

/// The address that a server writes behind a text, once it has.
pub fn address_after(server: &Server, text: &str) -> Result<SocketAddr> {
    let from = now();
    loop {
        let said = std::fs::read_to_string(&server.0.log).unwrap_or_default();
        if let Some((_, rest)) = said.split_once(text)
            && let Some(end) = rest.find(['/', '\n'])
        {
            return rest[..end].parse().with_context(|| format!("read an address: {}", &rest[..end]));
        }
        if !server.0.is_alive() || now() - from > PATIENCE.as_nanos() as u64 {
            bail!("hear where it listens: {}", server.0.last_words());
        }
        std::thread::sleep(LOOK);
    }
}
