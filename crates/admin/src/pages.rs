//! From an address to a page: reads the parameters, asks gateway and log, and hands both to the page.
//!
//! Invariant: whatever an address says, the response is a page: that which was asked for, or one that says what to write.

use crate::api::ApiError;
use crate::page::{self, CALL_SORTS, Input, KEY_SORTS, LANE_SORTS, PAGE_CALLS, View};
use crate::reports::{MAX_LIST_ROWS, Reports};
use http::StatusCode;
use tokrate_gateway::telemetry::{CallTrace, Observer, Snapshot};
use tokrate_record::Attempt;
use tokrate_store::{CallOrder, ListPage, Order, Query, Store, StoreError};

/// Rows of refused requests that the page of keys looks at.
const MAX_REFUSALS: u64 = 50_000;
/// Attempts of one call that are shown.
const MAX_ATTEMPTS: u64 = 64;
/// Calls that a search shows.
const MAX_FOUND: usize = 50;
/// Rows that a search reads: calls have few attempts each.
const MAX_SEARCHED: u64 = 500;
/// Calls that memory keeps.
const MAX_IN_MEMORY: usize = 512;
/// Longest name of a call that is looked for (bytes).
const MAX_NAME: usize = 256;

/// The overview.
pub(crate) fn overview(observer: &Observer, reports: &Reports, query: Option<&str>) -> Result<String, ApiError> {
    let snapshot = observer.snapshot();
    let view = View::of(query, snapshot.now_unix_ms, &LANE_SORTS)?.with_only(&[])?;
    let report = of_range(observer, reports, &snapshot, &view);
    Ok(page::overview(&Input { snapshot: &snapshot, view: &view, report }))
}

/// What keys spent.
pub(crate) fn keys(observer: &Observer, reports: &Reports, query: Option<&str>) -> Result<String, ApiError> {
    let snapshot = observer.snapshot();
    let view = View::of(query, snapshot.now_unix_ms, &KEY_SORTS)?.with_only(&[])?;
    let report = of_range(observer, reports, &snapshot, &view);
    let refused = match observer.log() {
        Some(log) => {
            let newest = Query { order: Order::Newest, limit: Some(MAX_REFUSALS), ..view.query.clone() };
            log.reader()?.refusals(&newest)?
        }
        None => Vec::new(),
    };
    Ok(page::keys(&Input { snapshot: &snapshot, view: &view, report }, &refused))
}

/// One lane.
pub(crate) fn lane(observer: &Observer, reports: &Reports, query: Option<&str>) -> Result<String, ApiError> {
    let snapshot = observer.snapshot();
    let view = View::of(query, snapshot.now_unix_ms, &[])?.with_only(&["lane"])?;
    let Some(name) = view.query.lane.clone() else {
        return Err(ApiError::BadRequest("write which lane: lane=NAME".to_owned()));
    };
    let report = of_range(observer, reports, &snapshot, &view);
    let is_logged = matches!(&report, Some(Ok(report)) if report.lanes.contains_key(&name));
    if !is_logged && !snapshot.lanes.iter().any(|lane| lane.name == name) {
        return Err(ApiError::NotFound(format!("no lane is called `{name}`; the overview names them all")));
    }
    let loads = match observer.log().filter(|_| is_logged) {
        Some(log) => log.reader()?.by_load(&view.query, snapshot.now_unix_ms, crate::reports::MAX_ROWS)?,
        None => Vec::new(),
    };
    Ok(page::lane(&Input { snapshot: &snapshot, view: &view, report }, &name, &loads))
}

/// The list of calls.
pub(crate) fn calls(observer: &Observer, query: Option<&str>) -> Result<String, ApiError> {
    let snapshot = observer.snapshot();
    let view = View::of(query, snapshot.now_unix_ms, &CALL_SORTS)?.with_only(&["lane", "end", "failure", "after"])?;
    let list = match observer.log() {
        Some(log) => {
            let order = CallOrder::ALL.into_iter().find(|order| Some(order.name()) == view.sort).unwrap_or_default();
            let page = ListPage { order, after: view.after.as_deref(), calls: PAGE_CALLS, rows: MAX_LIST_ROWS };
            Some(log.reader()?.call_list(&view.query, snapshot.now_unix_ms, &page)?)
        }
        None => None,
    };
    Ok(page::call_list(&Input { snapshot: &snapshot, view: &view, report: None }, list.as_ref()))
}

/// One call, or those whose names begin as was written.
pub(crate) fn call(observer: &Observer, query: Option<&str>) -> Result<String, ApiError> {
    let snapshot = observer.snapshot();
    let view = View::of(query, snapshot.now_unix_ms, &[])?.with_only(&["call"])?;
    let Some(text) = view.query.call.as_ref().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()) else {
        return Err(ApiError::BadRequest(
            "write which call: call=NAME, as the header x-tokrate-call says it".to_owned(),
        ));
    };
    if text.len() > MAX_NAME {
        return Err(ApiError::BadRequest("no call has so long a name".to_owned()));
    }
    let store = observer.log().map(tokrate_store::Log::reader).transpose()?;
    // Lanes are sent the name with the attempt's number behind it.
    let without_number = text.rsplit_once('-').map(|(call, _)| call);
    for name in [Some(text.as_str()), without_number].into_iter().flatten() {
        let rows = store.as_ref().map_or_else(|| Ok(Vec::new()), |store| attempts_of(store, name))?;
        let trace = CallTrace::of_rows(&rows).or_else(|| in_memory(&snapshot, name));
        if let Some(trace) = trace {
            return Ok(page::trail(&snapshot, &view, &trace, &rows));
        }
    }
    let (found, is_cut) = match &store {
        Some(store) => beginning_with(store, &text)?,
        None => (Vec::new(), false),
    };
    match found.as_slice() {
        [] => Err(ApiError::NotFound(format!(
            "no call is called `{text}`, and no name begins so; the log may have lost it by its age"
        ))),
        [(only, _)] => {
            let rows = attempts_of(store.as_ref().expect("found there"), only)?;
            let trace = CallTrace::of_rows(&rows);
            trace
                .map(|trace| page::trail(&snapshot, &view, &trace, &rows))
                .ok_or_else(|| ApiError::NotFound("it was just removed".to_owned()))
        }
        several => Ok(page::found(&snapshot, &view, &text, several, is_cut)),
    }
}

/// The settings in force.
pub(crate) fn settings(observer: &Observer, query: Option<&str>) -> Result<String, ApiError> {
    let snapshot = observer.snapshot();
    let view = View::of(query, snapshot.now_unix_ms, &[])?.with_only(&[])?;
    Ok(page::settings(&snapshot, &view))
}

fn attempts_of(store: &impl Store, call: &str) -> Result<Vec<Attempt>, StoreError> {
    let mut rows =
        store.attempts(&Query { call: Some(call.to_owned()), limit: Some(MAX_ATTEMPTS), ..Query::default() })?;
    rows.sort_by_key(|row| row.attempt);
    Ok(rows)
}

/// A call that the log does not have, or not yet.
fn in_memory(snapshot: &Snapshot, call: &str) -> Option<CallTrace> {
    snapshot.stats.calls(MAX_IN_MEMORY).iter().find(|trace| trace.call == call).map(|trace| CallTrace::clone(trace))
}

/// Calls whose names begin so, the newest first, and whether there are more.
fn beginning_with(store: &impl Store, text: &str) -> Result<(Vec<(String, u64)>, bool), StoreError> {
    let query = Query {
        call_prefix: Some(text.to_owned()),
        order: Order::Newest,
        limit: Some(MAX_SEARCHED),
        ..Query::default()
    };
    let rows = store.attempts(&query)?;
    let is_cut = rows.len() as u64 == MAX_SEARCHED;
    let mut found: Vec<(String, u64)> = Vec::new();
    for row in rows {
        if !found.iter().any(|(call, _)| *call == row.call) {
            found.push((row.call, row.sample.started_unix_ms));
        }
    }
    let is_cut = is_cut || found.len() > MAX_FOUND;
    found.truncate(MAX_FOUND);
    Ok((found, is_cut))
}

/// A page in place of one that cannot be shown.
pub(crate) fn error(observer: &Observer, status: StatusCode, message: &str) -> String {
    page::error(&observer.snapshot(), status, message)
}

/// The report of a view, which every page of the same range and filters shares.
fn of_range(
    observer: &Observer,
    reports: &Reports,
    snapshot: &Snapshot,
    view: &View,
) -> Option<Result<std::sync::Arc<tokrate_store::Report>, String>> {
    // A range that ends now moves on; what tells views apart is how it was written.
    let rows = Query { from_unix_ms: None, until_unix_ms: None, ..view.query.clone() };
    let name = format!("{} {:?} {rows:?}", view.since, view.until);
    let report = reports.of(observer, &name, &view.query, snapshot.now_unix_ms)?;
    Some(report.map_err(|error| error.to_string()))
}

#[cfg(test)]
mod tests;
