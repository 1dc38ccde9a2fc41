//! A batch as it is sent, and everything for which one is refused.
//!
//! Invariant: nothing of a batch is believed before its signature was checked, and no part of a refused batch is kept.

use super::entry::Entry;
use super::key::PublicKey;
use serde::Deserialize;
use std::fmt::{self, Write};
use tokrate_core::{one_line, rfc3339};
use tokrate_store::{MonitorWrite, SpoolEntry};

/// Largest body (bytes).
pub const MAX_BATCH_BYTES: usize = 4 << 20;
/// Most entries of a batch.
const MAX_ENTRIES: usize = 10_000;
/// A clock may be ahead by so much (ms).
const MAX_AHEAD_MS: u64 = 5 * 60_000;
/// A batch is signed anew each time that it is sent; one that is older was kept by somebody else (ms).
const MAX_AGE_MS: u64 = 24 * 3_600_000;
/// The form of a batch.
const VERSION: u32 = 1;
/// Longest name of a prober, a place or a spool (bytes).
const MAX_NAME_BYTES: usize = 120;

/// A batch that was checked.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    pub(crate) prober: String,
    pub(crate) place: String,
    pub(crate) spool: String,
    /// Its clock less the hub's (ms).
    pub(crate) skew_ms: i64,
    pub(crate) writes: Vec<(u64, MonitorWrite)>,
}

/// Why a batch is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It is of a prober that the hub does not know.
    Unknown,
    /// Its signature is none of that prober's.
    Forged,
    /// It is larger than a batch may be.
    Oversized,
    /// It came too slowly, or broke off.
    Broken,
    /// It is not in the form of a batch; what is wrong.
    Malformed(String),
    /// It, or something in it, is of the future.
    FutureDated(String),
    /// It was signed long ago.
    Stale(String),
    /// It is kept already; the number of the first entry that is not.
    Replayed(u64),
    /// The prober sends too much.
    Flood,
    /// The hub cannot take it now.
    Busy(String),
}

impl Refusal {
    /// The HTTP status.
    pub fn status(&self) -> u16 {
        match self {
            Refusal::Unknown | Refusal::Forged => 401,
            Refusal::Oversized => 413,
            Refusal::Broken | Refusal::Malformed(_) | Refusal::FutureDated(_) | Refusal::Stale(_) => 400,
            Refusal::Replayed(_) => 409,
            Refusal::Flood => 429,
            Refusal::Busy(_) => 503,
        }
    }

    /// Its name in answers.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::Unknown => "unknown_prober",
            Refusal::Forged => "forged",
            Refusal::Oversized => "oversized",
            Refusal::Broken => "broken",
            Refusal::Malformed(_) => "malformed",
            Refusal::FutureDated(_) => "future_dated",
            Refusal::Stale(_) => "stale",
            Refusal::Replayed(_) => "replayed",
            Refusal::Flood => "flood",
            Refusal::Busy(_) => "busy",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Unknown => out.write_str("no such prober; add its name and key to [monitor.hub.probers]"),
            Refusal::Forged => out.write_str("the signature is none of that prober's key"),
            Refusal::Oversized => write!(out, "the batch is larger than {} MiB", MAX_BATCH_BYTES >> 20),
            Refusal::Broken => out.write_str("the batch broke off or came too slowly"),
            Refusal::Malformed(what) => write!(out, "not a batch: {what}"),
            Refusal::FutureDated(what) => write!(out, "{what} lies in the future; check the prober's clock"),
            Refusal::Stale(made) => write!(out, "the batch was signed at {made}, too long ago"),
            Refusal::Replayed(next) => write!(out, "all of the batch is here already; the next entry is {next}"),
            Refusal::Flood => out.write_str("the prober sends too much; wait a minute"),
            Refusal::Busy(why) => write!(out, "the hub cannot take it now: {why}"),
        }
    }
}

/// The JSON of a batch.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchText {
    version: u32,
    prober: String,
    place: String,
    spool: String,
    made_unix_ms: u64,
    entries: Vec<(u64, Entry)>,
}

/// The body of a batch of these entries, which are JSON already.
pub(crate) fn write_batch(prober: &str, place: &str, spool: &str, made_unix_ms: u64, entries: &[SpoolEntry]) -> String {
    let [prober, place, spool] = [prober, place, spool].map(|text| serde_json::Value::from(text).to_string());
    let mut body = format!(
        "{{\"version\":{VERSION},\"prober\":{prober},\"place\":{place},\"spool\":{spool},\"made_unix_ms\":{made_unix_ms},\
         \"entries\":["
    );
    for (number, SpoolEntry { id, entry }) in entries.iter().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(body, "{comma}[{id},{entry}]");
    }
    body.push_str("]}");
    body
}

impl Batch {
    /// Reads a body that the prober of this name and key is said to have signed.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn read(
        body: &[u8],
        signature: &str,
        prober: &str,
        key: &PublicKey,
        now_unix_ms: u64,
    ) -> Result<Batch, Refusal> {
        if body.len() > MAX_BATCH_BYTES {
            return Err(Refusal::Oversized);
        }
        if !key.has_signed(body, signature) {
            return Err(Refusal::Forged);
        }
        let malformed = |what: &str| Refusal::Malformed(what.to_owned());
        let text: BatchText = serde_json::from_slice(body)
            .map_err(|error| Refusal::Malformed(one_line(&error.to_string(), 2 * MAX_NAME_BYTES)))?;
        let is_name = |name: &str| !name.is_empty() && one_line(name, MAX_NAME_BYTES) == name;
        if text.version != VERSION {
            return Err(Refusal::Malformed(format!("its version is {}, and {VERSION} is known", text.version)));
        }
        if text.prober != prober {
            return Err(malformed("it names another prober than its header"));
        }
        if !is_name(&text.place) || !is_name(&text.spool) {
            return Err(malformed("its place or spool is no short name"));
        }
        if text.entries.is_empty() || text.entries.len() > MAX_ENTRIES {
            return Err(Refusal::Malformed(format!("a batch has 1 to {MAX_ENTRIES} entries")));
        }
        if !text.entries.is_sorted_by(|one, other| one.0 < other.0) || text.entries[0].0 == 0 {
            return Err(malformed("the numbers of its entries do not ascend from 1 or more"));
        }
        check_times(&text, now_unix_ms)?;
        if let Some((id, _)) = text.entries.iter().find(|(_, entry)| !entry.is_of(prober)) {
            return Err(Refusal::Malformed(format!("entry {id} names another prober's probe or cycle")));
        }
        let place = text.place;
        let writes = text.entries.into_iter().map(|(id, entry)| (id, entry.into_write(prober, &place))).collect();
        let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        let skew_ms = signed(text.made_unix_ms).saturating_sub(signed(now_unix_ms));
        Ok(Batch { prober: prober.to_owned(), place, spool: text.spool, skew_ms, writes })
    }

    /// What is to be written, by the number of its entry, ascending.
    pub fn writes(&self) -> &[(u64, MonitorWrite)] {
        &self.writes
    }

    /// The number of its last entry.
    pub(crate) fn last(&self) -> u64 {
        self.writes.last().map_or(0, |(id, _)| *id)
    }
}

fn check_times(text: &BatchText, now_unix_ms: u64) -> Result<(), Refusal> {
    let latest = now_unix_ms.saturating_add(MAX_AHEAD_MS);
    let shown = |ms: u64| rfc3339(ms / 1_000);
    if text.made_unix_ms > latest {
        let here = shown(now_unix_ms);
        return Err(Refusal::FutureDated(format!("the batch ({}; here it is {here})", shown(text.made_unix_ms))));
    }
    if text.made_unix_ms.saturating_add(MAX_AGE_MS) < now_unix_ms {
        return Err(Refusal::Stale(shown(text.made_unix_ms)));
    }
    match text.entries.iter().find(|(_, entry)| entry.latest_unix_ms() > latest) {
        None => Ok(()),
        Some((id, entry)) => Err(Refusal::FutureDated(format!("entry {id} ({})", shown(entry.latest_unix_ms())))),
    }
}
