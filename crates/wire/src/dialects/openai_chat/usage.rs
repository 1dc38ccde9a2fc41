//! The usage block: token counts as a provider reports them, in the spellings seen in the wild.
//!
//! Invariant: a count is what the provider sent, never an estimate; the one change made is that reasoning tokens reported
//! beside the output are added to it, because [`Usage::output`] includes them.

use crate::counts::read_counts;
use crate::document_decoder::UsageReading;
use crate::object::{Object, fields, read_count};
use std::borrow::Cow;
use tokrate_core::Usage;

/// Reads a usage block. `Ok(None)` for `null` and for an object without any known count, `Err` for what is no object.
pub(crate) fn read_usage(json: &str) -> Result<Option<UsageReading>, ()> {
    if json == "null" {
        return Ok(None);
    }
    if let Some(block) = Block::of_counts(json) {
        return Ok(block.reading());
    }
    let mut block = Block::default();
    let object = Object::read(json).ok().flatten().ok_or(())?;
    for (name, json) in object.fields() {
        block.read_field(name, json)?;
    }
    Ok(block.reading())
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

    /// Reads a block of plain counts, which some servers send in every chunk.
    fn of_counts(json: &str) -> Option<Block> {
        let mut block = Block::default();
        read_counts(json, |name, count| {
            // Details are for the parser.
            let is_plain = !name.ends_with(b"_details");
            if let Some(slot) = block.slot(std::str::from_utf8(name).ok()?) {
                *slot = Some(count?);
            }
            is_plain.then_some(())
        })?;
        Some(block)
    }

    /// Where the count of that name belongs.
    fn slot(&mut self, name: &str) -> Option<&mut Option<u64>> {
        Some(match name {
            "prompt_tokens" | "input_tokens" => &mut self.input,
            "completion_tokens" | "output_tokens" => &mut self.output,
            "total_tokens" => &mut self.total,
            "reasoning_tokens" => &mut self.reasoning,
            "cached_tokens" | "prompt_cache_hit_tokens" => &mut self.cached,
            "cache_write_tokens" => &mut self.written,
            _ => return None,
        })
    }

    fn read_field(&mut self, name: &str, json: &str) -> Result<(), ()> {
        match name {
            "prompt_tokens_details" | "input_tokens_details" => {
                let details = self.read_details(json)?;
                self.cached = details.cached.or(self.cached);
                self.written = details.written.or(self.written);
            }
            "completion_tokens_details" | "output_tokens_details" => {
                let details = self.read_details(json)?;
                self.reasoning = details.reasoning.or(self.reasoning);
            }
            _ => self.read_count(name, json),
        }
        Ok(())
    }

    fn read_count(&mut self, name: &str, json: &str) {
        let Some(slot) = self.slot(name) else { return };
        match read_count(json) {
            None if json == "null" => {}
            None => self.no_counts = true,
            count => *slot = count,
        }
    }

    /// Reads one of the `…_details`, whose counts have the same names; `null` is as good as absent.
    fn read_details(&mut self, json: &str) -> Result<Block, ()> {
        let mut details = Block::default();
        match fields(json) {
            Some(fields) => {
                for field in fields {
                    let (name, json): (Cow<'_, str>, &str) = field.map_err(|_| ())?;
                    details.read_count(&name, json);
                }
            }
            None => details.no_counts = json != "null",
        }
        self.no_counts |= details.no_counts;
        Ok(details)
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
