//! Marker lines: comments that stand for lines of the file.
//!
//! Invariant: a line is a marker only if it is a comment (or nothing but dots) and has an ellipsis at an end of its
//! words.

use crate::source::line_around;
use memchr::memchr2_iter;

/// A line that stands for others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Marker<'u> {
    /// The whole line, without its end.
    pub line: &'u str,
}

/// Signs that begin a comment line, the longer first; what closes each, if anything does.
const LEADERS: &[(&str, &str)] = &[
    ("{/*", "*/}"),
    ("<!--", "-->"),
    ("{#", "#}"),
    ("<%#", "%>"),
    ("(*", "*)"),
    ("/**", "*/"),
    ("/*", "*/"),
    ("///", ""),
    ("//", ""),
    ("##", ""),
    ("#", ""),
    ("--", ""),
    (";;", ""),
    (";", ""),
    ("%", ""),
    ("*", ""),
];

/// Words with which models mark lines as unchanged.
const KEPT: &[&str] = &[
    "existing",
    "rest",
    "unchanged",
    "remain",
    "keep",
    "same",
    "other",
    "previous",
    "omitted",
    "above",
    "below",
    "more",
    "before",
    "as is",
    "untouched",
    "skipped",
    "code",
    "file",
    "imports",
    "methods",
    "functions",
    "fields",
    "lines",
];

/// Words that may stand beside those.
const FILLERS: &[&str] = &[
    "of",
    "the",
    "is",
    "are",
    "as",
    "and",
    "here",
    "remains",
    "remaining",
    "this",
    "class",
    "function",
    "method",
    "module",
    "test",
    "tests",
    "props",
    "body",
    "content",
    "contents",
    "implementation",
    "logic",
    "definitions",
    "in",
    "stays",
];

/// The marker that a line is, if it is one.
pub(crate) fn marker(line: &str) -> Option<Marker<'_>> {
    // Most lines have no dots at all.
    if !has_dots(line) {
        return None;
    }
    let words = commented(line)?;
    let inside = without_dots(words)?;
    let is_led = words.starts_with("...") || words.starts_with('…');
    let words = inside.trim();
    // Dots alone stand for any lines; a comment with words must mention code that is kept, and say nothing else if no dots
    // come before them: `# Loading the file...` is a comment.
    let is_marker = words.is_empty() || mentions_kept_code(words) && (is_led || says_only_that(words));
    is_marker.then_some(Marker { line })
}

/// Whether words are a noun phrase about code that is kept: `existing imports`, `rest of the file`.
fn says_only_that(words: &str) -> bool {
    let mut words = words.split(|it: char| !it.is_alphanumeric()).filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default().to_lowercase();
    let begins =
        ["existing", "rest", "the", "unchanged", "remaining", "same", "other", "previous", "keep", "more", "code"];
    begins.contains(&first.as_str())
        && words.all(|word| {
            let word = word.to_lowercase();
            KEPT.contains(&word.as_str()) || FILLERS.contains(&word.as_str())
        })
}

/// Whether words mention code that is kept. Longer texts are prose that ends in dots, not markers.
pub(super) fn mentions_kept_code(words: &str) -> bool {
    let lower = words.to_lowercase();
    words.len() <= 120 && KEPT.iter().any(|word| lower.contains(word))
}

/// Whether a line is a marker with words. Many files have lines of dots alone, so those are not counted here.
pub(crate) fn is_worded_marker(line: &str) -> bool {
    let is_worded = |line: &str| line.trim().chars().any(char::is_alphabetic);
    is_marker(line) && is_worded(line)
}

/// Whether a line is a marker.
pub(crate) fn is_marker(line: &str) -> bool {
    marker(line).is_some()
}

/// Whether a line has an ellipsis anywhere.
pub(super) fn has_dots(line: &str) -> bool {
    dots(line).next().is_some()
}

/// The lines of a text that have an ellipsis, which are few.
pub(crate) fn lines_with_dots(text: &str) -> impl Iterator<Item = &str> {
    let mut read = 0;
    dots(text).filter_map(move |at| {
        if at < read {
            return None;
        }
        let line = line_around(text, at);
        read = line.end;
        Some(&text[line])
    })
}

/// Where each ellipsis of a text begins.
fn dots(text: &str) -> impl Iterator<Item = usize> {
    let (bytes, dots, sign) = (text.as_bytes(), b"...", "…".as_bytes());
    memchr2_iter(dots[0], sign[0], bytes)
        .filter(move |&at| bytes[at..].starts_with(dots) || bytes[at..].starts_with(sign))
}

/// The declaration that a line asks to be removed, as in `// remove foo`.
pub(crate) fn removed(line: &str) -> Option<&str> {
    let words = commented(line)?.trim();
    let rest =
        ["remove ", "removed ", "delete ", "deleted "].iter().find_map(|verb| strip_prefix_any_case(words, verb))?;
    let name = rest.trim().trim_end_matches(['.', '…']).trim();
    let name = ["function ", "method ", "class ", "the "]
        .iter()
        .fold(name, |name, word| name.strip_prefix(word).unwrap_or(name));
    let name = name.trim_matches(['`', '(', ')']);
    (!name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')).then_some(name)
}

/// The text of a comment line; a line of dots alone is one too.
fn commented(line: &str) -> Option<&str> {
    // Most lines begin as no comment does.
    const FIRST: &[u8] = b"{<(/#-;%*.";
    let first = line.bytes().find(|byte| !matches!(byte, b' ' | b'\t'))?;
    if first.is_ascii_graphic() && !FIRST.contains(&first) {
        return None;
    }
    let trimmed = line.trim();
    // Dots alone, or around words, are no code of any language.
    let is_dotted = |dots: &str| trimmed.len() > 2 * dots.len() && trimmed.starts_with(dots) && trimmed.ends_with(dots);
    if trimmed == "..." || trimmed == "…" || is_dotted("...") || is_dotted("…") {
        return Some(trimmed);
    }
    let (_, closing, rest) =
        LEADERS.iter().find_map(|(leader, closing)| Some((leader, closing, trimmed.strip_prefix(leader)?)))?;
    let rest = rest.trim_end();
    Some(if closing.is_empty() { rest } else { rest.strip_suffix(closing).unwrap_or(rest) }.trim())
}

/// The text without the dots, if it has any at an end.
fn without_dots(words: &str) -> Option<&str> {
    let front = words.trim_start_matches(['.', '…']);
    let led = words.len() - front.len();
    let both = front.trim_end_matches(['.', '…', ',', ';']);
    let trailing = &front[both.len()..];
    let is_ellipsis = |dots: &str| dots.contains("...") || dots.contains('…');
    let begins = is_ellipsis(&words[..led]);
    // What comes after the dots, such as `... existing code ... (10 lines)`, is ignored.
    let middle = begins && !is_ellipsis(trailing);
    let inside = if middle { both.split("...").next().unwrap_or(both) } else { both };
    (begins || is_ellipsis(trailing)).then_some(inside)
}

fn strip_prefix_any_case<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_of_every_leader_are_known() {
        for line in [
            "// ... existing code ...",
            "    # ... same ...",
            "# ... rest of code ...",
            "-- ... keep existing code",
            "// ... code remains the same ...",
            "{/* ... existing code ... */}",
            "<!-- ... existing markup ... -->",
            "/* ... other props */",
            "// ...",
            "...",
            "# …",
            "// existing imports...",
            "// ... keep calculateTotal ...",
            "% ... rest of file ...",
            "; ... unchanged ...",
            "// ... existing code ... (20 lines)",
            "... existing code ...",
            "// rest of the file...",
        ] {
            assert!(is_marker(line), "{line}");
        }
    }

    #[test]
    fn code_and_prose_are_no_markers() {
        for line in [
            "let x = [...existing];",
            "foo(...rest)",
            "// see the existing code",
            "// TODO: think about this...",
            "let range = 0...10; // existing",
            "print(\"... existing code ...\")",
            "# Wait for it...",
            "# Loading the file...",
            "// Skipping the rest of the line...",
        ] {
            assert!(!is_marker(line), "{line}");
        }
    }

    #[test]
    fn removals_name_one_thing() {
        assert_eq!(removed("// remove calculate"), Some("calculate"));
        assert_eq!(removed("# Removed function old_name()"), Some("old_name"));
        assert_eq!(removed("// remove the old cache when full"), None);
        assert_eq!(removed("remove(x)"), None);
    }
}
