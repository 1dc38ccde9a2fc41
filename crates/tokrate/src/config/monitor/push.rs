//! From `[monitor.push]` and `[monitor.hub]` to keys and addresses.
//!
//! Invariant: a private key is in no message.

use super::Reading;
use super::rows::{HubRow, MonitorRow};
use crate::config::environment::{self, Environment};
use anyhow::{Result, bail, ensure};
use tokrate_monitor::{KnownProber, PublicKey, PushKey, PushSettings};
use tokrate_net::{ClientConfig, Target};
use tokrate_targets::KeyReference;

/// Where this prober pushes.
pub fn push(reading: &Reading<'_>, row: &MonitorRow, prober: &str) -> Result<Option<PushSettings>> {
    let Some(push) = &row.push else { return Ok(None) };
    let wrong = |message: &str| reading.at(push.hub.span(), &format!("monitor.push: {message}"));
    let hub = Target::parse(push.hub.get_ref()).map_err(|error| wrong(&error.to_string()))?;
    let Some(reference) = KeyReference::first(&push.key_env, &push.key_file, &push.key_cmd) else {
        bail!(wrong("it has no key; `tokrate monitor push-key FILE` makes one, and `key_file` names it"));
    };
    let key =
        reference.fetch(&environment::variable).map_err(|error| wrong(&format!("{:#}", anyhow::Error::from(error))))?;
    let key = PushKey::parse(key.reveal()).map_err(|error| wrong(&format!("{reference}: {error}")))?;
    let is_sendable = !prober.is_empty() && prober.bytes().all(|byte| (0x21..0x7f).contains(&byte));
    ensure!(is_sendable, wrong("the prober's name has signs that no header can carry; set `prober` under [monitor]"));
    let client = ClientConfig {
        reuse: false,
        ca_file: push.ca_file.clone().or_else(|| row.ca_file.clone()),
        proxy: Environment::read().proxies(),
        ..ClientConfig::default()
    };
    Ok(Some(PushSettings { hub, key, client }))
}

/// Refuses the name of this monitor's own prober among those of the hub.
pub fn ensure_own_name(reading: &Reading<'_>, row: &MonitorRow, prober: &str) -> Result<()> {
    let mut others = row.hub.iter().flat_map(|hub| hub.probers.keys());
    if let Some(same) = others.find(|name| name.get_ref() == prober) {
        bail!(
            reading.at(same.span(), &format!("`{prober}` is this monitor's own prober; set `prober` to another name"))
        );
    }
    Ok(())
}

/// Who may push to this hub.
pub fn known_probers(reading: &Reading<'_>, row: &HubRow) -> Result<Vec<KnownProber>> {
    let mut known: Vec<KnownProber> = Vec::new();
    for (name, prober) in &row.probers {
        let wrong = |message: &str| reading.at(name.span(), &format!("the prober `{}`: {message}", name.get_ref()));
        let key = PublicKey::parse(&prober.public_key).map_err(wrong)?;
        let same = known.iter().find(|other| other.key == key);
        if let Some(other) = same {
            bail!(wrong(&format!("it has the key of `{}`; each prober has its own", other.name)));
        }
        known.push(KnownProber { name: name.get_ref().clone(), key });
    }
    Ok(known)
}
