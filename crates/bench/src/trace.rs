//! Recorded request traces: arrival times and lengths, in three published formats.
//!
//! Invariant: times count from the first request and never fall; a line that cannot be parsed is an error with its
//! position, never skipped.
//!
//! Layouts, recognised by their columns:
//! - Mooncake (kvcache-ai/Mooncake, FAST25-release): JSON Lines with `timestamp` in ms, `input_length`, `output_length`, and
//!   `hash_ids` of blocks of 512 tokens, where equal ids mean equal prefixes.
//! - Azure LLM inference (Azure/AzurePublicDataset, 2023 and 2024): CSV `TIMESTAMP,ContextTokens,GeneratedTokens`, the time
//!   as date and time of day.
//! - BurstGPT (HPMLL/BurstGPT): CSV with `Timestamp` in s, `Request tokens`, `Response tokens` (0 for requests that
//!   failed then) among others.

mod csv;

use crate::bad_input::{BadInput, hash, shown};
use serde::Deserialize;
use std::sync::Arc;
use tokrate_core::Span;

/// Tokens of a block of the Mooncake layout.
pub const BLOCK_TOKENS: u32 = 512;
/// Longer prompts and answers than this are mistakes.
pub const MAX_TOKENS: u32 = 10_000_000;

/// The layout of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceFormat {
    /// JSON Lines of Mooncake.
    Mooncake,
    /// CSV of the Azure LLM inference dataset.
    Azure,
    /// CSV of BurstGPT.
    BurstGpt,
    /// Drawn from clients of one's own.
    Clients,
    /// Drawn from the clients of ServeGen.
    ServeGen,
}

/// A trace.
#[derive(Clone, PartialEq, Debug)]
pub struct Trace {
    /// How it was written.
    pub format: TraceFormat,
    /// Its requests, in order of their times.
    pub requests: Vec<TraceRequest>,
    /// Rows that are no request to be sent: those that failed when the trace was taken.
    pub left_out: u64,
    /// A hash of the whole text.
    pub hash: u64,
    /// What its requests were drawn from, where they were not recorded.
    pub drawn: Option<Arc<str>>,
}

/// One request of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceRequest {
    /// Arrival time, relative to the first request.
    pub at: Span,
    /// Prompt tokens.
    pub input_tokens: u32,
    /// Tokens of the answer.
    pub output_tokens: u32,
    /// Ids of its blocks of [`BLOCK_TOKENS`] tokens; equal ids, equal text.
    pub blocks: Box<[u64]>,
}

impl TraceFormat {
    /// A name for records.
    pub const fn name(self) -> &'static str {
        match self {
            TraceFormat::Mooncake => "Mooncake",
            TraceFormat::Azure => "Azure LLM inference",
            TraceFormat::BurstGpt => "BurstGPT",
            TraceFormat::Clients => "clients",
            TraceFormat::ServeGen => "ServeGen",
        }
    }
}

impl Trace {
    /// Reads a trace; of many requests the first `limit`.
    ///
    /// # Errors
    /// The position of the first line that cannot be parsed.
    pub fn parse(text: &str, limit: Option<u64>) -> Result<Trace, BadInput> {
        let content = text.strip_prefix('\u{feff}').unwrap_or(text);
        let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let (format, rows, left_out) = match content.trim_start().chars().next() {
            None => return Err(BadInput::at(1, 1, "a trace, and the file is empty")),
            Some('{') => (TraceFormat::Mooncake, mooncake(content, limit)?, 0),
            Some(_) => csv::read(content, limit)?,
        };
        if rows.is_empty() {
            return Err(BadInput::at(1, 1, "at least one request, and there is none"));
        }
        let mut rows = rows;
        rows.sort_by_key(|row| row.at_ns);
        let first = rows[0].at_ns;
        let requests = rows
            .into_iter()
            .map(|row| TraceRequest {
                at: Span::from_nanos(u64::try_from(row.at_ns - first).unwrap_or(u64::MAX)),
                input_tokens: row.input_tokens,
                output_tokens: row.output_tokens,
                blocks: row.blocks,
            })
            .collect();
        Ok(Trace { format, requests, left_out, hash: hash(text), drawn: None })
    }

    /// When each request is due, with time running `speed` times as fast.
    pub fn due(&self, speed: f64) -> Arc<[Span]> {
        let scaled = |at: Span| match speed {
            1.0 => at,
            speed => Span::from_nanos((at.as_nanos() as f64 / speed).round() as u64),
        };
        self.requests.iter().map(|request| scaled(request.at)).collect()
    }
}

/// A request as read, its time from any origin.
struct Row {
    at_ns: i128,
    input_tokens: u32,
    output_tokens: u32,
    blocks: Box<[u64]>,
}

/// A line of the Mooncake layout.
#[derive(Deserialize)]
struct MooncakeLine {
    timestamp: f64,
    input_length: u64,
    output_length: u64,
    #[serde(default)]
    hash_ids: Box<[u64]>,
}

fn mooncake(content: &str, limit: usize) -> Result<Vec<Row>, BadInput> {
    let mut rows = Vec::new();
    for (number, line) in (1..).zip(content.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        if rows.len() == limit {
            break;
        }
        const EXPECTED: &str = "an object with `timestamp` (ms), `input_length`, `output_length` and `hash_ids`";
        let read: MooncakeLine =
            serde_json::from_str(line).map_err(|error| BadInput::json(number, &error, EXPECTED))?;
        let place = |field: &str| line.find(field).map_or(1, |at| line[..at].chars().count() + 1);
        let tokens = |field: &str, value: u64| {
            u32::try_from(value).ok().filter(|value| (1..=MAX_TOKENS).contains(value)).ok_or_else(|| {
                BadInput::at(number, place(field), format!("{field} between 1 and 10,000,000, and it is {value}"))
            })
        };
        if !(read.timestamp.is_finite() && (0.0..1e15).contains(&read.timestamp)) {
            let column = place("timestamp");
            return Err(BadInput::at(number, column, format!("a time in ms, and it is {}", read.timestamp)));
        }
        let input_tokens = tokens("input_length", read.input_length)?;
        if read.hash_ids.len() as u64 > u64::from(input_tokens.div_ceil(BLOCK_TOKENS)) {
            return Err(BadInput::at(
                number,
                place("hash_ids"),
                format!(
                    "at most one id for each 512 tokens of input_length {input_tokens}, and there are {}",
                    read.hash_ids.len()
                ),
            ));
        }
        rows.push(Row {
            at_ns: (read.timestamp * 1e6).round() as i128,
            input_tokens,
            output_tokens: tokens("output_length", read.output_length)?,
            blocks: read.hash_ids,
        });
    }
    Ok(rows)
}

/// Parses a token count.
fn tokens_of(text: &str, line: usize, column: usize, name: &str) -> Result<u32, BadInput> {
    // Some exports write whole numbers with a decimal point.
    let whole = text.trim().strip_suffix(".0").unwrap_or(text.trim());
    whole.parse().ok().filter(|tokens: &u32| *tokens <= MAX_TOKENS).ok_or_else(|| {
        BadInput::at(line, column, format!("{name}, a whole number up to 10,000,000; there is {}", shown(text)))
    })
}

#[cfg(test)]
mod tests;
