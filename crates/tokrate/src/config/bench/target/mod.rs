//! What is measured, and with which key: resolved from flags, environment, settings file and catalog.

mod metrics;
mod models;
pub(in crate::config) mod named;

use super::pick_text;
use crate::config::environment::{self, Environment};
use crate::config::file::File;
use crate::config::machine;
use crate::config::secret::{KeyReference, Secret};
use crate::config::{Origin, Value, url as config_url};
use crate::flags::bench as flags;
use anyhow::{Context, Result, bail, ensure};
use http::{HeaderName, HeaderValue};
use std::path::PathBuf;
use tokrate_bench::{Embedded, Remote, Target};
use tokrate_catalog::{Auth, Kind, Provider, Quirks, TargetName};
use tokrate_net::HttpVersion;
use tokrate_record::TargetPrice;
use tokrate_sim::{Faults, Law};
use tokrate_wire::{Dialect, KeyHeader};

/// A target and in what it departs from its dialect.
pub(super) struct Found {
    pub target: Target,
    pub quirks: Quirks,
}

/// Every target, in the order in which they were named; the embedded engine if none was.
pub(super) fn targets(flags: &flags::Target, environment: &Environment, file: &File) -> Result<Vec<Found>> {
    let typed = Typed::read(flags, environment, file);
    let flags = &flags::Target { unix_socket: typed.unix_socket.clone(), ..flags.clone() };
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

/// What says which target is meant, over all layers.
struct Typed {
    names: Vec<String>,
    url: Option<Value<String>>,
    model: Option<Value<String>>,
    dialect: Option<Value<String>>,
    /// The file's counts only where the file says who is asked: it must not catch the key of a target that somebody typed.
    unix_socket: Option<PathBuf>,
}

impl Typed {
    fn read(flags: &flags::Target, environment: &Environment, file: &File) -> Typed {
        let bench = &file.bench;
        let mut url = pick_text("--url", &flags.url, Some(("TOKRATE_URL", &environment.url)), file, "url", &bench.url);
        let mut names = flags.targets.clone();
        let url_by_flag = url.as_ref().is_some_and(|url| matches!(url.origin, Origin::Flag(_)));
        if !names.is_empty() && !url_by_flag {
            // A target that was typed is meant more than an address that always stands there.
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
            unix_socket: flags.unix_socket.clone().or_else(|| bench.unix_socket.clone().filter(|_| of_file)),
            names,
            url,
            model: pick_text("--model", &flags.model, Some(model), file, "model", &bench.model),
            dialect: pick_text("--dialect", &flags.dialect, None, file, "dialect", &bench.dialect),
        }
    }

    /// A target of the catalog.
    fn named(&self, typed: &str, flags: &flags::Target, environment: &Environment, file: &File) -> Result<Found> {
        let named = TargetName::parse(typed)?;
        let endpoint = named::endpoint(named.row, self.dialect.as_ref().map(|dialect| dialect.value.as_str()))?;
        let model = match (named.model, &self.model) {
            (Some(model), Some(Value { value, origin: Origin::Flag(_) })) if model != value => {
                bail!("read --model: the target `{typed}` names its model already; leave out one of them")
            }
            (Some(model), _) => Some(model.to_owned()),
            (None, Some(model)) if !model.value.is_empty() => Some(model.value.clone()),
            // Who hosts models for others has many; an engine of one's own may well have one.
            (None, _) if named.row.kind == Kind::Local => None,
            (None, _) => bail!("read the target `{typed}`: it names no model; write {typed}/MODEL"),
        };
        let base = match &self.url {
            Some(url) => address(url, self.dialect.as_ref())?.0,
            None => tokrate_net::Target::parse(&named::base(&named, endpoint)?)
                .with_context(|| format!("find {}", named.row.title))?,
        };
        let price = model.as_ref().and_then(|model| tokrate_catalog::price(named.row.name, model)).map(recorded);
        let key = match key_reference(flags, file) {
            Some(key) => Some(key),
            None => own_key(named.row, self.url.is_none())?,
        };
        let place = Place {
            row: Some(named.row),
            dialect: dialect_of(endpoint.dialect)?,
            price,
            base,
            model,
            headers: headers(endpoint.auth, endpoint.headers, key, flags, file)?,
        };
        Ok(Found { target: place.target(flags, environment, file)?, quirks: endpoint.quirks })
    }

    /// An endpoint by its address, or the embedded engine.
    fn unnamed(&self, flags: &flags::Target, environment: &Environment, file: &File) -> Result<Found> {
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
            return Ok(Found { target: embedded(), quirks: Quirks::default() });
        };
        let model = self.model.as_ref().map(|model| model.value.clone()).filter(|model| !model.is_empty());
        let (base, of_path) = address(url, self.dialect.as_ref())?;
        let dialect = match &self.dialect {
            Some(dialect) => dialect.clone().parse(|name| dialect_of(&name))?.value,
            None => of_path.unwrap_or(Dialect::OpenAiChat),
        };
        let key = key_reference(flags, file);
        let headers = headers(usual_auth(dialect), dialect.required_header().as_slice(), key, flags, file)?;
        let place = Place { row: None, dialect, price: None, base, model, headers };
        Ok(Found { target: place.target(flags, environment, file)?, quirks: Quirks::default() })
    }
}

/// The base URL, and the dialect whose path it ended in: people copy the whole address of an API.
fn address(url: &Value<String>, typed: Option<&Value<String>>) -> Result<(tokrate_net::Target, Option<Dialect>)> {
    let target = url.clone().parse(|text| config_url(&text))?.value;
    let Some((base, routed)) = Dialect::part(target.path()) else { return Ok((target, None)) };
    let other = typed.filter(|typed| typed.value != routed.dialect.name());
    if let Some(other) = other {
        bail!(
            "read --url: {target} ends in the path of {}, and --dialect says {}; leave out one of them",
            routed.dialect.name(),
            other.value
        );
    }
    Ok((target.at_path(base), Some(routed.dialect)))
}

/// Where those who made a dialect expect the key, for an address of which nothing else is known.
pub(in crate::config) fn usual_auth(dialect: Dialect) -> Auth {
    match dialect.key_header() {
        KeyHeader::Bearer => Auth::Bearer,
        KeyHeader::Named(name) => Auth::Header(name),
    }
}

fn embedded() -> Target {
    // A little unsteadiness, as real engines have it; without it all requests of a level would march in step.
    let law = Law { gap_jitter: 0.1, ttft_jitter: 0.1, ..Law::default() };
    Target::Embedded(Box::new(Embedded { law, faults: Faults::default() }))
}

/// An endpoint, as far as the catalog and the command line name it.
struct Place {
    row: Option<&'static Provider>,
    dialect: Dialect,
    price: Option<TargetPrice>,
    base: tokrate_net::Target,
    /// `None` if the endpoint is to be asked.
    model: Option<String>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Place {
    fn target(self, flags: &flags::Target, environment: &Environment, file: &File) -> Result<Target> {
        let Place { row, dialect, price, base, model, headers } = self;
        let typed = (&flags.server_metrics, &file.bench.server_metrics);
        let typed = pick_text("--server-metrics", typed.0, None, file, "server_metrics", typed.1);
        let named = model.is_some();
        let mut remote = Remote {
            provider: row.map(|row| row.name.to_owned()),
            dialect,
            price,
            server_metrics: metrics::server_metrics(typed, row, (&base, flags.unix_socket.as_deref()), &headers)?,
            engine_host: machine::facts_if_here(flags.unix_socket.as_ref().map_or(base.host(), |_| "localhost")),
            base,
            model: model.unwrap_or_default(),
            headers,
            http: http_version(flags, file)?,
            new_connections: flags.new_connections,
            ca_file: flags.ca_file.clone().or_else(|| file.bench.ca_file.clone()),
            insecure: flags.insecure || file.bench.insecure == Some(true),
            unix_socket: flags.unix_socket.clone(),
            proxy: environment.proxies(),
        };
        if !named {
            models::find(&mut remote)?;
        }
        Ok(Target::Remote(Box::new(remote)))
    }
}

fn recorded(listed: &tokrate_catalog::ListedPrice) -> TargetPrice {
    TargetPrice { price: listed.price, source: listed.source.to_owned(), date: listed.date.to_owned() }
}

pub(in crate::config) fn dialect_of(name: &str) -> Result<Dialect> {
    Dialect::from_name(name)
        .with_context(|| format!("`{name}` is no dialect that is spoken here; it is one of {}", dialect_names()))
}

#[inline(never)]
fn dialect_names() -> String {
    Dialect::ALL.iter().map(|dialect| dialect.name()).collect::<Vec<_>>().join(", ")
}

/// The key of the provider's own variable. A hosted provider without one is an error where its own address is used.
pub(in crate::config) fn own_key(row: &Provider, at_home: bool) -> Result<Option<KeyReference>> {
    let set = row.key_env.iter().find(|name| environment::variable(name).is_some());
    if let Some(name) = set {
        return Ok(Some(KeyReference::Variable((*name).to_owned())));
    }
    if row.kind == Kind::Hosted && at_home {
        bail!(
            "read the API key of {}: the environment variable {} is not set; set it, or name another with --key-env",
            row.title,
            row.key_env.join(" (or ") + if row.key_env.len() > 1 { ")" } else { "" }
        );
    }
    Ok(None)
}

fn key_reference(flags: &flags::Target, file: &File) -> Option<KeyReference> {
    KeyReference::first(&flags.key_env, &flags.key_file, &flags.key_cmd)
        .or_else(|| KeyReference::first(&file.bench.key_env, &file.bench.key_file, &file.bench.key_cmd))
}

/// The header that shows a key, marked so that it is never printed.
pub(in crate::config) fn key_header(auth: Auth, key: &Secret) -> Result<(HeaderName, HeaderValue)> {
    let (name, text) = match auth {
        Auth::Header(name) => (HeaderName::from_static(name), key.reveal().to_owned()),
        Auth::Bearer | Auth::None => (http::header::AUTHORIZATION, format!("Bearer {}", key.reveal())),
    };
    let mut value =
        HeaderValue::from_str(&text).context("read the API key: it holds characters that no header can carry")?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// Key, the dialect's own headers and those that were typed.
fn headers(
    auth: Auth,
    further: &[(&'static str, &'static str)],
    key: Option<KeyReference>,
    flags: &flags::Target,
    file: &File,
) -> Result<Vec<(HeaderName, HeaderValue)>> {
    let mut headers = Vec::new();
    if let Some(key) = key {
        headers.push(key_header(auth, &key.fetch()?)?);
    }
    let own = further.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    let typed = match flags.headers.is_empty() {
        true => file.bench.headers.clone().unwrap_or_default(),
        false => flags.headers.clone(),
    };
    let typed = typed.iter().map(|line| header(line)).collect::<Result<Vec<_>>>()?;
    headers.extend(own.filter(|(name, _)| typed.iter().all(|(other, _)| other != name)));
    headers.extend(typed);
    Ok(headers)
}

/// Reads "Name: value". An error names the header, never its value.
fn header(line: &str) -> Result<(HeaderName, HeaderValue)> {
    let (name, value) = line.split_once(':').context("read --header: write it as \"Name: value\"")?;
    let name = name.trim();
    let parsed =
        HeaderName::try_from(name).ok().with_context(|| format!("read --header: `{name}` is no header name"))?;
    let mut value = HeaderValue::from_str(value.trim())
        .ok()
        .with_context(|| format!("read --header: the value of `{name}` holds characters that no header can carry"))?;
    // Any header may carry a key.
    value.set_sensitive(true);
    Ok((parsed, value))
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
