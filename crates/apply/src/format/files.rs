//! What a patch does with one file.
//!
//! Invariant: the section of an update is for that file alone.

use crate::outcome::Format;

/// The change of one file in a patch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PatchedFile {
    /// The path as it is written.
    pub path: String,
    /// The action on it.
    pub action: PatchAction,
}

/// The action on a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PatchAction {
    /// It is edited.
    Update {
        /// An update of this file alone, to be merged into it; empty if the file is only moved.
        section: String,
        /// What the section is written in.
        format: Format,
        /// Its new path, if it is moved.
        moved_to: Option<String>,
    },
    /// It is made.
    Add {
        /// All of its text.
        content: String,
    },
    /// It is deleted.
    Delete {
        /// All of its text, with LF, if the patch shows it: then only that text is deleted.
        shown: Option<String>,
    },
}
