//! Which blocks were sent to a lane, and when last: a table of bounded size that forgets the oldest.
//!
//! Invariant: it holds what was noted and nothing else, and never more than [`BlockTable::MAX_BLOCKS`].

use tokrate_core::Tick;

/// Places that a hash may stand in.
const WAYS: usize = 8;
/// Places at the beginning.
const FIRST_BLOCKS: usize = 1_024;

#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u64,
    at: Tick,
}

/// No block: that of a hash which is 0 is never found.
const EMPTY: Slot = Slot { hash: 0, at: Tick::ZERO };

/// The blocks of a lane.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockTable {
    slots: Vec<Slot>,
    held: usize,
}

impl BlockTable {
    /// Most blocks of a lane: 1 MiB of memory for about 8 million tokens of prompts, more than an engine's cache holds.
    pub const MAX_BLOCKS: usize = 65_536;

    /// When a block was sent last.
    pub fn sent_at(&self, hash: u64) -> Option<Tick> {
        self.set(hash).iter().find(|slot| slot.hash == hash && hash != EMPTY.hash).map(|slot| slot.at)
    }

    /// Notes that a block was sent; returns when it was sent before.
    pub fn note(&mut self, hash: u64, at: Tick) -> Option<Tick> {
        if hash == EMPTY.hash {
            return None;
        }
        if self.held * 2 >= self.slots.len() && self.slots.len() < BlockTable::MAX_BLOCKS {
            self.grow();
        }
        let set = self.set_mut(hash);
        if let Some(slot) = set.iter_mut().find(|slot| slot.hash == hash) {
            return Some(std::mem::replace(&mut slot.at, at));
        }
        let oldest = set.iter_mut().min_by_key(|slot| slot.at).expect("a set has places");
        let is_new = oldest.hash == EMPTY.hash;
        *oldest = Slot { hash, at };
        self.held += usize::from(is_new);
        None
    }

    /// A block was in use until `at`, if it is still known.
    pub fn used(&mut self, hash: u64, at: Tick) {
        if let Some(slot) = self.set_mut(hash).iter_mut().find(|slot| slot.hash == hash && hash != EMPTY.hash) {
            slot.at = slot.at.max(at);
        }
    }

    /// Takes back that a block was sent at `at`, if it was not sent again since.
    pub fn take_back(&mut self, hash: u64, at: Tick, before: Option<Tick>) {
        let found = self.set_mut(hash).iter_mut().find(|slot| slot.hash == hash && hash != EMPTY.hash && slot.at == at);
        let Some(slot) = found else { return };
        match before {
            Some(before) => slot.at = before,
            None => {
                *slot = EMPTY;
                self.held -= 1;
            }
        }
    }

    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.held
    }

    fn grow(&mut self) {
        let more = (self.slots.len() * 4).clamp(FIRST_BLOCKS, BlockTable::MAX_BLOCKS);
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; more]);
        self.held = 0;
        for slot in old.into_iter().filter(|slot| slot.hash != EMPTY.hash) {
            self.note(slot.hash, slot.at);
        }
    }

    fn place(&self, hash: u64) -> std::ops::Range<usize> {
        match self.slots.len() / WAYS {
            0 => 0..0,
            sets => {
                let first = (hash % sets as u64) as usize * WAYS;
                first..first + WAYS
            }
        }
    }

    fn set(&self, hash: u64) -> &[Slot] {
        &self.slots[self.place(hash)]
    }

    fn set_mut(&mut self, hash: u64) -> &mut [Slot] {
        let place = self.place(hash);
        &mut self.slots[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use tokrate_core::Rng;

    proptest! {
        #[test]
        fn it_says_nothing_that_was_not_noted_and_forgets_only_for_lack_of_room(
            notes in proptest::collection::vec((1u64..60, 1u64..1_000, any::<bool>()), 1..300),
        ) {
            let mut table = BlockTable::default();
            let mut truth = BTreeMap::new();
            for (hash, at, is_taken_back) in notes {
                let at = Tick::from_nanos(at);
                let before = table.note(hash, at);
                prop_assert_eq!(before, truth.insert(hash, at));
                if is_taken_back {
                    table.take_back(hash, at, before);
                    match before {
                        Some(before) => truth.insert(hash, before),
                        None => truth.remove(&hash),
                    };
                }
                // 60 hashes in 128 sets of 8 places: none has to go.
                for hash in 0..64 {
                    prop_assert_eq!(table.sent_at(hash), truth.get(&hash).copied());
                }
                prop_assert_eq!(table.held(), truth.len());
            }
        }
    }

    #[test]
    fn what_is_used_for_longer_is_as_old_as_its_last_use() {
        let mut table = BlockTable::default();
        table.note(7, Tick::from_nanos(10));
        table.used(7, Tick::from_nanos(30));
        table.used(7, Tick::from_nanos(20));
        table.used(8, Tick::from_nanos(20));
        assert_eq!((table.sent_at(7), table.sent_at(8)), (Some(Tick::from_nanos(30)), None));
    }

    #[test]
    fn it_is_bounded_and_the_oldest_go_first() {
        let mut table = BlockTable::default();
        let mut hashes = Rng::root(1);
        let all: Vec<u64> = (0..3 * BlockTable::MAX_BLOCKS).map(|_| hashes.next_u64()).collect();
        for (number, hash) in all.iter().enumerate() {
            table.note(*hash, Tick::from_nanos(number as u64));
            assert!(table.held() <= BlockTable::MAX_BLOCKS && table.slots.len() <= BlockTable::MAX_BLOCKS);
        }
        let held = |hashes: &[u64]| hashes.iter().filter(|hash| table.sent_at(**hash).is_some()).count();
        let (old, new) = all.split_at(2 * BlockTable::MAX_BLOCKS);
        let newest = &new[new.len() - BlockTable::MAX_BLOCKS / 2..];
        assert!(held(newest) * 100 > newest.len() * 97, "{} of {}", held(newest), newest.len());
        // Sets are not filled evenly: of the first third next to nothing is left.
        assert!(held(&old[..BlockTable::MAX_BLOCKS]) * 100 < BlockTable::MAX_BLOCKS);
    }
}
