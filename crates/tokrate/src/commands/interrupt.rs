//! Ctrl-C: the first ends the run in order, the second at once.

use anyhow::{Context, Result};
use tokrate_bench::Stop;

/// The exit code of a program that an interrupt ended, as shells know it.
const INTERRUPTED: i32 = 130;

/// Watches for interrupts on a thread of its own, for the rest of the process.
pub fn watch(stop: Stop) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .context("watch for Ctrl-C: no runtime could be started")?;
    std::thread::Builder::new()
        .name("interrupt".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                if tokio::signal::ctrl_c().await.is_err() {
                    return;
                }
                stop.set();
                anstream::eprintln!("\ntokrate: interrupted; writing what was measured (again to end at once)");
                if tokio::signal::ctrl_c().await.is_ok() {
                    std::process::exit(INTERRUPTED);
                }
            });
        })
        .context("watch for Ctrl-C: no thread could be started")?;
    Ok(())
}
