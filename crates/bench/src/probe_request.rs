//! The one request before the load: what it asks for.
//!
//! Invariant: its prompt is not one of the run's, so that it warms no prompt cache.

use crate::plan::{Backoff, Extent, Load, PhaseSpec};
use crate::prompts::{FileKind, Lengths, PromptFile, PromptSource};
use crate::{Config, RequestOptions};
use std::sync::Arc;

/// The probe's prompt: every chat model answers it at some length.
const PROMPT: &str = "Count from one to twenty, in words.";
/// Output token limit of the probe: the lowest that every provider accepts (OpenAI's Responses API rejects less).
const OUTPUT_TOKENS: u32 = 16;

/// Its prompt, as a source of prompts.
pub(crate) fn prompt() -> PromptSource {
    PromptSource::File(Arc::new(PromptFile::parse(PROMPT, FileKind::Whole).expect("the prompt has text")))
}

/// What it asks for, in a run that asks for this.
pub(crate) fn options(config: &Config) -> RequestOptions {
    let output_tokens = Lengths::Fixed(config.output_tokens().min(OUTPUT_TOKENS));
    RequestOptions { output_tokens, ..config.request.clone() }
}

/// The load of a probe.
pub(crate) fn spec() -> PhaseSpec {
    PhaseSpec {
        load: Load::Closed { concurrency: 1 },
        extent: Extent::Requests(1),
        warmup: 0,
        backoff: Backoff::Ignore,
    }
}
