//! Parses and checks the rows of `data/` and turns them into Rust source, without touching files.
//!
//! Used by the build script and the tests, not part of the built crate. Invariant: there is source only if there are no
//! findings.

mod check;
mod emit;

use serde::Deserialize;
use std::ops::Range;
use toml::Spanned;

/// A file of rows.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// Its name in findings.
    pub name: &'a str,
    /// Its content.
    pub text: &'a str,
}

/// Rust source of the statics, or all findings: `file:line: …`.
pub fn compile(providers: Source<'_>, prices: Source<'_>) -> Result<String, Vec<String>> {
    let mut findings = Vec::new();
    let provider_file = read::<ProviderFile>(providers, &mut findings);
    let price_file = read::<PriceFile>(prices, &mut findings);
    let (Some(provider_file), Some(price_file)) = (provider_file, price_file) else { return Err(findings) };
    check::providers(&provider_file, &mut Findings { source: providers, found: &mut findings });
    check::prices(&price_file, &provider_file, &mut Findings { source: prices, found: &mut findings });
    if findings.is_empty() { Ok(emit::source(&provider_file, &price_file)) } else { Err(findings) }
}

fn read<T: for<'de> Deserialize<'de>>(source: Source<'_>, findings: &mut Vec<String>) -> Option<T> {
    toml::from_str(source.text)
        .map_err(|error| {
            let place = error.span().unwrap_or_default();
            Findings { source, found: findings }.add(place, error.message());
        })
        .ok()
}

/// Collects the findings of one file.
pub(crate) struct Findings<'a> {
    source: Source<'a>,
    found: &'a mut Vec<String>,
}

impl Findings<'_> {
    fn add(&mut self, place: Range<usize>, message: &str) {
        let before = &self.source.text.as_bytes()[..place.start.min(self.source.text.len())];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        self.found.push(format!("{}:{line}: {message}", self.source.name));
    }
}

/// `providers.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProviderFile {
    provider: Vec<Spanned<ProviderRow>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderRow {
    name: Spanned<String>,
    title: Spanned<String>,
    kind: Spanned<String>,
    #[serde(default)]
    key_env: Vec<Spanned<String>>,
    #[serde(default)]
    variables: Vec<VariableRow>,
    #[serde(default)]
    usual_ports: Vec<u16>,
    #[serde(default)]
    probes: Vec<ProbeRow>,
    metrics: Option<MetricsRow>,
    source: Spanned<String>,
    date: Spanned<String>,
    notes: Option<String>,
    endpoint: Vec<Spanned<EndpointRow>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EndpointRow {
    dialect: Spanned<String>,
    base: Spanned<String>,
    query: Option<Spanned<String>>,
    credentials: Option<Spanned<String>>,
    #[serde(default = "bearer")]
    auth: Spanned<String>,
    #[serde(default)]
    headers: Vec<Spanned<String>>,
    #[serde(default)]
    quirks: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VariableRow {
    name: Spanned<String>,
    meaning: Spanned<String>,
    #[serde(default)]
    also: Vec<Spanned<String>>,
    default: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProbeRow {
    path: Spanned<String>,
    pointer: Option<Spanned<String>>,
    header: Option<Spanned<String>>,
    value: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MetricsRow {
    family: Spanned<String>,
    #[serde(default = "metrics_path")]
    path: Spanned<String>,
}

/// `prices.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PriceFile {
    price: Vec<Spanned<PriceRow>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceRow {
    provider: Spanned<String>,
    model: Spanned<String>,
    common_name: Option<Spanned<String>>,
    role: Option<Spanned<String>>,
    input: Spanned<f64>,
    output: Spanned<f64>,
    cached: Option<Spanned<f64>>,
    audio_input: Option<Spanned<f64>>,
    audio_cached: Option<Spanned<f64>>,
    audio_output: Option<Spanned<f64>>,
    source: Spanned<String>,
    date: Spanned<String>,
    notes: Option<String>,
}

fn bearer() -> Spanned<String> {
    Spanned::new(0..0, "bearer".to_owned())
}

fn metrics_path() -> Spanned<String> {
    Spanned::new(0..0, "/metrics".to_owned())
}
