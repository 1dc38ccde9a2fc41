//! Reads prompts without delaying open streams: how many tokens they have, and for a scheduler what they consist of.
//!
//! Invariant: the engine thread itself reads at most [`MAX_INLINE_BYTES`] per request; equal beginnings of prompts give equal
//! parts.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use tokrate_core::{Content, Image, Message, Span};
use tokrate_sim::{Part, picture_tokens, sound_tokens};
use tokrate_tokens::{Encoding, count, token_ends};
use tokrate_wire::media::{picture_size_of_base64, sound_of};

/// Larger prompts are read on another thread (bytes).
const MAX_INLINE_BYTES: usize = 2 * 1024;
/// Most prompts that are remembered.
const MAX_CACHED_PROMPTS: usize = 4096;
/// Most parts of all prompts that are remembered (16 bytes each).
const MAX_CACHED_PARTS: usize = 1 << 20;
/// Tokens of a part: those of a cache block, so that two prompts that begin alike share every block that is the same.
const TOKENS_A_PART: u32 = 16;

/// Pictures that are remembered as encoded.
const MAX_SEEN_PICTURES: usize = 1 << 20;
/// Tokens of an image whose size is not known: those of OpenAI's models for one of 1,024 by 1,024 pixels in full detail, 85 and 170 for
/// each of its four tiles.
const TOKENS_AN_IMAGE: u32 = 85 + 4 * 170;

/// What an engine needs to know of a prompt.
#[derive(Clone, Debug)]
pub(crate) struct Prompt {
    /// o200k_base tokens over the texts of all messages, and those of their images.
    pub tokens: u32,
    /// Its contents, if they were asked for.
    pub parts: Arc<[Part]>,
    /// Its pictures and sound.
    pub media: Media,
}

/// The pictures and the sound of a prompt.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Media {
    /// Each picture: hash of its content, and pixels; 0 where its size is not known.
    pub pictures: Arc<[(u64, u64)]>,
    /// Length of all sound.
    pub sound: Span,
}

impl Media {
    fn of(messages: &[Message]) -> Media {
        let pictures = messages.iter().flat_map(images).map(|image| {
            let mut hasher = DefaultHasher::new();
            image.hash(&mut hasher);
            (hasher.finish(), picture_size_of_base64(image).map_or(0, |size| size.pixels()))
        });
        Media {
            pictures: pictures.collect(),
            sound: messages.iter().flat_map(sounds).fold(Span::ZERO, |sum, one| sum + one),
        }
    }

    /// Pixels of all pictures.
    pub fn pixels(&self) -> u64 {
        self.pictures.iter().map(|(_, pixels)| pixels).sum()
    }
}

/// Reads prompts, and remembers them.
#[derive(Debug, Default)]
pub(crate) struct PromptReader {
    cache: RefCell<Cache>,
    /// Pictures that were encoded before, by the hash of their content.
    seen: RefCell<HashSet<u64>>,
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
            others(message).for_each(|other| other.hash(&mut hasher));
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

    /// Pixels of the pictures that an earlier request had, or the same one before; remembers the others.
    pub fn known_pixels(&self, media: &Media) -> u64 {
        let mut seen = self.seen.borrow_mut();
        if seen.len() > MAX_SEEN_PICTURES {
            seen.clear();
        }
        media.pictures.iter().filter(|(hash, _)| !seen.insert(*hash)).map(|(_, pixels)| pixels).sum()
    }
}

fn read(messages: &[Message], contents: bool) -> Prompt {
    if contents {
        return cut(messages);
    }
    let tokens: usize = messages.iter().flat_map(Message::texts).map(|text| count(Encoding::O200kBase, text)).sum();
    let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
    let media = messages.iter().flat_map(media_tokens).fold(0_u32, |sum, (_, tokens)| sum.saturating_add(tokens));
    Prompt { tokens: tokens.saturating_add(media), parts: Arc::default(), media: Media::of(messages) }
}

/// The pictures and the sound of a message, each with its tokens.
fn media_tokens(message: &Message) -> impl Iterator<Item = (&str, u32)> {
    let tokens = |image: &str| {
        picture_size_of_base64(image).map_or(TOKENS_AN_IMAGE, |size| picture_tokens(size.width, size.height))
    };
    let sounds = others(message).filter_map(|other| Some((other, sound_tokens(sound_of(other)?.0))));
    images(message).map(move |image| (image, tokens(image))).chain(sounds)
}

/// Parts of a message that have no kind of their own, such as sound.
fn others(message: &Message) -> impl Iterator<Item = &str> {
    message
        .content
        .iter()
        .filter_map(|content| if let Content::Other(json) = content { Some(json.as_str()) } else { None })
}

/// The lengths of the sounds of a message.
fn sounds(message: &Message) -> impl Iterator<Item = Span> {
    others(message).filter_map(|other| Some(sound_of(other)?.0))
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
        for (content, of_it) in media_tokens(message) {
            for nth in 0..of_it {
                if nth == 0 || part.1 == 0 {
                    content.hash(&mut part.0);
                }
                part.1 += 1;
                if part.1 == TOKENS_A_PART {
                    let (hasher, tokens) = std::mem::replace(&mut part, (DefaultHasher::new(), 0));
                    parts.push(Part { content: hasher.finish(), tokens });
                }
            }
            tokens = tokens.saturating_add(of_it);
        }
    }
    if part.1 > 0 {
        parts.push(Part { content: part.0.finish(), tokens: part.1 });
    }
    Prompt { tokens, parts: parts.into(), media: Media::of(messages) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_core::Role;
    use tokrate_wire::media;

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

    #[test]
    fn pictures_and_sound_count_by_their_sizes_and_are_remembered() {
        let mut message = Message::text(Role::User, "look");
        let picture = |seed: u64| {
            let bytes = media::mosaic(media::PictureFormat::Png, 56, 30, &mut tokrate_core::Rng::root(seed));
            Content::Image(Image::Data { media_type: "image/png".to_owned(), base64: media::to_base64(&bytes) })
        };
        let wave = tokrate_wire::sound::made_up(Span::from_secs(2), 16_000, &mut tokrate_core::Rng::root(0));
        message.content.push(picture(1));
        message.content.extend(media::sound_part(tokrate_wire::Dialect::OpenAiChat, &media::to_base64(&wave)));
        let messages = [message];
        let (counted, parts) = (read(&messages, false), cut(&messages));
        // A word, two by two squares of 28 pixels, 25 tokens a second.
        assert_eq!((counted.tokens, parts.tokens), (1 + 4 + 50, 55));
        assert_eq!((counted.media.pixels(), counted.media.sound), (56 * 30, Span::from_secs(2)));
        let reader = PromptReader::default();
        assert_eq!([reader.known_pixels(&counted.media), reader.known_pixels(&counted.media)], [0, 56 * 30]);
    }
}
