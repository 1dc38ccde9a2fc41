//! How the engine's words are rendered as text: as plain words, or as text that is hard to transport.
//!
//! Invariant: the text of a sequence of words is the concatenation of the texts of its parts.

use tokrate_sim::Words;

/// How words are rendered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextStyle {
    /// As they are: one o200k token each, ASCII.
    Plain,
    /// With multi-byte characters, quotes, backslashes and line ends; the number of tokens is unknown.
    Mixed,
}

impl TextStyle {
    /// Appends the rendered words.
    pub fn push_to(self, words: Words, text: &mut String) {
        if self == TextStyle::Plain {
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
