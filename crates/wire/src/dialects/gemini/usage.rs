//! Gemini's `usageMetadata`.
//!
//! Invariant: absence is not zero, and numbers that do not fit together are kept
//! and flagged.

use crate::counts::read_counts;
use crate::document_decoder::UsageReading;
use crate::object::{Object, read_count};
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
    let object = Object::read(json).ok().flatten().ok_or(())?;
    let mut block = Block::default();
    for (name, json) in object.fields() {
        block.read_field(name, json);
    }
    Ok(block.reading())
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
            // Older models count neither reasoning nor what tools added to the prompt within the total.
            let (thoughts, tool_use) = (thoughts.unwrap_or(0), tool_use.unwrap_or(0));
            plausible &= [0, thoughts, tool_use, thoughts.saturating_add(tool_use)]
                .iter()
                .any(|beside| prompt.saturating_add(candidates).checked_add(*beside) == Some(total));
        }
        plausible &= !matches!((cached, input), (Some(cached), Some(input)) if cached > input);
        let usage = Usage { input, output, reasoning: thoughts, cached_input: cached, cache_write_input: None };
        Some(UsageReading { usage, plausible })
    }

    fn read_field(&mut self, name: &str, json: &str) {
        let slot = match name {
            "promptTokenCount" | "prompt_token_count" => &mut self.prompt,
            "candidatesTokenCount" | "candidates_token_count" => &mut self.candidates,
            "totalTokenCount" | "total_token_count" => &mut self.total,
            "thoughtsTokenCount" | "thoughts_token_count" => &mut self.thoughts,
            "cachedContentTokenCount" | "cached_content_token_count" => &mut self.cached,
            "toolUsePromptTokenCount" | "tool_use_prompt_token_count" => &mut self.tool_use,
            _ => return,
        };
        match read_count(json) {
            Some(count) => *slot = Some(count),
            None => self.no_counts |= json != "null",
        }
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
    fn reasoning_is_output_and_tool_results_are_input() {
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
    fn while_it_reasons_the_output_is_its_reasoning() {
        let (usage, plausible) = read(r#"{"promptTokenCount":8,"thoughtsTokenCount":52,"totalTokenCount":60}"#);
        assert_eq!((usage.output, usage.reasoning, plausible), (Some(52), Some(52), true));
        assert_eq!(read(r#"{"promptTokenCount":8,"totalTokenCount":8}"#).0.output, None, "absence is not zero");
    }

    #[test]
    fn totals_of_older_models_are_no_anomaly() {
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
    fn a_block_without_counts_is_no_usage() {
        for json in ["null", "{}", r#"{"trafficType":"ON_DEMAND"}"#, r#"{"promptTokenCount":null}"#] {
            assert_eq!(read_usage(json), Ok(None), "{json}");
        }
        for json in ["7", "[]", "{} {}", "{"] {
            assert_eq!(read_usage(json), Err(()), "{json}");
        }
    }
}
