//! The truth log: what was received and written, with ticks of the machine's monotonic clock.
//!
//! Invariant: writes of a request are in order, and each byte of its body is in exactly one of them.

pub(crate) mod log;

use serde::{Deserialize, Serialize, Serializer};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use tokrate_core::{Span, Tick};
use tokrate_wire::Dialect;

/// Where the truth log goes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum TruthLog {
    /// Off; only the lateness of writes is kept.
    #[default]
    Off,
    /// Into memory, to be read with [`RunningHost::truth`](crate::RunningHost::truth). Holds four million writes; later
    /// ones are counted and dropped.
    Memory,
    /// Into a file, one [`TruthRow`] as JSON per line. If the disk is too slow, rows are counted and dropped.
    File(PathBuf),
}

/// The log at one moment.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// Requests in the order in which they ended, then those still open.
    pub requests: Vec<Arc<RequestTruth>>,
    /// Writes that were not kept because the log was full.
    pub writes_dropped: u64,
    by_id: HashMap<String, usize>,
}

impl Truth {
    /// A log of these requests.
    pub fn new(requests: Vec<Arc<RequestTruth>>, writes_dropped: u64) -> Truth {
        let named = requests.iter().enumerate();
        let by_id = named.filter_map(|(index, request)| Some((request.id.clone()?, index))).collect();
        Truth { requests, writes_dropped, by_id }
    }

    /// The latest request that came with this `x-request-id`.
    pub fn request(&self, id: &str) -> Option<&RequestTruth> {
        self.by_id.get(id).map(|&index| &*self.requests[index])
    }
}

/// One request and what was written to answer it.
#[derive(Clone, PartialEq, Debug)]
pub struct RequestTruth {
    /// Number of the request, from 0, over all providers.
    pub request: u64,
    /// Name of the provider's persona.
    pub persona: Arc<str>,
    /// Its dialect.
    pub dialect: Dialect,
    /// Its `x-request-id`.
    pub id: Option<String>,
    /// When the read of its last byte returned.
    pub received_at: Tick,
    /// When it was handed to the engine, its prompt counted. The law's times run from here.
    pub submitted_at: Tick,
    /// Prompt tokens (o200k_base over the contents of all messages).
    pub input_tokens: u32,
    /// Limit of output tokens, if it named one.
    pub output_limit: Option<u32>,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// Pictures in its prompt.
    pub pictures: u32,
    /// Their pixels, as far as their sizes are known.
    pub pixels: u64,
    /// Length of the sound in its prompt.
    pub sound: Span,
    /// What was written, in order.
    pub writes: Vec<WriteTruth>,
    /// How it ended; `None` while it is open.
    pub end: Option<AnswerEnd>,
}

/// One frame of an answer's body, handed to the socket in one piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteTruth {
    /// Number within the answer, from 0.
    pub sequence: u32,
    /// When the earliest of its emissions was due.
    pub due_at: Tick,
    /// When the call began that handed the last of its bytes to the socket.
    pub written_at: Tick,
    /// Output tokens in it.
    pub tokens: u32,
    /// Emissions in it.
    pub events: u32,
    /// Their kinds; what a dialect merges into a later event counts where it is written.
    pub kinds: Kinds,
    /// Bytes of the body, without the framing of HTTP.
    pub bytes: u32,
}

/// The kinds of emission in one write. Reads and writes as names joined by `+`, such as `text+finish+done`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kinds(u16);

impl Kinds {
    /// The opening chunk.
    pub const ROLE: Kinds = Kinds(1);
    /// Text of the reasoning.
    pub const REASONING: Kinds = Kinds(2);
    /// Text of the answer.
    pub const TEXT: Kinds = Kinds(4);
    /// A broken event.
    pub const MALFORMED: Kinds = Kinds(8);
    /// The finish reason.
    pub const FINISH: Kinds = Kinds(16);
    /// Token counts.
    pub const USAGE: Kinds = Kinds(32);
    /// The end mark.
    pub const DONE: Kinds = Kinds(64);
    /// An error.
    pub const FAILED: Kinds = Kinds(128);
    /// The times that the engine took.
    pub const TIMINGS: Kinds = Kinds(256);

    const NAMES: [&'static str; 9] =
        ["role", "reasoning", "text", "malformed", "finish", "usage", "done", "failed", "timings"];

    /// Those of both.
    #[must_use]
    pub const fn with(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    /// Whether all kinds of `other` are among these.
    pub const fn contains(self, other: Kinds) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::fmt::Display for Kinds {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut separator = "";
        for (_, name) in Kinds::NAMES.iter().enumerate().filter(|(bit, _)| self.0 & (1 << bit) != 0) {
            write!(formatter, "{separator}{name}")?;
            separator = "+";
        }
        Ok(())
    }
}

impl Serialize for Kinds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Kinds {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Kinds, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.split('+').filter(|name| !name.is_empty()).try_fold(Kinds::default(), |kinds, name| {
            match Kinds::NAMES.iter().position(|known| *known == name) {
                Some(bit) => Ok(kinds.with(Kinds(1 << bit))),
                None => Err(serde::de::Error::custom(format!("`{name}` is not a kind of emission"))),
            }
        })
    }
}

/// How an answer ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerEnd {
    /// Written to its end.
    Complete,
    /// The connection was broken by a fault.
    Disconnected,
    /// The client left before the end, or the host was stopped.
    Cancelled,
    /// Refused by the engine with an error status.
    Refused,
}

/// One line of the log's file. Times are nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "row", rename_all = "snake_case")]
pub enum TruthRow {
    /// A request was handed to the engine.
    Request {
        /// Number of the request, from 0, over all providers.
        request: u64,
        /// Name of the provider's persona.
        persona: String,
        /// Name of its dialect.
        dialect: String,
        /// Its `x-request-id`.
        id: Option<String>,
        /// When the read of its last byte returned.
        received_ns: u64,
        /// When it was handed to the engine.
        submitted_ns: u64,
        /// Prompt tokens.
        input_tokens: u32,
        /// Limit of output tokens, if it named one.
        output_limit: Option<u32>,
        /// Whether a stream was asked for.
        stream: bool,
        /// Pictures in its prompt.
        #[serde(default)]
        pictures: u32,
        /// Their pixels, as far as their sizes are known.
        #[serde(default)]
        pixels: u64,
        /// Length of the sound in its prompt.
        #[serde(default)]
        sound_ns: u64,
    },
    /// A frame was handed to the socket.
    Write {
        /// Number of the request.
        request: u64,
        /// Number of the write within the answer, from 0.
        sequence: u32,
        /// When it was due.
        due_ns: u64,
        /// When the call began that handed the last of its bytes to the socket.
        written_ns: u64,
        /// Output tokens in it.
        tokens: u32,
        /// Events in it.
        events: u32,
        /// What is in it.
        kinds: Kinds,
        /// Bytes of the body.
        bytes: u32,
    },
    /// An answer ended.
    End {
        /// Number of the request.
        request: u64,
        /// How.
        end: AnswerEnd,
    },
    /// The last line of a log with dropped rows.
    Dropped {
        /// How many.
        rows: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_as_they_are_written() {
        for bits in 0..512 {
            let kinds = Kinds(bits);
            let json = serde_json::to_string(&kinds).expect("a string");
            assert_eq!(serde_json::from_str::<Kinds>(&json).expect("the same string"), kinds);
        }
        assert_eq!(Kinds::TEXT.with(Kinds::DONE).to_string(), "text+done");
        assert!(serde_json::from_str::<Kinds>("\"text+fire\"").is_err());
    }

    #[test]
    fn a_row_is_one_flat_object() {
        let row = TruthRow::Write {
            request: 1,
            sequence: 2,
            due_ns: 3,
            written_ns: 4,
            tokens: 5,
            events: 6,
            kinds: Kinds::REASONING.with(Kinds::TEXT),
            bytes: 7,
        };
        let json = serde_json::to_string(&row).expect("JSON");
        let expected = r#"{"row":"write","request":1,"sequence":2,"due_ns":3,"written_ns":4,"tokens":5,"events":6,"kinds":"reasoning+text","bytes":7}"#;
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_str::<TruthRow>(&json).expect("a row"), row);
    }
}
