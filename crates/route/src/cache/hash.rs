//! Hashes of the beginnings of a prompt.
//!
//! Invariant: two prompts have the same hash for a block only if they are the same up to its end (but for accidents of 64 bits), and
//! nobody without the key can tell which prompts have which hashes.

use std::sync::Arc;

/// The blocks of a prompt.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PromptBlocks {
    /// A hash for each whole block, over all up to its end.
    pub hashes: Arc<[u64]>,
    /// Tokens of a block, about.
    pub block_tokens: f64,
    /// Tokens of the whole prompt.
    pub tokens: f64,
}

/// Hashes a prompt as it goes by, in one pass.
#[derive(Clone, Debug)]
pub struct PromptHasher {
    key: u64,
    state: u64,
    /// Bytes of the word that is not complete.
    word: [u8; WORD],
    filled: usize,
    /// Whole words of the block that is not complete.
    words: usize,
    bytes: u64,
    hashes: Vec<u64>,
}

const WORD: usize = 16;

impl PromptHasher {
    /// Bytes of a block: about 128 tokens, the step in which OpenAI counts cached tokens; engines' blocks are shorter.
    pub const BLOCK_BYTES: usize = 512;
    /// Blocks that are looked at, from the first: 2 MiB of a prompt.
    pub const MAX_BLOCKS: usize = 4_096;

    /// A hasher under a secret key.
    pub fn new(key: [u64; 2]) -> PromptHasher {
        PromptHasher { key: key[0], state: key[1], word: [0; WORD], filled: 0, words: 0, bytes: 0, hashes: Vec::new() }
    }

    /// What keeps prompts apart that are otherwise the same. Its length counts, so that it cannot run into the prompt.
    pub fn salt(&mut self, salt: &[u8]) {
        self.state = folded(self.state ^ salt.len() as u64, self.key);
        for part in salt.chunks(WORD) {
            let mut word = [0; WORD];
            word[..part.len()].copy_from_slice(part);
            self.state = mixed(self.state, self.key, &word);
        }
    }

    /// More of the prompt.
    pub fn update(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let mut rest = bytes;
        if self.filled > 0 {
            let taken = rest.len().min(WORD - self.filled);
            self.word[self.filled..self.filled + taken].copy_from_slice(&rest[..taken]);
            self.filled += taken;
            rest = &rest[taken..];
            if self.filled < WORD {
                return;
            }
            let word = self.word;
            self.push(&word);
        }
        let (words, rest) = rest.as_chunks::<WORD>();
        for word in words {
            if self.hashes.len() >= PromptHasher::MAX_BLOCKS {
                break;
            }
            self.push(word);
        }
        self.word[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
    }

    fn push(&mut self, word: &[u8; WORD]) {
        self.filled = 0;
        self.state = mixed(self.state, self.key, word);
        self.words += 1;
        if self.words == PromptHasher::BLOCK_BYTES / WORD {
            self.words = 0;
            if self.hashes.len() < PromptHasher::MAX_BLOCKS {
                self.hashes.push(self.state);
            }
        }
    }

    /// The blocks of what went by, which is so many tokens. What does not fill a block is in none.
    pub fn finish(self, tokens: u64) -> PromptBlocks {
        let tokens = tokens as f64;
        let blocks = self.bytes as f64 / PromptHasher::BLOCK_BYTES as f64;
        PromptBlocks { hashes: self.hashes.into(), block_tokens: tokens / blocks.max(1.0), tokens }
    }
}

fn mixed(state: u64, key: u64, word: &[u8; WORD]) -> u64 {
    let (one, other) = word.split_at(WORD / 2);
    let number = |half: &[u8]| u64::from_le_bytes(half.try_into().expect("half of 16 bytes is 8"));
    folded(number(one) ^ key, number(other) ^ state)
}

/// The halves of the product on top of each other, as the wyhash family mixes (Wang Yi 2019).
fn folded(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    (product as u64) ^ ((product >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blocks(parts: &[&[u8]]) -> Vec<u64> {
        let mut hasher = PromptHasher::new([7, 9]);
        parts.iter().for_each(|part| hasher.update(part));
        hasher.finish(100).hashes.to_vec()
    }

    proptest! {
        #[test]
        fn blocks_are_the_same_as_far_as_prompts_are_and_however_they_are_cut(
            bytes in proptest::collection::vec(any::<u8>(), 0..4_000),
            cuts in proptest::collection::vec(0usize..4_000, 0..6),
            changed in 0usize..4_000,
        ) {
            let whole = blocks(&[&bytes]);
            prop_assert_eq!(whole.len(), bytes.len() / PromptHasher::BLOCK_BYTES);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let parts: Vec<&[u8]> = cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
            prop_assert_eq!(&whole, &blocks(&parts));
            if changed < bytes.len() {
                let mut other = bytes.clone();
                other[changed] ^= 1;
                let other = blocks(&[&other]);
                let same = changed / PromptHasher::BLOCK_BYTES;
                for place in 0..whole.len() {
                    prop_assert_eq!(whole[place] == other[place], place < same);
                }
            }
        }
    }

    #[test]
    fn another_key_or_salt_gives_other_hashes() {
        let text = [b'x'; 2_048];
        let with = |key, salt: &[&[u8]]| {
            let mut hasher = PromptHasher::new(key);
            salt.iter().for_each(|salt| hasher.salt(salt));
            hasher.update(&text);
            hasher.finish(500).hashes
        };
        let plain = with([7, 9], &[]);
        assert_eq!(plain.len(), 4);
        for other in [with([8, 9], &[]), with([7, 8], &[]), with([7, 9], &[b"a"]), with([7, 9], &[b"a", b""])] {
            assert!(plain.iter().zip(other.iter()).all(|(one, two)| one != two));
        }
        assert_ne!(with([7, 9], &[b"ab", b""]), with([7, 9], &[b"a", b"b"]));
    }

    #[test]
    fn the_end_of_a_prompt_that_is_longer_than_any_is_not_looked_at() {
        let long = vec![b'x'; PromptHasher::BLOCK_BYTES * (PromptHasher::MAX_BLOCKS + 10)];
        assert_eq!(blocks(&[&long, &long]).len(), PromptHasher::MAX_BLOCKS);
    }
}
