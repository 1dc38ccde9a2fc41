//! The lines of a text as numbers: equal lines have equal numbers, the first line 0, the next that is another one 1, and so on.
//!
//! Invariant: the places of a number are in order, and what a number is called by depends on the text alone.

use foldhash::fast::RandomState;
use std::hash::{BuildHasher, Hasher};

/// Slots of a table at first.
const MIN_SLOTS: usize = 64;
/// Slots that space is reserved for at first, however long the text.
const MAX_SLOTS: usize = 4_096;
/// A slot that holds nothing.
const EMPTY: u64 = u64::MAX;

/// The numbers of lines, and where each number stands.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    /// The number of each line.
    pub ids: Vec<u32>,
    pub places: Places,
    hasher: RandomState,
    /// Half of the hash of a line, and its number: where the hash says, or in one of the slots behind.
    slots: Vec<u64>,
}

impl Numbers {
    /// Those of so many lines.
    pub fn of<'l>(count: usize, line: impl Fn(usize) -> &'l str) -> Numbers {
        let slots = (2 * count).clamp(MIN_SLOTS, MAX_SLOTS).next_power_of_two();
        let mut all = Numbers {
            ids: Vec::with_capacity(count),
            places: Places::default(),
            hasher: RandomState::default(),
            slots: vec![EMPTY; slots],
        };
        let mut firsts: Vec<u32> = Vec::with_capacity(count.min(MAX_SLOTS));
        for at in 0..count {
            let text = line(at);
            let hash = all.hash(text);
            let id = match all.slot_of(hash, |id| line(firsts[id as usize] as usize) == text) {
                Ok(id) => id,
                Err(slot) => {
                    let id = firsts.len() as u32;
                    firsts.push(at as u32);
                    all.slots[slot] = u64::from(hash) << 32 | u64::from(id);
                    if 2 * firsts.len() > all.slots.len() {
                        all.grow();
                    }
                    id
                }
            };
            all.ids.push(id);
        }
        all.places = Places::of(&all.ids, firsts.len());
        all
    }

    /// The number of a line, if there is one like it.
    pub fn id_of<'l>(&self, text: &str, line: impl Fn(usize) -> &'l str) -> Option<u32> {
        self.slot_of(self.hash(text), |id| line(self.places.of_id(id)[0] as usize) == text).ok()
    }

    fn hash(&self, text: &str) -> u32 {
        // Not all bits are set, so that no slot is an empty one.
        let mut hasher = self.hasher.build_hasher();
        hasher.write(text.as_bytes());
        (hasher.finish() >> 33) as u32
    }

    /// The number that has a hash and is the one asked for, or the slot in which it would stand.
    fn slot_of(&self, hash: u32, is_same: impl Fn(u32) -> bool) -> Result<u32, usize> {
        let last = self.slots.len() - 1;
        let mut at = hash as usize & last;
        loop {
            match self.slots[at] {
                EMPTY => return Err(at),
                slot if (slot >> 32) as u32 == hash && is_same(slot as u32) => return Ok(slot as u32),
                _ => at = (at + 1) & last,
            }
        }
    }

    fn grow(&mut self) {
        let wider = vec![EMPTY; 2 * self.slots.len()];
        let last = wider.len() - 1;
        for slot in std::mem::replace(&mut self.slots, wider).into_iter().filter(|slot| *slot != EMPTY) {
            let mut at = (slot >> 32) as usize & last;
            while self.slots[at] != EMPTY {
                at = (at + 1) & last;
            }
            self.slots[at] = slot;
        }
    }
}

/// Where each of some numbers stands.
#[derive(Clone, Default, Debug)]
pub(crate) struct Places {
    /// The places, those of one number after those of another, and where those of each begin.
    places: Vec<u32>,
    begins: Vec<u32>,
}

impl Places {
    /// Those of numbers that are less than a count.
    pub fn of(ids: &[u32], count: usize) -> Places {
        let mut begins = vec![0_u32; count + 2];
        ids.iter().for_each(|&id| begins[id as usize + 2] += 1);
        for number in 2..begins.len() {
            begins[number] += begins[number - 1];
        }
        let mut places = vec![0; ids.len()];
        for (at, &id) in ids.iter().enumerate() {
            let next = &mut begins[id as usize + 1];
            places[*next as usize] = at as u32;
            *next += 1;
        }
        Places { places, begins }
    }

    /// How many numbers there are.
    pub fn count(&self) -> usize {
        self.begins.len().saturating_sub(2)
    }

    /// Where a number stands; nowhere, if it is none.
    pub fn of_id(&self, id: u32) -> &[u32] {
        match self.begins.get(id as usize..id as usize + 2) {
            Some(&[begin, end]) if (id as usize) < self.count() => &self.places[begin as usize..end as usize],
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equal_lines_have_equal_numbers(lines in prop::collection::vec("[ab]{0,4}", 0..400)) {
            let line = |at: usize| -> &str { &lines[at] };
            let numbers = Numbers::of(lines.len(), line);
            let mut seen: Vec<&str> = Vec::new();
            for (at, text) in lines.iter().enumerate() {
                let id = numbers.ids[at];
                if id as usize == seen.len() {
                    seen.push(text);
                }
                prop_assert_eq!(seen[id as usize], text);
                prop_assert_eq!(numbers.id_of(text, line), Some(id));
                prop_assert!(numbers.places.of_id(id).contains(&(at as u32)));
            }
            prop_assert_eq!(numbers.places.count(), seen.len());
            let all: Vec<u32> = (0..=seen.len() as u32).flat_map(|id| numbers.places.of_id(id).iter().copied()).collect();
            prop_assert_eq!(all.len(), lines.len());
            prop_assert_eq!(numbers.id_of("c", line), None);
        }
    }
}
