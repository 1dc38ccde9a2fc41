//! The usage block: token counts as a provider reports them, in the spellings seen in the wild.
//!
//! It refuses to know tokenizers. Invariant: a count is what the provider said, never an estimate; the one change made is
//! that reasoning tokens reported beside the output are added to it, because [`Usage::output`] includes them.

use crate::document_decoder::UsageReading;
use crate::read::{Any, Read};
use serde::Deserialize;
use serde::de::{DeserializeSeed, MapAccess};
use serde_json::value::RawValue;
use tokrate_core::Usage;

/// Reads a usage block. `Ok(None)` for `null` and for an object without any known count, `Err` for what is no object.
pub(crate) fn read_usage(json: &str) -> Result<Option<UsageReading>, ()> {
    if json == "null" {
        return Ok(None);
    }
    let mut block = Block::default();
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let is_object = Any(&mut block).deserialize(&mut deserializer).and_then(|good| deserializer.end().map(|()| good));
    if is_object.unwrap_or(false) { Ok(block.reading()) } else { Err(()) }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Key {
    PromptTokens,
    InputTokens,
    CompletionTokens,
    OutputTokens,
    TotalTokens,
    ReasoningTokens,
    CachedTokens,
    CacheWriteTokens,
    PromptCacheHitTokens,
    PromptTokensDetails,
    InputTokensDetails,
    CompletionTokensDetails,
    OutputTokensDetails,
    #[serde(other)]
    Other,
}

#[derive(Default)]
struct Block {
    input: Option<u64>,
    output: Option<u64>,
    total: Option<u64>,
    reasoning: Option<u64>,
    cached: Option<u64>,
    written: Option<u64>,
    no_counts: bool,
}

impl Block {
    fn reading(&self) -> Option<UsageReading> {
        let Block { input, mut output, total, reasoning, cached, written, no_counts } = *self;
        if input.or(output).or(reasoning).or(cached).or(written).is_none() && !no_counts {
            return None;
        }
        let mut plausible = !no_counts;
        if let (Some(input), Some(shown), Some(total)) = (input, output, total) {
            let sum = input.saturating_add(shown);
            let hidden = reasoning.unwrap_or(0);
            if hidden > 0 && sum.checked_add(hidden) == Some(total) {
                // xAI and others count reasoning beside the completion: 10 + 35 + 375 = 420.
                output = Some(shown.saturating_add(hidden));
            } else if sum != total {
                plausible = false;
            }
        }
        let exceeds =
            |part: Option<u64>, whole: Option<u64>| matches!((part, whole), (Some(part), Some(whole)) if part > whole);
        plausible &= !exceeds(reasoning, output) && !exceeds(cached, input) && !exceeds(written, input);
        Some(UsageReading {
            usage: Usage { input, output, reasoning, cached_input: cached, cache_write_input: written },
            plausible,
        })
    }
}

/// Reads the block, or one of its `..._details`; says whether it was an object (or `null`, which is as good as absent).
impl<'a> Read<'a> for &mut Block {
    type Out = bool;

    fn wrong(self) -> bool {
        false
    }

    fn null(self) -> bool {
        true
    }

    fn object<A: MapAccess<'a>>(self, mut object: A) -> Result<bool, A::Error> {
        while let Some(key) = object.next_key::<Key>()? {
            let slot = match key {
                Key::PromptTokens | Key::InputTokens => &mut self.input,
                Key::CompletionTokens | Key::OutputTokens => &mut self.output,
                Key::TotalTokens => &mut self.total,
                Key::ReasoningTokens => &mut self.reasoning,
                Key::CachedTokens | Key::PromptCacheHitTokens => &mut self.cached,
                Key::CacheWriteTokens => &mut self.written,
                Key::PromptTokensDetails | Key::InputTokensDetails => {
                    let mut details = Block::default();
                    let good = object.next_value_seed(Any(&mut details))?;
                    self.cached = details.cached.or(self.cached);
                    self.written = details.written.or(self.written);
                    self.no_counts |= !good || details.no_counts;
                    continue;
                }
                Key::CompletionTokensDetails | Key::OutputTokensDetails => {
                    let mut details = Block::default();
                    let good = object.next_value_seed(Any(&mut details))?;
                    self.reasoning = details.reasoning.or(self.reasoning);
                    self.no_counts |= !good || details.no_counts;
                    continue;
                }
                Key::Other => {
                    object.next_value::<serde::de::IgnoredAny>()?;
                    continue;
                }
            };
            match read_count(object.next_value::<&RawValue>()?.get()) {
                Ok(Some(count)) => *slot = Some(count),
                Ok(None) => {}
                Err(()) => self.no_counts = true,
            }
        }
        Ok(true)
    }
}

/// A whole number of zero or more, also when written as `12.0`; `Ok(None)` for `null`.
fn read_count(json: &str) -> Result<Option<u64>, ()> {
    if let Ok(count) = json.parse::<u64>() {
        return Ok(Some(count));
    }
    if json == "null" {
        return Ok(None);
    }
    match json.parse::<f64>() {
        // Above 2^53 a float no longer says which whole number was meant.
        Ok(count) if count >= 0.0 && count.fract() == 0.0 && count <= 9_007_199_254_740_992.0 => Ok(Some(count as u64)),
        _ => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> (Usage, bool) {
        let reading = read_usage(json).expect("an object").expect("counts");
        (reading.usage, reading.plausible)
    }

    #[test]
    fn counts_are_found_under_all_their_names() {
        let openai = r#"{"prompt_tokens":18,"completion_tokens":286,"total_tokens":304,
            "prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":192}}"#;
        let expected = Usage {
            input: Some(18),
            output: Some(286),
            reasoning: Some(192),
            cached_input: Some(4),
            cache_write_input: None,
        };
        assert_eq!(read(openai), (expected, true));
        let deepseek = r#"{"prompt_tokens":18,"completion_tokens":2,"prompt_cache_hit_tokens":16}"#;
        let expected = Usage {
            input: Some(18),
            output: Some(2),
            reasoning: None,
            cached_input: Some(16),
            cache_write_input: None,
        };
        assert_eq!(read(deepseek), (expected, true));
        let responses = r#"{"input_tokens":3,"output_tokens":5,"output_tokens_details":{"reasoning_tokens":1}}"#;
        let expected =
            Usage { input: Some(3), output: Some(5), reasoning: Some(1), cached_input: None, cache_write_input: None };
        assert_eq!(read(responses), (expected, true));
    }

    #[test]
    fn reasoning_reported_beside_the_output_is_added_to_it() {
        let xai = r#"{"prompt_tokens":10,"completion_tokens":35,"total_tokens":420,
            "completion_tokens_details":{"reasoning_tokens":375}}"#;
        assert_eq!(read(xai).0.output, Some(410));
        assert!(read(xai).1);
    }

    #[test]
    fn numbers_that_do_not_fit_are_kept_and_flagged() {
        for (json, output) in [
            (r#"{"prompt_tokens":7,"completion_tokens":12,"total_tokens":402}"#, Some(12)),
            (r#"{"completion_tokens":5,"reasoning_tokens":9}"#, Some(5)),
            (r#"{"completion_tokens":-5}"#, None),
            (r#"{"completion_tokens":1e999}"#, None),
            (r#"{"completion_tokens":1.5}"#, None),
            (r#"{"completion_tokens":"12"}"#, None),
            (r#"{"completion_tokens":99999999999999999999}"#, None),
            (r#"{"completion_tokens":3,"completion_tokens_details":7}"#, Some(3)),
        ] {
            let (usage, plausible) = read(json);
            assert_eq!((usage.output, plausible), (output, false), "{json}");
        }
        assert_eq!(read(r#"{"completion_tokens":12.0}"#), (Usage { output: Some(12), ..Usage::default() }, true));
    }

    #[test]
    fn absence_is_not_zero() {
        assert_eq!(read_usage("null"), Ok(None));
        assert_eq!(read_usage("{}"), Ok(None));
        assert_eq!(read_usage(r#"{"prompt_tokens":null}"#), Ok(None));
        assert_eq!(read_usage("7"), Err(()));
        assert_eq!(read_usage("[]"), Err(()));
        assert_eq!(read_usage("{} {}"), Err(()));
    }
}
