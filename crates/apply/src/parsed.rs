//! The syntax tree of a file, made beside a merge or before it.
//!
//! It does not start threads or remember anything: who calls does. Invariant: a tree counts only for the text and
//! the language that it was made of, so a merge comes to the same with one, without one and with a wrong one.

use crate::language::Language;
use crate::options::Options;
#[cfg(feature = "tree")]
use crate::{source::Source, tree};
use std::sync::Arc;

/// A file as a parser has read it.
#[derive(Clone, Debug)]
pub struct Parsed {
    language: Language,
    /// With LF.
    #[cfg(feature = "tree")]
    text: String,
    /// None if the parse is too much work.
    #[cfg(feature = "tree")]
    tree: Option<tree_sitter::Tree>,
}

/// Asked for the tree of the original when the lines are located and the merged text, which it is given, is about to be
/// checked; at most once in a merge.
pub type Ahead<'a> = &'a mut dyn FnMut(&str) -> Option<Arc<Parsed>>;

impl Parsed {
    /// Parses a file as a merge with these options would; none if a merge would not.
    #[cfg(feature = "tree")]
    pub fn of(original: &[u8], options: &Options) -> Option<Parsed> {
        let language = options.parsed_as()?;
        let source = Source::read(original).ok()?;
        let tree = tree::parse(language, &source.text);
        Some(Parsed { language, text: source.text, tree })
    }

    /// Parses nothing, as no merge would.
    #[cfg(not(feature = "tree"))]
    pub fn of(_: &[u8], _: &Options) -> Option<Parsed> {
        None
    }

    /// The language it was read as.
    pub fn language(&self) -> Language {
        self.language
    }

    /// The tree of a text in a language, if it is the one at hand; none in it if the parse is too much work.
    #[cfg(feature = "tree")]
    pub(crate) fn tree_of(&self, language: Language, text: &str) -> Option<Option<tree_sitter::Tree>> {
        (self.language == language && self.text == text).then(|| self.tree.clone())
    }
}
