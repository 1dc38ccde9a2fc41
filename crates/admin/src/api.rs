//! The JSON API: lanes, recent calls, summaries and attempts of the log.
//!
//! Invariant: every number has its unit in its name and stands with its conditions; what is unknown is `null`, never 0.

use super::query::{self, ParamError, QueryParams};
use super::reports::{MAX_LIST_ROWS, MAX_ROWS};
use http::StatusCode;
use serde_json::{Value, json};
use tokrate_core::Span;
use tokrate_gateway::telemetry::CallTrace;
use tokrate_gateway::telemetry::{LaneChange, LaneState, LaneStatus, Setting, Snapshot, blame_name};
use tokrate_route::{Expectation, LaneSnapshot};
use tokrate_store::{ListPage, Log, Store, StoreError};

/// Most calls in one response.
const MAX_CALLS: u64 = 100;
/// Calls in one response by default.
const DEFAULT_CALLS: u64 = 20;
/// Most rows that a summary is made of; the newest ones are taken.
const MAX_SUMMARY_ROWS: u64 = 2_000_000;

/// Why a request got no data.
#[derive(Debug)]
pub(crate) enum ApiError {
    /// A query parameter is wrong.
    BadRequest(ParamError),
    /// There is no such thing.
    NotFound(String),
    /// The gateway keeps no log.
    NoLog,
    /// The log cannot be read.
    Store(StoreError),
}

impl ApiError {
    /// The status and what to do.
    pub(crate) fn describe(self) -> (StatusCode, String) {
        match self {
            ApiError::BadRequest(refusal) => (StatusCode::BAD_REQUEST, refusal),
            ApiError::NotFound(message) => (StatusCode::NOT_FOUND, message),
            ApiError::NoLog => {
                let message = "this gateway keeps no log; set `log` under [gateway] and restart it";
                (StatusCode::NOT_FOUND, message.to_owned())
            }
            ApiError::Store(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("failed to read the log: {error}")),
        }
    }
}

impl From<ParamError> for ApiError {
    fn from(refusal: ParamError) -> ApiError {
        ApiError::BadRequest(refusal)
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> ApiError {
        ApiError::Store(error)
    }
}

/// The state of all lanes.
pub(crate) fn lanes(snapshot: &Snapshot, query: Option<&str>) -> Result<Value, ApiError> {
    QueryParams::of(query)?.finish()?;
    let lanes: Vec<Value> = snapshot.lanes.iter().map(lane).collect();
    Ok(json!({ "now_unix_ms": snapshot.now_unix_ms, "prompt_tokens": LaneSnapshot::PROMPT_TOKENS, "lanes": lanes }))
}

fn lane(lane: &LaneStatus) -> Value {
    let breaker = match lane.state {
        LaneState::CoolingDown { left, why } => json!({ "open": true, "left_ms": ms(left), "blame": blame_name(why) }),
        _ => json!({ "open": false }),
    };
    let curve = lane.curve.iter().filter_map(|point| {
        let mut expected = expectation(point.expectation.as_ref()?);
        expected["in_flight"] = point.in_flight.into();
        Some(expected)
    });
    let stats = lane.stats.as_ref();
    let endings = stats.into_iter().flat_map(|stats| &stats.endings).map(|((role, end, failure), count)| {
        let failure = failure.map(tokrate_core::FailureKind::name);
        json!({ "role": role.name(), "end": end.name(), "failure": failure, "count": count })
    });
    json!({
        "name": lane.name,
        "provider": lane.provider,
        "model": lane.model,
        "state": lane.state.name(),
        "in_flight": lane.in_flight,
        "in_flight_seen_most": stats.map(|stats| stats.peak_in_flight),
        "cap": lane.cap,
        "learned_cap": lane.learned_cap,
        "breaker": breaker,
        "failing_share": lane.failing,
        "expected_now": lane.expected.as_ref().map(expectation),
        "curve": curve.collect::<Vec<Value>>(),
        "attempts": endings.collect::<Vec<Value>>(),
        "cost_usd": stats.map_or(0.0, |stats| stats.cost()),
    })
}

fn expectation(expected: &Expectation) -> Value {
    json!({
        "ttft_mean_ms": ms(expected.ttft),
        "ttft_p50_ms": ms(expected.ttft_p50),
        "ttft_p90_ms": ms(expected.ttft_p90),
        "output_speed": expected.speed,
        "weight": expected.weight,
    })
}

/// The last calls with their attempts.
pub(crate) fn calls(snapshot: &Snapshot, query: Option<&str>) -> Result<Value, ApiError> {
    let mut params = QueryParams::of(query)?;
    let limit = params.take_count("limit", DEFAULT_CALLS, MAX_CALLS)?;
    params.finish()?;
    let calls: Vec<Value> = snapshot.stats.calls(limit as usize).iter().map(|trace| call(trace)).collect();
    Ok(json!({ "now_unix_ms": snapshot.now_unix_ms, "calls": calls }))
}

/// Changes that were found in the traffic, the newest first; `null` where nobody watches.
pub(crate) fn changes(snapshot: &Snapshot, query: Option<&str>) -> Result<Value, ApiError> {
    QueryParams::of(query)?.finish()?;
    let change = |change: &LaneChange| {
        json!({
            "at_unix_ms": change.at_unix_ms,
            "since_unix_ms": change.since_unix_ms,
            "lane": change.lane,
            "alias": change.alias,
            "metric": change.metric,
            "kind": change.kind,
            "change": change.change,
            "low": change.low,
            "high": change.high,
            "n": change.n,
        })
    };
    let changes = snapshot.changes.as_ref().map(|changes| changes.iter().map(change).collect::<Vec<Value>>());
    Ok(json!({ "now_unix_ms": snapshot.now_unix_ms, "changes": changes }))
}

fn call(trace: &CallTrace) -> Value {
    let attempts = trace.attempts.iter().map(|attempt| {
        json!({
            "attempt": attempt.number,
            "lane": &*attempt.lane,
            "role": attempt.role.name(),
            "end": attempt.end.name(),
            "won": attempt.won,
            "failure": attempt.failure.map(tokrate_core::FailureKind::name),
            "status": attempt.status,
            "started_unix_ms": attempt.started_unix_ms,
            "in_flight": attempt.in_flight,
            "wait_ns": attempt.wait_ns,
            "ttft_ns": attempt.ttft_ns,
            "total_ns": attempt.total_ns,
            "output_speed": attempt.output_speed,
            "output_tokens": attempt.output_tokens,
            "cost_usd": attempt.cost_usd,
            "cost_basis": attempt.cost_basis.name(),
            "model_answered": attempt.model_answered,
        })
    });
    json!({
        "call": trace.call,
        "alias": trace.alias,
        "stream": trace.stream,
        "started_unix_ms": trace.started_unix_ms(),
        "winner": trace.winner().map(|winner| &*winner.lane),
        "cost_usd": trace.cost_usd(),
        "attempts": attempts.collect::<Vec<Value>>(),
    })
}

/// Groups of the log's rows, refused requests by reason, and what the log could not keep since the start. Blocks on the database.
pub(crate) fn summary(log: Option<&Log>, query: Option<&str>, now_unix_ms: u64) -> Result<Value, ApiError> {
    let (mut query, by) = query::summary(query, now_unix_ms)?;
    query.limit = Some(MAX_SUMMARY_ROWS);
    query.order = tokrate_store::Order::Newest;
    let log = log.ok_or(ApiError::NoLog)?;
    let reader = log.reader()?;
    let groups = reader.summarise(&query, by)?;
    let counts = log.counts();
    let rows: u64 = groups.iter().map(|group| group.attempts).sum();
    Ok(json!({
        "now_unix_ms": now_unix_ms,
        "since_unix_ms": query.from_unix_ms,
        "until_unix_ms": query.until_unix_ms,
        "by": { "lane": by.lane, "hour": by.hour },
        "cut_off": rows == MAX_SUMMARY_ROWS,
        "groups": groups.iter().map(tokrate_store::Summary::json).collect::<Vec<Value>>(),
        "refused": reader.refused_by_reason(&query)?,
        "lost": { "attempts": counts.lost, "refusals": counts.lost_refusals },
    }))
}

/// What a time range of the log came to, as the pages show it. Blocks on the database.
pub(crate) fn report(log: Option<&Log>, query: Option<&str>, now_unix_ms: u64) -> Result<Value, ApiError> {
    let query = query::report(query, now_unix_ms)?;
    let report = log.ok_or(ApiError::NoLog)?.reader()?.report(&query, now_unix_ms, MAX_ROWS)?;
    let mut json = report.json();
    json["now_unix_ms"] = now_unix_ms.into();
    Ok(json)
}

/// A page of the list of calls in the log, each with its attempts. Blocks on the database.
pub(crate) fn call_list(log: Option<&Log>, query: Option<&str>, now_unix_ms: u64) -> Result<Value, ApiError> {
    let (query, list) = query::call_list(query, now_unix_ms)?;
    let page = ListPage { order: list.order, after: list.after.as_deref(), calls: list.limit, rows: MAX_LIST_ROWS };
    let found = log.ok_or(ApiError::NoLog)?.reader()?.call_list(&query, now_unix_ms, &page)?;
    Ok(json!({
        "now_unix_ms": now_unix_ms,
        "since_unix_ms": found.range.from_unix_ms,
        "until_unix_ms": found.range.until_unix_ms,
        "cut_off": found.range.is_cut,
        "found": found.found,
        "next": found.next,
        "calls": found.calls,
    }))
}

/// What was measured at each load. Blocks on the database.
pub(crate) fn load(log: Option<&Log>, query: Option<&str>, now_unix_ms: u64) -> Result<Value, ApiError> {
    let query = query::report(query, now_unix_ms)?;
    let loads = log.ok_or(ApiError::NoLog)?.reader()?.by_load(&query, now_unix_ms, MAX_ROWS)?;
    let loads: Vec<Value> = loads.iter().map(tokrate_store::LoadPoint::json).collect();
    Ok(json!({ "now_unix_ms": now_unix_ms, "loads": loads }))
}

/// The settings in force.
pub(crate) fn settings(snapshot: &Snapshot, query: Option<&str>) -> Result<Value, ApiError> {
    QueryParams::of(query)?.finish()?;
    let setting = |setting: &Setting| json!({ "key": setting.key, "value": setting.value, "from": setting.origin });
    let settings: Vec<Value> = snapshot.settings.settings.iter().map(setting).collect();
    Ok(json!({ "read_at_unix_ms": snapshot.settings.read_at_unix_ms, "settings": settings }))
}

/// Rows of the log. Blocks on the database.
pub(crate) fn attempts(log: Option<&Log>, query: Option<&str>, now_unix_ms: u64) -> Result<Value, ApiError> {
    let query = query::attempts(query, now_unix_ms)?;
    let attempts = log.ok_or(ApiError::NoLog)?.reader()?.attempts(&query)?;
    Ok(json!({ "now_unix_ms": now_unix_ms, "attempts": attempts }))
}

fn ms(span: Span) -> f64 {
    span.as_secs_f64() * 1e3
}
