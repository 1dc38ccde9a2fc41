//! Synthetic prompts with an exact o200k token count, unique per request.
//!
//! Invariant: `tokens::count` of the content is the requested length; two prompts of a run share no more than the shared
//! prefix and words that coincide by chance.

use tokrate_core::Rng;
use tokrate_tokens::{Encoding, count};

/// Asks for a long answer; put behind the words when there is room, so that real models do not answer in one line.
const INSTRUCTION: &str = "\n\nWrite a very long story that uses these words. Do not stop early.";

/// Tokens of a sentence, its full stop included.
const SENTENCE_TOKENS: u32 = 12;

/// What a prompt looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PromptSpec {
    /// Tokens of the content (o200k_base), exact.
    pub input_tokens: u32,
    /// Leading tokens that all prompts of its group share; more than `input_tokens` are as many.
    pub shared_prefix_tokens: u32,
    /// Which group: prompts of different groups share nothing. 0 where all prompts of a run share one prefix.
    pub group: u32,
}

/// Generates prompts from words.
#[derive(Debug)]
pub struct Synthetic {
    words: &'static [&'static str],
    instruction: &'static str,
    instruction_tokens: u32,
    has_sentences: bool,
    prefix: Rng,
    unique: Rng,
}

impl Synthetic {
    /// Prompts drawn by `rng` from `words`, each of which is one o200k token with its leading space.
    pub fn new(words: &'static [&'static str], rng: Rng) -> Synthetic {
        let instruction_tokens = count(Encoding::O200kBase, INSTRUCTION) as u32;
        Synthetic {
            words,
            instruction: INSTRUCTION,
            instruction_tokens,
            has_sentences: false,
            prefix: rng.child("shared prefix"),
            unique: rng.child("unique"),
        }
    }

    /// The same without the words that ask for a long answer: texts that are to be embedded or ranked ask for nothing.
    pub fn without_instruction(self) -> Synthetic {
        Synthetic { instruction: "", instruction_tokens: 0, ..self }
    }

    /// The same in sentences: texts that are said aloud have them, and engines cut them there.
    pub fn in_sentences(self) -> Synthetic {
        Synthetic { has_sentences: true, ..self }
    }

    /// The content of the `index`-th prompt; the same every time. A shorter prefix of a group is the beginning of a longer one.
    pub fn content(&self, spec: PromptSpec, index: u64) -> String {
        let shared = spec.shared_prefix_tokens.min(spec.input_tokens);
        let room = spec.input_tokens - shared;
        // At least as many words as the instruction has tokens, or the prompts would be too similar.
        let fits = room >= 2 * self.instruction_tokens;
        let (instruction, own) = if fits { (self.instruction, room - self.instruction_tokens) } else { ("", room) };
        let mut prefix = match spec.group {
            0 => self.prefix.clone(),
            group => self.prefix.nth(u64::from(group)),
        };
        let mut content = String::with_capacity(spec.input_tokens as usize * 6);
        append_words(&mut content, self.words, shared, &mut prefix);
        match self.has_sentences {
            false => append_words(&mut content, self.words, own, &mut self.unique.nth(index)),
            true => append_sentences(&mut content, self.words, own, &mut self.unique.nth(index)),
        }
        content.push_str(instruction);
        content
    }
}

/// Adds `tokens` words; a word is one token with the space before it.
pub fn append_words(content: &mut String, words: &[&str], tokens: u32, rng: &mut Rng) {
    for _ in 0..tokens {
        content.push_str(words[rng.below(words.len() as u64) as usize]);
    }
}

/// Adds `tokens` words and full stops, each of which is a token.
fn append_sentences(content: &mut String, words: &[&str], tokens: u32, rng: &mut Rng) {
    let mut rest = tokens;
    while rest > 0 {
        // No sentence of one word or none is left over.
        let sentence = if rest < SENTENCE_TOKENS + 3 { rest } else { SENTENCE_TOKENS };
        append_words(content, words, sentence.saturating_sub(1).max(1), rng);
        content.push_str(if sentence > 1 { "." } else { "" });
        rest -= sentence;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert_eq, proptest};
    use tokrate_sim::WORDS;

    fn content(input_tokens: u32, shared_prefix_tokens: u32, group: u32, index: u64) -> String {
        let spec = PromptSpec { input_tokens, shared_prefix_tokens, group };
        Synthetic::new(WORDS, Rng::root(1)).content(spec, index)
    }

    /// Tokens that two prompts share from their beginning on.
    fn shared(one: &str, two: &str) -> usize {
        let shared = one.bytes().zip(two.bytes()).take_while(|(a, b)| a == b).count();
        count(Encoding::O200kBase, &one[..shared])
    }

    #[test]
    fn prompts_differ_after_the_shared_prefix_and_repeat_for_the_same_index() {
        let (one, two) = (content(200, 50, 0, 0), content(200, 50, 0, 1));
        assert_eq!(one, content(200, 50, 0, 0));
        assert_ne!(one, two);
        assert!((50..56).contains(&shared(&one, &two)), "{}", shared(&one, &two));
    }

    #[test]
    fn groups_share_a_prefix_among_themselves_and_the_longer_one_goes_on_where_the_shorter_ends() {
        assert!((60..66).contains(&shared(&content(300, 60, 3, 0), &content(300, 90, 3, 1))));
        assert!(shared(&content(300, 60, 3, 0), &content(300, 60, 4, 1)) < 6);
    }

    proptest! {
        #[test]
        fn the_length_is_exact(
            input_tokens in 1u32..600, shared_prefix_tokens in 0u32..700, group in 0u32..4, seed in proptest::num::u64::ANY, index in 0u64..50,
        ) {
            let spec = PromptSpec { input_tokens, shared_prefix_tokens, group };
            let content = Synthetic::new(WORDS, Rng::root(seed)).content(spec, index);
            prop_assert_eq!(count(Encoding::O200kBase, &content), input_tokens as usize);
            let said = Synthetic::new(WORDS, Rng::root(seed)).without_instruction().in_sentences().content(spec, index);
            prop_assert_eq!(count(Encoding::O200kBase, &said), input_tokens as usize);
        }
    }
}
