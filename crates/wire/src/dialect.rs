//! The names of the dialects and what a request may ask for.
//!
//! It refuses to know how a dialect spells anything. Invariant: `from_name(d.name())` is `d`.

/// A family of request and answer formats.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Dialect {
    /// OpenAI's chat completions, which nearly every engine and provider also speaks.
    OpenAiChat,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Dialect; 1] = [Dialect::OpenAiChat];

    /// The name used in flags and records.
    pub const fn name(self) -> &'static str {
        match self {
            Dialect::OpenAiChat => "openai-chat",
        }
    }

    /// The path of the endpoint, to be appended to the base URL (which usually ends in `/v1`).
    pub const fn path(self) -> &'static str {
        match self {
            Dialect::OpenAiChat => "/chat/completions",
        }
    }

    /// The dialect of that name.
    pub fn from_name(name: &str) -> Option<Dialect> {
        Dialect::ALL.into_iter().find(|dialect| dialect.name() == name)
    }
}

/// How the answer was asked for. What the server sends instead is recognised by the first byte of its body.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Shape {
    /// Piece by piece, as server-sent events.
    Stream,
    /// In one JSON body.
    Whole,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_is_found_by_its_name() {
        for dialect in Dialect::ALL {
            assert_eq!(Dialect::from_name(dialect.name()), Some(dialect));
            assert!(dialect.path().starts_with('/'));
        }
        assert_eq!(Dialect::from_name("OpenAI"), None);
    }
}
