//! Counting a text while it arrives: what can no longer change is counted, the rest is held back.
//!
//! It knows no clock and no chunk: attribute tokens to chunks with [`crate::token_ends`] after the end.
//! Invariant: `settled` never exceeds the count of any continuation, and `finish` equals [`crate::count`] of the whole.

use crate::merge::Merger;
use crate::scan::piece_at;
use crate::vocabulary::Vocabulary;
use crate::{Encoding, count_bytes};

/// Up to this many bytes held back, every push scans them again; beyond, only when they have doubled, so that a piece
/// of any length arriving byte by byte costs work proportional to its length.
const RESCAN: usize = 64;

/// Already used bytes are dropped from the buffer when they are this many, not at every push.
const COMPACT: usize = 1024;

/// Counts the tokens of a text that arrives in chunks, exactly as if it had been counted whole.
///
/// It holds back the last one or two pre-token pieces: as long as the text may go on, their borders are open ("locale'"
/// may become "locale's"). Memory is the longest piece seen, plus about 10 KiB where pieces had to be merged.
///
/// ```
/// use tokrate_tokens::{Encoding, StreamCounter, count};
///
/// let mut counter = StreamCounter::new(Encoding::O200kBase);
/// for chunk in ["The loc", "ale'", "s name", " is long"] {
///     counter.push(chunk);
/// }
/// assert_eq!(counter.settled(), 5); // " long" may become " longer"
/// assert_eq!(counter.finish(), count(Encoding::O200kBase, "The locale's name is long"));
/// ```
#[derive(Clone, Debug)]
pub struct StreamCounter {
    encoding: Encoding,
    merger: Merger,
    buffer: Vec<u8>,
    /// Where the held bytes start in the buffer.
    held: usize,
    /// How many held bytes are worth a scan.
    enough: usize,
    settled: usize,
    /// Bytes that scans have looked at.
    #[cfg(test)]
    pub(crate) scanned: usize,
}

impl StreamCounter {
    /// A counter that has seen nothing.
    pub fn new(encoding: Encoding) -> StreamCounter {
        StreamCounter {
            encoding,
            merger: Merger::for_stream(),
            buffer: Vec::new(),
            held: 0,
            enough: 0,
            settled: 0,
            #[cfg(test)]
            scanned: 0,
        }
    }

    /// Takes the next chunk of the text.
    pub fn push(&mut self, chunk: &str) {
        self.buffer.extend_from_slice(chunk.as_bytes());
        if self.buffer.len() - self.held < self.enough {
            return;
        }
        self.settle();
        let rest = self.buffer.len() - self.held;
        self.enough = if rest > RESCAN { 2 * rest } else { 0 };
        if self.held > COMPACT {
            self.buffer.drain(..self.held);
            self.held = 0;
        }
    }

    /// Tokens of the text so far that no continuation can change.
    pub fn settled(&self) -> usize {
        self.settled
    }

    /// Tokens of the text so far, were it to end here. The held bytes are counted at each call.
    pub fn total(&self) -> usize {
        self.settled + count_bytes(self.encoding, &self.buffer[self.held..])
    }

    /// Tokens of the whole text.
    pub fn finish(self) -> usize {
        self.total()
    }

    fn settle(&mut self) {
        let vocabulary = Vocabulary::of(self.encoding);
        while self.held < self.buffer.len() {
            let piece = piece_at(self.encoding, &self.buffer, self.held);
            #[cfg(test)]
            {
                self.scanned += piece.reach - self.held;
            }
            if piece.reach > self.buffer.len() {
                return;
            }
            self.settled += self.merger.count(vocabulary, &self.buffer[self.held..piece.end]);
            self.held = piece.end;
        }
    }
}
