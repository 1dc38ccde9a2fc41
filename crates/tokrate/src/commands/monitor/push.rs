//! `tokrate monitor push-key`: the key with which a prober signs what it pushes.
//!
//! Invariant: the private key is in the file and nowhere else, and the file is its user's alone.

use crate::commands::Verdict;
use crate::commands::init::key::write_secret;
use crate::flags::monitor::PushKeyFlags;
use anyhow::{Context, Result, anyhow, ensure};
use tokrate_monitor::PushKey;

/// Writes it.
pub fn key(flags: &PushKeyFlags) -> Result<Verdict> {
    let text = PushKey::generate()?;
    let key = PushKey::parse(&text).map_err(|error| anyhow!("make a key: {error}"))?;
    let path = &flags.file;
    let is_new = write_secret(path, &text).with_context(|| format!("write the key to {}", path.display()))?;
    ensure!(is_new, "write the key to {}: it is there already; a hub would not know another", path.display());
    anstream::println!(
        "wrote the key to {}; the hub's settings need its public half:\n\n[monitor.hub.probers.{}]\npublic_key = \"{}\"\n\n\
         and this prober's:\n\n[monitor.push]\nhub = \"https://HUB\"\nkey_file = {:?}",
        flags.file.display(),
        flags.prober,
        key.public(),
        flags.file.display().to_string()
    );
    Ok(Verdict::Good)
}
