//! Counts prompt tokens without delaying open streams.
//!
//! Invariant: the engine thread itself counts at most [`MAX_INLINE_BYTES`] per request.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use tokrate_core::Message;
use tokrate_tokens::{Encoding, count};

/// Larger prompts are counted on another thread (bytes).
const MAX_INLINE_BYTES: usize = 2 * 1024;
/// Most prompts whose counts are cached.
const MAX_CACHED_PROMPTS: usize = 4096;

/// Counts the tokens of prompts, with a cache.
#[derive(Debug, Default)]
pub(crate) struct PromptCounter {
    /// Counts by the hash of the contents.
    cache: RefCell<HashMap<u64, u32>>,
}

impl PromptCounter {
    /// o200k_base tokens over the contents of all messages.
    pub async fn count(&self, messages: Vec<Message>) -> u32 {
        let mut hasher = DefaultHasher::new();
        messages.iter().flat_map(Message::texts).for_each(|text| text.hash(&mut hasher));
        let hash = hasher.finish();
        if let Some(&tokens) = self.cache.borrow().get(&hash) {
            return tokens;
        }
        let bytes: usize = messages.iter().flat_map(Message::texts).map(str::len).sum();
        let tokens = if bytes <= MAX_INLINE_BYTES {
            count_all(&messages)
        } else {
            let counted = tokio::task::spawn_blocking(move || count_all(&messages)).await;
            counted.expect("counting does not panic and the runtime outlives its requests")
        };
        let mut cache = self.cache.borrow_mut();
        if cache.len() >= MAX_CACHED_PROMPTS {
            cache.clear();
        }
        cache.insert(hash, tokens);
        tokens
    }
}

fn count_all(messages: &[Message]) -> u32 {
    let tokens: usize = messages.iter().flat_map(Message::texts).map(|text| count(Encoding::O200kBase, text)).sum();
    u32::try_from(tokens).unwrap_or(u32::MAX)
}
