//! The syntax tree of a file, parsed by the caller during a merge or before it.
//!
//! Threads and caches are the caller's. Invariant: a tree is used only for the text and the language that it was parsed
//! from, so a merge has the same outcome with it, without it and with a wrong one.

use crate::language::Language;
use crate::options::Options;
#[cfg(feature = "tree")]
use crate::{source::Source, tree};
use std::sync::Arc;

/// A parsed file.
#[derive(Clone, Debug)]
pub struct Parsed {
    language: Language,
    /// With LF.
    #[cfg(feature = "tree")]
    text: String,
    /// `None` if the parse exceeded its limit.
    #[cfg(feature = "tree")]
    tree: Option<tree_sitter::Tree>,
}

/// Returns the tree of the original. Called at most once in a merge, after locating, with the merged text that is about to be
/// checked.
pub type ParseProvider<'a> = &'a mut dyn FnMut(&str) -> Option<Arc<Parsed>>;

impl Parsed {
    /// Parses a file as a merge with these options would; none if a merge would not.
    #[cfg(feature = "tree")]
    pub fn of(original: &[u8], options: &Options) -> Option<Parsed> {
        let language = options.parsed_as()?;
        let source = Source::read(original).ok()?;
        let tree = tree::parse(language, &source.text);
        Some(Parsed { language, text: source.text, tree })
    }

    /// Without the feature nothing is parsed.
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
