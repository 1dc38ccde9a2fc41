//! Which row of the table a method and a path ask for, and the path that a lane is asked for in its place.
//!
//! Invariant: nothing of a client's path reaches a provider but the identifier of an object, of letters, digits, `_` and `-`.

use super::{APIS, Api, Family};
use http::Method;
use tokrate_net::Target;
use tokrate_wire::{Dialect, Shape};

/// What may stand before a path of the table, the longest first.
const PREFIXES: [&str; 6] = ["/openai/v1", "/api/v1", "/v1beta", "/v1", "/v2", ""];
/// The longest identifier of an object (bytes).
pub(crate) const MAX_ID_BYTES: usize = 256;
/// Longest query that is passed on (bytes).
const MAX_QUERY_BYTES: usize = 1_024;

/// A path of the table, with what a client has put into it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ApiRoute {
    pub api: &'static Api,
    pub id: Option<String>,
    /// The model that the path names.
    pub model: Option<String>,
    /// Of requests that read: how many objects, from which on.
    query: Option<String>,
    /// Whether the query names several models.
    pub is_ambiguous: bool,
}

/// What a method and a path are in the table.
#[derive(Debug)]
pub(crate) enum ApiMatch {
    Found(ApiRoute),
    WrongMethod,
    Unknown,
}

impl ApiRoute {
    /// Finds the row of a method and a path.
    pub fn of(method: &Method, path: &str, query: Option<&str>) -> ApiMatch {
        let mut is_known = false;
        // Google's SDK for JavaScript puts its path behind a base that ends with a slash.
        let path = path.strip_prefix('/').filter(|rest| rest.starts_with("/ws/")).unwrap_or(path);
        for prefix in PREFIXES {
            let Some(rest) = path.strip_prefix(prefix) else { continue };
            for api in APIS {
                let Some((id, model)) = captured(api.path, rest) else { continue };
                let model =
                    if api.family == Family::Bedrock { model.and_then(|model| bedrock_model(&model)) } else { model };
                is_known = true;
                let reads = *method == Method::HEAD && api.method == "GET";
                if api.method == method.as_str() || reads {
                    let query = query.filter(|_| api.method == "GET").and_then(without_keys);
                    let route = ApiRoute { api, id, model, query, is_ambiguous: false };
                    return ApiMatch::Found(if api.upgrades { route.with_model_of_query() } else { route });
                }
            }
        }
        if is_known { ApiMatch::WrongMethod } else { ApiMatch::Unknown }
    }

    /// Takes the model out of the query.
    fn with_model_of_query(mut self) -> ApiRoute {
        let query = self.query.take().unwrap_or_default();
        let (named, rest): (Vec<&str>, Vec<&str>) = query.split('&').partition(|pair| pair.starts_with("model="));
        let model = named.first().map(|pair| percent_decoded(&pair["model=".len()..]));
        let rest = rest.join("&");
        ApiRoute { model, query: Some(rest).filter(|rest| !rest.is_empty()), is_ambiguous: named.len() > 1, ..self }
    }

    /// Whether the query names an object that is not made here: a call that somebody has begun at the provider.
    pub fn names_foreign_call(&self) -> bool {
        let pairs = self.query.iter().flat_map(|query| query.split('&'));
        self.api.upgrades && pairs.into_iter().any(|pair| pair.starts_with("call_id="))
    }

    /// The method that a lane is asked with.
    pub fn method(&self) -> Method {
        Method::from_bytes(self.api.method.as_bytes()).unwrap_or(Method::POST)
    }

    /// The path behind the base URL of a lane's endpoint of that dialect.
    pub fn upstream_path(&self, model: &str, dialect: Dialect) -> String {
        // Its chat has the version in its path as well.
        let version = if dialect == Dialect::CohereChat { "/v2" } else { "" };
        [version, &self.path_of_api(model)].concat()
    }

    fn path_of_api(&self, model: &str) -> String {
        let mut path = match (&self.id, self.api.path.split_once("{model}")) {
            (_, Some((_, verb))) if self.api.family == Family::Bedrock => {
                let whole = Dialect::BedrockConverse.path(model, Shape::Whole);
                format!("{}{verb}", whole.strip_suffix(CONVERSE).unwrap_or(&whole))
            }
            (_, Some((_, verb))) => {
                // As Gemini's dialect writes the name.
                let whole = Dialect::Gemini.path(model, Shape::Whole);
                let named = whole.rsplit_once(':').map_or(whole.as_str(), |(named, _)| named);
                format!("{named}{verb}")
            }
            (Some(id), None) => self.api.path.replace("{id}", id),
            (None, None) => self.api.path.to_owned(),
        };
        let of_lane = self
            .model
            .as_ref()
            .filter(|_| self.api.upgrades && !self.api.has_setup())
            .map(|_| format!("model={}", percent_encoded(model)));
        let mut mark = '?';
        for part in of_lane.iter().chain(&self.query) {
            path.push(std::mem::replace(&mut mark, '&'));
            path.push_str(part);
        }
        path
    }

    /// Whether the path is one of Gemini's, whose bodies name models as well.
    pub fn is_gemini(&self) -> bool {
        self.api.family == Family::Gemini
    }
}

/// The base of an endpoint without the version that stands at its end: sessions of Gemini's have theirs in their path.
pub(crate) fn without_version(base: &Target) -> Target {
    let path = base.path();
    let version = ["/v1beta", "/v1alpha", "/v1"].iter().find_map(|version| path.strip_suffix(version));
    base.at_path(version.unwrap_or(path))
}

/// How the whole answers of Bedrock's dialect are asked for, behind the model.
const CONVERSE: &str = "/converse";

/// The model that a part of a path stands for, as Bedrock's dialect reads it.
fn bedrock_model(segment: &str) -> Option<String> {
    Dialect::of_path(&format!("/model/{segment}{CONVERSE}"))?.model
}

/// The identifier and the model in a path of that pattern.
fn captured(pattern: &str, path: &str) -> Option<(Option<String>, Option<String>)> {
    if let Some((before, verb)) = pattern.split_once("{model}") {
        let model = path.strip_prefix(before)?.strip_suffix(verb)?;
        return (!model.is_empty()).then(|| (None, Some(model.to_owned())));
    }
    let (mut segments, mut id) = (path.split('/'), None);
    for wanted in pattern.split('/') {
        match (wanted, segments.next()?) {
            ("{id}", segment) if is_object_id(segment) => id = Some(segment.to_owned()),
            (wanted, segment) if wanted == segment => {}
            _ => return None,
        }
    }
    segments.next().is_none().then_some((id, None))
}

/// A query without keys; `None` if nothing is left, or it is no plain one.
fn without_keys(query: &str) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.~%=&[],:+/@".contains(&byte);
    let is_key = |pair: &&str| pair.starts_with("key=") || pair.starts_with("access_token=");
    let kept: Vec<&str> = query.split('&').filter(|pair| !is_key(pair) && !pair.is_empty()).collect();
    let kept = kept.join("&");
    (!kept.is_empty() && kept.len() <= MAX_QUERY_BYTES && kept.bytes().all(is_plain)).then_some(kept)
}

/// A value of a query, decoded as far as it can be.
fn percent_decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let coded = digits.filter(|_| *first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(coded.unwrap_or(*first));
        rest = if coded.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A value of a query, with all bytes encoded that could end it.
fn percent_encoded(value: &str) -> String {
    value.bytes().fold(String::with_capacity(value.len()), |text, byte| {
        match byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            true => text + char::from(byte).encode_utf8(&mut [0; 4]),
            false => text + &format!("%{byte:02X}"),
        }
    })
}

/// Whether a text may stand in a path as the identifier of an object.
pub(crate) fn is_object_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    !id.is_empty() && id.len() <= MAX_ID_BYTES && id.bytes().all(is_plain)
}
