//! Bedrock's `usage` block, which counts the tokens of a cache beside the input.
//!
//! Invariant: [`Usage::input`] is the sum of the three input counts.

use crate::document_decoder::UsageReading;
use crate::json_text::push_known_counts;
use crate::object::Object;
use tokrate_core::Usage;

/// Reads a usage block; `None` for one without any known count.
pub(super) fn read_usage(object: &Object<'_>) -> Option<UsageReading> {
    UsageReading::beside_cache(object, ["inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens", "outputTokens"])
}

/// The counts of the cache are taken out of the input.
pub(super) fn push_usage(usage: Usage, out: &mut Vec<u8>) {
    let beside = usage.cached_input.unwrap_or(0).saturating_add(usage.cache_write_input.unwrap_or(0));
    let total = usage.input.zip(usage.output).map(|(input, output)| input.saturating_add(output));
    let counts = [
        ("\"inputTokens\":", usage.input.map(|input| input.saturating_sub(beside))),
        ("\"outputTokens\":", usage.output),
        ("\"totalTokens\":", total),
        ("\"cacheReadInputTokens\":", usage.cached_input),
        ("\"cacheWriteInputTokens\":", usage.cache_write_input),
    ];
    push_known_counts(&counts, out);
}
