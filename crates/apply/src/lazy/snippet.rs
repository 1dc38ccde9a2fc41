//! A snippet as pieces: lines and markers.
//!
//! Invariant: the pieces in order are the update.

use super::lines::is_blank;
use super::markers::{Marker, marker, removed};
use memchr::memchr_iter;

/// A part of a snippet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Piece<'u> {
    /// A line without its end.
    Line(&'u str),
    /// A line that stands for lines of the file.
    Marker(Marker<'u>),
}

/// A declaration that an update asks to remove.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Removal<'u> {
    pub name: &'u str,
    /// The line that asks for it.
    pub line: &'u str,
}

/// A snippet in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Snippet<'u> {
    /// Lines and markers.
    pub pieces: Vec<Piece<'u>>,
    /// Declarations that it asks to remove.
    pub removals: Vec<Removal<'u>>,
}

impl<'u> Snippet<'u> {
    /// Reads an update. A line that looks like a marker is content if `is_in_file` says that the file has it.
    pub fn read(update: &'u str, is_in_file: impl Fn(&str) -> bool) -> Snippet<'u> {
        let mut removals = Vec::new();
        let mut kept: Vec<Piece<'u>> = Vec::with_capacity(memchr_iter(b'\n', update.as_bytes()).count() + 1);
        // Two markers with nothing but blanks between stand for one.
        let mut after_marker = None;
        for line in update.lines() {
            // `// remove foo` names what to delete, and is a marker at its place.
            let piece = match (marker(line), removed(line)) {
                (Some(marker), _) if !is_in_file(line) => Piece::Marker(marker),
                (None, Some(name)) if !is_in_file(line) => {
                    removals.push(Removal { name, line });
                    Piece::Marker(Marker { line })
                }
                _ => Piece::Line(line),
            };
            match (&piece, after_marker) {
                (Piece::Marker(_), Some(length)) => kept.truncate(length),
                (Piece::Marker(_), None) => {
                    kept.push(piece);
                    after_marker = Some(kept.len());
                }
                (Piece::Line(line), _) => {
                    after_marker = after_marker.filter(|_| is_blank(line));
                    kept.push(piece);
                }
            }
        }
        Snippet { pieces: kept, removals }
    }

    /// Whether there is any marker.
    pub fn has_markers(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Marker(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_with_blank_lines_between_are_one() {
        let pieces = |update| -> Vec<String> {
            let shown = |piece: &Piece<'_>| match piece {
                Piece::Line(line) => (*line).to_owned(),
                Piece::Marker(_) => "~".to_owned(),
            };
            Snippet::read(update, |_| false).pieces.iter().map(shown).collect()
        };
        assert_eq!(pieces("\n// ...\n\n// ...\n// ...\n\na\n\n// ...\nb\n"), ["", "~", "", "a", "", "~", "b"]);
        assert_eq!(pieces("// ...\n\n\n"), ["~", "", ""]);
    }
}
