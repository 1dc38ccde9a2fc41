//! `tokrate monitor --demo`: two weeks of a simulated fleet in seconds.

use crate::commands::Verdict;
use crate::out::{monitor as shown, stdout};
use anyhow::{Context, Result};
use tokrate_monitor::demo::{self, DemoConfig};

/// Lets the fleet live into a database in a folder of its own, and prints what was found.
pub fn run(seed: u64) -> Result<Verdict> {
    let folder = std::env::temp_dir().join(format!("tokrate-demo-{}", std::process::id()));
    std::fs::create_dir(&folder).with_context(|| format!("make the folder {}", folder.display()))?;
    let database = folder.join("tokrate-monitor.db");
    let config = DemoConfig { seed };
    let settings = demo::settings(&config, &database, env!("CARGO_PKG_VERSION"))?;
    let summary = demo::live(&config, settings)?;
    stdout::write(&shown::demo(&summary, &database))?;
    Ok(if summary.missing().is_empty() { Verdict::Good } else { Verdict::BelowBar })
}
