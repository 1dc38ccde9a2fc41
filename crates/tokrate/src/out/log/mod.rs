//! The throughput log as a person reads it.
//!
//! It does not count. Invariant: whatever unlike rows a line sums up is noted below it, and what no percentile can show
//! is noted as well.

mod calls;
mod groups;
mod refusals;
mod session;

pub use calls::call;
pub use groups::groups;
pub use refusals::{refusals, refused_line};
pub use session::{Session, sessions};

use crate::config::log::date;
use std::path::Path;
use tokrate_store::Query;

/// Said where no row fits; `what` names such rows.
pub fn nothing(what: &str, path: &Path, query: &Query) -> String {
    let mut wanted = Vec::new();
    for (name, value) in
        [("lane", &query.lane), ("alias", &query.alias), ("key", &query.key), ("session", &query.session)]
    {
        wanted.extend(value.iter().map(|value| format!("{name} {value}")));
    }
    wanted.extend(query.from_unix_ms.map(|from| format!("since {} UTC", date(from))));
    wanted.extend(query.until_unix_ms.map(|until| format!("before {} UTC", date(until))));
    let wanted = if wanted.is_empty() { "the log is empty".to_owned() } else { wanted.join(", ") };
    format!("no {what} in {} ({wanted}); --since all looks at everything", path.display())
}

/// Which windows are compared with each other.
pub fn windows(query: &Query, split_unix_ms: u64) -> String {
    let from = query.from_unix_ms.map_or_else(|| "the beginning".to_owned(), date);
    let until = query.until_unix_ms.map_or_else(|| "now".to_owned(), date);
    format!("before: {from} to {} UTC; after: until {until}\n", date(split_unix_ms))
}

/// Money, with enough digits for a single call.
pub fn dollars(usd: f64) -> String {
    match usd {
        0.0 => "0".to_owned(),
        usd if usd.abs() < 0.01 => tokrate_core::format::usd(usd, 6),
        usd if usd.abs() < 1.0 => format!("{usd:.4}"),
        usd => format!("{usd:.2}"),
    }
}
