//! A sample as it stands in a file: one JSON object a line.
//!
//! Invariant: a number that is not finite and above 0 is no number; what a provider wrote is bounded in length.

use serde::Deserialize;
use tokrate_core::parse_rfc3339;

/// Bands of loads, and of lengths of prompts; the first is that of samples without one.
const BANDS: u32 = 8;
/// Longest name that is kept (bytes); what is longer is cut.
const MAX_NAME_BYTES: usize = 256;

/// One request of a workload to an endpoint from a place.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// When it began (ms since 1970).
    pub at: i64,
    /// What was measured where.
    pub source: Source,
    /// Time to the first token (ms).
    pub ttft_ms: Option<f64>,
    /// Output speed (tokens per second).
    pub output_speed: Option<f64>,
    /// Time to the end (ms).
    pub e2e_ms: Option<f64>,
    /// Whether it was answered.
    pub ok: bool,
    /// Requests that were open at the endpoint when it began, with itself; `None` where it is always the same.
    pub in_flight: Option<u32>,
    /// Tokens of the prompt; `None` where it is always of the same length.
    pub input_tokens: Option<u32>,
}

/// Where samples of one series come from.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Source {
    /// Target and model.
    pub endpoint: String,
    /// What was asked.
    pub workload: String,
    /// Where it was asked from.
    pub place: String,
}

impl Source {
    /// Who runs the endpoint: its name up to the first `/`.
    pub fn provider(&self) -> &str {
        self.endpoint.split('/').next().unwrap_or_default()
    }
}

/// The line, as far as it is used; other keys may stand beside.
#[derive(Deserialize)]
struct Line {
    at: String,
    endpoint: String,
    #[serde(default)]
    workload: String,
    #[serde(default)]
    place: String,
    #[serde(default)]
    ttft_ms: Option<f64>,
    #[serde(default)]
    output_speed: Option<f64>,
    #[serde(default)]
    e2e_ms: Option<f64>,
    #[serde(default)]
    ok: Option<bool>,
    #[serde(default)]
    error: Option<serde_json::Value>,
    #[serde(default)]
    in_flight: Option<u32>,
    #[serde(default)]
    input_tokens: Option<u32>,
}

impl Sample {
    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong with it: no JSON object, a key that is missing or of another type, a time that cannot be read.
    pub fn parse(line: &str) -> Result<Sample, String> {
        if !line.trim_start().starts_with('{') {
            return Err("a sample is a JSON object".to_owned());
        }
        let read: Line = serde_json::from_str(line).map_err(|error| {
            let text = error.to_string();
            text.split_once(" at line ").map_or(text.clone(), |(what, _)| what.to_owned())
        })?;
        let at = parse_rfc3339(&read.at).ok_or_else(|| {
            format!("`at` is {:?}; a time is written as 2026-11-24T10:00:00Z", bounded(read.at.clone()))
        })?;
        if read.endpoint.is_empty() {
            return Err("`endpoint` is empty".to_owned());
        }
        let number = |value: Option<f64>| value.filter(|value| value.is_finite() && *value > 0.0);
        let failed = read.error.is_some_and(|error| !error.is_null() && error != "");
        Ok(Sample {
            at,
            source: Source {
                endpoint: bounded(read.endpoint),
                workload: bounded(read.workload),
                place: bounded(read.place),
            },
            ttft_ms: number(read.ttft_ms),
            output_speed: number(read.output_speed),
            e2e_ms: number(read.e2e_ms),
            ok: read.ok.unwrap_or(!failed),
            in_flight: read.in_flight,
            input_tokens: read.input_tokens,
        })
    }

    /// Only samples of one band are compared: their load is within a factor of two, their prompts within one of four.
    pub fn band(&self) -> u8 {
        let octave = |number: Option<u32>| number.map_or(0, |number| number.max(1).ilog2() + 1);
        // 64 open requests and more are one, prompts of fewer than 256 tokens, and of 256 Ki and more.
        let load = octave(self.in_flight).min(BANDS - 1);
        let prompt = self.input_tokens.map_or(0, |tokens| octave(Some(tokens / 64)).div_ceil(2).clamp(1, BANDS - 1));
        (load * BANDS + prompt) as u8
    }
}

fn bounded(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_NAME_BYTES));
    text
}
