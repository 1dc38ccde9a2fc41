//! The agentic coding traces of Weka's kv-cache-tester: a coding session an object, with the requests of subagents within it.
//!
//! The main agent's requests follow each other; a subagent begins after the request before it, and the request after it waits for its end
//! unless it was launched to run beside it (`async_launched`). Fields as AIPerf's `weka_trace_models.py` lists them.
//!
//! Invariant: block ids of one session mean nothing in another, unless the trace says that they are global.

use super::{Builder, NewStep, seconds};
use crate::bad_input::hash;
use serde::Deserialize;
use serde_json::Value;
use tokrate_core::Span;

#[derive(Deserialize)]
struct Trace {
    id: String,
    block_size: u32,
    #[serde(default)]
    hash_id_scope: Scope,
    requests: Vec<Request>,
}

/// Where equal block ids mean equal text.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "snake_case")]
enum Scope {
    /// Within one session.
    #[default]
    Local,
    /// In all of them.
    Global,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Request {
    #[serde(rename = "n", alias = "s")]
    Call(Call),
    #[serde(rename = "subagent")]
    Subagent(Subagent),
}

#[derive(Deserialize)]
struct Call {
    /// Seconds since the session began; of a subagent's request perhaps since that began.
    t: f64,
    #[serde(rename = "in")]
    input: u64,
    #[serde(rename = "out")]
    output: u64,
    #[serde(default)]
    hash_ids: Box<[u64]>,
    api_time: Option<f64>,
    think_time: Option<f64>,
}

#[derive(Deserialize)]
struct Subagent {
    t: f64,
    subagent_type: String,
    #[serde(default)]
    status: String,
    requests: Vec<Request>,
}

/// Where a chain of requests stands.
struct Chain<'a> {
    role: &'a str,
    /// Its last step, or what its first one waits for.
    last: Vec<u32>,
    /// The ends of subagents that the next request waits for besides.
    joins: Vec<u32>,
    /// Start and duration of the request before, if there was one.
    before: Option<(f64, Option<f64>)>,
    /// What is added to the times of its requests to make them the session's.
    offset: f64,
    /// When the chain began, on the session's time.
    begun: f64,
}

impl Chain<'_> {
    /// What waits for everything of it waits for these.
    fn ends(&self) -> Vec<u32> {
        self.last.iter().chain(&self.joins).copied().collect()
    }
}

/// Subagents within subagents, at most.
const MAX_DEPTH: u32 = 32;

pub(super) fn read(value: Value, builder: &mut Builder) -> Result<(), String> {
    let trace: Trace = serde_json::from_value(value).map_err(|error| format!("a Weka trace: {error}"))?;
    let session = builder.session(&trace.id, 0);
    if !builder.sessions[session].steps.is_empty() {
        return Err(format!("an `id` of its own for each session, and `{}` was there before", trace.id));
    }
    let mut chain = Chain { role: "main", last: Vec::new(), joins: Vec::new(), before: None, offset: 0.0, begun: 0.0 };
    let salt = if trace.hash_id_scope == Scope::Local { hash(&trace.id) } else { 0 };
    let place = Place { session, block_tokens: trace.block_size, salt };
    chain_of(trace.requests, &mut chain, place, MAX_DEPTH, builder)
}

#[derive(Clone, Copy)]
struct Place {
    session: usize,
    block_tokens: u32,
    /// Sets its block ids apart from those of other sessions.
    salt: u64,
}

/// Adds the requests of a chain.
fn chain_of(
    requests: Vec<Request>,
    chain: &mut Chain<'_>,
    place: Place,
    depth: u32,
    builder: &mut Builder,
) -> Result<(), String> {
    for request in requests {
        match request {
            Request::Call(call) => {
                let start = call.t + chain.offset;
                let step = NewStep {
                    role: chain.role,
                    after: chain.ends(),
                    wait: wait(&call, start, chain),
                    input_tokens: call.input,
                    output_tokens: call.output,
                    blocks: call.hash_ids.iter().map(|block| block.wrapping_add(place.salt)).collect(),
                    block_tokens: place.block_tokens,
                };
                if let Some(added) = builder.add(place.session, step)? {
                    (chain.last, chain.joins) = (vec![added], Vec::new());
                }
                chain.before = Some((start, call.api_time));
            }
            Request::Subagent(_) if depth == 0 => {
                return Err(format!("at most {MAX_DEPTH} subagents within each other"));
            }
            Request::Subagent(subagent) => {
                let marker = subagent.t + chain.offset;
                // Both conventions exist: times from the marker, and times from the session's beginning.
                let first = subagent.requests.first().map(|request| match request {
                    Request::Call(call) => call.t,
                    Request::Subagent(inner) => inner.t,
                });
                let offset = if first.is_some_and(|first| first >= subagent.t) { chain.offset } else { marker };
                let last_end = chain.before.map(|(start, duration)| start + duration.unwrap_or(0.0));
                let mut inner = Chain {
                    role: &subagent.subagent_type,
                    last: chain.last.clone(),
                    joins: Vec::new(),
                    before: None,
                    offset,
                    begun: last_end.unwrap_or(chain.begun).min(marker),
                };
                chain_of(subagent.requests, &mut inner, place, depth - 1, builder)?;
                if subagent.status != "async_launched" && inner.last != chain.last {
                    chain.joins.extend(inner.ends());
                }
            }
        }
    }
    Ok(())
}

/// The client's own time before a request: as recorded, else what the gap to the one before leaves beside the server's time.
fn wait(call: &Call, start: f64, chain: &Chain<'_>) -> Span {
    let since = match chain.before {
        _ if call.think_time.is_some() => return seconds(call.think_time.unwrap_or(0.0)),
        Some((before, duration)) => start - before - duration.unwrap_or(0.0),
        None => start - chain.begun,
    };
    seconds(since)
}
