//! Clients as JSON Lines: an object a client.

use super::{Client, Gaps, LengthPair, Sending};
use crate::bad_input::BadInput;
use crate::prompts::Lengths;
use serde::Deserialize;
use tokrate_core::Span;

/// The most that the standard deviation of gaps is of their mean: more is a slip.
const MAX_CV: f64 = 1_000.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// For whoever reads the file.
    #[serde(default)]
    #[allow(dead_code, reason = "it is allowed in the file, and means nothing")]
    client: Option<serde_json::Value>,
    /// Requests per second.
    rate: f64,
    /// Standard deviation of the gaps as a share of their mean.
    #[serde(default = "one")]
    cv: f64,
    #[serde(default)]
    gaps: Law,
    input_tokens: Written,
    output_tokens: Written,
}

#[derive(Deserialize, Clone, Copy, Default)]
#[serde(rename_all = "snake_case")]
enum Law {
    #[default]
    Gamma,
    Weibull,
}

/// A number of tokens, or a distribution as `--input-tokens` takes it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Tokens(u32),
    Law(String),
}

const fn one() -> f64 {
    1.0
}

pub(super) fn read(text: &str) -> Result<Vec<Client>, BadInput> {
    const EXPECTED: &str =
        "a client with `rate`, `input_tokens` and `output_tokens`, and perhaps `cv`, `gaps` and `client`";
    let mut clients = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let read: Line = serde_json::from_str(line).map_err(|error| BadInput::json(number, &error, EXPECTED))?;
        let at = |expected: String| BadInput::at(number, 1, expected);
        if !(0.0..=1e6).contains(&read.rate) {
            return Err(at(format!("a rate from 0 to 1,000,000 requests per second, and it is {}", read.rate)));
        }
        if !(0.01..=MAX_CV).contains(&read.cv) {
            return Err(at(format!("a cv from 0.01 to 1,000 (1 is Poisson), and it is {}", read.cv)));
        }
        let gaps = match read.gaps {
            Law::Gamma => Gaps::Gamma(1.0 / (read.cv * read.cv)),
            Law::Weibull => Gaps::Weibull(super::draw::weibull_shape(read.cv)),
        };
        let lengths = |written: Written, field: &str| {
            match written {
                Written::Tokens(tokens) => Lengths::parse(&tokens.to_string()),
                Written::Law(text) => Lengths::parse(&text),
            }
            .map_err(|reason| at(format!("`{field}` as --input-tokens takes it: {reason}")))
        };
        let pair = LengthPair {
            input: lengths(read.input_tokens, "input_tokens")?,
            output: lengths(read.output_tokens, "output_tokens")?,
        };
        clients.push(Client {
            rates: vec![(Span::ZERO, Sending { rate: read.rate, gaps })],
            lengths: vec![(Span::ZERO, pair)],
        });
    }
    if clients.is_empty() {
        return Err(BadInput::at(1, 1, EXPECTED));
    }
    Ok(clients)
}
