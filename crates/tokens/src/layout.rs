//! The arithmetic that the table generator and the lookup share: how a byte string is hashed, which bucket and slot
//! it falls into, and how a slot's 64 bits are packed.
//!
//! It knows no vocabulary and reads no table. Invariant: a change of any constant or function here makes the committed
//! `data/*.bin` tables wrong, so they must be generated again with `examples/generate.rs`.

/// Longest token of either vocabulary, in bytes. No longer byte string is ever looked up.
pub const MAX_TOKEN_BYTES: usize = 128;

const RANK_BITS: u32 = 18;
const LENGTH_BITS: u32 = 8;
const OFFSET_BITS: u32 = 21;
const FINGERPRINT_BITS: u32 = 64 - RANK_BITS - LENGTH_BITS - OFFSET_BITS;

/// All bytes of a string of 1 to 16 bytes as two words that may overlap.
#[inline(always)]
fn words(key: &[u8]) -> (u64, u64) {
    let length = key.len();
    match length {
        0..=3 => {
            let low = key.first().copied().unwrap_or(0);
            let middle = key.get(length / 2).copied().unwrap_or(0);
            let high = key.last().copied().unwrap_or(0);
            (u64::from(low) | u64::from(middle) << 8 | u64::from(high) << 16, 0)
        }
        4..=7 => (word32(key, 0), word32(key, length - 4)),
        _ => (word64(key, 0), word64(key, length - 8)),
    }
}

/// Hash of a byte string of 1 to [`MAX_TOKEN_BYTES`] bytes, folded by one 128-bit product: the short strings that nearly
/// all lookups are about cost no loop.
#[inline(always)]
pub fn hash(key: &[u8]) -> u64 {
    let length = key.len();
    let (first, last) = if length <= 16 { words(key) } else { long_words(key) };
    fold(first ^ 0x9e37_79b9_7f4a_7c15, last ^ (length as u64).wrapping_mul(0xd6e8_feb8_6659_fd93))
}

fn long_words(key: &[u8]) -> (u64, u64) {
    let mut state = 0x2d35_8dcc_aa6c_78a5;
    let mut at = 0;
    while at + 16 < key.len() {
        state = fold(state ^ word64(key, at), word64(key, at + 8) ^ 0x8bb8_4b93_962e_acc9);
        at += 16;
    }
    (state ^ word64(key, key.len() - 16), word64(key, key.len() - 8))
}

#[inline(always)]
fn word32(key: &[u8], at: usize) -> u64 {
    key.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, |word| u64::from(u32::from_le_bytes(word)))
}

#[inline(always)]
fn word64(key: &[u8], at: usize) -> u64 {
    key.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

/// Bucket of a hash among `buckets`.
#[inline(always)]
pub fn bucket(hash: u64, buckets: usize) -> usize {
    (((hash >> 32) * buckets as u64) >> 32) as usize
}

/// Slot of a hash among `slots` under its bucket's pilot: the generator chose the pilot so that no two tokens share one.
#[inline(always)]
pub fn slot(hash: u64, pilot: u16, slots: usize) -> usize {
    let mixed = (hash ^ u64::from(pilot).wrapping_mul(0xc2b2_ae3d_27d4_eb4f)).wrapping_mul(0x9fb2_1c65_1e98_df25);
    (((mixed >> 32) * slots as u64) >> 32) as usize
}

/// What a slot says about its token. An unused slot is all zero: its length 0 matches no key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Token id, which is also its merge rank.
    pub rank: u32,
    /// Where its bytes start in the table of token bytes.
    pub offset: usize,
    /// How many bytes it has.
    pub length: usize,
}

impl Slot {
    /// Packs the slot together with the fingerprint of its token's hash.
    #[allow(dead_code, reason = "only the table generator packs")]
    pub fn pack(self, hash: u64) -> u64 {
        assert!(self.rank < 1 << RANK_BITS && self.offset < 1 << OFFSET_BITS && self.length < 1 << LENGTH_BITS);
        tag(hash, self.length) | (self.offset as u64) << RANK_BITS | u64::from(self.rank)
    }

    /// Reads a packed slot, or `None` where its length and fingerprint already rule the key out.
    #[inline(always)]
    pub fn unpack(packed: u64, hash: u64, length: usize) -> Option<Slot> {
        if packed >> (RANK_BITS + OFFSET_BITS) != tag(hash, length) >> (RANK_BITS + OFFSET_BITS) {
            return None;
        }
        Some(Slot {
            rank: (packed & ((1 << RANK_BITS) - 1)) as u32,
            offset: (packed >> RANK_BITS & ((1 << OFFSET_BITS) - 1)) as usize,
            length,
        })
    }
}

/// Length and fingerprint in the upper bits of a slot, so that one comparison rules out nearly every wrong key.
#[inline(always)]
fn tag(hash: u64, length: usize) -> u64 {
    let fingerprint = hash & ((1 << FINGERPRINT_BITS) - 1);
    (fingerprint << LENGTH_BITS | length as u64) << (RANK_BITS + OFFSET_BITS)
}
