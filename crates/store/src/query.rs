//! Which rows are selected. Invariant: no text of a query becomes SQL; it is bound.

use crate::row::to_i64;
use rusqlite::types::Value;
use std::num::NonZeroU64;
use tokrate_core::FailureKind;
use tokrate_record::AttemptEnd;

/// A minute (ms): the first request of a refusal came within that of its beginning.
const MINUTE_MS: u64 = 60_000;

/// A filter on rows; absent fields match everything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Query {
    /// Begun at this wall time or later (ms since 1970).
    pub from_unix_ms: Option<u64>,
    /// Begun before this wall time (ms since 1970).
    pub until_unix_ms: Option<u64>,
    /// Of this lane.
    pub lane: Option<String>,
    /// Asked for under this name.
    pub alias: Option<String>,
    /// With this virtual key.
    pub key: Option<String>,
    /// At this provider.
    pub provider: Option<String>,
    /// Of this call.
    pub call: Option<String>,
    /// Of calls whose names begin so. What is sorted is then sorted by name: names rise with time, and of a short beginning no more
    /// is read than is wanted.
    pub call_prefix: Option<String>,
    /// Of this session.
    pub session: Option<String>,
    /// Ended so.
    pub end: Option<AttemptEnd>,
    /// Failed so.
    pub failure: Option<FailureKind>,
    /// In this order.
    pub order: Order,
    /// At most so many.
    pub limit: Option<u64>,
    /// Only each n-th row, by the order of writing: a share of what there is, spread evenly over it.
    pub each_nth: Option<NonZeroU64>,
}

/// By the time of beginning; of equal times, by the time of writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// The oldest first.
    #[default]
    Oldest,
    /// The newest first.
    Newest,
}

impl Query {
    /// The SQL after `FROM attempts`, and the values to bind. Sorted only if `ordered` or limited: going through the index on time
    /// costs a look-up per row.
    pub(crate) fn tail(&self, ordered: bool) -> (String, Vec<Value>) {
        let (mut sql, mut values) = self.filter();
        if ordered || self.limit.is_some() {
            sql.push_str(match (self.order, self.call_prefix.is_some()) {
                (Order::Oldest, false) => " ORDER BY started_unix_ms, id",
                (Order::Newest, false) => " ORDER BY started_unix_ms DESC, id DESC",
                (Order::Oldest, true) => " ORDER BY call, id",
                (Order::Newest, true) => " ORDER BY call DESC, id DESC",
            });
        }
        self.push_limit(&mut sql, &mut values);
        (sql, values)
    }

    /// The clause of the conditions, without order and limit.
    pub(crate) fn filter(&self) -> (String, Vec<Value>) {
        let name = |name: &'static str| Value::Text(name.to_owned());
        let conditions = [
            ("call = ?", text(&self.call)),
            ("call >= ?", text(&self.call_prefix)),
            // Texts are compared by their bytes; no text is greater than this but one that holds no character.
            ("call < ?", self.call_prefix.as_ref().map(|prefix| Value::Text(format!("{prefix}{}", char::MAX)))),
            ("session = ?", text(&self.session)),
            ("lane = ?", text(&self.lane)),
            ("started_unix_ms >= ?", time(self.from_unix_ms)),
            ("started_unix_ms < ?", time(self.until_unix_ms)),
            ("alias = ?", text(&self.alias)),
            ("key = ?", text(&self.key)),
            ("provider = ?", text(&self.provider)),
            ("end = ?", self.end.map(|end| name(end.name()))),
            ("failure = ?", self.failure.map(|kind| name(kind.name()))),
            ("id % ? = 0", self.each_nth.map(|n| Value::Integer(to_i64(n.get())))),
        ];
        filtered(conditions)
    }

    /// Whether it asks for what only attempts have.
    pub(crate) fn is_of_attempts(&self) -> bool {
        let named = self.lane.is_some() || self.provider.is_some() || self.call.is_some() || self.call_prefix.is_some();
        named || self.end.is_some() || self.failure.is_some()
    }

    /// The same after `FROM refusals`, in the order of time.
    pub(crate) fn refusals_tail(&self) -> (String, Vec<Value>) {
        let (mut sql, mut values) = self.refusals_filter();
        sql.push_str(match self.order {
            Order::Oldest => " ORDER BY minute_unix_ms, reason, status, coalesce(key, ''), coalesce(alias, '')",
            Order::Newest => " ORDER BY minute_unix_ms DESC, reason, status, coalesce(key, ''), coalesce(alias, '')",
        });
        self.push_limit(&mut sql, &mut values);
        (sql, values)
    }

    fn push_limit(&self, sql: &mut String, values: &mut Vec<Value>) {
        if let Some(limit) = self.limit {
            sql.push_str(" LIMIT ?");
            values.push(Value::Integer(to_i64(limit)));
        }
    }

    /// The same in any order.
    pub(crate) fn refusals_filter(&self) -> (String, Vec<Value>) {
        let minute = self.from_unix_ms.map(|from| from.saturating_sub(MINUTE_MS));
        filtered([
            // A bound that the index knows.
            ("minute_unix_ms >= ?", time(minute)),
            ("minute_unix_ms < ?", time(self.until_unix_ms)),
            ("first_unix_ms >= ?", time(self.from_unix_ms)),
            ("first_unix_ms < ?", time(self.until_unix_ms)),
            ("alias = ?", text(&self.alias)),
            ("key = ?", text(&self.key)),
        ])
    }
}

/// The clause of the conditions that have a value, and the values.
pub(crate) fn filtered<const N: usize>(conditions: [(&str, Option<Value>); N]) -> (String, Vec<Value>) {
    let (mut sql, mut values) = (String::new(), Vec::new());
    for (condition, value) in conditions {
        let Some(value) = value else { continue };
        sql.push_str(if values.is_empty() { " WHERE " } else { " AND " });
        sql.push_str(condition);
        values.push(value);
    }
    (sql, values)
}

fn text(text: &Option<String>) -> Option<Value> {
    text.clone().map(Value::Text)
}

fn time(time: Option<u64>) -> Option<Value> {
    time.map(|time| Value::Integer(to_i64(time)))
}
