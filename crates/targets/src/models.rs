//! Asks an endpoint which model it serves, where nobody named one.
//!
//! Invariant: a model is found only where there is exactly one.

use crate::error::TargetError;
use crate::resolve::Endpoint;
use serde_json::Value;
use tokio::task::LocalSet;
use tokrate_core::{FailureKind, Span};
use tokrate_net::{Answer, Client, ClientConfig, Clock, Limits, Route, Target};

/// Time for each request; somebody waits for their run to start.
const TIMEOUT: Span = Span::from_secs(10);
/// Largest answer that is read (bytes), so that no server can fill the memory.
const MAX_BODY_BYTES: u64 = 4 << 20;
/// More names than this are not shown in an error.
const MAX_SHOWN: usize = 10;

/// Where models are listed: the path after the base, where the list is in the answer, and the name in its entries.
const PLACES: [(&str, &str, &str); 4] = [
    ("/models", "/data", "id"),
    ("/models", "/models", "name"),
    ("/v1/models", "/data", "id"),
    ("/api/tags", "/models", "name"),
];

/// The model of an endpoint that has only one. Moves its base to `/v1` where models are listed there.
///
/// # Errors
/// When the endpoint cannot be asked, or lists no model or several.
pub fn find_only_model(endpoint: &mut Endpoint, client: ClientConfig) -> Result<String, TargetError> {
    let base = endpoint.base.clone();
    let config = ClientConfig { connect_timeout: TIMEOUT, reuse: true, rx_timestamps: false, ..client };
    fn unasked<E: std::error::Error + Send + Sync + 'static>(base: &Target) -> impl Fn(E) -> TargetError {
        let base = base.to_string();
        move |error| TargetError::Models { base: base.clone(), source: error.into() }
    }
    let clock = Clock::monotonic();
    let route = Route::resolve_blocking(&base, &config, clock).map_err(unasked(&base))?;
    let client = Client::new(config, route, clock).map_err(unasked(&base))?;
    let client = client.authorized_by(endpoint.authorizer.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(unasked(&base))?;
    let limits = Limits { idle: TIMEOUT, total: TIMEOUT, max_body_bytes: MAX_BODY_BYTES };
    let get = |path: String| {
        let (client, headers) = (&client, endpoint.headers.clone());
        LocalSet::new().block_on(&runtime, async move { client.get(&path, headers, limits).await })
    };
    let mut refused = None;
    for (path, list, name) in PLACES {
        let answer = match get(base.path_with(path)) {
            Ok(answer) => answer,
            Err(failure) => {
                return Err(TargetError::ModelsUnanswered {
                    base: base.to_string(),
                    detail: failure.detail.to_string(),
                    hint: match failure.kind {
                        FailureKind::Dns
                        | FailureKind::Connect
                        | FailureKind::ConnectTimeout
                        | FailureKind::Tls
                        | FailureKind::Proxy => failure.kind.hint(),
                        _ => "name it with --model",
                    },
                });
            }
        };
        match names(&answer, list, name) {
            Some(models) => {
                if path == "/v1/models" && endpoint.dialect.name().starts_with("openai") {
                    endpoint.base = base.at_path(&base.path_with("/v1"));
                }
                return only(&models);
            }
            None => refused = refused.or(Some(answer.head.status.as_u16())),
        }
    }
    Err(TargetError::ModelsUnlisted { base: base.to_string(), status: refused.unwrap_or_default() })
}

fn names(answer: &Answer, list: &str, name: &str) -> Option<Vec<String>> {
    if !answer.head.status.is_success() {
        return None;
    }
    let body: Value = serde_json::from_slice(&answer.body).ok()?;
    let listed = body.pointer(list)?.as_array()?;
    let name_of = |model: &Value| Some(model.get(name)?.as_str()?.trim_start_matches("models/").to_owned());
    Some(listed.iter().filter_map(name_of).collect())
}

fn only(models: &[String]) -> Result<String, TargetError> {
    match models {
        [model] => Ok(model.clone()),
        [] => Err(TargetError::NoModel),
        several => {
            let first: Vec<&str> = several.iter().take(MAX_SHOWN).map(String::as_str).collect();
            let more = if several.len() > MAX_SHOWN { ", …" } else { "" };
            Err(TargetError::SeveralModels { count: several.len(), shown: first.join(", ") + more })
        }
    }
}
