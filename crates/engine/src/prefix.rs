//! What a prompt consists of, as far as a prefix cache can see it: hashes of whole blocks, each over all tokens up to its end.

/// Consecutive tokens of one content. Two prompts begin alike as far as their parts are the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    /// Which content.
    pub content: u64,
    /// Its first so many tokens.
    pub tokens: u32,
}

/// Hashes of the whole blocks that the parts fill, in order.
pub(crate) fn block_hashes(parts: &[Part], block_size: u32) -> Vec<u64> {
    let mut hashes = Vec::new();
    let mut hash = SEED;
    let mut room = block_size;
    for part in parts {
        let mut at = 0;
        while at < part.tokens {
            let taken = room.min(part.tokens - at);
            // Equal tokens give equal blocks, whatever lengths the parts were cut to.
            hash = mixed(mixed(hash, part.content), (u64::from(at) << 32) | u64::from(at + taken));
            at += taken;
            room -= taken;
            if room == 0 {
                hashes.push(hash);
                room = block_size;
            }
        }
    }
    hashes
}

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of splitmix64 over both (Steele, Lea, Flood 2014).
fn mixed(hash: u64, value: u64) -> u64 {
    let mut z = hash ^ value.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(content: u64, tokens: u32) -> Part {
        Part { content, tokens }
    }

    #[test]
    fn prompts_share_the_blocks_they_have_in_common() {
        let short = block_hashes(&[part(1, 40)], 16);
        let long = block_hashes(&[part(1, 100), part(2, 30)], 16);
        assert_eq!((short.len(), long.len()), (2, 8), "only whole blocks");
        assert_eq!(short, long[..2]);
        let other = block_hashes(&[part(1, 100), part(3, 30)], 16);
        assert_eq!(long[..6], other[..6], "96 tokens in common");
        assert!(long[6..].iter().zip(&other[6..]).all(|(one, two)| one != two));
        assert!(block_hashes(&[part(4, 15)], 16).is_empty());
    }
}
