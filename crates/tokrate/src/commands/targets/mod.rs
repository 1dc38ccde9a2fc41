//! `tokrate targets`: what can be measured by name, which keys are there, and which engines run on this machine.

mod search;

use super::Verdict;
use crate::config::environment;
use crate::flags::targets::Flags;
use crate::out::targets::{self, Listed};
use anyhow::{Context, Result};
use tokrate_catalog::{Kind, PROVIDERS, Provider};

/// Lists and searches.
pub fn run(flags: &Flags) -> Result<Verdict> {
    let listed: Vec<Listed> = PROVIDERS.iter().map(listed).collect();
    let ports = if flags.no_search { Vec::new() } else { ports(&flags.ports) };
    let found = search::search(&ports)?;
    let text = match flags.json {
        true => targets::json(&listed, &ports, &found).context("write JSON")?,
        false => targets::text(&listed, &ports, &found),
    };
    crate::out::stdout::write(&text)?;
    Ok(Verdict::Good)
}

fn listed(row: &'static Provider) -> Listed {
    let keys = row.key_env.iter().map(|name| (*name, environment::variable(name).is_some()));
    Listed { row, keys: keys.collect() }
}

/// The usual ports of all engines and those that were typed, each once.
fn ports(typed: &[u16]) -> Vec<u16> {
    let usual = PROVIDERS.iter().filter(|row| row.kind == Kind::Local).flat_map(|row| row.usual_ports);
    let mut ports: Vec<u16> = usual.chain(typed).copied().collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}
