//! What is measured, and with which key: resolved from flags, environment, settings file and catalog.

pub(super) mod metrics;

use super::pick_text;
use crate::config::environment::{self, Environment};
use crate::config::file::File;
use crate::config::machine;
use crate::config::{Origin, Value};
use crate::flags::bench as flags;
use anyhow::{Context, Result, anyhow, bail, ensure};
use http::{HeaderName, HeaderValue};
use std::path::PathBuf;
use tokrate_bench::{Embedded, Remote, Target};
use tokrate_catalog::{Endpoint as CatalogEndpoint, Kind, Provider, Quirks, TargetName};
use tokrate_net::{ClientConfig, HttpVersion, ProxySettings, Sharing, check_ca_file};
use tokrate_record::TargetPrice;
use tokrate_sim::{Faults, Law};
use tokrate_targets::{
    HeaderError, KeyReference, ResolvedTarget, Secret, TargetSettings, TargetSource, find_only_model, header,
    parse_dialect, parse_url, split_address,
};

/// A target and its deviations from the dialect.
#[derive(Clone)]
pub(super) struct BenchTarget {
    pub target: Target,
    pub quirks: Quirks,
}

/// Every target, in the order in which they were named; the embedded engine if none was. A dry run asks no endpoint for its model.
pub(super) fn targets(
    flags: &flags::Target,
    is_dry_run: bool,
    environment: &Environment,
    file: &File,
) -> Result<Vec<BenchTarget>> {
    let typed = Typed { is_dry_run, ..Typed::read(flags, environment, file) };
    let flags = &flags::Target { unix_socket: typed.unix_socket.clone(), ..flags.clone() };
    // Also where nothing is asked over TLS, or nothing at all: a file that is named is there.
    if let Some(path) = ca_file(flags, file) {
        check_ca_file(&path)?;
    }
    if typed.names.is_empty() {
        return Ok(vec![typed.unnamed(flags, environment, file)?]);
    }
    if typed.names.len() > 1 {
        let several = |flag: &str, instead: &str| {
            format!("read {flag}: it belongs to one target, and several are named; {instead}")
        };
        ensure!(typed.url.is_none(), several("--url", "write ENGINE@HOST:PORT/MODEL"));
        ensure!(flags.unix_socket.is_none(), several("--unix-socket", "measure them one after the other"));
        ensure!(key_reference(flags, file).is_none(), several("the key", "set the variable of each provider"));
        let metrics = flags.server_metrics.as_deref().is_none_or(|typed| typed == "off");
        ensure!(metrics, several("--server-metrics", "leave it out, or say `off`"));
        ensure!(typed.dialect.is_none(), several("--dialect", "measure them one after the other"));
    }
    typed.names.iter().map(|name| typed.named(name, flags, environment, file)).collect()
}

/// The settings that name the target, over all layers.
struct Typed {
    names: Vec<String>,
    url: Option<Value<String>>,
    model: Option<Value<String>>,
    dialect: Option<Value<String>>,
    /// The file's counts only for the target of the file: it must not receive the key of one that was typed.
    unix_socket: Option<PathBuf>,
    /// Nothing may be asked.
    is_dry_run: bool,
}

/// Stands in a dry run for the model of an endpoint that is asked which one it has when the run begins.
const UNASKED_MODEL: &str = "(its only model)";

impl Typed {
    fn read(flags: &flags::Target, environment: &Environment, file: &File) -> Typed {
        let bench = &file.bench;
        let mut url = pick_text("--url", &flags.url, Some(("TOKRATE_URL", &environment.url)), file, "url", &bench.url);
        let mut names = flags.targets.clone();
        let url_by_flag = url.as_ref().is_some_and(|url| matches!(url.origin, Origin::Flag(_)));
        if !names.is_empty() && !url_by_flag {
            // A target that was typed comes before an address that is always set.
            url = None;
        }
        if names.is_empty() && url.as_ref().is_none_or(|url| matches!(url.origin, Origin::File(_))) {
            names = bench.targets.clone().unwrap_or_default();
        }
        let of_file = match names.is_empty() {
            true => url.as_ref().is_some_and(|url| matches!(url.origin, Origin::File(_))),
            false => flags.targets.is_empty(),
        };
        let model = ("TOKRATE_MODEL", &environment.model);
        Typed {
            is_dry_run: false,
            unix_socket: flags.unix_socket.clone().or_else(|| bench.unix_socket.clone().filter(|_| of_file)),
            names,
            url,
            model: pick_text("--model", &flags.model, Some(model), file, "model", &bench.model),
            dialect: pick_text("--dialect", &flags.dialect, None, file, "dialect", &bench.dialect),
        }
    }

    /// A target of the catalog.
    fn named(&self, typed: &str, flags: &flags::Target, environment: &Environment, file: &File) -> Result<BenchTarget> {
        let name = TargetName::parse(typed)?;
        let endpoint = endpoint(name.row, self.dialect.as_ref().map(|dialect| dialect.value.as_str()))?;
        let model = match (name.model, &self.model) {
            (Some(model), Some(Value { value, origin: Origin::Flag(_) })) if model != value => {
                bail!("read --model: the target `{typed}` names its model already; leave out one of them")
            }
            (Some(model), _) => Some(model.to_owned()),
            (None, Some(model)) if !model.value.is_empty() => Some(model.value.clone()),
            // A hosted provider has many models; an engine of one's own may well have one.
            (None, _) if name.row.kind == Kind::Local => None,
            (None, _) => bail!("read the target `{typed}`: it names no model; write {typed}/MODEL"),
        };
        let url = self.url.as_ref().map(|url| address(url, self.dialect.as_ref())).transpose()?;
        let source = TargetSource::Catalog { name, endpoints: vec![endpoint], url };
        let model = model.or_else(|| self.unasked());
        remote_target(source, model, flags, environment, file)
    }

    fn unasked(&self) -> Option<String> {
        self.is_dry_run.then(|| UNASKED_MODEL.to_owned())
    }

    /// An endpoint by its URL, or the embedded engine.
    fn unnamed(&self, flags: &flags::Target, environment: &Environment, file: &File) -> Result<BenchTarget> {
        let Some(url) = &self.url else {
            if let Some(model) = self.model.as_ref().filter(|model| matches!(model.origin, Origin::Flag(_))) {
                bail!(
                    "start the run: --model {} needs an endpoint; name it as PROVIDER/{0}, or with --url, such as --url http://127.0.0.1:8000/v1",
                    model.value
                );
            }
            ensure!(
                flags.dialect.is_none(),
                "start the run: --dialect needs an endpoint; name a target or a --url (the embedded engine speaks openai-chat)"
            );
            ensure!(
                flags.unix_socket.is_none(),
                "start the run: --unix-socket needs an endpoint; name a target or a --url, such as --url http://localhost/v1"
            );
            ensure!(
                flags.proxy.is_none(),
                "start the run: --proxy needs an endpoint; name a target or a --url (the embedded engine is asked directly)"
            );
            ensure!(
                flags.connections.is_none() && flags.streams.is_none(),
                "start the run: --connections and --streams need an endpoint; name a target or a --url (the embedded engine speaks HTTP/1.1)"
            );
            ensure!(
                !flags.new_connections && !flags.tls_resume,
                "start the run: --new-connections and --tls-resume need an endpoint; name a target or a --url (connections to the embedded engine are kept)"
            );
            return Ok(BenchTarget { target: embedded(), quirks: Quirks::default() });
        };
        let model = self.model.as_ref().map(|model| model.value.clone()).filter(|model| !model.is_empty());
        let url = address(url, self.dialect.as_ref())?;
        let dialect =
            self.dialect.clone().map(|dialect| dialect.parse(|name| Ok(parse_dialect(&name)?))).transpose()?;
        let source = TargetSource::Address { url, dialect: dialect.map(|dialect| dialect.value) };
        let model = model.or_else(|| self.unasked());
        remote_target(source, model, flags, environment, file)
    }
}

/// The endpoint of the dialect asked for, or the default.
fn endpoint(row: &Provider, dialect: Option<&str>) -> Result<&'static CatalogEndpoint> {
    row.endpoint(dialect).with_context(|| {
        format!(
            "read --dialect: {} is not known to speak `{}`; it speaks {}; to try it anyway, give --url instead of a target",
            row.title,
            dialect.unwrap_or_default(),
            spoken(row)
        )
    })
}

/// The dialects of a row, for a message.
#[inline(never)]
fn spoken(row: &Provider) -> String {
    row.endpoints.iter().map(|endpoint| endpoint.dialect).collect::<Vec<_>>().join(", ")
}

/// The URL, unless it ends in the path of another dialect than was typed.
fn address(url: &Value<String>, typed: Option<&Value<String>>) -> Result<tokrate_net::Target> {
    let url = url.clone().parse(|text| Ok(parse_url(&text)?))?.value;
    if let (Some(found), Some(typed)) = (split_address(&url).1, typed)
        && found.name() != typed.value
    {
        bail!(
            "read --url: {url} ends in the path of {}, and --dialect says {}; leave out one of them",
            found.name(),
            typed.value
        );
    }
    Ok(url)
}

fn embedded() -> Target {
    // A little unsteadiness, as real engines have it; without it all requests of a level would march in step.
    let law = Law { gap_jitter: 0.1, ttft_jitter: 0.1, ..Law::default() };
    Target::Embedded(Box::new(Embedded { law, faults: Faults::default() }))
}

/// A target by its source and model; without a model the endpoint's only one is looked up.
fn remote_target(
    source: TargetSource<'_>,
    model: Option<String>,
    flags: &flags::Target,
    environment: &Environment,
    file: &File,
) -> Result<BenchTarget> {
    let settings = TargetSettings { source, model, key: key_reference(flags, file), headers: headers(flags, file)? };
    let ResolvedTarget { row, model, price, key, endpoints, .. } = settings.resolve(&environment::variable)?;
    let mut endpoint = endpoints.into_iter().next().context("find the target: it has no endpoint")?;
    let quirks = endpoint.quirks;
    let typed = (&flags.server_metrics, &file.bench.server_metrics);
    let typed = pick_text("--server-metrics", typed.0, None, file, "server_metrics", typed.1);
    let base = (&endpoint.base, flags.unix_socket.as_deref());
    let server_metrics = metrics::server_metrics(typed, row, base, &endpoint.headers)?;
    let engine_host = machine::facts_if_here(flags.unix_socket.as_ref().map_or(endpoint.base.host(), |_| "localhost"));
    let client = ClientConfig {
        http: http_version(flags, file)?,
        ca_file: ca_file(flags, file),
        insecure: flags.insecure || file.bench.insecure == Some(true),
        unix_socket: flags.unix_socket.clone(),
        proxy: proxies(flags, environment, file)?,
        ..ClientConfig::default()
    };
    let model = match model {
        Some(model) => model,
        None => find_only_model(&mut endpoint, client.clone())?,
    };
    let remote = Remote {
        provider: row.map(|row| row.name.to_owned()),
        dialect: endpoint.dialect,
        price: price.map(recorded),
        server_metrics,
        engine_host,
        base: endpoint.base.clone(),
        model,
        key_origin: key.and_then(|key| origin_in(&endpoint.headers, &key)),
        headers: endpoint.headers,
        authorizer: endpoint.authorizer,
        http: client.http,
        new_connections: flags.new_connections,
        http2: sharing(flags, client.http)?,
        tls_resume: checked_resumption(flags, &endpoint.base)?,
        ca_file: client.ca_file,
        insecure: client.insecure,
        unix_socket: client.unix_socket,
        proxy: client.proxy,
    };
    Ok(BenchTarget { target: Target::Remote(Box::new(remote)), quirks })
}

fn ca_file(flags: &flags::Target, file: &File) -> Option<PathBuf> {
    flags.ca_file.clone().or_else(|| file.bench.ca_file.clone())
}

/// How requests share connections, if they can.
fn sharing(flags: &flags::Target, http: HttpVersion) -> Result<Sharing> {
    for (flag, given) in [("--connections", flags.connections), ("--streams", flags.streams)] {
        ensure!(
            given.is_none() || http == HttpVersion::Http2,
            "read {flag}: over HTTP/1.1 each request in flight has a connection of its own; give --http 2 too, or leave it out"
        );
        ensure!(
            given.is_none() || !flags.new_connections,
            "read {flag}: with --new-connections no connection is shared; leave out one of them"
        );
    }
    let count = |given: Option<u32>| given.map(|count| count as usize);
    Ok(Sharing { connections: count(flags.connections), streams: count(flags.streams) })
}

/// Whether TLS sessions are resumed, if that can be.
fn checked_resumption(flags: &flags::Target, base: &tokrate_net::Target) -> Result<bool> {
    if flags.tls_resume {
        ensure!(
            flags.new_connections,
            "read --tls-resume: kept connections shake hands once; give --new-connections too, or leave it out"
        );
        ensure!(base.is_tls(), "read --tls-resume: {base} has no TLS; leave it out, or write https://");
    }
    Ok(flags.tls_resume)
}

/// Where the key comes from, in words, if the headers carry it: typed ones may have replaced its own.
fn origin_in(headers: &http::HeaderMap, key: &Secret) -> Option<String> {
    let carries = |value: &HeaderValue| value.to_str().is_ok_and(|text| text.contains(key.reveal()));
    headers.values().any(carries).then(|| format!("the key from {}", key.origin()))
}

fn recorded(listed: &tokrate_catalog::ListedPrice) -> TargetPrice {
    TargetPrice::of_tokens(listed.price, listed.source, listed.date)
}

fn key_reference(flags: &flags::Target, file: &File) -> Option<KeyReference> {
    KeyReference::first(&flags.key_env, &flags.key_file, &flags.key_cmd)
        .or_else(|| KeyReference::first(&file.bench.key_env, &file.bench.key_file, &file.bench.key_cmd))
}

/// The headers that were typed, or else those of the file.
fn headers(flags: &flags::Target, file: &File) -> Result<Vec<(HeaderName, HeaderValue)>> {
    let typed = match flags.headers.is_empty() {
        true => file.bench.headers.as_deref().unwrap_or_default(),
        false => &flags.headers,
    };
    typed.iter().map(|line| parse_header(line)).collect()
}

/// Reads "Name: value".
fn parse_header(line: &str) -> Result<(HeaderName, HeaderValue)> {
    let (name, value) = line.split_once(':').context("read --header: write it as \"Name: value\"")?;
    header(name.trim(), value.trim()).map_err(|error| match error {
        HeaderError::Name(name) => anyhow!("read --header: `{name}` is no header name"),
        HeaderError::Value(name) => {
            anyhow!("read --header: the value of `{name}` holds characters that no header can carry")
        }
    })
}

/// The proxy that was named for this run, or those of the environment.
fn proxies(flags: &flags::Target, environment: &Environment, file: &File) -> Result<Option<ProxySettings>> {
    match pick_text("--proxy", &flags.proxy, None, file, "proxy", &file.bench.proxy) {
        None => Ok(environment.proxies()),
        Some(named) if named.value == "off" => Ok(None),
        Some(named) => {
            Ok(Some(named.parse(|url| ProxySettings::for_all(&url).map_err(|reason| anyhow!(reason)))?.value))
        }
    }
}

fn http_version(flags: &flags::Target, file: &File) -> Result<HttpVersion> {
    Ok(match (flags.http, file.bench.http.as_deref()) {
        (Some(flags::HttpVersion::Http1), _) | (None, None | Some("1.1")) => HttpVersion::Http1,
        (Some(flags::HttpVersion::Http2), _) | (None, Some("2")) => HttpVersion::Http2,
        (None, Some(other)) => bail!("read {}: `{other}` is no HTTP version; write 1.1 or 2", file.key("http")),
    })
}

#[cfg(test)]
mod tests;
