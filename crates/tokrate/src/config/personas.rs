//! The personas file of `tokrate sim --personas`: several virtual providers, each a table. Unknown keys are refused, and
//! errors name line and column.

mod rows;

use super::environment;
use anyhow::{Context, Result, anyhow};
use rows::{BackgroundRow, ChangeRow, LawRow, PersonaRow};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use tokrate_core::{Money, Price, Span};
use tokrate_host::{ApiKey, EmulatedEngine, MetricNames, Provider};
use tokrate_sim::{Background, Change, Curve, Faults, Law, LawError, Limits, Persona, Timetable};
use tokrate_targets::KeyReference;
use tokrate_targets::reading::{self, MAX_SETTINGS_BYTES};

/// A personas file.
#[derive(Debug)]
pub struct Personas {
    /// Address of all providers, if it is set.
    pub listen: Option<SocketAddr>,
    /// The providers in the file's order.
    pub providers: Vec<Provider>,
    /// The environment variable of each provider's key, by the provider's name.
    pub key_variables: BTreeMap<String, String>,
}

impl Personas {
    /// Reads a file and the keys that it names.
    pub fn read(path: &Path) -> Result<Personas> {
        let text = reading::text_of(path, MAX_SETTINGS_BYTES)
            .with_context(|| format!("read the personas file {}; check --personas", path.display()))?;
        let fetch = |name: &str| {
            let key = KeyReference::Variable(name.to_owned()).fetch(&environment::variable)?;
            Ok(ApiKey::new(key.reveal().to_owned()))
        };
        Personas::parse(&text, fetch).with_context(|| format!("understand the personas file {}", path.display()))
    }

    /// Understands a file's text; `fetch` gets the key of an environment variable.
    fn parse(text: &str, fetch: impl Fn(&str) -> Result<ApiKey>) -> Result<Personas> {
        // toml's message names line and column and shows the line.
        let file: rows::File = toml::from_str(text)?;
        if file.personas.is_empty() {
            return Err(placed(text, 0..0, "there is no [[persona]]; write one for each provider".to_owned()));
        }
        let mut personas = Personas {
            listen: file.listen.map(|address| address.0),
            providers: Vec::new(),
            key_variables: BTreeMap::new(),
        };
        for row in file.personas {
            let name = row.name.get_ref().clone();
            let known = |provider: &Provider| provider.persona.name == name;
            if personas.providers.iter().any(known) {
                let message = format!("a second persona is called `{name}`; rename one");
                return Err(placed(text, row.name.span(), message));
            }
            if let Some(variable) = &row.key_env {
                personas.key_variables.insert(name, variable.get_ref().clone());
            }
            personas.providers.push(provider(text, row, &fetch)?);
        }
        Ok(personas)
    }
}

/// An error with the place of what it is about.
pub(super) fn placed(text: &str, place: Range<usize>, message: String) -> anyhow::Error {
    let before = &text[..place.start.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    anyhow!("line {line}, column {column}: {message}")
}

fn provider(text: &str, row: PersonaRow, fetch: impl Fn(&str) -> Result<ApiKey>) -> Result<Provider> {
    let name = row.name.get_ref().clone();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if name.is_empty() || !name.chars().all(is_plain) {
        let message = format!("`{name}` is no name; write letters, digits, `-`, `_` and `.`, such as fast-1");
        return Err(placed(text, row.name.span(), message));
    }
    let api_key = match &row.key_env {
        None => None,
        Some(variable) => {
            Some(fetch(variable.get_ref()).map_err(|error| placed(text, variable.span(), format!("{error:#}")))?)
        }
    };
    let emulated_engine = row.engine.map_or(EmulatedEngine::default(), |engine| engine.0);
    let place = row.name.span();
    let law = match &row.law {
        None => Law::default(),
        Some(found) => checked(text, found.span(), law(found.get_ref()), Law::check)?,
    };
    let background = match &row.background {
        None => Background::default(),
        Some(found) => checked(text, found.span(), background(found.get_ref()), Background::check)?,
    };
    let faults = faults(row.faults.as_deref().unwrap_or_default());
    let timetable = timetable(text, &row, &faults)?;
    let limits = row.limits.unwrap_or_default();
    let price =
        price_of(row.price.unwrap_or_default()).map_err(|error| placed(text, place.clone(), error.to_string()))?;
    let persona = Persona {
        name: name.clone(),
        law,
        faults,
        price,
        background,
        timetable,
        limits: Limits { requests_per_minute: limits.requests_per_minute, tokens_per_minute: limits.tokens_per_minute },
        time_scale: row.time_scale.unwrap_or(1.0),
        scheduled: None,
    };
    Ok(Provider {
        persona: checked(text, place, persona, Persona::check)?,
        address: row.listen.map(|address| address.0),
        model: row.model.unwrap_or_else(|| "sim".to_owned()),
        only_model: row.only_model.unwrap_or(false),
        api_key,
        emulated_engine,
        metrics: row.metrics.map_or_else(|| emulated_engine.metrics(), |metrics: rows::Named<MetricNames>| metrics.0),
        script: None,
        gpus: None,
    })
}

fn price_of(row: rows::PriceRow) -> Result<Price, LawError> {
    let money = |name, value: f64| {
        Money::from_usd(value).ok_or(LawError::Setting { name, value, allowed: "US dollars per million tokens" })
    };
    let (input, output) = (money("price of input", row.input)?, money("price of output", row.output)?);
    Ok(Price { input, output, ..Price::default() })
}

/// The value, if its numbers make sense; else what is wrong and where.
fn checked<T, E: std::fmt::Display>(
    text: &str,
    place: Range<usize>,
    value: T,
    check: impl Fn(&T) -> Result<(), E>,
) -> Result<T> {
    match check(&value) {
        Ok(()) => Ok(value),
        Err(error) => Err(placed(text, place, error.to_string())),
    }
}

fn law(row: &LawRow) -> Law {
    let default = Law::default();
    let time = |given: Option<rows::Time>, default: Span| given.map_or(default, |time| time.0);
    Law {
        slots: row.slots.unwrap_or(default.slots),
        queue_limit: row.queue_limit,
        base_delay: time(row.delay, default.base_delay),
        prefill_tokens_per_second: row.prefill.unwrap_or(default.prefill_tokens_per_second),
        stream_tokens_per_second: row.speed.unwrap_or(default.stream_tokens_per_second),
        contention: row.alpha.unwrap_or(default.contention),
        coherency: row.beta.unwrap_or(default.coherency),
        tokens_per_chunk: row.tokens_per_chunk.unwrap_or(default.tokens_per_chunk),
        gap_jitter: row.jitter.unwrap_or(default.gap_jitter),
        ttft_jitter: row.ttft_jitter.unwrap_or(default.ttft_jitter),
        reasoning_tokens: row.reasoning_tokens.unwrap_or(default.reasoning_tokens),
        coalesce: time(row.coalesce, default.coalesce),
        role_first: row.role_first.unwrap_or(default.role_first),
        usage_every_chunk: row.usage_every_chunk.unwrap_or(default.usage_every_chunk),
        default_output_tokens: row.output_tokens.unwrap_or(default.default_output_tokens),
        max_output_tokens: row.output_tokens_most.unwrap_or(default.max_output_tokens),
        ..default
    }
}

fn background(row: &BackgroundRow) -> Background {
    let default = Background::default();
    Background {
        streams: row.streams,
        jitter: row.jitter.unwrap_or(default.jitter),
        every: row.every.map_or(default.every, |time| time.0),
        curve: row.curve.map(curve),
    }
}

fn curve(row: rows::CurveRow) -> Curve {
    Curve { period: row.period.0, amplitude: row.amplitude, peak: row.peak.map_or(Span::ZERO, |time| time.0) }
}

fn faults(given: &[rows::Fault]) -> Faults {
    let mut faults = Faults::default();
    for fault in given {
        // It was checked when it was read.
        let _ = faults.set(&fault.0);
    }
    faults
}

/// The changes, each complete: what a change leaves out stays as it was before.
fn timetable(text: &str, row: &PersonaRow, own: &Faults) -> Result<Timetable> {
    let mut table = Timetable { changes: Vec::new(), speed: row.speed_curve.map(curve) };
    for change in row.changes.iter().flatten() {
        let place = change.span();
        let ChangeRow { at, speed, ttft, faults_times, faults: instead } = change.get_ref();
        let before = table.changes.last();
        let instead = match instead {
            Some(given) => Some(faults(given)),
            None => before.and_then(|before| before.replacement.clone()),
        };
        let next = Change {
            at: at.0,
            speed: speed.unwrap_or(before.map_or(1.0, |before| before.speed)),
            ttft: ttft.unwrap_or(before.map_or(1.0, |before| before.ttft)),
            faults: faults_times.unwrap_or(before.map_or(1.0, |before| before.faults)),
            replacement: instead.filter(|instead| instead != own),
        };
        table.changes.push(next);
        table = checked(text, place, table, Timetable::check)?;
    }
    let place = row.name.span();
    checked(text, place, table, Timetable::check)
}

#[cfg(test)]
mod tests;
