//! Gemini's `usageMetadata`.
//!
//! It refuses to know where the block stands. Invariant: absence is not zero, and numbers that do not fit together are kept
//! and flagged.

use crate::counts::read_counts;
use crate::document_decoder::UsageReading;
use crate::object::read_count;
use crate::read::{Any, Read};
use serde::Deserialize;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess};
use serde_json::value::RawValue;
use tokrate_core::Usage;

/// Reads a usage block. `Ok(None)` for `null` and for an object without any known count (Vertex sends some that name only
/// the kind of traffic), `Err` for what is no object.
///
/// Thoughts stand beside the candidates here and within the output in [`Usage`]; what tools added to the prompt stands
/// beside the prompt here and within the input there. The cached part of the prompt is within it in both.
pub(super) fn read_usage(json: &str) -> Result<Option<UsageReading>, ()> {
    if json == "null" {
        return Ok(None);
    }
    if let Some(block) = Block::of_counts(json) {
        return Ok(block.reading());
    }
    let mut block = Block::default();
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let is_object = Any(&mut block).deserialize(&mut deserializer).and_then(|good| deserializer.end().map(|()| good));
    if is_object.unwrap_or(false) { Ok(block.reading()) } else { Err(()) }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Key {
    #[serde(alias = "prompt_token_count")]
    PromptTokenCount,
    #[serde(alias = "candidates_token_count")]
    CandidatesTokenCount,
    #[serde(alias = "total_token_count")]
    TotalTokenCount,
    #[serde(alias = "thoughts_token_count")]
    ThoughtsTokenCount,
    #[serde(alias = "cached_content_token_count")]
    CachedContentTokenCount,
    #[serde(alias = "tool_use_prompt_token_count")]
    ToolUsePromptTokenCount,
    #[serde(other)]
    Other,
}

#[derive(Default)]
struct Block {
    prompt: Option<u64>,
    candidates: Option<u64>,
    total: Option<u64>,
    thoughts: Option<u64>,
    cached: Option<u64>,
    tool_use: Option<u64>,
    no_counts: bool,
}

impl Block {
    /// Reads a block of the usual form, of which there is one in every chunk.
    fn of_counts(json: &str) -> Option<Block> {
        let mut block = Block::default();
        read_counts(json, |name, count| {
            let slot = match name {
                b"promptTokenCount" => &mut block.prompt,
                b"candidatesTokenCount" => &mut block.candidates,
                b"totalTokenCount" => &mut block.total,
                b"thoughtsTokenCount" => &mut block.thoughts,
                b"cachedContentTokenCount" => &mut block.cached,
                b"toolUsePromptTokenCount" => &mut block.tool_use,
                // The other spelling is for the parser.
                _ => return (!name.contains(&b'_')).then_some(()),
            };
            *slot = Some(count?);
            Some(())
        })?;
        Some(block)
    }

    fn reading(&self) -> Option<UsageReading> {
        let Block { prompt, candidates, total, thoughts, cached, tool_use, no_counts } = *self;
        let any = [prompt, candidates, total, thoughts, cached, tool_use].iter().any(Option::is_some);
        if !any && !no_counts {
            return None;
        }
        let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        let (input, output) = (sum(prompt, tool_use), sum(candidates, thoughts));
        let mut plausible = !no_counts;
        if let (Some(prompt), Some(candidates), Some(total)) = (prompt, candidates, total) {
            // Older models count neither thoughts nor what tools added to the prompt within the total.
            let (thoughts, tool_use) = (thoughts.unwrap_or(0), tool_use.unwrap_or(0));
            plausible &= [0, thoughts, tool_use, thoughts.saturating_add(tool_use)]
                .iter()
                .any(|beside| prompt.saturating_add(candidates).checked_add(*beside) == Some(total));
        }
        plausible &= !matches!((cached, input), (Some(cached), Some(input)) if cached > input);
        let usage = Usage { input, output, reasoning: thoughts, cached_input: cached, cache_write_input: None };
        Some(UsageReading { usage, plausible })
    }
}

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
                Key::PromptTokenCount => &mut self.prompt,
                Key::CandidatesTokenCount => &mut self.candidates,
                Key::TotalTokenCount => &mut self.total,
                Key::ThoughtsTokenCount => &mut self.thoughts,
                Key::CachedContentTokenCount => &mut self.cached,
                Key::ToolUsePromptTokenCount => &mut self.tool_use,
                Key::Other => {
                    object.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            let json = object.next_value::<&RawValue>()?.get();
            match read_count(json) {
                Some(count) => *slot = Some(count),
                None => self.no_counts |= json != "null",
            }
        }
        Ok(true)
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
    fn thoughts_are_output_and_tool_results_are_input() {
        let json = r#"{"promptTokenCount":100,"cachedContentTokenCount":60,"toolUsePromptTokenCount":7,
            "candidatesTokenCount":30,"thoughtsTokenCount":12,"totalTokenCount":149,
            "promptTokensDetails":[{"modality":"TEXT","tokenCount":100}]}"#;
        let expected = Usage {
            input: Some(107),
            output: Some(42),
            reasoning: Some(12),
            cached_input: Some(60),
            cache_write_input: None,
        };
        assert_eq!(read(json), (expected, true));
        assert_eq!(read(r#"{"prompt_token_count":3}"#).0.input, Some(3));
    }

    #[test]
    fn while_it_thinks_the_output_is_its_thoughts() {
        let (usage, plausible) = read(r#"{"promptTokenCount":8,"thoughtsTokenCount":52,"totalTokenCount":60}"#);
        assert_eq!((usage.output, usage.reasoning, plausible), (Some(52), Some(52), true));
        assert_eq!(read(r#"{"promptTokenCount":8,"totalTokenCount":8}"#).0.output, None, "absence is not zero");
    }

    #[test]
    fn totals_of_older_models_are_no_oddity() {
        for total in [15, 20, 17, 22] {
            let json = format!(
                r#"{{"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":5,
                    "toolUsePromptTokenCount":2,"totalTokenCount":{total}}}"#
            );
            assert!(read(&json).1, "{total}");
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_kept_and_flagged() {
        for (json, output) in [
            (r#"{"promptTokenCount":7,"candidatesTokenCount":12,"totalTokenCount":402}"#, Some(12)),
            (r#"{"candidatesTokenCount":-5}"#, None),
            (r#"{"candidatesTokenCount":"12"}"#, None),
            (r#"{"promptTokenCount":3,"cachedContentTokenCount":4,"candidatesTokenCount":1}"#, Some(1)),
        ] {
            let (usage, plausible) = read(json);
            assert_eq!((usage.output, plausible), (output, false), "{json}");
        }
    }

    #[test]
    fn a_block_without_counts_says_nothing() {
        for json in ["null", "{}", r#"{"trafficType":"ON_DEMAND"}"#, r#"{"promptTokenCount":null}"#] {
            assert_eq!(read_usage(json), Ok(None), "{json}");
        }
        for json in ["7", "[]", "{} {}", "{"] {
            assert_eq!(read_usage(json), Err(()), "{json}");
        }
    }
}
