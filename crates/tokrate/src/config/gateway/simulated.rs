//! Lanes inside of this process: simulated providers, the merge engine, and what stands in when nothing is configured.

use super::lanes::{price_of, services, token_limits};
use super::rows::LaneRow;
use super::{Lanes, Local};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokrate_apply_host::MODELS;
use tokrate_core::{Price, Span};
use tokrate_gateway::{
    AliasConfig, AnswerCheck, BudgetConfig, Instructed, LaneConfig, LoserPolicy, Mode, Policy, ServicesConfig,
    TokenLimits, WinRule,
};
use tokrate_sim::{Background, Faults, Law, Persona};

/// The name under which the merge engine of this process is asked.
const APPLY_MODEL: &str = "apply";

/// The three that stand in: one quick to start and slow to write, one slow to start and fast, one unsteady.
pub fn personas() -> [Persona; 3] {
    let law = |delay, speed| Law {
        base_delay: Span::from_millis(delay),
        stream_tokens_per_second: speed,
        gap_jitter: 0.1,
        ttft_jitter: 0.1,
        ..Law::default()
    };
    let price = |input, output| Price::from_usd_per_million(input, output).expect("small numbers");
    let prompt = Persona { name: "prompt".into(), law: law(60, 45.0), price: price(0.4, 1.2), ..Persona::default() };
    let swift = Persona { name: "swift".into(), law: law(700, 260.0), price: price(0.9, 3.6), ..Persona::default() };
    let mut faults = Faults::default();
    for fault in ["rate_limited=0.03", "server_error=0.03", "stall@20=0.02", "disconnect@30=0.02"] {
        faults.set(fault).expect("these are faults");
    }
    let moody = Persona {
        name: "moody".into(),
        law: Law { gap_jitter: 0.6, ttft_jitter: 1.2, ..law(150, 110.0) },
        price: price(0.1, 0.3),
        faults,
        background: Background { streams: 4.0, ..Background::default() },
        ..Persona::default()
    };
    [prompt, swift, moody]
}

/// Their lanes.
pub fn lanes() -> Lanes {
    let personas = personas();
    let lanes = personas.iter().map(|persona| lane(&persona.name, "sim", Some(persona.price))).collect();
    let locals = personas.into_iter().map(|persona| Local::Simulated(Box::new(persona))).enumerate().collect();
    (lanes, locals)
}

/// Names to ask for, one of each kind.
pub fn aliases() -> Vec<AliasConfig> {
    let alias = |name: &str, policy, mode, extra_share| AliasConfig {
        name: name.to_owned(),
        lanes: vec![0, 1, 2],
        policy,
        mode,
        max_attempts: 3,
        budget: BudgetConfig { extra_share, burst: 10.0, ..BudgetConfig::default() },
        win: WinRule::default(),
    };
    vec![
        alias("auto", Policy::Completion, Mode::Hedge, 0.1),
        alias("race", Policy::Completion, Mode::Race { lanes: 3 }, 2.0),
        alias("cheap", Policy::Cheapest { max_ttft: None, min_speed: None }, Mode::Off, 0.0),
    ]
}

/// Names of the engines that can be inside of this process.
#[cfg(test)]
pub(in crate::config) fn local_names() -> Vec<String> {
    let simulated = personas().map(|persona| format!("sim:{}", persona.name));
    ["apply", "sim"].into_iter().map(str::to_owned).chain(simulated).collect()
}

/// A lane with `local = …`.
pub fn local(name: &str, local: &str, row: &LaneRow) -> Result<(LaneConfig, Local)> {
    let found = || -> Result<(LaneConfig, Local)> {
        ensure!(row.url.is_none() && row.target.is_none(), "it has `local` and an address; leave out one of them");
        let price = row.price.map(price_of);
        if local == "apply" {
            let model = row.model.as_deref().unwrap_or(APPLY_MODEL);
            ensure!(
                MODELS.contains(&model),
                "`model` of the merge engine is one of {}, not `{model}`; all of them are the same engine",
                MODELS.join(", ")
            );
            let lane = lane(name, model, Some(price.unwrap_or_default()));
            // A merge comes at once and whole.
            let lane = LaneConfig { provider: "tokrate".to_owned(), stream_whole: false, ..lane };
            return Ok((LaneConfig { token_limits: token_limits(row), ..lane }, Local::Apply));
        }
        let of = local
            .strip_prefix("sim")
            .context("`local` is `apply`, `sim`, or `sim:` and one of prompt, swift, moody")?;
        let mut persona = match of.strip_prefix(':') {
            None if of.is_empty() => Persona::default(),
            None => bail!("`local` is `apply`, `sim`, or `sim:` and one of prompt, swift, moody"),
            Some(wanted) => personas()
                .into_iter()
                .find(|persona| persona.name == wanted)
                .with_context(|| format!("there is no simulated `{wanted}`; there are prompt, swift and moody"))?,
        };
        persona.name = name.to_owned();
        let price = price.unwrap_or(persona.price);
        let lane = lane(name, row.model.as_deref().unwrap_or("sim"), Some(price));
        let forward_headers = row.forward_headers.iter().map(|name| name.to_ascii_lowercase()).collect();
        let lane = LaneConfig {
            forward_headers,
            token_limits: token_limits(row),
            services: services(row)?,
            stream_whole: row.stream_whole.unwrap_or(true),
            ..lane
        };
        Ok((lane, Local::Simulated(Box::new(persona))))
    };
    found().with_context(|| format!("understand gateway.lanes.{name}"))
}

/// Aliases that have the merge engine and lanes beside it: what those answer is held against the engine's law. Models that were not made to
/// merge are told what to write, and the engine merges it.
pub fn answer_check(lanes: &[LaneConfig], locals: &[(usize, Local)], aliases: &[AliasConfig]) -> Option<AnswerCheck> {
    let engines: Vec<usize> =
        locals.iter().filter(|(_, local)| *local == Local::Apply).map(|(place, _)| *place).collect();
    let is_mixed = |alias: &&AliasConfig| {
        let (engine, model): (Vec<usize>, Vec<usize>) = alias.lanes.iter().partition(|lane| engines.contains(lane));
        !engine.is_empty() && !model.is_empty()
    };
    let mixed: Vec<&AliasConfig> = aliases.iter().filter(is_mixed).collect();
    let models: BTreeSet<usize> =
        mixed.iter().flat_map(|alias| &alias.lanes).copied().filter(|lane| !engines.contains(lane)).collect();
    let told: Vec<String> = models
        .into_iter()
        .map(|place| &lanes[place])
        .filter(|lane| tokrate_apply_host::needs_instructions(&lane.model))
        .map(|lane| lane.name.clone())
        .collect();
    (!mixed.is_empty()).then(|| AnswerCheck {
        aliases: mixed.iter().map(|alias| alias.name.clone()).collect(),
        exempt: engines.iter().map(|place| lanes[*place].name.clone()).collect(),
        check: Arc::new(tokrate_apply_host::check_answer),
        instructed: (!told.is_empty()).then(|| Instructed {
            lanes: told,
            text: tokrate_apply_host::INSTRUCTIONS.into(),
            finish: Arc::new(tokrate_apply_host::merge_answer),
        }),
    })
}

/// A lane of this process, its endpoints to be filled in when it listens.
fn lane(name: &str, model: &str, price: Option<Price>) -> LaneConfig {
    LaneConfig {
        name: name.to_owned(),
        provider: "simulated".to_owned(),
        model: model.to_owned(),
        endpoints: Vec::new(),
        price,
        token_limits: TokenLimits::default(),
        max_in_flight: None,
        loser: LoserPolicy::CancelEstimate,
        curve: Vec::new(),
        forward_headers: vec!["x-tokrate-fault".to_owned()],
        services: ServicesConfig::default(),
        stream_whole: true,
    }
}
