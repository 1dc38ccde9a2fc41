//! Finds engines on this machine: connects to ports of 127.0.0.1 and sends the probes of the catalog.
//!
//! No other address is tried, and no key is sent. Invariant: a port costs at most a few
//! hundred milliseconds, whatever listens there, and all ports are searched at once.

use crate::out::targets::{Answering, Found};
use anyhow::{Context, Result};
use http::HeaderMap;
use serde_json::Value;
use std::collections::BTreeMap;
use tokio::task::LocalSet;
use tokrate_catalog::{At, Kind, PROVIDERS, Probe};
use tokrate_core::{FailureKind, Span};
use tokrate_net::{Answer, Client, ClientConfig, Clock, Limits, Route, Target};

/// Time for each request.
const REQUEST_TIMEOUT: Span = Span::from_millis(300);
/// Time for a port.
const PORT_TIMEOUT: Span = Span::from_millis(1200);
/// Largest answer that is read.
const MAX_BODY_BYTES: u64 = 4 << 20;
/// Where servers of the OpenAI dialect list their models.
const MODELS: &str = "/v1/models";

/// Looks at the ports, all at once; what answers, by port.
pub fn search(ports: &[u16]) -> Result<Vec<Found>> {
    let clock = Clock::monotonic();
    let config = ClientConfig { connect_timeout: REQUEST_TIMEOUT, reuse: false, ..ClientConfig::default() };
    let mut clients = Vec::new();
    for &port in ports {
        let target = Target::parse(&format!("http://127.0.0.1:{port}"))?;
        let route = Route::resolve_blocking(&target, &config, clock)?;
        clients.push((port, Client::new(config.clone(), route, clock)?));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("look for engines: no runtime could be started")?;
    let tasks = LocalSet::new();
    let found = tasks.block_on(&runtime, async {
        let searches: Vec<_> = clients
            .into_iter()
            .map(|(port, client)| {
                tokio::task::spawn_local(async move {
                    let found = tokio::time::timeout(PORT_TIMEOUT.as_duration(), identify(&client)).await;
                    let what = found.unwrap_or(Some(Answering::Silent))?;
                    Some(Found { port, what })
                })
            })
            .collect();
        let mut found = Vec::new();
        for search in searches {
            if let Ok(Some(answer)) = search.await {
                found.push(answer);
            }
        }
        found
    });
    Ok(found)
}

/// Finds out what is there; `None` where nothing listens.
async fn identify(client: &Client) -> Option<Answering> {
    let mut answers = Answers { client, known: BTreeMap::new() };
    match answers.get(MODELS).await {
        Err(FailureKind::Connect | FailureKind::Closed | FailureKind::ConnectTimeout) => return None,
        Err(FailureKind::Stalled | FailureKind::TimedOut) => return Some(Answering::Silent),
        Ok(_) | Err(_) => {}
    }
    let local = || PROVIDERS.iter().filter(|row| row.kind == Kind::Local);
    let probes = || local().flat_map(|row| row.probes.iter().map(move |probe| (row, probe)));
    // A probe that matches a name comes before one that only matches a path, which other engines may have too.
    let (named, known) =
        (probes().filter(|(_, probe)| probe.value.is_some()), probes().filter(|(_, probe)| probe.value.is_none()));
    for (row, probe) in named.chain(known) {
        if answers.get(probe.path).await.is_ok_and(|answer| matches(probe, answer)) {
            return Some(Answering::Engine(row, answers.models().await));
        }
    }
    let models = answers.models().await;
    let locked = |answer: &Answer| matches!(answer.head.status.as_u16(), 401 | 403);
    Some(match answers.get(MODELS).await {
        Ok(answer) if locked(answer) => Answering::Locked,
        _ if models.is_empty() => Answering::Unknown,
        _ => Answering::OpenAiLike(models),
    })
}

/// The answers of one server, each path requested once.
struct Answers<'a> {
    client: &'a Client,
    known: BTreeMap<&'static str, Result<Answer, FailureKind>>,
}

impl Answers<'_> {
    async fn get(&mut self, path: &'static str) -> Result<&Answer, FailureKind> {
        if !self.known.contains_key(path) {
            let limits = Limits { idle: REQUEST_TIMEOUT, total: REQUEST_TIMEOUT, max_body_bytes: MAX_BODY_BYTES };
            let answer = self.client.get(path, HeaderMap::new(), limits).await.map_err(|failure| failure.kind);
            self.known.insert(path, answer);
        }
        self.known[path].as_ref().map_err(|kind| *kind)
    }

    /// The models that the server lists.
    async fn models(&mut self) -> Vec<String> {
        for (path, list, name) in [(MODELS, "/data", "id"), ("/api/tags", "/models", "name")] {
            let names = self.get(path).await.ok().and_then(json).and_then(|body| {
                let list = body.pointer(list)?.as_array()?;
                Some(list.iter().filter_map(|model| model.get(name)?.as_str().map(str::to_owned)).collect::<Vec<_>>())
            });
            if let Some(names) = names.filter(|names| !names.is_empty()) {
                return names;
            }
        }
        let single = self.get("/info").await.ok().and_then(json);
        single.and_then(|body| body.get("model_id")?.as_str().map(str::to_owned)).into_iter().collect()
    }
}

fn matches(probe: &Probe, answer: &Answer) -> bool {
    if !answer.head.status.is_success() {
        return false;
    }
    match probe.at {
        At::Json(pointer) => json(answer)
            .and_then(|body| body.pointer(pointer).cloned())
            .is_some_and(|found| probe.value.is_none_or(|value| found.as_str() == Some(value))),
        At::Header(name) => answer
            .head
            .headers
            .get(name)
            .and_then(|found| found.to_str().ok())
            .is_some_and(|found| probe.value.is_none_or(|value| found.starts_with(value))),
    }
}

fn json(answer: &Answer) -> Option<Value> {
    answer.head.status.is_success().then(|| serde_json::from_slice(&answer.body).ok())?
}
