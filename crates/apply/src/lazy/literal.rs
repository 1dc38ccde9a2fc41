//! Lines of an update that read like markers and may be lines of the file all the same.
//!
//! A file may document markers, or hold one that a careless merge has left. Invariant: a line that reads like a marker is taken for
//! one of the file only where it stands beside a line that it stands beside there.

use super::has_marker;
use super::lines::is_blank;
use super::markers::is_marker;
use std::collections::{BTreeMap, BTreeSet};

/// A line that reads like a marker, and the nearest lines above and below it that are not blank.
type Marker<'l> = (&'l str, [Option<&'l str>; 2]);

/// The lines of a file that read like markers, by their text.
pub(crate) struct MarkerLines<'s>(BTreeMap<&'s str, Places<'s>>);

/// Where lines of one text stand.
#[derive(Default)]
struct Places<'s> {
    count: usize,
    /// Lines above and below them.
    beside: [BTreeSet<&'s str>; 2],
}

impl<'s> MarkerLines<'s> {
    /// Those of a file.
    pub fn of(text: &'s str) -> MarkerLines<'s> {
        let mut known: BTreeMap<&str, Places<'s>> = BTreeMap::new();
        // Hardly a file has one.
        let found = if has_marker(text) { markers(text.lines()) } else { Vec::new() };
        for (marker, beside) in found {
            let places = known.entry(marker).or_default();
            places.count += 1;
            for (all, one) in places.beside.iter_mut().zip(beside) {
                all.extend(one);
            }
        }
        MarkerLines(known)
    }

    /// Whether all lines of an update that are such lines of the file by their text are so by their place, and no more of them than the
    /// file has.
    pub fn are_content(&self, update: &str) -> bool {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        self.0.is_empty()
            || markers(update.lines()).iter().all(|(marker, beside)| {
                let count = counts.entry(*marker).or_default();
                *count += 1;
                self.0.get(marker).is_none_or(|places| {
                    let mut sides = places.beside.iter().zip(beside);
                    *count <= places.count && sides.any(|(all, one)| one.is_some_and(|one| all.contains(one)))
                })
            })
    }
}

/// Each line that reads like a marker.
fn markers<'l>(lines: impl Iterator<Item = &'l str>) -> Vec<Marker<'l>> {
    let mut found: Vec<Marker<'_>> = Vec::new();
    let (mut above, mut is_open) = (None, false);
    for line in lines.filter(|line| !is_blank(line)) {
        let text = line.trim();
        if let Some((_, beside)) = found.last_mut().filter(|_| is_open) {
            beside[1] = Some(text);
        }
        is_open = is_marker(line);
        if is_open {
            found.push((text, [above, None]));
        }
        above = Some(text);
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::{Code, Outcome, edit};

    fn merged(original: &str, update: &str) -> Result<String, Code> {
        match edit("x.txt", original, update, None) {
            Outcome::Merged(merged) => Ok(merged.text),
            Outcome::Refused(refused) => Err(refused.code),
        }
    }

    #[test]
    fn a_marker_that_was_left_in_a_file_makes_no_line_of_it_go() {
        let shelf = "class Shelf {\n    private final List<Book> books;\n\n    /** Adds a book. */\n// ... existing code ...\n    public boolean add(Book book) {\n        books.add(book);\n        return true;\n    }\n\n    public int size() {\n        return books.size();\n    }\n}\n";
        let update = "// ... existing code ...\n    public boolean add(Book book) {\n        Objects.requireNonNull(book);\n        return index.add(book);\n    }\n// ... existing code ...\n}\n";
        if let Ok(text) = merged(shelf, update) {
            assert!(text.contains("public int size()") && text.contains("return books.size();"), "{text}");
        }
        let counter = "use std::fmt;\n\n/// Counts words.\npub struct Counter {\n    counts: u32,\n}\n\nimpl Counter {\n    /// The count.\n// ... existing code ...\n    pub fn count(&self) -> u32 {\n        self.counts\n    }\n}\n";
        let update = "use std::fmt;\nuse std::io;\n\n/// Counts words.\n// ... existing code ...\n\nimpl Counter {\n";
        if let Ok(text) = merged(counter, update) {
            assert!(text.contains("pub struct Counter {") && text.matches("existing code").count() == 1, "{text}");
        }
        let header = "// Formats things\n//\n// All rights reserved.\n// The license is in format.h.\n\n#include \"format.h\"\n// ... existing code ...\n";
        let update =
            "// Formats things\n//\n// Copyright (c) A. Writer\n// All rights reserved.\n// ... existing code ...\n";
        if let Ok(text) = merged(header, update) {
            assert!(text.contains("#include \"format.h\"") && text.contains("The license"), "{text}");
        }
    }

    #[test]
    fn a_marker_beside_other_lines_than_in_the_file_is_none_of_its_lines() {
        let header = "// Formats things\n//\n// All rights reserved.\n// ... existing code ...\n//\n// The license.\n\n#include \"format.h\"\n";
        let update = "// Formats things\n//\n// By A. Writer\n//\n// ... existing code ...\n";
        if let Ok(text) = merged(header, update) {
            assert!(text.contains("All rights reserved"), "{text}");
        }
        let file = "Show what changes:\n\n    // ... existing code ...\n    let limit = 20;\n    // ... existing code ...\n\nThe rest is kept.\n";
        let without = file.replace("    let limit = 20;\n", "").replace("The rest is kept.\n", "");
        assert_eq!(merged(file, &without).unwrap_or_else(|_| file.to_owned()), file);
        let adjacent = "Show what changes:\n\n    let limit = 30;\n\n    // ... existing code ...\n    // ... existing code ...\n\nThe rest is kept.\n";
        if let Ok(text) = merged(file, adjacent) {
            assert!(text.contains("let limit = 20;"), "{text}");
        }
    }

    #[test]
    fn a_file_that_documents_markers_is_edited_around_them() {
        let file = "Show what changes:\n\n    // ... existing code ...\n    let limit = 20;\n    // ... existing code ...\n\nThe rest is kept.\n";
        let update = file.replace("20", "30");
        assert_eq!(merged(file, &update), Ok(update.clone()));
    }
}
