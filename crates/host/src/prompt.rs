//! Reads prompts without delaying open streams: how many tokens they have, and for a scheduler what they consist of.
//!
//! Invariant: the engine thread itself reads at most [`MAX_INLINE_BYTES`] per request; equal beginnings of prompts give equal
//! parts.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use tokrate_core::{Content, Image, Message};
use tokrate_sim::Part;
use tokrate_tokens::{Encoding, count, token_ends};

/// Larger prompts are read on another thread (bytes).
const MAX_INLINE_BYTES: usize = 2 * 1024;
/// Most prompts that are remembered.
const MAX_CACHED_PROMPTS: usize = 4096;
/// Most parts of all prompts that are remembered (16 bytes each).
const MAX_CACHED_PARTS: usize = 1 << 20;
/// Tokens of a part: those of a cache block, so that two prompts that begin alike share every block that is the same.
const TOKENS_A_PART: u32 = 16;

/// Tokens of an image, whatever it shows: those of OpenAI's models for one of 1,024 by 1,024 pixels in full detail, 85 and 170 for each
/// of its four tiles.
const TOKENS_AN_IMAGE: u32 = 85 + 4 * 170;

/// What an engine needs to know of a prompt.
#[derive(Clone, Debug)]
pub(crate) struct Prompt {
    /// o200k_base tokens over the texts of all messages, and those of their images.
    pub tokens: u32,
    /// Its contents, if they were asked for.
    pub parts: Arc<[Part]>,
}

/// Reads prompts, and remembers them.
#[derive(Debug, Default)]
pub(crate) struct PromptReader {
    cache: RefCell<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    /// By the hash of roles and contents.
    prompts: HashMap<u64, Prompt>,
    parts: usize,
}

impl PromptReader {
    /// Counts the tokens of a prompt; with `contents` also cuts it into parts.
    pub async fn read(&self, messages: Vec<Message>, contents: bool) -> Prompt {
        let mut hasher = DefaultHasher::new();
        contents.hash(&mut hasher);
        for message in &messages {
            message.role.hash(&mut hasher);
            message.texts().for_each(|text| text.hash(&mut hasher));
            images(message).for_each(|image| image.hash(&mut hasher));
        }
        let hash = hasher.finish();
        if let Some(prompt) = self.cache.borrow().prompts.get(&hash) {
            return prompt.clone();
        }
        let bytes: usize = messages.iter().flat_map(Message::texts).map(str::len).sum();
        let prompt = if bytes <= MAX_INLINE_BYTES {
            read(&messages, contents)
        } else {
            let read = tokio::task::spawn_blocking(move || read(&messages, contents)).await;
            read.expect("reading does not panic and the runtime outlives its requests")
        };
        let mut cache = self.cache.borrow_mut();
        if cache.prompts.len() >= MAX_CACHED_PROMPTS || cache.parts + prompt.parts.len() > MAX_CACHED_PARTS {
            *cache = Cache::default();
        }
        cache.parts += prompt.parts.len();
        cache.prompts.insert(hash, prompt.clone());
        prompt
    }
}

fn read(messages: &[Message], contents: bool) -> Prompt {
    if contents {
        return cut(messages);
    }
    let tokens: usize = messages.iter().flat_map(Message::texts).map(|text| count(Encoding::O200kBase, text)).sum();
    let images: usize = messages.iter().map(|message| images(message).count()).sum();
    let tokens = u32::try_from(tokens.saturating_add(images.saturating_mul(TOKENS_AN_IMAGE as usize)));
    Prompt { tokens: tokens.unwrap_or(u32::MAX), parts: Arc::default() }
}

/// The images of a message, each by its address or its data.
fn images(message: &Message) -> impl Iterator<Item = &str> {
    message.content.iter().filter_map(|content| match content {
        Content::Image(Image::Url(url)) => Some(url.as_str()),
        Content::Image(Image::Data { base64, .. }) => Some(base64.as_str()),
        _ => None,
    })
}

/// Counts tokens and hashes them part by part. A part knows the roles of the messages that begin in it.
fn cut(messages: &[Message]) -> Prompt {
    let mut parts = Vec::new();
    let mut part = (DefaultHasher::new(), 0);
    let mut ends = Vec::new();
    let mut tokens = 0_u32;
    for message in messages {
        message.role.hash(&mut part.0);
        for text in message.texts() {
            ends.clear();
            token_ends(Encoding::O200kBase, text, &mut ends);
            let mut from = 0;
            for &end in &ends {
                // An end may lie inside a character: a token is bytes.
                text.as_bytes()[from..end].hash(&mut part.0);
                from = end;
                part.1 += 1;
                if part.1 == TOKENS_A_PART {
                    let (hasher, tokens) = std::mem::replace(&mut part, (DefaultHasher::new(), 0));
                    parts.push(Part { content: hasher.finish(), tokens });
                }
            }
            tokens = tokens.saturating_add(u32::try_from(ends.len()).unwrap_or(u32::MAX));
        }
        for image in images(message) {
            for nth in 0..TOKENS_AN_IMAGE {
                if nth == 0 || part.1 == 0 {
                    image.hash(&mut part.0);
                }
                part.1 += 1;
                if part.1 == TOKENS_A_PART {
                    let (hasher, tokens) = std::mem::replace(&mut part, (DefaultHasher::new(), 0));
                    parts.push(Part { content: hasher.finish(), tokens });
                }
            }
            tokens = tokens.saturating_add(TOKENS_AN_IMAGE);
        }
    }
    if part.1 > 0 {
        parts.push(Part { content: part.0.finish(), tokens: part.1 });
    }
    Prompt { tokens, parts: parts.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_core::Role;

    fn words(word: &str, count: usize) -> String {
        vec![word; count].join(" ")
    }

    #[test]
    fn an_image_counts_as_a_fixed_number_of_tokens_and_is_a_part_of_its_own() {
        let with = |url: &str| {
            let mut message = Message::text(Role::User, "look");
            message.content.push(Content::Image(Image::Url(url.to_owned())));
            vec![message]
        };
        let (one, other) = (cut(&with("https://example.com/1.png")), cut(&with("https://example.com/2.png")));
        assert_eq!((one.tokens, read(&with("x"), false).tokens), (766, 766));
        assert_eq!(one.parts.iter().map(|part| part.tokens).sum::<u32>(), 766);
        assert_ne!(one.parts, other.parts);
    }

    #[test]
    fn prompts_that_begin_alike_share_the_parts_they_have_in_common() {
        let system = Message::text(Role::System, words("tree", 40));
        let ask = |text: &str| cut(&[system.clone(), Message::text(Role::User, words(text, 30))]);
        let (one, same, other) = (ask("blue"), ask("blue"), ask("green"));
        assert_eq!((one.tokens, one.parts.len()), (70, 5));
        assert_eq!(one.parts, same.parts);
        // 40 tokens of instructions fill two blocks of 16.
        assert_eq!(one.parts[..2], other.parts[..2]);
        assert!(one.parts[2..].iter().zip(&other.parts[2..]).all(|(part, other)| part != other));
        assert_eq!(one.parts.iter().map(|part| part.tokens).collect::<Vec<_>>(), [16, 16, 16, 16, 6]);
        // The same words from another role are another prompt.
        let user = cut(&[Message::text(Role::User, words("tree", 40))]);
        assert_ne!(user.parts[0], one.parts[0]);
        assert_eq!(read(&[system], false).tokens, 40);
    }
}
