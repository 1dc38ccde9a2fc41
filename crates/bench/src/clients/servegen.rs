//! The published files of ServeGen (alibaba/ServeGen, `data/CATEGORY/MODEL`): a client's rates as CSV without a head, and its lengths as
//! JSON whose values are texts of Python dictionaries.
//!
//! Rows of the CSV are `second,rate,cv,law,shape,scale`, a row each ten minutes; a client that did not send then has no law. What decides
//! are rate, law and shape: the cv and the scale follow from these. `reason_ratio` is left out: how much of an answer is reasoning is the
//! model's to say. Datasets with pictures are refused, as these are not sent.

use super::{Gaps, LengthPair, MIN_RATE, Sending};
use crate::bad_input::{BadInput, hash, shown};
use crate::prompts::Lengths;
use serde_json::{Map, Value};
use tokrate_core::Span;

/// Shapes beyond these are no gaps that were measured.
const SHAPES: std::ops::RangeInclusive<f64> = 1e-3..=1e6;
/// A year: later is a slip.
const MAX_SECONDS: u64 = 366 * 86_400;

/// How a client sends over time.
pub(super) fn rates(text: &str) -> Result<Vec<(Span, Sending)>, BadInput> {
    let mut rates: Vec<(Span, Sending)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let at = |expected: &str| BadInput::at(number, 1, format!("{expected}; there is {}", shown(line)));
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let [second, rate, _cv, law, shape, _scale] = fields[..] else {
            return Err(at("six fields (second, rate, cv, law, shape, scale)"));
        };
        let from = second.parse().ok().filter(|second| *second <= MAX_SECONDS).ok_or_else(|| at("a whole second"))?;
        let from = Span::from_secs(from);
        if rates.last().is_some_and(|(before, _)| *before >= from) {
            return Err(at("a later second than that of the row before"));
        }
        let rate = rate.parse().ok().filter(|rate| (0.0..=1e6).contains(rate));
        let rate: f64 = rate.ok_or_else(|| at("a rate from 0 to 1,000,000 requests per second"))?;
        let shape: Option<f64> = shape.parse().ok().filter(|shape| SHAPES.contains(shape));
        let sending = match (law, shape) {
            ("", _) => Sending { rate: 0.0, gaps: Gaps::Gamma(1.0) },
            _ if rate < MIN_RATE => Sending { rate: 0.0, gaps: Gaps::Gamma(1.0) },
            ("Gamma", Some(shape)) => Sending { rate, gaps: Gaps::Gamma(shape) },
            ("Weibull", Some(shape)) => Sending { rate, gaps: Gaps::Weibull(shape) },
            ("Gamma" | "Weibull", None) => return Err(at("a shape from 0.001 to 1,000,000")),
            _ => return Err(at("the law Gamma or Weibull, or none")),
        };
        rates.push((from, sending));
    }
    if rates.is_empty() {
        return Err(BadInput::at(1, 1, "rows of second, rate, cv, law, shape and scale"));
    }
    Ok(rates)
}

/// How long its prompts and answers are over time; none where it never sent.
pub(super) fn lengths(text: &str) -> Result<Vec<(Span, LengthPair)>, BadInput> {
    const EXPECTED: &str = "an object of seconds, each with `input_tokens` and `output_tokens`";
    let windows: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| BadInput::json(1, &error, EXPECTED))?;
    let mut lengths = Vec::new();
    for (second, fields) in &windows {
        // Found for an error only.
        let at = |expected: String| {
            let byte = text.find(&format!("\"{second}\"")).unwrap_or(0);
            let line = text[..byte].matches('\n').count() + 1;
            BadInput::at(line, 1, expected)
        };
        let from = second.parse().ok().filter(|second| *second <= MAX_SECONDS);
        let from = from.ok_or_else(|| at(format!("a whole second, and there is {}", shown(second))))?;
        if fields.get("image_tokens").is_some() {
            return Err(at(
                "a dataset of text, and this one has pictures, which are not sent; take one of `language` or `reason`"
                    .to_owned(),
            ));
        }
        let table = |field: &str| {
            let text = fields.get(field).and_then(Value::as_str);
            let text = text.ok_or_else(|| at(format!("`{field}`, a text of lengths and their shares")))?;
            dictionary(text)
                .map_err(|reason| at(format!("`{field}` to be a dictionary of lengths and their shares: {reason}")))
        };
        let (input, output) = (table("input_tokens")?, table("output_tokens")?);
        lengths.extend(input.zip(output).map(|(input, output)| (Span::from_secs(from), LengthPair { input, output })));
    }
    lengths.sort_by_key(|(from, _)| *from);
    Ok(lengths)
}

/// `{81: 0.25, 82: 0.75}`; `None` of an empty one. A prompt or an answer of no token is none.
fn dictionary(text: &str) -> Result<Option<Lengths>, String> {
    let inner = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).ok_or("no braces around it")?;
    let mut counted = Vec::new();
    for entry in inner.split(',').filter(|entry| !entry.trim().is_empty()) {
        let read = entry
            .split_once(':')
            .and_then(|(length, share)| Some((length.trim().parse::<u32>().ok()?, share.trim().parse::<f64>().ok()?)));
        counted.push(read.ok_or_else(|| format!("there is {}", shown(entry)))?);
    }
    counted.retain(|(length, _)| *length > 0);
    if counted.is_empty() { Ok(None) } else { Lengths::weighted(counted, hash(text)).map(Some) }
}
