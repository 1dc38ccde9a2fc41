//! Options of a merge, all of them optional.

use crate::encoding::Encoding;
use crate::language::Language;
use crate::outcome::Format;

/// Options of a merge besides its two texts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Path of the file, for its language and for patches that name files.
    pub path: Option<String>,
    /// The language, if it does not follow from the path.
    pub language: Option<Language>,
    /// What the update is written in, if the caller knows; else its text tells.
    pub format: Option<Format>,
    /// The encoding of the file, if the caller knows; else UTF-8 if it is that, and bytes that are kept if it is not.
    pub encoding: Option<Encoding>,
    /// The model's description of the edit; a hint only.
    pub instruction: Option<String>,
    /// Use no syntax tree, neither to locate nor to check.
    pub without_tree: bool,
}

impl Options {
    /// The language of the file, if it is supported.
    pub(crate) fn language(&self) -> Option<Language> {
        self.language.or_else(|| Language::of_path(self.path.as_deref()?))
    }

    /// The language that the file is parsed as, if it is parsed at all.
    pub fn parsed_as(&self) -> Option<Language> {
        self.language().filter(|language| language.is_built_in() && !self.without_tree)
    }
}
