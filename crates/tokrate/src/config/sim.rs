//! From the flags of `tokrate sim` to the configuration of the host.

use super::personas::Personas;
use super::{environment, quantity};
use crate::flags::sim::{Flags, Law as LawFlags};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tokrate_core::Span;
use tokrate_host::{ApiKey, FleetConfig, HostConfig, TruthLog};
use tokrate_sim::{Faults, Law};
use tokrate_targets::KeyReference;

/// Where the simulated engine listens by default.
const DEFAULT_ADDRESS: &str = "127.0.0.1:8400";

/// What to serve.
#[derive(Debug)]
pub struct Resolved {
    /// For the host.
    pub config: FleetConfig,
    /// The environment variable of each provider's key, by the provider's name.
    pub key_variables: BTreeMap<String, String>,
}

/// Resolves the flags, and the file of personas if one is named.
pub fn resolve(flags: &Flags) -> Result<Resolved> {
    let typed = flags.listen.as_deref().map(address).transpose()?;
    let truth = flags.truth_log.clone().map_or(TruthLog::Off, TruthLog::File);
    let Some(path) = &flags.personas else {
        let hosts = flags.allow_hosts.clone();
        let config = HostConfig { truth, hosts, ..alone(flags, typed.map_or_else(|| address(DEFAULT_ADDRESS), Ok)?)? };
        let key_variables = flags.key_env.iter().map(|variable| (flags.model.clone(), variable.clone())).collect();
        return Ok(Resolved { config: config.into(), key_variables });
    };
    let personas = Personas::read(path)?;
    let listen = typed.or(personas.listen).map_or_else(|| address(DEFAULT_ADDRESS), Ok)?;
    let config = FleetConfig {
        address: Some(listen),
        providers: personas.providers,
        seed: flags.seed,
        hosts: flags.allow_hosts.clone(),
        truth,
        ..FleetConfig::default()
    };
    Ok(Resolved { config, key_variables: personas.key_variables })
}

fn address(text: &str) -> Result<SocketAddr> {
    let parsed = text.parse().ok();
    parsed.with_context(|| format!("read --listen: `{text}` is no address; write for example 127.0.0.1:8400"))
}

/// One engine with the law of the flags.
fn alone(flags: &Flags, address: SocketAddr) -> Result<HostConfig> {
    let mut faults = Faults::default();
    for fault in &flags.faults {
        faults.set(fault)?;
    }
    faults.check()?;
    let law = law(&flags.law)?;
    law.check()?;
    let api_key = match &flags.key_env {
        None => None,
        Some(name) => {
            Some(ApiKey::new(KeyReference::Variable(name.clone()).fetch(&environment::variable)?.reveal().to_owned()))
        }
    };
    let model = flags.model.clone();
    Ok(HostConfig { address, law, faults, seed: flags.seed, model, api_key, ..HostConfig::default() })
}

fn law(flags: &LawFlags) -> Result<Law> {
    let default = Law::default();
    let time = |flag: &str, typed: &Option<String>, default: Span| match typed {
        None => Ok(default),
        Some(text) => quantity::span(text).with_context(|| format!("read {flag}")),
    };
    Ok(Law {
        slots: flags.slots.unwrap_or(default.slots),
        base_delay: time("--delay", &flags.delay, default.base_delay)?,
        prefill_tokens_per_second: flags.prefill.unwrap_or(default.prefill_tokens_per_second),
        stream_tokens_per_second: flags.speed.unwrap_or(default.stream_tokens_per_second),
        contention: flags.alpha.unwrap_or(default.contention),
        coherency: flags.beta.unwrap_or(default.coherency),
        tokens_per_chunk: flags.tokens_per_chunk.unwrap_or(default.tokens_per_chunk),
        gap_jitter: flags.jitter.unwrap_or(default.gap_jitter),
        reasoning_tokens: flags.reasoning_tokens.unwrap_or(default.reasoning_tokens),
        coalesce: time("--coalesce", &flags.coalesce, default.coalesce)?,
        role_first: flags.role_first.unwrap_or(default.role_first),
        usage_every_chunk: flags.usage_every_chunk,
        ..default
    })
}
