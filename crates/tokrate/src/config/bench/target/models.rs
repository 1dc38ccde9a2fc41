//! Which model an endpoint serves, where nobody named one: asked of the endpoint itself.
//!
//! It does not choose. Invariant: a model is found only where there is exactly one.

use anyhow::{Context, Result, bail};
use http::HeaderMap;
use serde_json::Value;
use tokio::task::LocalSet;
use tokrate_bench::Remote;
use tokrate_core::Span;
use tokrate_net::{Answer, Client, ClientConfig, Clock, Limits, Route};

/// Time for each question.
const PATIENCE: Span = Span::from_secs(10);
/// Largest answer that is read.
const BODY_BYTES_MOST: u64 = 4 << 20;
/// More names than this are not shown.
const SHOWN_MOST: usize = 10;

/// Where models are listed: the path after the base, where the list is in the answer, and the name in its entries.
const PLACES: [(&str, &str, &str); 4] = [
    ("/models", "/data", "id"),
    ("/models", "/models", "name"),
    ("/v1/models", "/data", "id"),
    ("/api/tags", "/models", "name"),
];

/// Names the model of an endpoint that has only one, and moves its base to `/v1` where models are listed there.
///
/// # Errors
/// When the endpoint cannot be asked, or lists no model or several.
pub(super) fn find(remote: &mut Remote) -> Result<()> {
    let base = remote.base.clone();
    let config = ClientConfig {
        http: remote.http,
        connect_timeout: PATIENCE,
        reuse: true,
        rx_timestamps: false,
        ca_file: remote.ca_file.clone(),
        insecure: remote.insecure,
        unix_socket: remote.unix_socket.clone(),
        proxy: remote.proxy.clone(),
    };
    let asked = || format!("start the run: no model was named, and {base} could not be asked for its models");
    let clock = Clock::monotonic();
    let route = Route::resolve_blocking(&base, &config, clock).with_context(asked)?;
    let client = Client::new(config, route, clock).with_context(asked)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().with_context(asked)?;
    let headers: HeaderMap = remote.headers.iter().cloned().collect();
    let limits = Limits { idle: PATIENCE, total: PATIENCE, max_body_bytes: BODY_BYTES_MOST };
    let get = |path: String| {
        let (client, headers) = (&client, headers.clone());
        LocalSet::new().block_on(&runtime, async move { client.get(&path, headers, limits).await })
    };
    let mut refused = None;
    for (path, list, name) in PLACES {
        let answer = match get(base.path_with(path)) {
            Ok(answer) => answer,
            Err(failure) => bail!("{}: {}; name it with --model", asked(), failure.detail),
        };
        match names(&answer, list, name) {
            Some(models) => {
                if path == "/v1/models" && remote.dialect.name().starts_with("openai") {
                    remote.base = base.at_path(&base.path_with("/v1"));
                }
                remote.model = only(&models)?;
                return Ok(());
            }
            None => refused = refused.or(Some(answer.head.status.as_u16())),
        }
    }
    bail!(
        "start the run: no model was named, and {base} lists none (HTTP {}); name it with --model",
        refused.unwrap_or_default()
    )
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

fn only(models: &[String]) -> Result<String> {
    match models {
        [model] => Ok(model.clone()),
        [] => bail!("start the run: no model was named, and the endpoint has none loaded; name it with --model"),
        several => {
            let shown: Vec<&str> = several.iter().take(SHOWN_MOST).map(String::as_str).collect();
            let more = if several.len() > SHOWN_MOST { ", …" } else { "" };
            bail!(
                "start the run: no model was named, and the endpoint has {}: {}{more}; name one with --model",
                several.len(),
                shown.join(", ")
            )
        }
    }
}
