//! Counts the tokens of a stream incrementally, in bounded memory.
//!
//! Invariant: counts equal those of each channel's whole text, unless a stretch of [`MAX_STRETCH_BYTES`] bytes has no boundary; such
//! a stretch is cut, and the result marked as inexact.
//!
//! A boundary is a position at which the pre-tokenizer always starts a new piece, whatever follows: tokens never cross it,
//! so the texts before and after it can be counted separately. Only boundaries determined by the characters on both sides
//! are used: before a space not preceded by white space, between a letter or digit and an ASCII punctuation mark other
//! than an apostrophe, and before a CJK stop after a CJK letter.

use tokrate_core::Channel;
use tokrate_tokens::{Encoding, count, token_ends};

/// Bytes buffered before they are counted: enough that the cost per token equals that of one pass, few enough to need no
/// further memory.
const BATCH_BYTES: usize = 512;
/// A stretch without a boundary is cut at this length; bounds the memory of a stream.
const MAX_STRETCH_BYTES: usize = 16 * 1024;

/// Counts the tokens of pushed text.
#[derive(Clone, Debug)]
pub(super) struct TokenCounter {
    encoding: Encoding,
    active: usize,
    /// Text of the active channel that is not counted yet.
    held: String,
    /// Up to here `held` is known to have no border.
    searched: usize,
    /// At this length it is searched again.
    enough: usize,
    channels: [ChannelCounter; 3],
    cut: bool,
}

/// Of one channel.
#[derive(Clone, Debug, Default)]
struct ChannelCounter {
    /// Bytes counted.
    counted: u64,
    tokens: u64,
    /// Bytes that came with the first chunk.
    first_bytes: u64,
    /// Tokens that end in them.
    first_tokens: u64,
    /// Bytes that came before the latest chunk.
    before_last: u64,
    /// Tokens counted that end after them.
    last_tokens: u64,
    /// Text that is not counted yet, while another channel is active.
    tail: Box<str>,
}

/// The result of a count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TokenCount {
    pub tokens: u64,
    pub of_first_chunk: u64,
    pub of_last_chunk: u64,
    /// False if a stretch had to be cut.
    pub exact: bool,
}

impl TokenCounter {
    pub fn new(encoding: Encoding) -> TokenCounter {
        TokenCounter {
            encoding,
            active: Channel::Answer as usize,
            held: String::new(),
            searched: 0,
            enough: BATCH_BYTES,
            channels: Default::default(),
            cut: false,
        }
    }

    /// What is pushed from here on belongs to another chunk than what came before.
    pub fn begin_chunk(&mut self) {
        let held = self.held.len() as u64;
        for (channel, token_counter) in self.channels.iter_mut().enumerate() {
            let waiting = if channel == self.active { held } else { token_counter.tail.len() as u64 };
            (token_counter.before_last, token_counter.last_tokens) = (token_counter.counted + waiting, 0);
        }
    }

    /// Takes the next text of a channel; `first` says whether it belongs to the first chunk.
    #[inline]
    pub fn push(&mut self, channel: Channel, text: &str, first: bool) {
        if channel as usize != self.active {
            self.activate(channel as usize);
        }
        if first {
            self.channels[self.active].first_bytes += text.len() as u64;
        }
        if self.held.len() + text.len() < self.enough {
            if self.held.capacity() == 0 {
                self.held.reserve_exact(BATCH_BYTES);
            }
            self.held.push_str(text);
        } else {
            self.push_in_parts(text);
        }
    }

    /// Counts what is left.
    pub fn finish(mut self) -> TokenCount {
        let rest = std::mem::take(&mut self.held);
        self.count(&rest);
        for channel in 0..self.channels.len() {
            let rest = std::mem::take(&mut self.channels[channel].tail);
            if !rest.is_empty() {
                self.active = channel;
                self.count(&rest);
            }
        }
        let sum = |of: fn(&ChannelCounter) -> u64| self.channels.iter().map(of).sum();
        TokenCount {
            tokens: sum(|token_counter| token_counter.tokens),
            of_first_chunk: sum(|token_counter| token_counter.first_tokens),
            of_last_chunk: sum(|token_counter| token_counter.last_tokens),
            exact: !self.cut,
        }
    }

    /// Bytes of memory beyond its own size.
    #[cfg(test)]
    pub fn heap(&self) -> usize {
        self.held.capacity() + self.channels.iter().map(|token_counter| token_counter.tail.len()).sum::<usize>()
    }

    #[cold]
    fn activate(&mut self, channel: usize) {
        self.settle();
        self.channels[self.active].tail = self.held.as_str().into();
        self.held.clear();
        self.active = channel;
        self.held.push_str(&std::mem::take(&mut self.channels[channel].tail));
        self.searched = 0;
        self.enough = BATCH_BYTES.max(2 * self.held.len());
    }

    fn push_in_parts(&mut self, mut text: &str) {
        while !text.is_empty() {
            let room = self.enough.saturating_sub(self.held.len()).max(4);
            let (part, rest) = text.split_at(text.floor_char_boundary(room));
            if self.held.capacity() < self.held.len() + part.len() {
                self.held.reserve_exact(part.len());
            }
            self.held.push_str(part);
            text = rest;
            if self.held.len() + 4 > self.enough {
                self.settle();
            }
        }
    }

    /// Counts the held text up to its last border.
    fn settle(&mut self) {
        let border = match last_boundary(&self.held, self.searched) {
            None if self.held.len() >= MAX_STRETCH_BYTES => {
                self.cut = true;
                Some(self.held.len())
            }
            border => border,
        };
        if let Some(border) = border {
            let mut held = std::mem::take(&mut self.held);
            self.count(&held[..border]);
            held.drain(..border);
            held.shrink_to(BATCH_BYTES);
            self.held = held;
        }
        // The last character may be followed by one that makes a border before it.
        self.searched = self.held.len();
        self.enough = BATCH_BYTES.max(2 * self.held.len());
    }

    /// Counts text of the active channel that begins and ends at borders.
    fn count(&mut self, text: &str) {
        let token_counter = &mut self.channels[self.active];
        let (from, to) = (token_counter.counted, token_counter.counted + text.len() as u64);
        token_counter.counted = to;
        let (first, last) = (token_counter.first_bytes, token_counter.before_last);
        if (from < first && first < to) || (from < last && last < to) {
            let mut ends = Vec::new();
            token_ends(self.encoding, text, &mut ends);
            let up_to = |bound: u64| ends.iter().filter(|end| from + **end as u64 <= bound).count() as u64;
            token_counter.tokens += ends.len() as u64;
            token_counter.first_tokens += up_to(first);
            token_counter.last_tokens += ends.len() as u64 - up_to(last);
            return;
        }
        let tokens = count(self.encoding, text) as u64;
        token_counter.tokens += tokens;
        if to <= first {
            token_counter.first_tokens += tokens;
        }
        if from >= last {
            token_counter.last_tokens += tokens;
        }
    }
}

/// The last border in `text` at `from` or later, but not at its beginning.
fn last_boundary(text: &str, from: usize) -> Option<usize> {
    (from.max(1)..text.len()).rev().find(|&at| is_boundary(text, at))
}

/// Whether a piece ends at a byte and another begins, whatever follows the text.
fn is_boundary(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    let (before, after) = (bytes[at - 1], bytes[at]);
    match after {
        b' ' if before.is_ascii() => !matches!(before, 9..=13 | b' '),
        b' ' => text[..at].chars().next_back().is_some_and(|before| !before.is_whitespace()),
        b'\'' => false,
        0..=127 => before.is_ascii_alphanumeric() && !after.is_ascii_alphanumeric(),
        0xe3 | 0xef => text[at..].starts_with(CJK_STOPS) && text[..at].ends_with(is_cjk_letter),
        _ => false,
    }
}

/// Ideographic comma and full stop, and the full-width forms of `! , : ; ?`.
const CJK_STOPS: [char; 7] = ['\u{3001}', '\u{3002}', '\u{ff01}', '\u{ff0c}', '\u{ff1a}', '\u{ff1b}', '\u{ff1f}'];

/// Letters without case (category Lo) in blocks that hold nothing else.
fn is_cjk_letter(character: char) -> bool {
    matches!(character, '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Words, numbers, code, CJK, white space of all kinds, contractions, marks: what borders could be mistaken in.
    fn text() -> impl Strategy<Value = String> {
        let piece = proptest::sample::select(vec![
            "The",
            " quick",
            "brown",
            "it's",
            "'S",
            "'ll",
            "’t",
            " ",
            "  ",
            "\n",
            "\r\n",
            "\t ",
            "\u{b}",
            "\u{a0}",
            "\u{3000}",
            "\u{2003} ",
            "!",
            "?!\n",
            "/",
            "//\n",
            ".",
            ",",
            "{\"path\":\"",
            "src/main.rs",
            "\",",
            "1",
            "12345",
            "3.14",
            "_a_",
            "é",
            "e\u{301}",
            "\u{301}",
            "ſ",
            "Straße",
            "ΑΒΓ",
            "Ω ",
            "世界",
            "，",
            "你好。",
            "かな、",
            "カー！",
            "한국어：",
            "ไทย",
            "🙂",
            "🙂 ",
            "(",
            ") ",
            "x=y;",
            "²",
            "٣",
            "ǅ",
            "ʰ ",
        ]);
        proptest::collection::vec(prop_oneof![4 => piece.prop_map(str::to_owned), 1 => ".{0,6}"], 0..60)
            .prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1024))]

        #[test]
        fn no_token_crosses_a_border_whatever_follows(text in text(), more in text()) {
            let whole = text.clone() + &more;
            let tokens = count(Encoding::O200kBase, &whole);
            for at in (1..text.len()).filter(|&at| is_boundary(&text, at)) {
                let apart = count(Encoding::O200kBase, &whole[..at]) + count(Encoding::O200kBase, &whole[at..]);
                prop_assert_eq!(apart, tokens, "{:?} | {:?}", &whole[..at], &whole[at..]);
            }
        }

        #[test]
        fn a_text_in_parts_counts_as_the_whole(texts in proptest::collection::vec((0..3_usize, text(), 1..9_usize), 0..8)) {
            let channels = [Channel::Reasoning, Channel::Answer, Channel::Tool];
            let mut token_counter = TokenCounter::new(Encoding::O200kBase);
            let mut whole = [const { String::new() }; 3];
            for (channel, text, repeats) in &texts {
                let text = text.repeat(*repeats);
                token_counter.push(channels[*channel], &text, false);
                whole[*channel].push_str(&text);
            }
            let expected: u64 = whole.iter().map(|text| count(Encoding::O200kBase, text) as u64).sum();
            prop_assert_eq!(token_counter.finish(), TokenCount { tokens: expected, of_first_chunk: 0, of_last_chunk: expected, exact: true });
        }
    }

    #[test]
    fn a_stretch_without_a_boundary_is_cut_and_marked() {
        let mut token_counter = TokenCounter::new(Encoding::O200kBase);
        for _ in 0..100_000 {
            token_counter.push(Channel::Answer, "=", false);
            assert!(token_counter.heap() <= MAX_STRETCH_BYTES + 4);
        }
        let tallied = token_counter.finish();
        assert!(!tallied.exact);
        let whole = count(Encoding::O200kBase, &"=".repeat(100_000)) as f64;
        assert!((tallied.tokens as f64 / whole - 1.0).abs() < 0.01, "{tallied:?} of {whole}");
    }

    #[test]
    fn texts_that_people_and_models_write_need_little_memory() {
        let texts = [
            "The quick brown fox, it's said, jumps over the lazy dog.\n\n",
            "    let value = map.get(&key).unwrap_or_default();\r\n",
            "{\"path\":\"src/main.rs\",\"edits\":[{\"from\":12,\"to\":14}],",
            "人工知能は、道具です。だから、使い方が大切！",
            "aGVsbG8gd29ybGQ+aGVsbG8/d29ybGQ+",
            "Быстрая коричневая лиса прыгает через ленивую собаку. ",
        ];
        for text in texts {
            let mut token_counter = TokenCounter::new(Encoding::O200kBase);
            for character in text.repeat(200).chars() {
                token_counter.push(Channel::Answer, character.encode_utf8(&mut [0; 4]), false);
                assert!(token_counter.heap() <= BATCH_BYTES, "{} for {text:?}", token_counter.heap());
            }
            let expected = count(Encoding::O200kBase, &text.repeat(200)) as u64;
            assert_eq!(
                token_counter.finish(),
                TokenCount { tokens: expected, of_first_chunk: 0, of_last_chunk: expected, exact: true }
            );
        }
    }

    #[test]
    fn a_space_behind_anything_but_white_space_is_a_border() {
        let border = |text: &str| is_boundary(text, text.rfind(' ').expect("a space"));
        for text in ["a ", "! ", "\u{44f} ", "\u{4e16} ", "\u{301} "] {
            assert!(border(text), "{text:?}");
        }
        for text in ["  ", "\n ", "\t ", "\u{a0} ", "\u{3000} "] {
            assert!(!border(text), "{text:?}");
        }
    }
}
