//! Synthetic prompts with an exact o200k token count, unique per request.
//!
//! Invariant: `tokens::count` of the content is the requested length; two prompts of a run share no more than the shared
//! prefix and words that coincide by chance.

use tokrate_core::Rng;
use tokrate_tokens::{Encoding, count};

/// Asks for a long answer; put behind the words when there is room, so that real models do not answer in one line.
const INSTRUCTION: &str = "\n\nWrite a very long story that uses these words. Do not stop early.";

/// What prompts look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PromptSpec {
    /// Tokens of the content (o200k_base), exact.
    pub input_tokens: u32,
    /// Leading tokens that all prompts of a run share.
    pub shared_prefix_tokens: u32,
}

/// Generates prompts from words.
#[derive(Debug)]
pub struct Synthetic {
    spec: PromptSpec,
    words: &'static [&'static str],
    prefix: String,
    instruction: &'static str,
    unique_tokens: u32,
    rng: Rng,
}

impl Synthetic {
    /// Prompts drawn by `rng` from `words`, each of which is one o200k token with its leading space.
    pub fn new(spec: PromptSpec, words: &'static [&'static str], rng: Rng) -> Synthetic {
        let instruction_tokens = count(Encoding::O200kBase, INSTRUCTION) as u32;
        let shared = spec.shared_prefix_tokens.min(spec.input_tokens);
        let room = spec.input_tokens - shared;
        // At least as many words as the instruction has tokens, or the prompts would be too similar.
        let fits = room >= 2 * instruction_tokens;
        let (instruction, unique_tokens) = if fits { (INSTRUCTION, room - instruction_tokens) } else { ("", room) };
        let mut prefix = String::new();
        append_words(&mut prefix, words, shared, &mut rng.child("shared prefix"));
        Synthetic { spec, words, prefix, instruction, unique_tokens, rng: rng.child("unique") }
    }

    /// The content of the `index`-th prompt; the same every time.
    pub fn content(&self, index: u64) -> String {
        let mut content = String::with_capacity(self.spec.input_tokens as usize * 6);
        content.push_str(&self.prefix);
        append_words(&mut content, self.words, self.unique_tokens, &mut self.rng.nth(index));
        content.push_str(self.instruction);
        content
    }
}

/// Adds `tokens` words; a word is one token with the space before it.
pub fn append_words(content: &mut String, words: &[&str], tokens: u32, rng: &mut Rng) {
    for _ in 0..tokens {
        content.push_str(words[rng.below(words.len() as u64) as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert_eq, proptest};
    use tokrate_sim::WORDS;

    fn prompts(input_tokens: u32, shared_prefix_tokens: u32, seed: u64) -> Synthetic {
        Synthetic::new(PromptSpec { input_tokens, shared_prefix_tokens }, WORDS, Rng::root(seed))
    }

    #[test]
    fn prompts_differ_after_the_shared_prefix_and_repeat_for_the_same_index() {
        let prompts = prompts(200, 50, 1);
        let (one, two) = (prompts.content(0), prompts.content(1));
        assert_eq!(one, prompts.content(0));
        assert_ne!(one, two);
        let shared = one.bytes().zip(two.bytes()).take_while(|(a, b)| a == b).count();
        let shared_tokens = count(Encoding::O200kBase, &one[..shared]);
        assert!((50..56).contains(&shared_tokens), "{shared_tokens}");
    }

    proptest! {
        #[test]
        fn the_length_is_exact(tokens in 1u32..600, shared in 0u32..700, seed in proptest::num::u64::ANY, index in 0u64..50) {
            let content = prompts(tokens, shared, seed).content(index);
            prop_assert_eq!(count(Encoding::O200kBase, &content), tokens as usize);
        }
    }
}
