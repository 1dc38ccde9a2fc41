//! Bedrock's `usage` block, which counts the tokens of a cache beside the input.
//!
//! Invariant: [`Usage::input`] is the sum of the three input counts.

use crate::document_decoder::UsageReading;
use crate::json_text::push_number;
use crate::object::{Object, read_count};
use tokrate_core::Usage;

/// Reads a usage block; `None` for one without any known count.
pub(super) fn read_usage(object: &Object<'_>) -> Option<UsageReading> {
    let mut plausible = true;
    let mut count = |name: &str| {
        let json = object.get(name)?;
        let count = read_count(json);
        plausible &= count.is_some();
        count
    };
    let [uncached, cached, written, output] =
        ["inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens", "outputTokens"].map(&mut count);
    let sum = |first: u64| first.checked_add(cached.unwrap_or(0))?.checked_add(written.unwrap_or(0));
    let input = uncached.and_then(sum);
    plausible &= input.is_some() == uncached.is_some();
    if plausible && uncached.or(cached).or(written).or(output).is_none() {
        return None;
    }
    let usage = Usage { input, output, reasoning: None, cached_input: cached, cache_write_input: written };
    Some(UsageReading { usage, plausible })
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
    out.push(b'{');
    for (name, count) in counts {
        let Some(count) = count else { continue };
        if out.last() != Some(&b'{') {
            out.push(b',');
        }
        out.extend_from_slice(name.as_bytes());
        push_number(count, out);
    }
    out.push(b'}');
}
