//! Byte-pair merging of one piece: the lowest rank first, the leftmost of equals, until no neighbours make a token.
//!
//! It knows nothing of text or patterns: a piece is bytes. Three ways give the same result: a plain scan for short pieces,
//! a tree of lowest ranks for longer ones, and for very long ones the tree over windows that are glued exactly.
//! Invariant: work grows with the piece's length, times at most the logarithm of a window.
//!
//! Why gluing is exact: in merging a whole piece, what happens on either side of a place that no merge has crossed
//! yet does not depend on the other side. So a row of tokens is the result for its bytes if and only if each pair of
//! neighbours is the result for the bytes of that pair. A window that begins with the last accepted token and gives
//! that token again has therefore proved the border after it, and its own tokens continue the row.

//!
//! Why a character may be one part from the start: both vocabularies are monotone (each token's rank is above those of the
//! two parts it is merged from, which the table generator checks), and where no token crosses a border of the character
//! while holding only some of its bytes, nothing touches the character before its own bytes have come together.

use crate::layout::MAX_TOKEN_BYTES;
use crate::vocabulary::{NO_RANK, Vocabulary};

/// Pieces up to this many bytes are merged by scanning for the lowest rank.
const SHORT: usize = 1 << POSITION_BITS;
const POSITION_BITS: u32 = 6;
/// Pieces up to this many bytes are merged at once with a tree; longer ones window by window.
const WINDOW: usize = 1024;
/// The end of a window that is not the end of the piece is not trusted: its tokens could go on.
const MARGIN: usize = MAX_TOKEN_BYTES;

/// The working memory of merging, empty until a piece needs it.
#[derive(Clone, Debug)]
pub(crate) struct Merger {
    ends: Vec<usize>,
    links: Vec<Link>,
    lowest: Lowest,
    pairs: PairCache,
    #[cfg(test)]
    pub(crate) lookups: u64,
    /// Windows that did not give the last accepted tokens again.
    #[cfg(test)]
    pub(crate) refused: u64,
}

/// A part of a window while it is merged, held at the offset of its first byte.
#[derive(Clone, Copy, Debug)]
struct Link {
    previous: usize,
    next: usize,
    /// Which token the part is.
    part: u32,
}

impl Merger {
    /// For one text, counted in one go.
    pub(crate) fn for_text() -> Merger {
        Merger::new(TEXT_ENTRY_BITS)
    }

    /// For one of possibly many streams: a quarter of the memory.
    pub(crate) fn for_stream() -> Merger {
        Merger::new(STREAM_ENTRY_BITS)
    }

    fn new(entry_bits: u32) -> Merger {
        Merger {
            ends: Vec::new(),
            links: Vec::new(),
            lowest: Lowest::default(),
            pairs: PairCache::new(entry_bits),
            #[cfg(test)]
            lookups: 0,
            #[cfg(test)]
            refused: 0,
        }
    }

    /// How many tokens the piece has.
    #[inline]
    pub(crate) fn count(&mut self, vocabulary: &Vocabulary, piece: &[u8]) -> usize {
        if vocabulary.rank(piece) != NO_RANK {
            return 1;
        }
        if piece.len() <= SHORT {
            return self.merge_short(vocabulary, piece, &mut [0; SHORT]);
        }
        self.merge_long(vocabulary, piece);
        self.ends.len()
    }

    /// Appends where each token of the piece ends, `base` added.
    #[inline]
    pub(crate) fn push_ends(&mut self, vocabulary: &Vocabulary, piece: &[u8], base: usize, out: &mut Vec<usize>) {
        if vocabulary.rank(piece) != NO_RANK {
            out.push(base + piece.len());
        } else if piece.len() <= SHORT {
            let mut next = [0; SHORT];
            let mut end = 0;
            for _ in 0..self.merge_short(vocabulary, piece, &mut next) {
                end = usize::from(next[end]);
                out.push(base + end);
            }
        } else {
            self.merge_long(vocabulary, piece);
            out.extend(self.ends.iter().map(|end| base + end));
        }
    }

    /// Rank of the token that is `piece[from..to]`, two parts that meet at `border`.
    #[inline(always)]
    fn joined(
        &mut self,
        vocabulary: &Vocabulary,
        piece: &[u8],
        (from, left): (usize, u32),
        (border, right): (usize, u32),
        to: usize,
    ) -> u32 {
        match (piece.get(border.wrapping_sub(1)), piece.get(border), piece.get(from..to)) {
            (Some(&last), Some(&first), Some(key)) if vocabulary.can_join(last, first) => {
                #[cfg(test)]
                {
                    self.lookups += 1;
                }
                self.pairs.rank(left, right, || vocabulary.rank(key))
            }
            _ => NO_RANK,
        }
    }

    /// End and token of the part that merging may begin with at `at`: a whole character where that changes nothing in
    /// the result, else a byte.
    #[inline(always)]
    fn first_part(&mut self, vocabulary: &Vocabulary, piece: &[u8], at: usize) -> (usize, u32) {
        let first = piece.get(at).copied().unwrap_or(0);
        let width = match first {
            0xc2..0xe0 => 2,
            0xe0..0xf0 => 3,
            _ => return (at + 1, first.into()),
        };
        let end = at + width;
        let Some(character) = piece.get(at..end) else { return (at + 1, first.into()) };
        let whole_before = at == 0 || !vocabulary.splits_characters(piece[at - 1], first);
        let whole_after =
            piece.get(end).is_none_or(|&after| !vocabulary.splits_characters(character[width - 1], after));
        let followed = character.iter().skip(1).all(|byte| byte & 0xc0 == 0x80);
        if whole_before && whole_after && followed {
            let code = character.iter().fold(0, |code, &byte| code << 8 | u32::from(byte));
            let rank = self.pairs.rank(NO_PART + (code >> 12), code & 0xfff, || vocabulary.rank(character));
            if rank != NO_RANK {
                return (end, rank);
            }
        }
        (at + 1, first.into())
    }

    /// Merges at most [`SHORT`] bytes; `next` then holds the end of each token at its start. Returns how many there are.
    fn merge_short(&mut self, vocabulary: &Vocabulary, piece: &[u8], next: &mut [u8; SHORT]) -> usize {
        const NONE: i32 = i32::MAX;
        let key =
            |rank: u32, at: usize| if rank == NO_RANK { NONE } else { (rank << POSITION_BITS) as i32 | at as i32 };
        let length = piece.len();
        let mut previous = [0_u8; SHORT];
        let mut parts = [0_u32; SHORT];
        // Rank and position in one number: the lowest is the lowest rank, and of equals the leftmost.
        let mut keys = [NONE; SHORT];
        let (mut at, mut before, mut count) = (0, 0, 0);
        while at < length {
            let (end, part) = self.first_part(vocabulary, piece, at);
            (next[at], previous[at], parts[at]) = (end as u8, before as u8, part);
            if count > 0 {
                let left = (before, parts[before]);
                keys[before] = key(self.joined(vocabulary, piece, left, (at, part), end), before);
            }
            (at, before, count) = (end, at, count + 1);
        }
        loop {
            let lowest = keys[..length].iter().fold(NONE, |lowest, &key| if key < lowest { key } else { lowest });
            if lowest == NONE {
                return count;
            }
            let at = lowest as usize % SHORT;
            let gone = usize::from(next[at]);
            let border = usize::from(next[gone]);
            count -= 1;
            keys[gone] = NONE;
            keys[at] = NONE;
            next[at] = next[gone];
            parts[at] = lowest as u32 >> POSITION_BITS;
            if border < length {
                previous[border] = at as u8;
                let right = (border, parts[border]);
                keys[at] = key(self.joined(vocabulary, piece, (at, parts[at]), right, usize::from(next[border])), at);
            }
            if at > 0 {
                let left = usize::from(previous[at]);
                keys[left] = key(self.joined(vocabulary, piece, (left, parts[left]), (at, parts[at]), border), left);
            }
        }
    }

    /// Merges a piece of any length into `self.ends`.
    fn merge_long(&mut self, vocabulary: &Vocabulary, piece: &[u8]) {
        self.merge_windows(vocabulary, piece, WINDOW, MARGIN);
    }

    /// Window by window; each accepts at least one token more, as a window is longer than a margin and a token.
    fn merge_windows(&mut self, vocabulary: &Vocabulary, piece: &[u8], window: usize, margin: usize) {
        self.ends.clear();
        let mut again = 1;
        loop {
            let first = self.ends.len().saturating_sub(again);
            let from = first.checked_sub(1).and_then(|last| self.ends.get(last)).copied().unwrap_or(0);
            let accepted = self.ends.last().copied().unwrap_or(0);
            // A window much longer than what is merged again keeps the sum of all windows proportional to the piece.
            let to = piece.len().min(from + window + 4 * (accepted - from));
            self.merge_window(vocabulary, piece.get(from..to).unwrap_or_default());
            let first_end = from + self.links.first().map_or(0, |link| link.next);
            if first > 0 && self.ends.get(first) != Some(&first_end) {
                #[cfg(test)]
                {
                    self.refused += 1;
                }
                again *= 2;
                continue;
            }
            again = 1;
            self.ends.truncate(first);
            let trusted = if to == piece.len() { to } else { to - margin };
            let mut at = 0;
            while let Some(link) = self.links.get(at) {
                at = link.next;
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
        self.lowest.reset(window.len());
        self.links.resize(window.len(), Link { previous: 0, next: 0, part: 0 });
        let (mut at, mut before) = (0, 0);
        while at < window.len() {
            let (end, part) = self.first_part(vocabulary, window, at);
            self.links[at] = Link { previous: before, next: end, part };
            if at > 0 {
                let left = (before, self.links[before].part);
                let rank = self.joined(vocabulary, window, left, (at, part), end);
                self.lowest.fill(before, rank);
            }
            (at, before) = (end, at);
        }
        self.lowest.build();
        while let Some((rank, at)) = self.lowest.first() {
            let Link { previous, next: gone, .. } = self.links[at];
            let border = self.links[gone].next;
            self.links[at].next = border;
            self.links[at].part = rank;
            if let Some(follower) = self.links.get_mut(border) {
                follower.previous = at;
            }
            self.lowest.set(gone, NO_RANK);
            self.refresh(vocabulary, window, at);
            if at > 0 {
                self.refresh(vocabulary, window, previous);
            }
        }
    }

    /// Looks the rank of the part at `start` with its neighbour up again, after either changed.
    fn refresh(&mut self, vocabulary: &Vocabulary, window: &[u8], start: usize) {
        let Link { next: border, part, .. } = self.links[start];
        let rank = match self.links.get(border).copied() {
            Some(right) => self.joined(vocabulary, window, (start, part), (border, right.part), right.next),
            None => NO_RANK,
        };
        self.lowest.set(start, rank);
    }
}

/// The lowest rank of a window and the leftmost place that has it: a binary tree in which each node holds the lesser of
/// its two children, rank above place in one number. A change costs at most the tree's height.
#[derive(Clone, Debug, Default)]
struct Lowest {
    /// The root at 1, the children of `n` at `2n` and `2n + 1`, the leaves in the upper half.
    nodes: Vec<u64>,
    leaves: usize,
}

impl Lowest {
    fn reset(&mut self, places: usize) {
        self.leaves = places.next_power_of_two();
        self.nodes.clear();
        self.nodes.resize(2 * self.leaves, u64::MAX);
    }

    fn key(place: usize, rank: u32) -> u64 {
        if rank == NO_RANK { u64::MAX } else { u64::from(rank) << 32 | place as u64 }
    }

    fn fill(&mut self, place: usize, rank: u32) {
        self.nodes[self.leaves + place] = Self::key(place, rank);
    }

    fn build(&mut self) {
        for node in (1..self.leaves).rev() {
            self.nodes[node] = self.nodes[2 * node].min(self.nodes[2 * node + 1]);
        }
    }

    #[inline(always)]
    fn set(&mut self, place: usize, rank: u32) {
        let mut node = self.leaves + place;
        let mut lesser = Self::key(place, rank);
        while node > 0 && self.nodes[node] != lesser {
            self.nodes[node] = lesser;
            lesser = lesser.min(self.nodes[node ^ 1]);
            node /= 2;
        }
    }

    fn first(&self) -> Option<(u32, usize)> {
        let &lowest = self.nodes.get(1)?;
        (lowest != u64::MAX).then_some(((lowest >> 32) as u32, lowest as u32 as usize))
    }
}

/// What joining two parts gave before: a direct-mapped table that spares most lookups where pieces are alike.
///
/// Parts are token ranks; the 256 lowest ranks are those of single bytes, so a byte stands for itself. Each entry holds
/// its whole key, so an answer is exact, and the same texts in the same order always cost the same.
#[derive(Clone, Debug)]
struct PairCache {
    entries: Vec<u64>,
    entry_bits: u32,
    asked: usize,
}

/// Base-2 logarithm of the entries, of 8 bytes each: for a whole text, and for each of possibly many streams.
const TEXT_ENTRY_BITS: u32 = 12;
const STREAM_ENTRY_BITS: u32 = 10;
const RANK_BITS: u32 = 18;
/// Above all ranks: left parts from here on, up to 4,095 more, stand for the upper half of a character's bytes.
const NO_PART: u32 = 250_000;
/// The value of a pair that makes no token.
const NOT_A_TOKEN: u64 = (1 << RANK_BITS) - 1;
/// A short text is counted sooner without the table than the table is cleared.
const WARM_UP: usize = 512;

impl PairCache {
    fn new(entry_bits: u32) -> PairCache {
        PairCache { entries: Vec::new(), entry_bits, asked: 0 }
    }

    #[inline(always)]
    fn rank(&mut self, left: u32, right: u32, look_up: impl FnOnce() -> u32) -> u32 {
        // Never 0, which is what an empty entry holds.
        let key = (u64::from(left) << RANK_BITS | u64::from(right)) + 1;
        let at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - self.entry_bits)) as usize;
        match self.entries.get(at) {
            Some(&entry) if entry >> RANK_BITS == key => {
                let rank = entry & NOT_A_TOKEN;
                if rank == NOT_A_TOKEN { NO_RANK } else { rank as u32 }
            }
            _ => self.remember(at, key, look_up()),
        }
    }

    #[inline(never)]
    fn remember(&mut self, at: usize, key: u64, rank: u32) -> u32 {
        match self.entries.get_mut(at) {
            Some(entry) => *entry = key << RANK_BITS | u64::from(rank).min(NOT_A_TOKEN),
            None => {
                self.asked += 1;
                if self.asked == WARM_UP {
                    self.entries = vec![0; 1 << self.entry_bits];
                }
            }
        }
        rank
    }
}

#[cfg(test)]
mod tests;
