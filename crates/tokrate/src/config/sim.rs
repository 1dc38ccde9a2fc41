//! From the flags of `tokrate sim` to the configuration of the host.

use super::quantity;
use super::secret::KeyReference;
use crate::flags::sim::{Flags, Law as LawFlags};
use anyhow::{Context, Result};
use std::net::SocketAddr;
use tokrate_core::Span;
use tokrate_host::{ApiKey, HostConfig, TruthLog};
use tokrate_sim::{Faults, Law};

/// Resolves the flags.
pub fn resolve(flags: &Flags) -> Result<HostConfig> {
    let address: SocketAddr = flags.listen.parse().ok().with_context(|| {
        format!("read --listen: `{}` is no address; write for example 127.0.0.1:8400", flags.listen)
    })?;
    let mut faults = Faults::default();
    for fault in &flags.faults {
        faults.set(fault)?;
    }
    faults.check()?;
    let law = law(&flags.law)?;
    law.check()?;
    let api_key = match &flags.key_env {
        None => None,
        Some(name) => Some(ApiKey::new(KeyReference::Variable(name.clone()).fetch()?.reveal().to_owned())),
    };
    Ok(HostConfig {
        address,
        law,
        faults,
        seed: flags.seed,
        model: flags.model.clone(),
        api_key,
        truth: flags.truth_log.clone().map_or(TruthLog::Off, TruthLog::File),
        ..HostConfig::default()
    })
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
