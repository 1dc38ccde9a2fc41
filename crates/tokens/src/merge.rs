//! Byte-pair merging of one piece: the lowest rank first, the leftmost of equals, until no neighbours make a token.
//!
//! It knows nothing of text or patterns: a piece is bytes. Three ways give the same result: a plain scan for short pieces,
//! a heap for longer ones, and for very long ones the heap over windows that are glued exactly.
//! Invariant: work grows with the piece's length, times at most the logarithm of a window.
//!
//! Why gluing is exact: in merging a whole piece, what happens on either side of a place that no merge has crossed
//! yet does not depend on the other side. So a row of tokens is the result for its bytes if and only if each pair of
//! neighbours is the result for the bytes of that pair. A window that begins with the last accepted token and gives
//! that token again has therefore proved the border after it, and its own tokens continue the row.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::layout::MAX_TOKEN_BYTES;
use crate::vocabulary::{NO_RANK, Vocabulary};

/// Pieces up to this many bytes are merged by scanning for the lowest rank.
const SHORT: usize = 48;
/// Pieces up to this many bytes are merged at once with the heap; longer ones window by window.
const WINDOW: usize = 1024;
/// The end of a window that is not the end of the piece is not trusted: its tokens could go on.
const MARGIN: usize = MAX_TOKEN_BYTES;

/// The working memory of merging, empty until a piece needs it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Merger {
    ends: Vec<usize>,
    links: Vec<Link>,
    heap: BinaryHeap<Reverse<(u32, u32)>>,
    #[cfg(test)]
    pub(crate) lookups: u64,
}

/// A part of a window while it is merged, held at the offset of its first byte.
#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
    /// Rank of this part joined with the next one.
    rank: u32,
}

impl Merger {
    /// How many tokens the piece has.
    #[inline]
    pub(crate) fn count(&mut self, vocabulary: &Vocabulary, piece: &[u8]) -> usize {
        if self.rank(vocabulary, piece) != NO_RANK {
            return 1;
        }
        if piece.len() <= SHORT {
            return self.merge_short(vocabulary, piece, &mut [0; SHORT + 1]);
        }
        self.merge_long(vocabulary, piece);
        self.ends.len()
    }

    /// Appends where each token of the piece ends, `base` added.
    #[inline]
    pub(crate) fn push_ends(&mut self, vocabulary: &Vocabulary, piece: &[u8], base: usize, out: &mut Vec<usize>) {
        if self.rank(vocabulary, piece) != NO_RANK {
            out.push(base + piece.len());
        } else if piece.len() <= SHORT {
            let mut starts = [0; SHORT + 1];
            let count = self.merge_short(vocabulary, piece, &mut starts);
            out.extend(starts.iter().skip(1).take(count).map(|&end| base + usize::from(end)));
        } else {
            self.merge_long(vocabulary, piece);
            out.extend(self.ends.iter().map(|end| base + end));
        }
    }

    #[inline(always)]
    fn rank(&mut self, vocabulary: &Vocabulary, key: &[u8]) -> u32 {
        #[cfg(test)]
        {
            self.lookups += 1;
        }
        vocabulary.rank(key)
    }

    /// Rank of `piece[from..to]` as the union of two parts that meet at `border`.
    #[inline(always)]
    fn joined(&mut self, vocabulary: &Vocabulary, piece: &[u8], from: usize, border: usize, to: usize) -> u32 {
        match (piece.get(border.wrapping_sub(1)), piece.get(border), piece.get(from..to)) {
            (Some(&left), Some(&right), Some(key)) if vocabulary.can_join(left, right) => self.rank(vocabulary, key),
            _ => NO_RANK,
        }
    }

    /// Merges at most [`SHORT`] bytes; leaves the start of each token and the end of the last in `starts`, returns how
    /// many tokens there are.
    fn merge_short(&mut self, vocabulary: &Vocabulary, piece: &[u8], starts: &mut [u8; SHORT + 1]) -> usize {
        let mut parts = piece.len();
        let mut ranks = [NO_RANK; SHORT + 1];
        for at in 0..=parts {
            starts[at] = at as u8;
            ranks[at] = self.joined(vocabulary, piece, at, at + 1, at + 2);
        }
        loop {
            let (mut lowest, mut at) = (NO_RANK, 0);
            for (index, &rank) in ranks[..parts].iter().enumerate() {
                if rank < lowest {
                    (lowest, at) = (rank, index);
                }
            }
            if lowest == NO_RANK {
                return parts;
            }
            starts.copy_within(at + 2..=parts, at + 1);
            ranks.copy_within(at + 2..=parts, at + 1);
            parts -= 1;
            ranks[at] = self.pair_rank(vocabulary, piece, starts, parts, at);
            if at > 0 {
                ranks[at - 1] = self.pair_rank(vocabulary, piece, starts, parts, at - 1);
            }
        }
    }

    #[inline(always)]
    fn pair_rank(
        &mut self,
        vocabulary: &Vocabulary,
        piece: &[u8],
        starts: &[u8; SHORT + 1],
        parts: usize,
        at: usize,
    ) -> u32 {
        if at + 2 > parts {
            return NO_RANK;
        }
        self.joined(vocabulary, piece, starts[at].into(), starts[at + 1].into(), starts[at + 2].into())
    }

    /// Merges a piece of any length into `self.ends`, window by window.
    fn merge_long(&mut self, vocabulary: &Vocabulary, piece: &[u8]) {
        self.ends.clear();
        let mut again = 1;
        loop {
            let first = self.ends.len().saturating_sub(again);
            let from = first.checked_sub(1).and_then(|last| self.ends.get(last)).copied().unwrap_or(0);
            let accepted = self.ends.last().copied().unwrap_or(0);
            // A window much longer than what is merged again keeps the sum of all windows proportional to the piece.
            let to = piece.len().min(from + WINDOW + 4 * (accepted - from));
            self.merge_window(vocabulary, piece.get(from..to).unwrap_or_default());
            let first_end = from + self.links.first().map_or(0, |link| link.next as usize);
            if first > 0 && self.ends.get(first) != Some(&first_end) {
                again *= 2;
                continue;
            }
            again = 1;
            self.ends.truncate(first);
            let trusted = if to == piece.len() { to } else { to - MARGIN };
            let mut at = 0;
            while let Some(link) = self.links.get(at) {
                at = link.next as usize;
                if from + at > trusted {
                    break;
                }
                self.ends.push(from + at);
            }
            if to == piece.len() {
                return;
            }
        }
    }

    /// Merges one window into `self.links`: from offset 0, each part's `next` is its end.
    fn merge_window(&mut self, vocabulary: &Vocabulary, window: &[u8]) {
        self.links.clear();
        self.heap.clear();
        for at in 0..window.len() {
            let rank = self.joined(vocabulary, window, at, at + 1, at + 2);
            self.links.push(Link { previous: (at as u32).wrapping_sub(1), next: at as u32 + 1, rank });
            if rank != NO_RANK {
                self.heap.push(Reverse((rank, at as u32)));
            }
        }
        while let Some(Reverse((rank, start))) = self.heap.pop() {
            let Some(&part) = self.links.get(start as usize).filter(|part| part.rank == rank) else { continue };
            let Some(&joined) = self.links.get(part.next as usize) else { continue };
            self.links[part.next as usize].rank = NO_RANK;
            self.links[start as usize].next = joined.next;
            if let Some(follower) = self.links.get_mut(joined.next as usize) {
                follower.previous = start;
            }
            self.refresh(vocabulary, window, start);
            if start > 0 {
                self.refresh(vocabulary, window, part.previous);
            }
        }
    }

    /// Looks the rank of the part at `start` with its neighbour up again, after either changed.
    fn refresh(&mut self, vocabulary: &Vocabulary, window: &[u8], start: u32) {
        let border = self.links[start as usize].next;
        let rank = match self.links.get(border as usize) {
            Some(neighbour) => {
                self.joined(vocabulary, window, start as usize, border as usize, neighbour.next as usize)
            }
            None => NO_RANK,
        };
        self.links[start as usize].rank = rank;
        if rank != NO_RANK {
            self.heap.push(Reverse((rank, start)));
        }
    }
}

#[cfg(test)]
mod tests;
