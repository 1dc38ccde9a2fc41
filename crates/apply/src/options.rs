//! What is known of a merge besides its two texts.
//!
//! It does not know how a merge is made. Invariant: without any of it a merge is made all the same.

use crate::language::Language;

/// What is known of a merge besides its two texts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Path of the file, for its language and for patches that name files.
    pub path: Option<String>,
    /// The language, if it is not to be told from the path.
    pub language: Option<Language>,
    /// What the model says that the edit is for; a hint and never a reason.
    pub instruction: Option<String>,
    /// Leave the syntax tree alone: neither to locate nor to check.
    pub without_tree: bool,
}

impl Options {
    /// The language of the file, if it is one that is known.
    pub(crate) fn language(&self) -> Option<Language> {
        self.language.or_else(|| Language::of_path(self.path.as_deref()?))
    }

    /// The language that a merge reads the file as for its syntax check, if it makes one.
    pub fn parsed_as(&self) -> Option<Language> {
        self.language().filter(|language| language.is_built_in() && !self.without_tree)
    }
}
