//! Aliases and virtual keys: what rows of the settings file come to.

use super::amounts::{Budget, Dollars, Percentage};
use super::rows::{AliasRow, GatewayRow, KeyRow};
use crate::config::{environment, quantity};
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::num::{NonZeroU32, NonZeroU64};
use tokrate_core::Span;
pub use tokrate_gateway::format_mode;
use tokrate_gateway::{AliasConfig, BudgetConfig, KeyConfig, KeyLimits, LaneConfig, Mode, Policy, WinRule, key_hash};
use tokrate_targets::KeyReference;

/// Attempts of a call at most by default.
pub(in crate::config) const DEFAULT_ATTEMPTS: usize = 3;

/// The aliases of a file.
pub fn aliases(row: &GatewayRow, lanes: &[LaneConfig]) -> Result<Vec<AliasConfig>> {
    let alias = |(name, row): (&String, &AliasRow)| {
        alias(name, row, lanes).with_context(|| format!("understand gateway.aliases.{name}"))
    };
    row.aliases.iter().map(alias).collect()
}

fn alias(name: &str, row: &AliasRow, lanes: &[LaneConfig]) -> Result<AliasConfig> {
    let place = |wanted: &String| {
        lanes.iter().position(|lane| lane.name == *wanted).with_context(|| {
            let known: Vec<&str> = lanes.iter().map(|lane| lane.name.as_str()).collect();
            format!("there is no lane `{wanted}`; there are {}", joined(&known))
        })
    };
    let places = row.lanes.iter().map(place).collect::<Result<Vec<_>>>()?;
    let mode = mode(row.mode.as_deref())?;
    // A race of k lanes makes k - 1 extra attempts in every call.
    let usual_share = match mode {
        Mode::Race { lanes } => lanes.saturating_sub(1) as f64,
        Mode::Off | Mode::Hedge => 0.1,
    };
    let share = row.extra_share.unwrap_or(usual_share);
    ensure!(share.is_finite() && share >= 0.0, "`extra_share` is a share of calls, such as 0.1");
    let wanted = PolicyWords {
        name: row.objective.as_deref().unwrap_or(Policy::NAMES[0]),
        max_ttft: row.ttft_most.as_deref(),
        min_speed: row.speed_least,
        usd_per_second: row.usd_per_second,
    };
    let max_attempts = row.attempts.unwrap_or(DEFAULT_ATTEMPTS);
    ensure!((1..=16).contains(&max_attempts), "`attempts` is a number from 1 to 16");
    Ok(AliasConfig {
        name: name.to_owned(),
        lanes: places,
        policy: policy(&wanted).context("understand `objective`")?,
        mode,
        max_attempts,
        budget: BudgetConfig {
            extra_share: share,
            burst: (share * 20.0).max(10.0),
            max_extra_cost_pct: row.max_extra_cost_pct.map(Percentage::percent),
            max_extra_usd_per_hour: row.max_extra_usd_per_hour.map(Dollars::usd),
        },
        win: win_rule(row.winner.as_deref(), row.hold_share)?,
    })
}

/// Names of the rules by which a race is won, the default first.
pub(in crate::config) const WINNERS: [&str; 2] = ["completion", "first-token"];

fn win_rule(name: Option<&str>, hold_share: Option<f64>) -> Result<WinRule> {
    let hold = hold_share.unwrap_or(WinRule::DEFAULT_HOLD);
    ensure!((0.0..=1.0).contains(&hold), "`hold_share` is a share of the time that is saved, from 0 to 1, such as 0.2");
    match name.unwrap_or(WINNERS[0]) {
        "completion" => Ok(WinRule::Completion { hold }),
        "first-token" if hold_share.is_some() => {
            bail!("`hold_share` belongs to `winner = \"completion\"`: with `first-token` nothing is held")
        }
        "first-token" => Ok(WinRule::FirstToken),
        other => bail!("`winner` is completion or first-token, not `{other}`"),
    }
}

fn span(key: &str, text: &str) -> Result<Span> {
    quantity::span(text).map_err(|error| anyhow!("read `{key}`: {error:#}"))
}

/// A mode by its name; the default one without.
pub fn mode(name: Option<&str>) -> Result<Mode> {
    let Some(name) = name else { return Ok(Mode::default()) };
    tokrate_gateway::parse_mode(name).with_context(|| format!("`mode` is off, hedge, race or race=N, not `{name}`"))
}

/// A policy as it is typed: its name, and the values that belong to one of them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PolicyWords<'a> {
    /// Its name.
    pub name: &'a str,
    /// Of `cheapest`: the longest mean TTFT.
    pub max_ttft: Option<&'a str>,
    /// Of `cheapest`: the least output speed (tokens per second).
    pub min_speed: Option<f64>,
    /// Of `weighted`: what a second is worth (USD).
    pub usd_per_second: Option<f64>,
}

/// The policy that is meant.
pub fn policy(words: &PolicyWords<'_>) -> Result<Policy> {
    let name = words.name;
    let belongs = |key: &str, is_set: bool, to: &str| match is_set && name != to {
        true => Err(anyhow!("`{key}` belongs to the policy `{to}`, not to `{name}`")),
        false => Ok(()),
    };
    let policy = match Policy::from_name(name) {
        Some(Policy::Cheapest { .. }) => Policy::Cheapest {
            max_ttft: words.max_ttft.map(|text| span("ttft_most", text)).transpose()?,
            min_speed: words.min_speed,
        },
        Some(Policy::Weighted { .. }) => Policy::Weighted {
            usd_per_second: words.usd_per_second.context("the policy `weighted` needs `usd_per_second`")?,
        },
        Some(policy) => policy,
        None => {
            let [first @ .., last] = &Policy::NAMES;
            bail!("`{name}` is no policy; there are {} and {last}", joined(first))
        }
    };
    belongs("ttft_most", words.max_ttft.is_some(), "cheapest")?;
    belongs("speed_least", words.min_speed.is_some(), "cheapest")?;
    belongs("usd_per_second", words.usd_per_second.is_some(), "weighted")?;
    Ok(policy)
}

/// The virtual keys of a file.
pub fn keys(row: &GatewayRow) -> Result<Vec<KeyConfig>> {
    let key =
        |(name, row): (&String, &KeyRow)| key(name, row).with_context(|| format!("understand gateway.keys.{name}"));
    row.keys.iter().map(key).collect()
}

fn key(name: &str, row: &KeyRow) -> Result<KeyConfig> {
    let reference = KeyReference::first(&row.key_env, &row.key_file, &row.key_cmd);
    let sha256 = match (&row.sha256, reference) {
        (Some(hex), None) => hash_of(hex)?,
        (None, Some(reference)) => key_hash(reference.fetch(&environment::variable)?.reveal()),
        _ => bail!("write its `sha256` (64 hexadecimal digits), or one of key_env, key_file, key_cmd"),
    };
    Ok(KeyConfig {
        name: name.to_owned(),
        sha256,
        aliases: row.aliases.clone(),
        limits: KeyLimits {
            requests_per_minute: row.requests_per_minute.map(NonZeroU32::get),
            tokens_per_minute: row.tokens_per_minute.map(NonZeroU64::get),
            streams: row.streams.map(NonZeroU32::get),
            usd_per_month: row.usd_per_month.map(Budget::money),
        },
    })
}

fn hash_of(hex: &str) -> Result<[u8; 32]> {
    let digit = |place: usize| hex.get(place * 2..place * 2 + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Option<Vec<u8>> = (0..32).map(digit).collect();
    let fits = hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    bytes.filter(|_| fits).and_then(|bytes| bytes.try_into().ok()).context("`sha256` is not 64 hexadecimal digits")
}

/// Not inlined: see `names.rs` of meter.
#[inline(never)]
fn joined(names: &[&str]) -> String {
    names.join(", ")
}
