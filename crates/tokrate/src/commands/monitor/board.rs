//! The board of `tokrate monitor`: served beside the monitor, after the demo, or written as files.
//!
//! Invariant: an address that cannot be used is an error before anything is probed.

use anyhow::{Context, Result, ensure};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use tokrate_bench::Stop;
use tokrate_board::Site;
use tokrate_monitor::{BoardFrame, MonitorError, ServeConfig, board_data, serve};
use tokrate_net::Clock;
use tokrate_store::ProbeStore;

/// A board that is served until the stop is set.
pub struct Served {
    /// Its address.
    pub address: SocketAddr,
    thread: JoinHandle<Result<(), MonitorError>>,
}

/// Serves a board in a thread of its own.
pub fn start(config: ServeConfig, stop: Stop) -> Result<Served> {
    let (sender, receiver) = sync_channel(1);
    let body = move || {
        // The receiver is there: it waits for this or for the thread's end.
        let ready = |address| sender.send(address).unwrap_or_default();
        serve(config, Clock::monotonic(), ready, stop.wait())
    };
    let thread =
        std::thread::Builder::new().name("board".to_owned()).spawn(body).context("start the board's thread")?;
    match receiver.recv() {
        Ok(address) => Ok(Served { address, thread }),
        // It ended before it listened, and says why.
        Err(_) => Err(ended(thread).err().unwrap_or_else(|| anyhow::anyhow!("start the board"))),
    }
}

impl Served {
    /// Waits for its end.
    pub fn join(self) -> Result<()> {
        ended(self.thread)
    }
}

fn ended(thread: JoinHandle<Result<(), MonitorError>>) -> Result<()> {
    thread.join().map_err(|_| anyhow::anyhow!("serve the board: its thread panicked"))?.context("serve the board")
}

/// Writes every page of a board as a file below a folder; returns how many.
pub fn write_files(store: &dyn ProbeStore, frame: &BoardFrame, at_unix_ms: u64, folder: &Path) -> Result<usize> {
    let at = || format!("write the board to {}", folder.display());
    std::fs::create_dir_all(folder).with_context(at)?;
    let is_empty = std::fs::read_dir(folder).with_context(at)?.next().is_none();
    ensure!(is_empty, "{}: there is something in it; name an empty folder", at());
    let site = Site::new(board_data(store, frame, at_unix_ms)?);
    let mut count = 0;
    for (path, bytes) in site.files() {
        let file = folder.join(&path);
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent).with_context(at)?;
        }
        std::fs::write(&file, bytes).with_context(|| format!("write {}", file.display()))?;
        count += 1;
    }
    Ok(count)
}
