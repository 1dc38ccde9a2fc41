//! Lists of calls in an order, page by page.
//!
//! Invariant: a page looks at a bounded number of rows, the newest of the range, and says where they begin; a call is whole, with
//! attempts that do not fit the query too; what it is sorted by is of the attempts that fit.

use crate::report::bounded;
use crate::row::Reader;
use crate::{BoundedRange, Order, Query, Store, StoreError};
use std::collections::BTreeMap;
use tokrate_record::Attempt;

/// Attempts of one call that are read at most.
const MAX_ATTEMPTS: u64 = 64;

/// What calls are sorted by, the most first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CallOrder {
    /// When they began.
    #[default]
    Newest,
    /// From the beginning of the first attempt to the end of the last.
    Longest,
    /// Time to first token, of the answer that the client got.
    Ttft,
    /// What they cost.
    Cost,
    /// How many attempts they took.
    Attempts,
}

/// A page of a list.
#[derive(Clone, PartialEq, Debug)]
pub struct CallList {
    /// What was looked at.
    pub range: BoundedRange,
    /// Calls that fit, in all that was looked at.
    pub found: u64,
    /// The calls of this page, each with its attempts in their order.
    pub calls: Vec<Vec<Attempt>>,
    /// The call after which the next page begins.
    pub next: Option<String>,
}

/// What a list knows of a call.
#[derive(Clone, Copy, Default)]
struct Entry {
    started_unix_ms: u64,
    ended_ns: u64,
    ttft_ns: u64,
    cost_usd: f64,
    attempts: u64,
}

const COLUMNS: [&str; 7] = ["call", "started_unix_ms", "total_ns", "wait_ns", "ttft_ns", "won", "cost_usd"];

impl CallOrder {
    /// All orders.
    pub const ALL: [CallOrder; 5] =
        [CallOrder::Newest, CallOrder::Longest, CallOrder::Ttft, CallOrder::Cost, CallOrder::Attempts];

    /// The name in addresses.
    pub const fn name(self) -> &'static str {
        match self {
            CallOrder::Newest => "newest",
            CallOrder::Longest => "longest",
            CallOrder::Ttft => "ttft",
            CallOrder::Cost => "cost",
            CallOrder::Attempts => "attempts",
        }
    }

    fn rank(self, entry: &Entry) -> f64 {
        match self {
            CallOrder::Newest => 0.0,
            CallOrder::Longest => entry.ended_ns as f64 - entry.started_unix_ms as f64 * 1e6,
            CallOrder::Ttft => entry.ttft_ns as f64,
            CallOrder::Cost => entry.cost_usd,
            CallOrder::Attempts => entry.attempts as f64,
        }
    }
}

/// Which page of a list.
#[derive(Clone, Debug)]
pub struct ListPage<'q> {
    /// What calls are sorted by.
    pub order: CallOrder,
    /// The last call of the page before.
    pub after: Option<&'q str>,
    /// Calls of a page at most.
    pub calls: usize,
    /// Rows that are looked at at most.
    pub rows: u64,
}

/// As [`Store::call_list`].
pub(crate) fn call_list<S: Store + ?Sized>(
    store: &S,
    query: &Query,
    now_unix_ms: u64,
    page: &ListPage<'_>,
) -> Result<CallList, StoreError> {
    let mut query = query.clone();
    let after = page.after.map(|call| last_of(store, &query, call)).transpose()?.flatten();
    if let (CallOrder::Newest, Some((_, last))) = (page.order, &after) {
        // Older ones only, so that pages go on to the end of the range however long it is.
        let until = last.started_unix_ms.saturating_add(1);
        query.until_unix_ms = Some(query.until_unix_ms.map_or(until, |asked| asked.min(until)));
    }
    let range = bounded(store, &query, now_unix_ms, page.rows)?;
    let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
    store.visit(&COLUMNS, &range.of(&query), false, &mut |mut row| {
        let call = row.str()?;
        crate::summary::entry(&mut entries, call).add(row)
    })?;
    let mut entries: Vec<(String, Entry)> = entries.into_iter().collect();
    let found = entries.len() as u64;
    // The most first; of equal ones the newest, and the later name: the same order on every page.
    entries.sort_by(|(one_call, one), (call, other)| {
        let ranks = page.order.rank(other).total_cmp(&page.order.rank(one));
        ranks.then(other.started_unix_ms.cmp(&one.started_unix_ms)).then_with(|| call.cmp(one_call))
    });
    let skipped = match &after {
        Some((name, _)) => entries.iter().position(|(call, _)| call == name).map_or(0, |place| place + 1),
        None => 0,
    };
    let shown: Vec<String> = entries.iter().skip(skipped).take(page.calls).map(|(call, _)| call.clone()).collect();
    let next = shown.last().filter(|_| skipped + shown.len() < entries.len() || range.is_cut).cloned();
    let next = next.filter(|_| page.order == CallOrder::Newest || skipped + shown.len() < entries.len());
    let calls = shown.into_iter().map(|call| attempts(store, call)).collect::<Result<Vec<_>, StoreError>>()?;
    Ok(CallList { range, found, calls, next })
}

/// The attempts of a call in their order.
fn attempts<S: Store + ?Sized>(store: &S, call: String) -> Result<Vec<Attempt>, StoreError> {
    let mut attempts = store.attempts(&Query { call: Some(call), limit: Some(MAX_ATTEMPTS), ..Query::default() })?;
    attempts.sort_by_key(|row| row.attempt);
    Ok(attempts)
}

/// The entry of a call by its rows that fit; `None` if none does.
fn last_of<S: Store + ?Sized>(store: &S, query: &Query, call: &str) -> Result<Option<(String, Entry)>, StoreError> {
    let of_call =
        Query { call: Some(call.to_owned()), order: Order::Oldest, limit: Some(MAX_ATTEMPTS), ..query.clone() };
    let mut entry = Entry::default();
    store.visit(&COLUMNS, &of_call, false, &mut |mut row| {
        row.str()?;
        entry.add(row)
    })?;
    Ok((entry.attempts > 0).then(|| (call.to_owned(), entry)))
}

impl Entry {
    fn add(&mut self, mut row: Reader<'_>) -> Result<(), StoreError> {
        let started: u64 = row.count()?;
        let total: u64 = row.count()?;
        let wait: u64 = row.opt_count()?.unwrap_or(0);
        let ttft: Option<u64> = row.opt_count()?;
        let won = row.boolean()?;
        self.started_unix_ms = if self.attempts == 0 { started } else { self.started_unix_ms.min(started) };
        self.ended_ns = self.ended_ns.max(started.saturating_mul(1_000_000).saturating_add(total));
        if let Some(ttft) = ttft.filter(|_| won) {
            self.ttft_ns = ttft.saturating_add(wait);
        }
        self.cost_usd += row.opt_real()?.unwrap_or(0.0);
        self.attempts += 1;
        Ok(())
    }
}
