//! The tables of a personas file as they are written. What a single value may be is checked while it is read, so that
//! toml's message points at it.

use crate::config::quantity;
use serde::de::{Deserialize, Deserializer, Error};
use std::net::SocketAddr;
use tokrate_core::Span;
use tokrate_host::{EmulatedEngine, MetricNames};
use tokrate_sim::Faults;
use toml::Spanned;

/// The whole file.
#[derive(serde::Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub listen: Option<Address>,
    #[serde(default, rename = "persona")]
    pub personas: Vec<PersonaRow>,
}

/// `[[persona]]`.
#[derive(serde::Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct PersonaRow {
    pub name: Spanned<String>,
    pub listen: Option<Address>,
    pub model: Option<String>,
    pub only_model: Option<bool>,
    pub key_env: Option<Spanned<String>>,
    pub engine: Option<Named<EmulatedEngine>>,
    pub metrics: Option<Named<MetricNames>>,
    pub time_scale: Option<f64>,
    pub faults: Option<Vec<Fault>>,
    pub law: Option<Spanned<LawRow>>,
    pub price: Option<PriceRow>,
    pub limits: Option<LimitsRow>,
    pub background: Option<Spanned<BackgroundRow>>,
    pub speed_curve: Option<CurveRow>,
    #[serde(rename = "change")]
    pub changes: Option<Vec<Spanned<ChangeRow>>>,
}

/// `[persona.law]`: the keys are the flags of `tokrate sim` with `_` for `-`.
#[derive(serde::Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct LawRow {
    pub slots: Option<u32>,
    pub queue_limit: Option<u32>,
    pub delay: Option<Time>,
    pub prefill: Option<f64>,
    pub speed: Option<f64>,
    pub alpha: Option<f64>,
    pub beta: Option<f64>,
    pub tokens_per_chunk: Option<u32>,
    pub jitter: Option<f64>,
    pub ttft_jitter: Option<f64>,
    pub reasoning_tokens: Option<u32>,
    pub coalesce: Option<Time>,
    pub role_first: Option<bool>,
    pub usage_every_chunk: Option<bool>,
    pub output_tokens: Option<u32>,
    pub output_tokens_most: Option<u32>,
}

/// `[persona.price]`: US dollars per million tokens.
#[derive(serde::Deserialize, Debug, Default, Clone, Copy)]
#[serde(deny_unknown_fields)]
pub struct PriceRow {
    pub input: f64,
    pub output: f64,
}

/// `[persona.limits]`.
#[derive(serde::Deserialize, Debug, Default, Clone, Copy)]
#[serde(deny_unknown_fields)]
pub struct LimitsRow {
    pub requests_per_minute: Option<u32>,
    pub tokens_per_minute: Option<u32>,
}

/// `[persona.background]`: other users.
#[derive(serde::Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct BackgroundRow {
    pub streams: f64,
    pub jitter: Option<f64>,
    pub every: Option<Time>,
    pub curve: Option<CurveRow>,
}

/// `{ period = "24h", amplitude = 0.5, peak = "15h" }`.
#[derive(serde::Deserialize, Debug, Clone, Copy)]
#[serde(deny_unknown_fields)]
pub struct CurveRow {
    pub period: Time,
    pub amplitude: f64,
    pub peak: Option<Time>,
}

/// `[[persona.change]]`: what holds from a time on.
#[derive(serde::Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct ChangeRow {
    pub at: Time,
    pub speed: Option<f64>,
    pub ttft: Option<f64>,
    pub faults_times: Option<f64>,
    pub faults: Option<Vec<Fault>>,
}

/// A time with its unit, such as `"500ms"`.
#[derive(Debug, Clone, Copy)]
pub struct Time(pub Span);

/// An address with its port.
#[derive(Debug, Clone, Copy)]
pub struct Address(pub SocketAddr);

/// A fault as `--fault` takes it.
#[derive(Debug, Clone)]
pub struct Fault(pub String);

/// One of a few things that have names.
#[derive(Debug, Clone, Copy)]
pub struct Named<T>(pub T);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let text = String::deserialize(deserializer)?;
        quantity::span(&text).map(Time).map_err(|error| D::Error::custom(format!("{error:#}")))
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Address, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || D::Error::custom(format!("`{text}` is no address; write for example 127.0.0.1:8401"));
        text.parse().map(Address).map_err(|_| wrong())
    }
}

impl<'de> Deserialize<'de> for Fault {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fault, D::Error> {
        let text = String::deserialize(deserializer)?;
        let set = Faults::default().set(&text);
        set.map_err(D::Error::custom).map(|()| Fault(text))
    }
}

impl<'de> Deserialize<'de> for Named<EmulatedEngine> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = EmulatedEngine::ALL.map(EmulatedEngine::name);
        named(deserializer, "engine", &names).map(|place| Named(EmulatedEngine::ALL[place]))
    }
}

impl<'de> Deserialize<'de> for Named<MetricNames> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = MetricNames::ALL.map(MetricNames::name);
        named(deserializer, "family of metrics", &names).map(|place| Named(MetricNames::ALL[place]))
    }
}

/// The place of a name in the list of names.
#[inline(never)]
fn named<'de, D: Deserializer<'de>>(deserializer: D, what: &str, names: &[&str]) -> Result<usize, D::Error> {
    let text = String::deserialize(deserializer)?;
    let found = names.iter().position(|name| *name == text);
    found.ok_or_else(|| D::Error::custom(format!("`{text}` is no {what}; write one of {}", names.join(", "))))
}
