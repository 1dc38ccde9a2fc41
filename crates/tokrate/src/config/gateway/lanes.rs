//! Lanes: what a row of the settings file comes to, with the catalog's help.

use super::amounts::Dollars;
use super::rows::{LaneRow, PriceRow};
use crate::config::environment;
use anyhow::{Context, Result, bail, ensure};
use std::num::NonZeroU64;
use tokrate_catalog::TargetName;
use tokrate_core::{Price, Span};
use tokrate_gateway::{
    CurvePoint, EndpointConfig, LaneConfig, LoserPolicy, ServicesConfig, TokenLimits, curve_from_record,
};
use tokrate_net::Target;
use tokrate_targets::reading::{self, MAX_DATA_BYTES};
use tokrate_targets::{Endpoint, KeyReference, TargetSettings, TargetSource, header, parse_dialect};

/// How long and how much of a loser is read to know its exact cost.
const DRAIN_TIME: Span = Span::from_secs(120);
const DRAIN_BYTES: u64 = 4 << 20;

/// What can become of a loser, the default first.
pub(in crate::config) const LOSERS: [(&str, LoserPolicy); 3] = [
    ("cancel", LoserPolicy::CancelEstimate),
    ("drain", LoserPolicy::DrainExact { max_time: DRAIN_TIME, max_bytes: DRAIN_BYTES }),
    ("free", LoserPolicy::Free),
];

/// A lane, its key fetched.
pub fn lane(name: &str, row: &LaneRow) -> Result<LaneConfig> {
    lane_of(name, row).with_context(|| format!("understand gateway.lanes.{name}"))
}

/// The same; an error does not say which lane it is.
pub fn lane_of(name: &str, row: &LaneRow) -> Result<LaneConfig> {
    let (source, model) = match (&row.target, &row.url) {
        (Some(_), Some(_)) => bail!("it has `target` and `url`; leave out one of them"),
        (None, None) => bail!("it names nobody; write target = \"PROVIDER/MODEL\", or url and model"),
        (Some(target), None) => catalogued(target, row)?,
        (None, Some(url)) => addressed(url, row)?,
    };
    let set = row.headers.iter().map(|(name, value)| header(name, value));
    let settings = TargetSettings {
        source,
        model: Some(model.clone()),
        key: KeyReference::first(&row.key_env, &row.key_file, &row.key_cmd),
        headers: set.collect::<Result<Vec<_>, _>>()?,
    };
    let found = settings.resolve(&environment::variable)?;
    let listed = found.price.map(|listed| listed.price);
    Ok(LaneConfig {
        name: name.to_owned(),
        provider: row.provider.clone().unwrap_or_else(|| found.provider().to_owned()),
        model,
        endpoints: found.endpoints.into_iter().map(endpoint).collect(),
        price: row.price.map(price_of).or(listed),
        token_limits: token_limits(row),
        max_in_flight: row.max_in_flight,
        loser: loser(row.loser.as_deref())?,
        curve: row.curve.as_deref().map(curve).transpose()?.unwrap_or_default(),
        forward_headers: row.forward_headers.iter().map(|name| name.to_ascii_lowercase()).collect(),
        services: services(row)?,
        stream_whole: row.stream_whole.unwrap_or(true),
    })
}

/// A price as it is written.
pub fn price_of(row: PriceRow) -> Price {
    let [cached_input, cache_write, audio_input, audio_cached, audio_output] =
        [row.cached, row.cache_write, row.audio_input, row.audio_cached, row.audio_output]
            .map(|usd| usd.map(Dollars::money));
    let (input, output) = (row.input.money(), row.output.money());
    Price { input, output, cached_input, cache_write, audio_input, audio_cached, audio_output }
}

/// What it has beside the generation of text, and what that costs.
pub fn services(row: &LaneRow) -> Result<ServicesConfig> {
    let known = tokrate_gateway::services();
    let named = row.serves.iter().flatten().chain(row.fees.keys());
    for name in named {
        ensure!(known.contains(&name.as_str()), "`{name}` is no service; there are {}", known.join(", "));
    }
    let fees = row.fees.iter().map(|(name, fee)| (name.clone(), fee.money())).collect();
    Ok(ServicesConfig { serves: row.serves.clone(), embeddings: row.embeddings, fees })
}

/// How long prompts and answers can become.
pub fn token_limits(row: &LaneRow) -> TokenLimits {
    let [input, output] = [row.max_input_tokens, row.max_output_tokens].map(|most| most.map(NonZeroU64::get));
    TokenLimits { input, output }
}

/// The curve of a record of `tokrate bench`.
fn curve(path: &std::path::Path) -> Result<Vec<CurvePoint>> {
    let text =
        reading::text_of(path, MAX_DATA_BYTES).with_context(|| format!("read its curve from {}", path.display()))?;
    let record = tokrate_record::Record::parse(&text)
        .with_context(|| format!("understand {}; `tokrate bench --json FILE` writes such a record", path.display()))?;
    let points = curve_from_record(&record);
    ensure!(!points.is_empty(), "{} has no load level with times and speeds", path.display());
    Ok(points)
}

/// A lane of the catalog: where it is, and its model.
fn catalogued<'a>(target: &'a str, row: &LaneRow) -> Result<(TargetSource<'a>, String)> {
    let name = TargetName::parse(target)?;
    let model = name
        .model
        .or(row.model.as_deref())
        .with_context(|| format!("`{target}` names no model; write {target}/MODEL"))?;
    let wanted = row.dialect.as_deref();
    let endpoints: Vec<_> =
        name.row.endpoints.iter().filter(|endpoint| wanted.is_none_or(|dialect| dialect == endpoint.dialect)).collect();
    ensure!(!endpoints.is_empty(), "{} is not known to speak `{}`", name.row.title, wanted.unwrap_or_default());
    Ok((TargetSource::Catalog { name, endpoints, url: None }, model.to_owned()))
}

/// A lane by its address: where it is, and its model.
fn addressed(url: &str, row: &LaneRow) -> Result<(TargetSource<'static>, String)> {
    let url = Target::parse(url)?;
    let model = row.model.clone().context("it names no model; write model = \"NAME\"")?;
    let dialect = row.dialect.as_deref().map(parse_dialect).transpose()?;
    Ok((TargetSource::Address { url, dialect }, model))
}

fn endpoint(found: Endpoint) -> EndpointConfig {
    EndpointConfig {
        dialect: found.dialect,
        base: found.base,
        headers: found.headers,
        authorizer: found.authorizer,
        no_stream_options: found.quirks.no_stream_options,
        max_tokens_field: found.quirks.max_tokens_field,
    }
}

fn loser(name: Option<&str>) -> Result<LoserPolicy> {
    let name = name.unwrap_or(LOSERS[0].0);
    let named = LOSERS.iter().find(|(known, _)| *known == name);
    let (_, loser) = named.with_context(|| format!("`loser` is `cancel`, `drain` or `free`, not `{name}`"))?;
    Ok(*loser)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::bench;
    use crate::config::environment::Environment;
    use crate::config::file::File;
    use crate::flags::bench::{Flags, Target as TargetFlags};

    const KEY: &str = "echo sk-1";

    /// The first endpoint of a lane, and of `tokrate bench` with the same words.
    fn both(row: LaneRow) -> (EndpointConfig, EndpointConfig) {
        let row = LaneRow { key_cmd: Some(KEY.to_owned()), headers: [("x-a", "1")].map(owned).into(), ..row };
        let target = TargetFlags {
            targets: row.target.clone().into_iter().collect(),
            url: row.url.clone(),
            model: row.model.clone(),
            dialect: row.dialect.clone(),
            key_cmd: row.key_cmd.clone(),
            headers: vec!["x-a: 1".to_owned()],
            ..TargetFlags::default()
        };
        let flags = Flags { target, ..Flags::default() };
        let (configs, _) = bench::resolve(&flags, &Environment::default(), &File::default()).expect("a target");
        let remote = configs[0].target.remote().expect("an endpoint").clone();
        let lane = lane("a", &row).expect("a lane").endpoints.remove(0);
        let bench =
            EndpointConfig { dialect: remote.dialect, base: remote.base, headers: remote.headers, ..lane.clone() };
        (lane, bench)
    }

    fn owned((name, value): (&str, &str)) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn a_lane_and_a_target_of_bench_are_the_same_endpoint_for_the_same_words() {
        let target = |name: &str| LaneRow { target: Some(name.to_owned()), ..LaneRow::default() };
        let url = |url: &str| LaneRow { url: Some(url.to_owned()), model: Some("m".to_owned()), ..LaneRow::default() };
        let gemini = LaneRow { dialect: Some("gemini".to_owned()), ..url("http://127.0.0.1:9/v1beta") };
        let rows = [
            target("vllm@127.0.0.1:9/m"),
            target("ollama/m@127.0.0.1:9"),
            target("anthropic/m"),
            url("http://127.0.0.1:9/v1"),
            url("http://127.0.0.1:9/v1/messages"),
            gemini,
        ];
        for row in rows {
            let shown = format!("{row:?}");
            let (lane, bench) = both(row);
            assert_eq!(format!("{lane:?}"), format!("{bench:?}"), "{shown}");
            assert_eq!(lane.headers, bench.headers, "{shown}");
            assert!(lane.headers.values().any(|value| value.is_sensitive()), "{shown}");
        }
    }
}
