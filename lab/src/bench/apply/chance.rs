//! Numbers drawn from a seed.
//!
//! It refuses any other source of chance. Invariant: the same seed draws the same numbers.

/// A SplitMix64 generator.
pub struct Chance(u64);

impl Chance {
    /// A generator of a seed.
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// A generator of a seed and a text.
    pub fn of(seed: u64, text: &str) -> Chance {
        // FNV-1a: the standard hasher promises no stability.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Chance(seed ^ hash)
    }

    /// A number below a bound, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    /// One of several.
    pub fn one_of<'a, T>(&mut self, several: &'a [T]) -> &'a T {
        &several[self.below(several.len())]
    }

    /// Whether a coin fell on its head.
    pub fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    /// Brings a list into another order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for place in (1..list.len()).rev() {
            let other = self.below(place + 1);
            list.swap(place, other);
        }
    }
}
