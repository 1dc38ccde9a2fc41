//! `tokrate monitor --demo`: two weeks of a simulated fleet in seconds, and a board of them.

use super::board;
use crate::commands::Verdict;
use crate::config::monitor::board_address;
use crate::flags::monitor::Flags;
use crate::out::{monitor as shown, stdout};
use anyhow::{Context, Result};
use tokrate_bench::Stop;
use tokrate_monitor::demo::{self, DemoConfig};
use tokrate_monitor::{BoardFrame, ServeConfig};
use tokrate_store::{MonitorStore, ProbeStore};

/// Lets the fleet live into a database in a folder of its own, prints what was found, and serves the board until Ctrl-C.
pub fn run(flags: &Flags) -> Result<Verdict> {
    let address = board_address(flags.board.as_deref(), None)?;
    let folder = std::env::temp_dir().join(format!("tokrate-demo-{}", std::process::id()));
    std::fs::create_dir(&folder).with_context(|| format!("make the folder {}", folder.display()))?;
    let database = folder.join("tokrate-monitor.db");
    let config = DemoConfig { seed: flags.seed };
    let settings = demo::settings(&config, &database, env!("CARGO_PKG_VERSION"))?;
    let frame = BoardFrame::of(&settings, "Demo: twelve simulated providers, two weeks", "");
    let summary = demo::live(&config, settings)?;
    stdout::write(&shown::demo(&summary, &database))?;
    if let Some(address) = address {
        let at_unix_ms = MonitorStore::open_reader(&database)?.newest_probe()?;
        let (hosts, clickhouse, hub) = (Vec::new(), None, None);
        let stop = Stop::default();
        crate::commands::interrupt::watch_quietly(stop.clone())?;
        let served = board::start(ServeConfig { address, hosts, database, clickhouse, frame, hub, at_unix_ms }, stop)?;
        anstream::eprintln!(
            "tokrate: the board is at http://{}/ until Ctrl-C; --board off ends at once",
            served.address
        );
        served.join()?;
    }
    Ok(if summary.missing().is_empty() { Verdict::Good } else { Verdict::BelowBar })
}
