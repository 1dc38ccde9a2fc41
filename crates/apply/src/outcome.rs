//! The outcome of a merge: the whole merged text, or a refusal.
//!
//! Invariant: a refusal says in one sentence what is wrong, names the candidate lines if there are any, and what to add
//! to the update.

use crate::encoding::Encoding;
use serde::Serialize;
use std::borrow::Cow;
use std::fmt;

/// The format of an update.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Lines of the file with markers such as `// ... existing code ...` for the rest.
    Lazy,
    /// Lines of the file without markers, less than the whole.
    Fragment,
    /// The whole file.
    WholeFile,
    /// Blocks of search and replacement, as aider, Cline and Roo write them.
    SearchReplace,
    /// JSON with `old_string` and `new_string`, one edit or a list.
    StringReplace,
    /// A unified diff; its line numbers are not relied on.
    UnifiedDiff,
    /// `*** Begin Patch`, as OpenAI's models write it.
    V4a,
    /// JSON with a `command` of Anthropic's text editor tool.
    TextEditor,
    /// JSON with `edits` of lines that are named by number and hash, or of declarations that are named.
    Targets,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 9] = [
        Format::Lazy,
        Format::Fragment,
        Format::WholeFile,
        Format::SearchReplace,
        Format::StringReplace,
        Format::UnifiedDiff,
        Format::V4a,
        Format::TextEditor,
        Format::Targets,
    ];

    /// The name used in flags, requests and answers.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Lazy => "lazy",
            Format::Fragment => "fragment",
            Format::WholeFile => "whole_file",
            Format::SearchReplace => "search_replace",
            Format::StringReplace => "string_replace",
            Format::UnifiedDiff => "unified_diff",
            Format::V4a => "v4a",
            Format::TextEditor => "text_editor",
            Format::Targets => "targets",
        }
    }

    /// Whether an update of this format is lines of the file.
    pub(crate) const fn is_text(self) -> bool {
        matches!(self, Format::Lazy | Format::Fragment | Format::WholeFile)
    }

    /// The format of such a name.
    pub fn from_name(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// The outcome of a merge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The whole merged file.
    Merged(Merged),
    /// Why there is none; the original stays as it is.
    Refused(Refused),
}

/// A file with the edit in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Merged {
    /// The whole text, with the byte order mark, the line ends and the final newline of the original.
    pub text: String,
    /// What its bytes are to be written in: the encoding of the original.
    pub encoding: Encoding,
    /// The changes, in order; empty if the file already has them.
    pub edits: Vec<Edit>,
    /// How the places were found.
    pub how: How,
    /// The checks that the text passed.
    pub checks: Checks,
}

impl Merged {
    /// The bytes of the file.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        self.encoding.encode(&self.text)
    }

    /// Whether the file already is as the update wants it.
    pub fn is_unchanged(&self) -> bool {
        self.edits.is_empty()
    }
}

/// Lines of the original and the lines that replace them. Both are counted from 1; `count` may be 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Edit {
    /// First line of the original that is replaced, or the one before which lines are inserted.
    pub old_start: usize,
    /// Lines of the original that are replaced.
    pub old_count: usize,
    /// First of the new lines in the merged text.
    pub new_start: usize,
    /// Number of new lines.
    pub new_count: usize,
}

/// How the places of an update were found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct How {
    /// What the update was written in.
    pub format: Format,
    /// The method that located it.
    pub stage: Stage,
    /// Whether the update had another indentation than the file.
    pub reindented: bool,
}

/// The method that located an update.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The text of its lines.
    Lines,
    /// The syntax tree.
    Tree,
    /// The update is the whole file.
    Whole,
    /// A model merged, and its file was accepted.
    Given,
}

/// The checks of a merged text. A text that fails one is refused, so each is passed or skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Checks {
    /// Every line is one of the original, in order, or of the update; no marker is left.
    pub provenance: Check,
    /// Brackets and quotes that were balanced still are, and the tags of XML and HTML.
    pub brackets: Check,
    /// The parser finds no more errors than in the original.
    pub parse: Check,
    /// No declaration that was unique is duplicated.
    pub declarations: Check,
    /// Merging the update into the result changes nothing.
    pub idempotence: Check,
}

/// Whether a check was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// It was made, and the text passed.
    Passed,
    /// It was not made, for the reason given.
    Skipped(&'static str),
}

/// Why an update was not merged.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Refused {
    /// The kind of refusal.
    pub code: Code,
    /// What is wrong, in one sentence.
    pub message: String,
    /// Lines of the original in question, first and last, counted from 1.
    pub candidates: Vec<(usize, usize)>,
    /// What to change in the update.
    pub hint: String,
}

/// Kinds of refusals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Code {
    /// Nothing in the update anchors it in the file.
    NoAnchor,
    /// It fits several places.
    AmbiguousLocation,
    /// It is unclear which lines to delete.
    AmbiguousDeletion,
    /// Two of its edits change the same lines.
    OverlappingEdits,
    /// The merged text would have syntax errors, or a declaration twice, that the original has not.
    SyntaxRegression,
    /// A marker stands for lines that cannot be found.
    MarkerUnresolved,
    /// There is no edit in it: empty, prose, or markers alone.
    NotAnEdit,
    /// Original or update are beyond the limits.
    TooLarge,
    /// It begins in one of the formats and then breaks its rules.
    InvalidFormat,
    /// Original or update are no text, or the edit cannot be written in the encoding of the file.
    NotText,
}

impl Code {
    /// Every code.
    pub const ALL: [Code; 10] = [
        Code::NoAnchor,
        Code::AmbiguousLocation,
        Code::AmbiguousDeletion,
        Code::OverlappingEdits,
        Code::SyntaxRegression,
        Code::MarkerUnresolved,
        Code::NotAnEdit,
        Code::TooLarge,
        Code::InvalidFormat,
        Code::NotText,
    ];

    /// The name used in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Code::NoAnchor => "no_anchor",
            Code::AmbiguousLocation => "ambiguous_location",
            Code::AmbiguousDeletion => "ambiguous_deletion",
            Code::OverlappingEdits => "overlapping_edits",
            Code::SyntaxRegression => "syntax_regression",
            Code::MarkerUnresolved => "marker_unresolved",
            Code::NotAnEdit => "not_an_edit",
            Code::TooLarge => "too_large",
            Code::InvalidFormat => "invalid_format",
            Code::NotText => "not_text",
        }
    }
}

impl Refused {
    /// A refusal without candidates.
    pub(crate) fn new(code: Code, message: impl Into<String>, hint: impl Into<String>) -> Refused {
        Refused { code, message: message.into(), candidates: Vec::new(), hint: hint.into() }
    }

    /// Limits the candidates to lines of the original; one after its end becomes its last line.
    pub(crate) fn inside(mut self, original: &[u8]) -> Refused {
        let ended = usize::from(original.last().is_some_and(|&byte| byte != b'\n'));
        let count = memchr::memchr_iter(b'\n', original).count() + ended;
        self.candidates.retain_mut(|(first, last)| {
            (*first, *last) = ((*first).min(count), (*last).min(count));
            count > 0
        });
        self.candidates.dedup();
        self
    }

    /// Sets the candidate lines, first and last, counted from 0.
    pub(crate) fn at(mut self, lines: impl IntoIterator<Item = (usize, usize)>) -> Refused {
        self.candidates = lines.into_iter().map(|(first, last)| (first + 1, last + 1)).collect();
        self
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.code.name(), self.message)?;
        if !self.hint.is_empty() {
            write!(formatter, "; {}", self.hint)?;
        }
        Ok(())
    }
}

impl std::error::Error for Refused {}
