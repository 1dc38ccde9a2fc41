//! From what a user named to endpoints: a target of the catalog or an address, with its dialects, base URLs, headers, key and model.
//!
//! Invariant: whoever sends requests gets the same endpoints for the same words.

use crate::error::TargetError;
use crate::headers;
use crate::hosted::{Host, HostedAnthropic};
use crate::key::{Secret, Variables};
use crate::key_reference::KeyReference;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::sync::Arc;
use tokrate_catalog::{Credentials, Endpoint as CatalogEndpoint, Kind, ListedPrice, Provider, Quirks, TargetName};
use tokrate_credentials::{AwsSettings, AzureSettings, GoogleSettings};
use tokrate_net::{Authorizer, Target};
use tokrate_wire::Dialect;

/// What a user named, and what they set for it.
#[derive(Clone, Debug)]
pub struct TargetSettings<'a> {
    /// Where it is.
    pub source: TargetSource<'a>,
    /// The model, where the name of the target holds none.
    pub model: Option<String>,
    /// Where the key is; `None` for the provider's own variables.
    pub key: Option<KeyReference>,
    /// Further headers, as [`headers::header`] makes them. They replace the endpoint's own and the key's.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

/// Where a target is.
#[derive(Clone, Debug)]
pub enum TargetSource<'a> {
    /// A provider or an engine of the catalog.
    Catalog {
        /// Its name, and that of the model.
        name: TargetName<'a>,
        /// Which of its endpoints are wanted, at least one.
        endpoints: Vec<&'static CatalogEndpoint>,
        /// A base URL, or the whole address of an API, in place of the catalog's.
        url: Option<Target>,
    },
    /// Any other endpoint.
    Address {
        /// Its base URL, or the whole address of an API.
        url: Target,
        /// What is spoken there; `None` for what the address ends in, else OpenAI's chat completions.
        dialect: Option<Dialect>,
    },
}

/// Where requests go.
#[derive(Clone, Debug)]
pub struct ResolvedTarget {
    /// The row of the catalog.
    pub row: Option<&'static Provider>,
    /// The model as the endpoints know it; `None` if nobody named one.
    pub model: Option<String>,
    /// What the catalog says that it costs.
    pub price: Option<&'static ListedPrice>,
    /// The key that the headers carry.
    pub key: Option<Secret>,
    /// At least one, the preferred first.
    pub endpoints: Vec<Endpoint>,
}

/// How a target is called in one dialect.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// What is spoken there.
    pub dialect: Dialect,
    /// Base URL; the dialect's path is appended.
    pub base: Target,
    /// Headers of every request, those that may hold a key marked sensitive.
    pub headers: HeaderMap,
    /// What authorises its requests, where no key does.
    pub authorizer: Option<Authorizer>,
    /// Deviations from the dialect.
    pub quirks: Quirks,
}

impl ResolvedTarget {
    /// Who answers there: the name in the catalog, or else the host.
    pub fn provider(&self) -> &str {
        let host = || self.endpoints.first().map_or("", |endpoint| endpoint.base.host());
        self.row.map_or_else(host, |row| row.name)
    }
}

impl TargetSettings<'_> {
    /// Finds the endpoints, and fetches the key.
    ///
    /// # Errors
    /// When a variable or the key is missing, or an address makes no sense.
    pub fn resolve(self, variables: Variables<'_>) -> Result<ResolvedTarget, TargetError> {
        match self.source {
            TargetSource::Catalog { name, endpoints, url } => {
                let model = name.model.map(str::to_owned).or(self.model);
                let place = Place { name: &name, model: model.as_deref(), url: url.as_ref() };
                let mut target = catalog_target(&place, &endpoints, self.key, &self.headers, variables)?;
                target.model = model;
                target.price = target.model.as_ref().and_then(|model| tokrate_catalog::price(name.row.name, model));
                Ok(target)
            }
            TargetSource::Address { url, dialect } => {
                let key = self.key.map(|key| key.fetch(variables)).transpose()?;
                let endpoint = endpoint_at(&url, dialect, key.as_ref(), &self.headers, variables)?;
                Ok(ResolvedTarget { row: None, model: self.model, price: None, key, endpoints: vec![endpoint] })
            }
        }
    }
}

/// Which row is meant, and what stands for parts of its addresses.
struct Place<'a> {
    name: &'a TargetName<'a>,
    model: Option<&'a str>,
    url: Option<&'a Target>,
}

/// A target of the catalog, its model left open.
fn catalog_target(
    place: &Place<'_>,
    endpoints: &[&CatalogEndpoint],
    key: Option<KeyReference>,
    set: &[(HeaderName, HeaderValue)],
    variables: Variables<'_>,
) -> Result<ResolvedTarget, TargetError> {
    let row = place.name.row;
    // Before the key: whoever has set up nothing yet learns first where the provider is.
    let bases = endpoints.iter().map(|endpoint| match place.url {
        Some(url) => Ok(split_address(url).0),
        None => {
            let base = catalog_base(place, endpoint, variables)?;
            let base = Target::parse(&base).map_err(|source| TargetError::Base { provider: row.title, source })?;
            Ok(base.with_query(&filled(place, endpoint.query, variables)?))
        }
    });
    let bases = bases.collect::<Result<Vec<Target>, TargetError>>()?;
    let key = match key {
        Some(key) => Some(key),
        None => {
            let is_optional = endpoints.iter().any(|endpoint| endpoint.credentials.is_some());
            own_key(row, place.url.is_none() && !is_optional, variables)?
        }
    };
    let key = key.map(|key| key.fetch(variables)).transpose()?;
    let endpoints = endpoints.iter().zip(bases).map(|(endpoint, base)| {
        // A key that was found is enough, and credentials leave this machine over TLS only.
        let credentials = endpoint.credentials.filter(|_| key.is_none() && base.is_tls());
        Ok(Endpoint {
            dialect: parse_dialect(endpoint.dialect)?,
            authorizer: hosted(endpoint, credentials.map(|credentials| authorizer(credentials, variables))),
            base,
            headers: headers::all(endpoint.auth, endpoint.headers, key.as_ref(), set)?,
            quirks: endpoint.quirks,
        })
    });
    let endpoints = endpoints.collect::<Result<Vec<Endpoint>, TargetError>>()?;
    Ok(ResolvedTarget { row: Some(row), model: None, price: None, key, endpoints })
}

/// The endpoint at an address of which nothing else is known.
fn endpoint_at(
    url: &Target,
    dialect: Option<Dialect>,
    key: Option<&Secret>,
    set: &[(HeaderName, HeaderValue)],
    variables: Variables<'_>,
) -> Result<Endpoint, TargetError> {
    let (base, of_path) = split_address(url);
    let dialect = match (dialect, of_path) {
        (Some(named), Some(found)) if named != found => {
            return Err(TargetError::OtherDialect { url: url.to_string(), found: found.name(), named: named.name() });
        }
        (named, found) => named.or(found).unwrap_or(Dialect::OpenAiChat),
    };
    let host = CLOUD_HOSTS.iter().find(|(end, _)| base.is_tls() && base.host().ends_with(end));
    let has_own = set.iter().any(|(_, value)| value.is_sensitive());
    let credentials = host.filter(|_| key.is_none() && !has_own).map(|(_, credentials)| *credentials);
    let authorizer = credentials.map(|credentials| authorizer(credentials, variables));
    let headers = headers::all(headers::usual_auth(dialect), dialect.required_header().as_slice(), key, set)?;
    Ok(Endpoint { dialect, base, headers, authorizer, quirks: Quirks::default() })
}

/// Ends of the names of hosts whose requests are authorised by credentials of the environment where no key is named.
const CLOUD_HOSTS: [(&str, Credentials); 5] = [
    (".amazonaws.com", Credentials::Aws),
    (".amazonaws.com.cn", Credentials::Aws),
    (".openai.azure.com", Credentials::Entra),
    (".services.ai.azure.com", Credentials::Entra),
    ("aiplatform.googleapis.com", Credentials::Google),
];

/// What is done to requests of an endpoint before they are sent: authorised, and rewritten where a cloud hosts the dialect.
fn hosted(endpoint: &CatalogEndpoint, credentials: Option<Authorizer>) -> Option<Authorizer> {
    let on = match endpoint.quirks {
        Quirks { on_vertex: true, .. } => Host::Vertex,
        Quirks { on_bedrock: true, .. } => Host::Bedrock,
        _ => return credentials,
    };
    Some(Arc::new(HostedAnthropic { on, credentials }))
}

/// What authorises requests with credentials of the environment.
fn authorizer(credentials: Credentials, variables: Variables<'_>) -> Authorizer {
    match credentials {
        Credentials::Aws => tokrate_credentials::aws(AwsSettings::read(variables)),
        Credentials::Entra => tokrate_credentials::azure(AzureSettings::read(variables)),
        Credentials::Google => tokrate_credentials::google(GoogleSettings::read(variables)),
    }
}

/// A URL as it was typed; an error is fit to stand behind the name of whatever held it.
///
/// # Errors
/// Says what is wrong with it.
pub fn parse_url(text: &str) -> Result<Target, TargetError> {
    Target::parse(text).map_err(|error| match error {
        tokrate_net::NetError::Url { url, reason } => TargetError::Url { url, reason: reason.to_string() },
        other => other.into(),
    })
}

/// The base URL, and the dialect whose path the address ends in: people copy the whole address of an API.
pub fn split_address(url: &Target) -> (Target, Option<Dialect>) {
    match (Dialect::part(url.path()), url.path().trim_end_matches('/').strip_suffix("/models")) {
        (Some((base, routed)), _) => (url.at_path(base), Some(routed.dialect)),
        // The list of models is what people try an address with.
        (None, Some(base)) => (url.at_path(base), None),
        (None, None) => (url.clone(), None),
    }
}

/// The dialect of this name.
///
/// # Errors
/// Names those that there are.
pub fn parse_dialect(name: &str) -> Result<Dialect, TargetError> {
    Dialect::from_name(name)
        .ok_or_else(|| TargetError::UnknownDialect { name: name.to_owned(), known: dialect_names() })
}

#[inline(never)]
fn dialect_names() -> String {
    Dialect::ALL.iter().map(|dialect| dialect.name()).collect::<Vec<_>>().join(", ")
}

/// The first variable of a provider's key that is set.
pub fn key_variable(row: &Provider, variables: Variables<'_>) -> Option<&'static str> {
    row.key_env.iter().copied().find(|name| variables(name).is_some())
}

/// The key of the provider's own variable. A hosted provider without one is an error where its own address is used.
fn own_key(
    row: &Provider,
    at_own_address: bool,
    variables: Variables<'_>,
) -> Result<Option<KeyReference>, TargetError> {
    if let Some(name) = key_variable(row, variables) {
        return Ok(Some(KeyReference::Variable(name.to_owned())));
    }
    if row.kind == Kind::Hosted && at_own_address {
        let variables = row.key_env.join(" (or ") + if row.key_env.len() > 1 { ")" } else { "" };
        return Err(TargetError::NoKey { provider: row.title, variables });
    }
    Ok(None)
}

/// The base of an endpoint of the catalog, with the user's address, model and variables in their places.
fn catalog_base(
    place: &Place<'_>,
    endpoint: &CatalogEndpoint,
    variables: Variables<'_>,
) -> Result<String, TargetError> {
    let mut base = filled(place, endpoint.base, variables)?;
    if let Some(at) = place.name.at {
        let path = base.split("://").nth(1).and_then(|rest| rest.find('/').map(|slash| &rest[slash..]));
        base = format!("http://{at}{}", path.unwrap_or_default());
    }
    Ok(base)
}

/// A text of the catalog with the model and variables in their places.
fn filled(place: &Place<'_>, text: &str, variables: Variables<'_>) -> Result<String, TargetError> {
    let row = place.name.row;
    let mut filled = text.to_owned();
    for variable in row.variables {
        let placeholder = format!("{{{}}}", variable.name);
        if filled.contains(&placeholder) {
            let set = std::iter::once(variable.name).chain(variable.also.iter().copied()).find_map(variables);
            let default = (!variable.default.is_empty()).then(|| variable.default.to_owned());
            let value = set.or(default).ok_or(TargetError::Variable {
                provider: row.title,
                variable: variable.name,
                meaning: variable.meaning,
            })?;
            filled = filled.replace(&placeholder, value.trim().trim_end_matches('/'));
        }
    }
    if filled.contains(MODEL) {
        let model = place.model.ok_or(TargetError::ModelInAddress { provider: row.title, name: row.name })?;
        filled = filled.replace(MODEL, &segment(model));
    }
    Ok(filled)
}

/// Where the model stands in an address of the catalog.
const MODEL: &str = "{model}";

/// A text as a segment of a path.
fn segment(text: &str) -> String {
    let letter = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(letter).collect()
}

#[cfg(test)]
mod tests;
