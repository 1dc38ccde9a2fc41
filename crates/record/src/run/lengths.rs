//! How long prompts and answers were, where they differ from request to request.
//!
//! Invariant: over the measured requests only, so that n is that of the other distributions.

use serde::{Deserialize, Serialize};
use tokrate_meter::request::RequestNumbers;
use tokrate_stats::{Distribution, Unit};

/// Lengths of the measured requests, in tokens.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LengthSummary {
    /// Prompt tokens as the plan asked for them, earlier turns of a session included.
    pub input_asked: Distribution,
    /// Output tokens as the plan asked for them; absent where it asks the same of every request, which is a condition.
    pub output_asked: Option<Distribution>,
    /// Output tokens as counted over the text.
    pub output: Distribution,
}

impl LengthSummary {
    /// Of measured requests; `None` where the plan asked the same of all.
    pub(super) fn of(measured: &[&RequestNumbers]) -> Option<LengthSummary> {
        let mut input: Vec<f64> = measured.iter().filter_map(|row| row.input_asked).map(|n| n as f64).collect();
        let mut asked: Vec<f64> = measured.iter().filter_map(|row| row.output_asked).map(|n| n as f64).collect();
        let differ = input.windows(2).any(|pair| pair[0] != pair[1]) || !asked.is_empty();
        let mut output: Vec<f64> = measured.iter().map(|row| row.tokens_std as f64).collect();
        differ.then(|| LengthSummary {
            input_asked: Distribution::of_values(&mut input, Unit::Tokens),
            output_asked: (!asked.is_empty()).then(|| Distribution::of_values(&mut asked, Unit::Tokens)),
            output: Distribution::of_values(&mut output, Unit::Tokens),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(input: u64, asked: Option<u64>, output: u64) -> RequestNumbers {
        RequestNumbers {
            input_asked: Some(input),
            output_asked: asked,
            tokens_std: output,
            ..RequestNumbers::default()
        }
    }

    #[test]
    fn lengths_are_kept_where_the_plan_asks_for_different_ones() {
        let same = [row(100, None, 20), row(100, None, 35)];
        assert_eq!(LengthSummary::of(&same.iter().collect::<Vec<_>>()), None, "what the model wrote is in `tokens`");
        let drawn = [row(100, Some(20), 20), row(100, Some(40), 30)];
        let lengths = LengthSummary::of(&drawn.iter().collect::<Vec<_>>()).expect("they differ");
        assert_eq!(lengths.output_asked.as_ref().and_then(|asked| asked.mean), Some(30.0));
        assert_eq!((lengths.output.max, lengths.input_asked.n), (Some(30.0), 2));
        let prompts = [row(100, None, 20), row(200, None, 20)];
        let lengths = LengthSummary::of(&prompts.iter().collect::<Vec<_>>()).expect("they differ");
        assert_eq!((lengths.input_asked.mean, lengths.output_asked), (Some(150.0), None));
    }
}
