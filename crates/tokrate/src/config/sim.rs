//! From the flags of `tokrate sim` to the configuration of the host.

use super::personas::Personas;
use super::{environment, quantity, script};
use crate::flags::sim::{EngineFlags, Flags, Law as LawFlags};
use anyhow::{Context, Result, anyhow, bail};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use tokrate_core::Span;
use tokrate_engine::{Policy, Speculation};
use tokrate_estimate::serving::{Serving, Tuning};
use tokrate_estimate::what_if::Change;
use tokrate_estimate::{Asked, Estimator};
use tokrate_host::{ApiKey, EmulatedEngine, FleetConfig, GpuLaw, HostConfig, MetricNames, TruthLog};
use tokrate_sim::{Encoder, Faults, Law, Scheduled};
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
    /// The engine whose scheduler serves, in words.
    pub engine: Option<String>,
}

/// Resolves the flags, and the file of personas if one is named.
pub fn resolve(flags: &Flags) -> Result<Resolved> {
    let typed = flags.listen.as_deref().map(address).transpose()?;
    let script = flags.script.as_deref().map(script::read).transpose()?.map(Arc::new);
    let truth = flags.truth_log.clone().map_or(TruthLog::Off, TruthLog::File);
    let Some(path) = &flags.personas else {
        let hosts = flags.allow_hosts.clone();
        let config = HostConfig { truth, hosts, ..alone(flags, typed.map_or_else(|| address(DEFAULT_ADDRESS), Ok)?)? };
        let mut config = FleetConfig::from(config);
        let (scheduled, summary) = scheduled(flags)?.unzip();
        for provider in &mut config.providers {
            provider.persona.scheduled.clone_from(&scheduled);
            provider.script.clone_from(&script);
            if flags.engine.engine.as_deref() == Some("sglang") {
                provider.emulated_engine = EmulatedEngine::Sglang;
                provider.metrics = MetricNames::Sglang;
            } else if scheduled.is_some() {
                provider.emulated_engine = EmulatedEngine::Vllm;
            }
        }
        let key_variables = flags.key_env.iter().map(|variable| (flags.model.clone(), variable.clone())).collect();
        return Ok(Resolved { config, key_variables, engine: summary });
    };
    let mut personas = Personas::read(path)?;
    personas.providers.iter_mut().for_each(|provider| provider.script.clone_from(&script));
    let listen = typed.or(personas.listen).map_or_else(|| address(DEFAULT_ADDRESS), Ok)?;
    let config = FleetConfig {
        address: Some(listen),
        providers: personas.providers,
        seed: flags.seed,
        hosts: flags.allow_hosts.clone(),
        truth,
        ..FleetConfig::default()
    };
    Ok(Resolved { config, key_variables: personas.key_variables, engine: None })
}

/// The scheduler that is asked for, and what it is in words.
fn scheduled(flags: &Flags) -> Result<Option<(Scheduled, String)>> {
    let Some((engine, hardware)) = flags.engine.engine.as_ref().zip(flags.engine.hardware.as_ref()) else {
        return Ok(None);
    };
    let EngineFlags { gpus, tp, precision, max_num_seqs, max_num_batched_tokens, speculation, .. } = &flags.engine;
    let policy = Policy::from_name(engine).with_context(|| {
        format!("read --engine: unknown engine {engine:?}; one of {}", Policy::NAMED.map(|(name, _)| name).join(", "))
    })?;
    let speculation = match speculation.as_deref().map(|text| Change::parse(&format!("speculation={text}"))) {
        Some(Ok(Change::Speculation(draft_tokens, acceptance))) => Some(Speculation { draft_tokens, acceptance }),
        Some(Err(error)) => bail!("read --speculation: {error}"),
        _ => None,
    };
    let asked = Asked {
        model: flags.model.clone(),
        hardware: hardware.clone(),
        n_gpus: gpus.map(f64::from),
        tp: tp.map(f64::from),
        // A scheduler of one request at a time is that of local engines.
        engine: Some(if policy == Policy::Serial { "llama.cpp" } else { engine }.to_owned()),
        weight_precision: precision.clone(),
        ..Asked::default()
    };
    let tuning = Tuning {
        policy: Some(policy),
        max_num_seqs: *max_num_seqs,
        max_num_batched_tokens: *max_num_batched_tokens,
        speculation,
        prefix_caching: None,
    };
    let serving =
        Serving::new(&Estimator::embedded(), &asked, &tuning).map_err(|error| anyhow!("estimate: {error}"))?;
    let cluster = serving.shared_cluster().map_err(|error| anyhow!("estimate: {error}"))?;
    let (low, high) = serving.interval;
    let summary = format!(
        "{} on {} x {}, scheduler {engine}: step times are computed, not measured (80 % within {:.0} % to {:.0} % of them); {} blocks of {} tokens",
        serving.question.model.name,
        serving.question.devices,
        serving.question.device.name,
        low * 100.0,
        high * 100.0,
        serving.args.num_blocks,
        serving.args.block_size
    );
    Ok(Some((Scheduled::new(cluster), summary)))
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
    let gpus = flags.power.as_deref().map(|power| gpu_law(power, flags.engine.gpus.unwrap_or(1))).transpose()?;
    Ok(HostConfig { address, law, faults, seed: flags.seed, model, api_key, gpus, ..HostConfig::default() })
}

/// Reads `IDLE:PEAK[:CAP]`.
fn gpu_law(text: &str, count: u32) -> Result<GpuLaw> {
    let watts: Option<Vec<f64>> = text.split(':').map(|watts| watts.parse().ok()).collect();
    match watts.as_deref() {
        Some(&[idle_watts, peak_watts]) => Some((idle_watts, peak_watts, peak_watts)),
        Some(&[idle_watts, peak_watts, cap_watts]) => Some((idle_watts, peak_watts, cap_watts)),
        _ => None,
    }
    .filter(|(idle, peak, cap)| idle.is_finite() && peak.is_finite() && 0.0 <= *idle && idle < cap && cap <= peak)
    .map(|(idle_watts, peak_watts, cap_watts)| GpuLaw { count, idle_watts, peak_watts, cap_watts })
    .with_context(|| {
        format!("read --power: `{text}` is not IDLE:PEAK[:CAP] in watts with IDLE < CAP <= PEAK, such as 100:700:500")
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
        encoder: Encoder {
            pixels_per_second: flags.encoder_pixels.unwrap_or(default.encoder.pixels_per_second),
            sound_per_second: flags.encoder_sound.unwrap_or(default.encoder.sound_per_second),
            caches: flags.encoder_cache,
        },
        pixel_steps_per_second: flags.painter.unwrap_or(default.pixel_steps_per_second),
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
