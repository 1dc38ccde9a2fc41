//! Ctrl-C: the first ends the run in order, the second at once.

use crate::out::progress;
use anyhow::{Context, Result};
use tokrate_bench::Stop;

/// The exit code of a program that an interrupt ended, as shells know it.
const INTERRUPTED: i32 = 130;

/// Watches for interrupts on a thread of its own, for the rest of the process. They are caught from the return of this
/// function on.
pub fn watch(stop: Stop) -> Result<()> {
    watch_and_print(stop, "\ntokrate: interrupted; writing what was measured (again to end at once)")
}

/// As [`watch`], for commands that have nothing to save.
pub fn watch_quietly(stop: Stop) -> Result<()> {
    watch_and_print(stop, "")
}

fn watch_and_print(stop: Stop, message: &'static str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .context("watch for Ctrl-C: no runtime could be started")?;
    let mut interrupts = {
        let _inside = runtime.enter();
        Interrupts::new().context("watch for Ctrl-C: the signal cannot be caught")?
    };
    std::thread::Builder::new()
        .name("interrupt".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                interrupts.next().await;
                stop.set();
                // The view says so itself.
                if !message.is_empty() && !progress::is_shown() {
                    anstream::eprintln!("{message}");
                }
                interrupts.next().await;
                progress::leave();
                std::process::exit(INTERRUPTED);
            });
        })
        .context("watch for Ctrl-C: no thread could be started")?;
    Ok(())
}

/// SIGINT and SIGTERM.
#[cfg(unix)]
struct Interrupts {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Interrupts {
    fn new() -> std::io::Result<Interrupts> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Interrupts { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Interrupts;

#[cfg(not(unix))]
impl Interrupts {
    fn new() -> std::io::Result<Interrupts> {
        Ok(Interrupts)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
