//! Anthropic's usage block, which counts the tokens of a cache beside the input.
//!
//! Invariant: [`Usage::input`] is the sum of the three input counts.

use crate::document_decoder::UsageReading as Reading;
use crate::object::Object;
use tokrate_core::Usage;

/// Reads a usage block; `None` for one without any known count.
pub(super) fn read_usage(json: &str) -> Option<Reading> {
    let object = Object::read(json).ok()??;
    let names = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens"];
    Reading::beside_cache(&object, names)
}

/// What is certain in the usage block at the start of a stream. The output has only begun, so its count there is none
/// of the answer; and a server that names an input of no token does not know it yet.
pub(super) fn usage_at_start(reading: Reading) -> Option<Reading> {
    let usage = Usage { output: None, ..reading.usage };
    let nothing = usage.input.or(usage.cached_input).or(usage.cache_write_input).unwrap_or(0) == 0;
    (!nothing || !reading.plausible).then_some(Reading { usage, ..reading })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> (Usage, bool) {
        let reading = read_usage(json).expect("counts");
        (reading.usage, reading.plausible)
    }

    #[test]
    fn the_input_is_the_sum_of_three_counts() {
        let json = r#"{"input_tokens":15,"cache_creation_input_tokens":13,"cache_read_input_tokens":12,
            "cache_creation":{"ephemeral_5m_input_tokens":13},"output_tokens":21,"service_tier":"standard"}"#;
        let expected = Usage {
            input: Some(40),
            output: Some(21),
            reasoning: None,
            cached_input: Some(12),
            cache_write_input: Some(13),
        };
        assert_eq!(read(json), (expected, true));
        let bare = Usage { input: Some(3), output: Some(5), ..Usage::default() };
        assert_eq!(read(r#"{"input_tokens":3,"output_tokens":5}"#), (bare, true));
        let output = Usage { output: Some(12), ..Usage::default() };
        assert_eq!(read(r#"{"output_tokens":12,"input_tokens":null}"#), (output, true));
    }

    #[test]
    fn what_is_no_count_is_flagged() {
        for json in [
            r#"{"input_tokens":-1}"#,
            r#"{"output_tokens":"3"}"#,
            r#"{"input_tokens":18446744073709551615,"cache_read_input_tokens":1}"#,
        ] {
            assert!(!read(json).1, "{json}");
        }
        assert_eq!(read_usage("{}"), None);
        assert_eq!(read_usage("7"), None);
    }

    #[test]
    fn the_start_of_a_stream_gives_the_input_only() {
        let start = |json: &str| read_usage(json).and_then(usage_at_start).map(|reading| reading.usage);
        let input = |input| Some(Usage { input: Some(input), ..Usage::default() });
        assert_eq!(start(r#"{"input_tokens":15,"output_tokens":5}"#), input(15));
        assert_eq!(start(r#"{"input_tokens":0,"output_tokens":0}"#), None);
        assert_eq!(start(r#"{"output_tokens":1}"#), None);
    }
}
