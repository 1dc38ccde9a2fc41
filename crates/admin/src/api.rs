//! The answers of the API: lanes, calls, summaries and attempts as JSON.
//!
//! It refuses to know how they are asked for over HTTP. Invariant: every number has its unit in its name and stands with its
//! conditions; what is unknown is `null`, never 0.

use super::query::{self, Asked, Refusal};
use serde_json::{Value, json};
use tokrate_core::Span;
use tokrate_gateway::telemetry::Trail;
use tokrate_gateway::telemetry::{LaneState, LaneView, View, blame_name};
use tokrate_route::{Expectation, LaneSnapshot};
use tokrate_store::{Log, Store, StoreError};

/// Calls of one answer at most.
const CALLS_MOST: u64 = 100;
/// Calls of one answer, unless it is said otherwise.
const CALLS: u64 = 20;
/// Rows that a summary is made of at most, the newest ones.
const SUMMARY_ROWS_MOST: u64 = 2_000_000;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// It was asked wrongly.
    Refused(Refusal),
    /// There is no log to look into.
    NoLog,
    /// The log cannot be read.
    Store(StoreError),
}

impl From<Refusal> for Unanswered {
    fn from(refusal: Refusal) -> Unanswered {
        Unanswered::Refused(refusal)
    }
}

impl From<StoreError> for Unanswered {
    fn from(error: StoreError) -> Unanswered {
        Unanswered::Store(error)
    }
}

/// All lanes as they stand.
pub(crate) fn lanes(view: &View, query: Option<&str>) -> Result<Value, Unanswered> {
    Asked::of(query)?.finish()?;
    let lanes: Vec<Value> = view.lanes.iter().map(lane).collect();
    Ok(json!({ "now_unix_ms": view.now_unix_ms, "prompt_tokens": LaneSnapshot::PROMPT_TOKENS, "lanes": lanes }))
}

fn lane(lane: &LaneView) -> Value {
    let breaker = match lane.state {
        LaneState::CoolingDown { left, why } => json!({ "open": true, "left_ms": ms(left), "blame": blame_name(why) }),
        _ => json!({ "open": false }),
    };
    let curve = lane.curve.iter().filter_map(|point| {
        let mut expected = expectation(point.expectation.as_ref()?);
        expected["in_flight"] = point.in_flight.into();
        Some(expected)
    });
    let told = lane.told.as_ref();
    let endings = told.into_iter().flat_map(|told| &told.endings).map(|((role, end, failure), count)| {
        let failure = failure.map(tokrate_core::FailureKind::name);
        json!({ "role": role.name(), "end": end.name(), "failure": failure, "count": count })
    });
    json!({
        "name": lane.name,
        "provider": lane.provider,
        "model": lane.model,
        "state": lane.state.name(),
        "in_flight": lane.in_flight,
        "in_flight_seen_most": told.map(|told| told.in_flight_most),
        "cap": lane.cap,
        "learned_cap": lane.learned_cap,
        "breaker": breaker,
        "failing_share": lane.failing,
        "expected_now": lane.expected.as_ref().map(expectation),
        "curve": curve.collect::<Vec<Value>>(),
        "attempts": endings.collect::<Vec<Value>>(),
        "cost_usd": told.map_or(0.0, |told| told.cost()),
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
pub(crate) fn calls(view: &View, query: Option<&str>) -> Result<Value, Unanswered> {
    let mut asked = Asked::of(query)?;
    let limit = asked.take_count("limit", CALLS, CALLS_MOST)?;
    asked.finish()?;
    let calls: Vec<Value> = view.heard.calls(limit as usize).iter().map(|trail| call(trail)).collect();
    Ok(json!({ "now_unix_ms": view.now_unix_ms, "calls": calls }))
}

fn call(trail: &Trail) -> Value {
    let attempts = trail.attempts.iter().map(|attempt| {
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
        "call": trail.call,
        "alias": trail.alias,
        "stream": trail.stream,
        "started_unix_ms": trail.started_unix_ms(),
        "winner": trail.winner().map(|winner| &*winner.lane),
        "cost_usd": trail.cost_usd(),
        "attempts": attempts.collect::<Vec<Value>>(),
    })
}

/// Groups of the log's rows. Reads the database: to be called where waiting is allowed.
pub(crate) fn summary(log: Option<&Log>, query: Option<&str>, now_unix_ms: u64) -> Result<Value, Unanswered> {
    let (mut query, by) = query::summary(query, now_unix_ms)?;
    query.limit = Some(SUMMARY_ROWS_MOST);
    query.order = tokrate_store::Order::Newest;
    let groups = log.ok_or(Unanswered::NoLog)?.reader()?.summarise(&query, by)?;
    let rows: u64 = groups.iter().map(|group| group.attempts).sum();
    Ok(json!({
        "now_unix_ms": now_unix_ms,
        "since_unix_ms": query.from_unix_ms,
        "until_unix_ms": query.until_unix_ms,
        "by": { "lane": by.lane, "hour": by.hour },
        "cut_off": rows == SUMMARY_ROWS_MOST,
        "groups": groups.iter().map(tokrate_store::Summary::json).collect::<Vec<Value>>(),
    }))
}

/// Rows of the log. Reads the database: to be called where waiting is allowed.
pub(crate) fn attempts(log: Option<&Log>, query: Option<&str>, now_unix_ms: u64) -> Result<Value, Unanswered> {
    let query = query::attempts(query, now_unix_ms)?;
    let attempts = log.ok_or(Unanswered::NoLog)?.reader()?.attempts(&query)?;
    Ok(json!({ "now_unix_ms": now_unix_ms, "attempts": attempts }))
}

fn ms(span: Span) -> f64 {
    span.as_secs_f64() * 1e3
}
