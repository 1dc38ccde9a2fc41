//! The blocks of the key-value cache: who holds them, and what those that nobody holds still contain.
//!
//! Invariant: every block is held or in the list of free ones, never both; a free block that holds a known prefix is the last to
//! be overwritten, the longest unused first (as vLLM's block pool does).

use std::collections::BTreeMap;

/// No block.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Block {
    holders: u32,
    /// Hash of the tokens up to its end, if it is full of prompt tokens.
    hash: Option<u64>,
    /// Neighbours in the list of free blocks.
    previous: u32,
    next: u32,
}

/// The pool of blocks.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    blocks: Vec<Block>,
    by_hash: BTreeMap<u64, u32>,
    first: u32,
    last: u32,
    free: u32,
}

impl Blocks {
    pub fn new(count: u32) -> Blocks {
        let mut pool = Blocks { blocks: Vec::new(), by_hash: BTreeMap::new(), first: NONE, last: NONE, free: 0 };
        pool.blocks = vec![Block { holders: 0, hash: None, previous: NONE, next: NONE }; count as usize];
        for id in 0..count {
            pool.append(id);
        }
        pool
    }

    /// Blocks that nobody holds.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Blocks in all.
    pub fn count(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// How many of these blocks, from the first, are in the cache, and how many of those nobody holds.
    pub fn find(&self, hashes: &[u64]) -> (u32, u32) {
        let known = hashes.iter().map_while(|hash| self.by_hash.get(hash));
        known
            .fold((0, 0), |(found, unheld), id| (found + 1, unheld + u32::from(self.blocks[*id as usize].holders == 0)))
    }

    /// Takes the first `count` of these blocks, which [`Blocks::find`] has found.
    pub fn hold(&mut self, hashes: &[u64], count: u32, into: &mut Vec<u32>) {
        for hash in &hashes[..count as usize] {
            let id = self.by_hash[hash];
            if self.blocks[id as usize].holders == 0 {
                self.unlink(id);
            }
            self.blocks[id as usize].holders += 1;
            into.push(id);
        }
    }

    /// Takes a free block; what it contained is forgotten.
    pub fn take(&mut self) -> Option<u32> {
        if self.first == NONE {
            return None;
        }
        let id = self.first;
        self.unlink(id);
        let block = &mut self.blocks[id as usize];
        block.holders = 1;
        if let Some(hash) = block.hash.take() {
            self.by_hash.remove(&hash);
        }
        Some(id)
    }

    /// Notes what a block contains, now that it is full.
    pub fn label(&mut self, id: u32, hash: u64) {
        if self.blocks[id as usize].hash.is_none() && !self.by_hash.contains_key(&hash) {
            self.blocks[id as usize].hash = Some(hash);
            self.by_hash.insert(hash, id);
        }
    }

    /// Gives blocks back. The end of a prompt is overwritten before its beginning, which more requests share.
    pub fn release(&mut self, blocks: &mut Vec<u32>) {
        while let Some(id) = blocks.pop() {
            let block = &mut self.blocks[id as usize];
            assert!(block.holders > 0, "a block is given back once by each holder");
            block.holders -= 1;
            if block.holders == 0 {
                self.append(id);
            }
        }
    }

    fn append(&mut self, id: u32) {
        let last = self.last;
        let block = &mut self.blocks[id as usize];
        (block.previous, block.next) = (last, NONE);
        match last {
            NONE => self.first = id,
            last => self.blocks[last as usize].next = id,
        }
        self.last = id;
        self.free += 1;
    }

    fn unlink(&mut self, id: u32) {
        let Block { previous, next, .. } = self.blocks[id as usize];
        match previous {
            NONE => self.first = next,
            previous => self.blocks[previous as usize].next = next,
        }
        match next {
            NONE => self.last = previous,
            next => self.blocks[next as usize].previous = previous,
        }
        self.free -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_back_is_found_until_it_is_overwritten() {
        let mut pool = Blocks::new(3);
        let mut held: Vec<u32> = (0..2).filter_map(|_| pool.take()).collect();
        pool.label(held[0], 10);
        pool.label(held[1], 11);
        pool.release(&mut held);
        assert_eq!((pool.free(), pool.find(&[10, 11, 12])), (3, (2, 2)));
        pool.hold(&[10, 11], 1, &mut held);
        assert_eq!((pool.free(), pool.find(&[10, 11])), (2, (2, 1)));
        // The block that was never used goes first, then that of the prompt's end.
        let mut others: Vec<u32> = (0..2).filter_map(|_| pool.take()).collect();
        assert_eq!((pool.free(), pool.find(&[10, 11]), pool.take()), (0, (1, 0), None));
        pool.release(&mut held);
        pool.release(&mut others);
        assert_eq!(pool.free(), 3);
    }
}
