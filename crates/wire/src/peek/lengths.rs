//! How long an answer may become and how many are asked for, by the fields of all dialects.
//!
//! Which of them counts in a dialect is in its folder. Invariant: a limit is reported only where the dialect's provider keeps to it; what a provider would read
//! as "no limit", or cannot be read, is no limit. Of several fields that could apply the largest counts.

use super::{PeekError, RequestPeek, Scan, check_name, field_of};
use crate::object::read_count;

/// A number of tokens or answers as it was set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Limit {
    /// Absent, or `null`.
    #[default]
    Unset,
    /// Set to something that bounds nothing: below zero, as Ollama and llama.cpp write "no limit", or no whole number.
    Endless,
    /// A whole number.
    At(u64),
}

impl Limit {
    fn read(value: &[u8]) -> Limit {
        match value {
            b"null" => Limit::Unset,
            _ => std::str::from_utf8(value).ok().and_then(read_count).map_or(Limit::Endless, Limit::At),
        }
    }

    /// Protocol Buffers' JSON, which Gemini reads, takes a number in quotes for that number.
    fn read_quoted(value: &[u8]) -> Limit {
        Limit::read(value.strip_prefix(b"\"").and_then(|inside| inside.strip_suffix(b"\"")).unwrap_or(value))
    }

    /// A number of answers.
    fn count(self) -> u64 {
        match self {
            Limit::Unset => 1,
            Limit::Endless => u64::MAX,
            Limit::At(count) => count.max(1),
        }
    }
}

/// The limits of length and number of answers in a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lengths {
    /// `max_tokens`.
    pub max_tokens: Limit,
    /// `max_completion_tokens`.
    pub max_completion_tokens: Limit,
    /// `max_output_tokens`.
    pub max_output_tokens: Limit,
    /// `n_predict` of llama.cpp's server, which takes it in OpenAI's dialects as well.
    pub n_predict: Limit,
    /// Ollama's `options.num_predict`.
    pub num_predict: Limit,
    /// Gemini's `generationConfig.maxOutputTokens`.
    pub generation: Limit,
    /// Bedrock's `inferenceConfig.maxTokens`.
    pub inference: Limit,
    /// `n`.
    pub n: Limit,
    /// `best_of`: so many are written, and the best `n` of them are shown.
    pub best_of: Limit,
    /// llama.cpp's own name of `n`.
    pub n_cmpl: Limit,
    /// Gemini's `generationConfig.candidateCount`.
    pub candidates: Limit,
    /// Prompts of a text completion, each of which gets its own answers; 0 if there is no list of them.
    pub prompts: u64,
    /// Whether `prompt` names one that the provider keeps, whose length is not known here.
    pub has_stored_prompt: bool,
    generation_config: bool,
}

impl Lengths {
    /// Tokens that one answer may have for a server of OpenAI's chat that keeps to `max_tokens` alone.
    pub fn output_limit_as_max_tokens(&self) -> Option<u64> {
        self.of_openai(&[self.max_tokens])
    }

    /// Answers to each prompt that are written and billed: as many as the largest of the fields.
    pub(crate) fn answers_per_prompt(&self) -> u64 {
        [self.n, self.best_of, self.n_cmpl, self.candidates].map(Limit::count).into_iter().max().unwrap_or(1)
    }

    /// In OpenAI's dialects llama.cpp's server lets `n_predict` win over the others; the other servers do not know it.
    pub(crate) fn of_openai(&self, fields: &[Limit]) -> Option<u64> {
        let own = largest(fields)?;
        match self.n_predict {
            Limit::Unset => Some(own),
            Limit::Endless => None,
            Limit::At(limit) => Some(own.max(limit)),
        }
    }

    /// Takes a number that stands at the top of a body.
    pub(super) fn take(&mut self, field: &str, value: &[u8]) {
        let limit = Limit::read(value);
        match field {
            "max_tokens" => self.max_tokens = limit,
            "max_completion_tokens" => self.max_completion_tokens = limit,
            "max_output_tokens" => self.max_output_tokens = limit,
            "n_predict" => self.n_predict = limit,
            "best_of" => self.best_of = limit,
            "n_cmpl" => self.n_cmpl = limit,
            _ => self.n = limit,
        }
    }

    /// Goes through Ollama's `options`, an object that begins where the scan stands.
    pub(super) fn take_options(&mut self, scan: &mut Scan<'_>) -> Result<(), PeekError> {
        let mut seen = false;
        scan.members(|scan, key| {
            let Some((_, exact)) = field_of(key.text, &["num_predict"]) else { return scan.value(2).map(drop) };
            check_name(key, "options.num_predict", exact, &mut seen)?;
            self.num_predict = Limit::read(value_of(scan)?);
            Ok(())
        })?;
        Ok(())
    }

    /// Goes through Bedrock's `inferenceConfig`, an object that begins where the scan stands.
    pub(super) fn take_inference_config(&mut self, scan: &mut Scan<'_>) -> Result<(), PeekError> {
        let mut seen = false;
        scan.members(|scan, key| {
            let Some((_, exact)) = field_of(key.text, &["maxTokens"]) else { return scan.value(2).map(drop) };
            check_name(key, "inferenceConfig.maxTokens", exact, &mut seen)?;
            self.inference = Limit::read(value_of(scan)?);
            Ok(())
        })?;
        Ok(())
    }

    /// Goes through Gemini's `generationConfig`, an object that begins where the scan stands. Each name has two spellings; both
    /// together are one field twice.
    pub(super) fn take_generation_config(&mut self, scan: &mut Scan<'_>) -> Result<(), PeekError> {
        const NAMES: [&str; 4] = ["maxOutputTokens", "max_output_tokens", "candidateCount", "candidate_count"];
        const SHOWN: [&str; 2] = ["generationConfig.maxOutputTokens", "generationConfig.candidateCount"];
        let mut seen = [false; 2];
        scan.members(|scan, key| {
            let Some((name, exact)) = field_of(key.text, &NAMES) else { return scan.value(2).map(drop) };
            let field = name / 2;
            check_name(key, SHOWN[field], exact, &mut seen[field])?;
            let limit = Limit::read_quoted(value_of(scan)?);
            match field {
                0 => self.generation = limit,
                _ => self.candidates = limit,
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Looks at `prompt`: counts the elements of a list, where one of tokens is a single prompt.
    pub(super) fn take_prompt(&mut self, value: &[u8]) -> Result<(), PeekError> {
        self.has_stored_prompt = value.first() == Some(&b'{');
        if value.first() != Some(&b'[') {
            return Ok(());
        }
        let mut scan = Scan::new(value);
        scan.at = 1;
        let (mut elements, mut tokens) = (0_u64, 0_u64);
        loop {
            scan.skip_whitespace();
            match scan.peek() {
                None | Some(b']') => break,
                Some(b',') => scan.at += 1,
                Some(first) => {
                    elements += 1;
                    tokens += u64::from(first.is_ascii_digit());
                    scan.value(0)?;
                }
            }
        }
        self.prompts = if tokens == elements { elements.min(1) } else { elements };
        Ok(())
    }
}

impl RequestPeek {
    /// Whether one of the two spellings of `generationConfig` came before.
    pub(super) fn has_generation_config(&mut self) -> bool {
        std::mem::replace(&mut self.lengths.generation_config, true)
    }
}

/// The bytes of the value at which the scan stands, inside of an object at the top of a body.
fn value_of<'b>(scan: &mut Scan<'b>) -> Result<&'b [u8], PeekError> {
    let (bytes, start) = (scan.bytes, scan.at);
    Ok(&bytes[start..scan.value(2)?])
}

/// The largest limit; `None` if nothing is set, or one of them is endless.
pub(crate) fn largest(limits: &[Limit]) -> Option<u64> {
    let mut largest = None;
    for limit in limits {
        match limit {
            Limit::Unset => {}
            Limit::Endless => return None,
            Limit::At(tokens) => largest = largest.max(Some(*tokens)),
        }
    }
    largest
}
