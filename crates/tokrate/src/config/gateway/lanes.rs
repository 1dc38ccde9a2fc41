//! Lanes: what a row of the settings file comes to, with the catalog's help.

use super::amounts::Dollars;
use super::rows::{LaneRow, PriceRow};
use crate::config::bench::target::named;
use crate::config::bench::target::{dialect_of, key_header, own_key, usual_auth};
use crate::config::reading::{self, DATA_BYTES_MOST};
use crate::config::secret::{KeyReference, Secret};
use anyhow::{Context, Result, bail, ensure};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::num::NonZeroU64;
use tokrate_catalog::{Auth, TargetName};
use tokrate_core::{Price, Span};
use tokrate_gateway::{CurvePoint, EndpointConfig, LaneConfig, LoserPolicy, TokenLimits, curve_from_record};
use tokrate_net::Target;
use tokrate_wire::Dialect;

/// How long and how much of a loser is read to know its exact cost.
const DRAIN_TIME: Span = Span::from_secs(120);
const DRAIN_BYTES: u64 = 4 << 20;

/// What can become of a loser, the usual first.
pub(in crate::config) const LOSERS: [(&str, LoserPolicy); 3] = [
    ("cancel", LoserPolicy::CancelEstimate),
    ("drain", LoserPolicy::DrainExact { max_time: DRAIN_TIME, max_bytes: DRAIN_BYTES }),
    ("free", LoserPolicy::Free),
];

/// A lane, its key fetched.
pub fn lane(name: &str, row: &LaneRow) -> Result<LaneConfig> {
    lane_of(name, row).with_context(|| format!("understand gateway.lanes.{name}"))
}

fn lane_of(name: &str, row: &LaneRow) -> Result<LaneConfig> {
    let (provider, model, endpoints, listed) = match (&row.target, &row.url) {
        (Some(_), Some(_)) => bail!("it has `target` and `url`; leave out one of them"),
        (None, None) => bail!("it names nobody; write target = \"PROVIDER/MODEL\", or url and model"),
        (Some(target), None) => catalogued(target, row)?,
        (None, Some(url)) => addressed(url, row)?,
    };
    let price = row.price.map(price_of);
    Ok(LaneConfig {
        name: name.to_owned(),
        provider,
        model,
        endpoints,
        price: price.or(listed),
        token_limits: token_limits(row),
        max_in_flight: row.max_in_flight,
        loser: loser(row.loser.as_deref())?,
        curve: row.curve.as_deref().map(curve).transpose()?.unwrap_or_default(),
        forward_headers: row.forward_headers.iter().map(|name| name.to_ascii_lowercase()).collect(),
        embeddings: row.embeddings,
    })
}

/// A price as it is written.
pub fn price_of(row: PriceRow) -> Price {
    let [cached_input, cache_write] = [row.cached, row.cache_write].map(|usd| usd.map(Dollars::money));
    Price { input: row.input.money(), output: row.output.money(), cached_input, cache_write }
}

/// How long prompts and answers can become.
pub fn token_limits(row: &LaneRow) -> TokenLimits {
    let [input, output] = [row.max_input_tokens, row.max_output_tokens].map(|most| most.map(NonZeroU64::get));
    TokenLimits { input, output }
}

/// The curve of a record of `tokrate bench`.
fn curve(path: &std::path::Path) -> Result<Vec<CurvePoint>> {
    let text =
        reading::text_of(path, DATA_BYTES_MOST).with_context(|| format!("read its curve from {}", path.display()))?;
    let record = tokrate_record::Record::parse(&text)
        .with_context(|| format!("understand {}; `tokrate bench --json FILE` writes such a record", path.display()))?;
    let points = curve_from_record(&record);
    ensure!(!points.is_empty(), "{} has no load level with times and speeds", path.display());
    Ok(points)
}

type Found = (String, String, Vec<EndpointConfig>, Option<Price>);

/// A lane of the catalog.
fn catalogued(target: &str, row: &LaneRow) -> Result<Found> {
    let named = TargetName::parse(target)?;
    let model = named
        .model
        .or(row.model.as_deref())
        .with_context(|| format!("`{target}` names no model; write {target}/MODEL"))?;
    let key = match KeyReference::first(&row.key_env, &row.key_file, &row.key_cmd) {
        Some(key) => Some(key),
        None => own_key(named.row, true)?,
    };
    let key = key.map(|key| key.fetch()).transpose()?;
    let mut endpoints = Vec::new();
    for endpoint in named.row.endpoints {
        if row.dialect.as_deref().is_some_and(|dialect| dialect != endpoint.dialect) {
            continue;
        }
        let base = Target::parse(&named::base(&named, endpoint)?)?;
        let headers = headers(endpoint.auth, endpoint.headers, key.as_ref(), row)?;
        endpoints.push(EndpointConfig {
            dialect: dialect_of(endpoint.dialect)?,
            base,
            headers,
            no_stream_options: endpoint.quirks.no_stream_options,
            max_tokens_field: endpoint.quirks.max_tokens_field,
        });
    }
    ensure!(
        !endpoints.is_empty(),
        "{} is not known to speak `{}`",
        named.row.title,
        row.dialect.as_deref().unwrap_or("")
    );
    let listed = tokrate_catalog::price(named.row.name, model).map(|listed| listed.price);
    Ok((row.provider.clone().unwrap_or_else(|| named.row.name.to_owned()), model.to_owned(), endpoints, listed))
}

/// A lane by its address.
fn addressed(url: &str, row: &LaneRow) -> Result<Found> {
    let base = Target::parse(url)?;
    let model = row.model.clone().context("it names no model; write model = \"NAME\"")?;
    let key = KeyReference::first(&row.key_env, &row.key_file, &row.key_cmd).map(|key| key.fetch()).transpose()?;
    let dialects = match &row.dialect {
        Some(name) => vec![dialect_of(name)?],
        None => vec![Dialect::OpenAiChat],
    };
    let mut endpoints = Vec::new();
    for dialect in dialects {
        let headers = headers(usual_auth(dialect), dialect.required_header().as_slice(), key.as_ref(), row)?;
        endpoints.push(EndpointConfig {
            dialect,
            base: base.clone(),
            headers,
            no_stream_options: false,
            max_tokens_field: false,
        });
    }
    let provider = row.provider.clone().unwrap_or_else(|| base.host().to_owned());
    Ok((provider, model, endpoints, None))
}

/// The headers of every request to an endpoint.
fn headers(
    auth: Auth,
    further: &[(&'static str, &'static str)],
    key: Option<&Secret>,
    row: &LaneRow,
) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in further {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if let Some(key) = key {
        let (name, value) = key_header(auth, key)?;
        headers.insert(name, value);
    }
    for (name, value) in &row.headers {
        let name: HeaderName = name.parse().ok().with_context(|| format!("`{name}` is no name of a header"))?;
        let mut value =
            HeaderValue::from_str(value).ok().with_context(|| format!("the value of header {name} cannot be sent"))?;
        // It may be a key as well.
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

fn loser(name: Option<&str>) -> Result<LoserPolicy> {
    let name = name.unwrap_or(LOSERS[0].0);
    let named = LOSERS.iter().find(|(known, _)| *known == name);
    let (_, loser) = named.with_context(|| format!("`loser` is `cancel`, `drain` or `free`, not `{name}`"))?;
    Ok(*loser)
}
