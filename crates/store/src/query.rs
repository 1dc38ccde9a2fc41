//! Which rows are selected. Invariant: no text of a query becomes SQL; it is bound.

use crate::row::to_i64;
use rusqlite::types::Value;
use tokrate_core::FailureKind;
use tokrate_record::AttemptEnd;

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
    /// Ended so.
    pub end: Option<AttemptEnd>,
    /// Failed so.
    pub failure: Option<FailureKind>,
    /// In this order.
    pub order: Order,
    /// At most so many.
    pub limit: Option<u64>,
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
        let text = |text: &Option<String>| text.clone().map(Value::Text);
        let name = |name: &'static str| Value::Text(name.to_owned());
        let time = |time: Option<u64>| time.map(|time| Value::Integer(to_i64(time)));
        let conditions = [
            ("call = ?", text(&self.call)),
            ("lane = ?", text(&self.lane)),
            ("started_unix_ms >= ?", time(self.from_unix_ms)),
            ("started_unix_ms < ?", time(self.until_unix_ms)),
            ("alias = ?", text(&self.alias)),
            ("key = ?", text(&self.key)),
            ("provider = ?", text(&self.provider)),
            ("end = ?", self.end.map(|end| name(end.name()))),
            ("failure = ?", self.failure.map(|kind| name(kind.name()))),
        ];
        let mut sql = String::new();
        let mut values = Vec::new();
        for (condition, value) in conditions {
            let Some(value) = value else { continue };
            sql.push_str(if values.is_empty() { " WHERE " } else { " AND " });
            sql.push_str(condition);
            values.push(value);
        }
        if ordered || self.limit.is_some() {
            sql.push_str(match self.order {
                Order::Oldest => " ORDER BY started_unix_ms, id",
                Order::Newest => " ORDER BY started_unix_ms DESC, id DESC",
            });
        }
        if let Some(limit) = self.limit {
            sql.push_str(" LIMIT ?");
            values.push(Value::Integer(to_i64(limit)));
        }
        (sql, values)
    }
}
