//! Token bytes to rank: one lookup in a perfect hash table that lies ready in the binary.
//!
//! It knows nothing of text, pieces or merging. Invariant: `rank` answers exactly for the byte strings of the published
//! vocabulary, because a slot's answer is checked against the token's own bytes. Nothing is built at start-up.

use crate::Encoding;
use crate::layout::{self, MAX_TOKEN_BYTES, Slot};

/// Rank that no token has.
pub(crate) const NO_RANK: u32 = u32::MAX;

/// One vocabulary: little-endian tables as `examples/generate.rs` writes them.
#[derive(Clone, Copy)]
pub(crate) struct Vocabulary {
    pilots: &'static [u8],
    slots: &'static [u8],
    text: &'static [u8],
    neighbours: &'static [u8],
}

static O200K_BASE: Vocabulary = Vocabulary {
    pilots: include_bytes!("../data/o200k_base.pilots.bin"),
    slots: include_bytes!("../data/o200k_base.slots.bin"),
    text: include_bytes!("../data/o200k_base.text.bin"),
    neighbours: include_bytes!("../data/o200k_base.neighbours.bin"),
};

static CL100K_BASE: Vocabulary = Vocabulary {
    pilots: include_bytes!("../data/cl100k_base.pilots.bin"),
    slots: include_bytes!("../data/cl100k_base.slots.bin"),
    text: include_bytes!("../data/cl100k_base.text.bin"),
    neighbours: include_bytes!("../data/cl100k_base.neighbours.bin"),
};

impl Vocabulary {
    /// The vocabulary of an encoding.
    #[inline(always)]
    pub(crate) fn of(encoding: Encoding) -> &'static Vocabulary {
        match encoding {
            Encoding::O200kBase => &O200K_BASE,
            Encoding::Cl100kBase => &CL100K_BASE,
        }
    }

    /// Rank of the token with exactly these bytes, [`NO_RANK`] where there is none.
    #[inline]
    pub(crate) fn rank(&self, key: &[u8]) -> u32 {
        if key.is_empty() || key.len() > MAX_TOKEN_BYTES {
            return NO_RANK;
        }
        let hash = layout::hash(key);
        let pilot = read16(self.pilots, layout::bucket(hash, self.pilots.len() / 2));
        let packed = read64(self.slots, layout::slot(hash, pilot, self.slots.len() / 8));
        match Slot::unpack(packed, hash, key.len()) {
            Some(slot) if self.text.get(slot.offset..slot.offset + slot.length) == Some(key) => slot.rank,
            _ => NO_RANK,
        }
    }

    /// Whether any token has `left` directly followed by `right` inside it. Where none has, no merge ever crosses.
    #[inline(always)]
    pub(crate) fn can_join(&self, left: u8, right: u8) -> bool {
        self.neighbourhood(left, right) & 1 != 0
    }

    /// Whether a token has `left` directly followed by `right` at the border of a character of which it holds only some
    /// bytes. Where none has, both characters at the border come together whole before anything crosses it.
    #[inline(always)]
    pub(crate) fn splits_characters(&self, left: u8, right: u8) -> bool {
        self.neighbourhood(left, right) & 2 != 0
    }

    /// Two bits for each pair of bytes, four pairs to a byte.
    #[inline(always)]
    fn neighbourhood(&self, left: u8, right: u8) -> u8 {
        let pair = usize::from(left) << 8 | usize::from(right);
        self.neighbours.get(pair / 4).map_or(0, |four| four >> (pair % 4 * 2) & 3)
    }
}

#[inline(always)]
fn read16(table: &[u8], index: usize) -> u16 {
    table.get(index * 2..index * 2 + 2).and_then(|word| word.try_into().ok()).map_or(0, u16::from_le_bytes)
}

#[inline(always)]
fn read64(table: &[u8], index: usize) -> u64 {
    table.get(index * 8..index * 8 + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
}
