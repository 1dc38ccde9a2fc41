//! Counting prompts without holding up the streams that are being written meanwhile.
//!
//! It refuses to know dialects. Invariant: the engine's thread itself counts at most [`INLINE_BYTES_MOST`] per request.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use tokrate_core::Message;
use tokrate_tokens::{Encoding, count};

/// A larger prompt is counted by another thread.
const INLINE_BYTES_MOST: usize = 2 * 1024;
/// Prompts whose counts are remembered.
const REMEMBERED_MOST: usize = 4096;

/// Counts the tokens of prompts and remembers those it has counted.
#[derive(Debug, Default)]
pub(crate) struct PromptCounter {
    /// Counts by the hash of the contents.
    remembered: RefCell<HashMap<u64, u32>>,
}

impl PromptCounter {
    /// o200k_base tokens over the contents of all messages.
    pub async fn count(&self, messages: Vec<Message>) -> u32 {
        let mut hasher = DefaultHasher::new();
        messages.iter().flat_map(Message::texts).for_each(|text| text.hash(&mut hasher));
        let hash = hasher.finish();
        if let Some(&tokens) = self.remembered.borrow().get(&hash) {
            return tokens;
        }
        let bytes: usize = messages.iter().flat_map(Message::texts).map(str::len).sum();
        let tokens = if bytes <= INLINE_BYTES_MOST {
            count_all(&messages)
        } else {
            let counted = tokio::task::spawn_blocking(move || count_all(&messages)).await;
            counted.expect("counting does not panic and the runtime outlives its requests")
        };
        let mut remembered = self.remembered.borrow_mut();
        if remembered.len() >= REMEMBERED_MOST {
            remembered.clear();
        }
        remembered.insert(hash, tokens);
        tokens
    }
}

fn count_all(messages: &[Message]) -> u32 {
    let tokens: usize = messages.iter().flat_map(Message::texts).map(|text| count(Encoding::O200kBase, text)).sum();
    u32::try_from(tokens).unwrap_or(u32::MAX)
}
