//! What the words of the engine look like on the wire: as they are, or as text that is hard to carry.
//!
//! It refuses to know time. Invariant: the text of a run of words is the texts of its parts, one after the other.

use tokrate_sim::Words;

/// How words become text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Voice {
    /// As the engine says them: one o200k token each, ASCII.
    Plain,
    /// Letters of two, three and four bytes, quotes, backslashes and line ends among the words; no known number of tokens.
    Mixed,
}

impl Voice {
    /// Appends the text of some words.
    pub fn say(self, words: Words, text: &mut String) {
        if self == Voice::Plain {
            return words.push_to(text);
        }
        for word in words.iter() {
            text.push_str(match word.len() % 7 {
                0 => " 🦀",
                1 => " naïve \"quote\"",
                2 => "日本語",
                3 => word,
                4 => "\r\n\n\t\\u0041\\",
                5 => " жизнь",
                _ => "\u{1}data: [DONE]\n\n",
            });
        }
    }
}
