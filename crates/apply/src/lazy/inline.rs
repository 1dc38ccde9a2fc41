//! Markers inside of a line: `port: /* ... existing ... */,` and `fn f() { // ... existing code ...`.
//!
//! Invariant: such a line is replaced by lines of the file and markers only, and only if one line of the file matches it.

use super::markers::{has_dots, lines_with_dots, mentions_kept_code};
use crate::format::quoted;
use crate::outcome::{Code, Refused};
use crate::source::Source;
use std::borrow::Cow;

/// Signs that begin a comment behind code, the longer first, and what closes each, if anything does.
const LEADERS: &[(&str, &str)] = &[("{/*", "*/}"), ("<!--", "-->"), ("/*", "*/"), ("//", ""), (" #", ""), (" --", "")];
/// Ends of lines that open a block.
const OPENERS: &[char] = &['{', '(', '[', ':', '>'];
/// What may follow a marker that nothing closes.
const CLOSERS: &[char] = &[',', ';', ')', ']', '}', ' '];
const MARKER: &str = "// ... existing code ...";

/// The text around a marker in a line: before it, with the indentation, and after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Inline<'u> {
    before: &'u str,
    after: &'u str,
}

/// Whether a line has a worded marker behind code.
pub(crate) fn has_gap(line: &str) -> bool {
    inline(line).is_some()
}

fn inline(line: &str) -> Option<Inline<'_>> {
    // Most lines have no dots at all, and are not parsed.
    if !has_dots(line) {
        return None;
    }
    let begin = |&(sign, close): &(&'static str, &'static str)| Some((line.find(sign)?, sign, close));
    let (at, sign, close) = LEADERS.iter().filter_map(begin).min_by_key(|&(at, ..)| at)?;
    let before = line[..at].trim_end();
    let rest = &line[at + sign.len()..];
    let (words, after) = if close.is_empty() {
        let words = rest.trim_end_matches(CLOSERS);
        (words, rest[words.len()..].trim())
    } else {
        rest.split_once(close).map(|(words, after)| (words, after.trim()))?
    };
    let words = words.trim();
    // Within a string it is text, no marker.
    let is_quoted = ['"', '\'', '`'].iter().any(|&quote| before.matches(quote).count() % 2 == 1);
    let led = words.starts_with("...") || words.starts_with('…');
    (led && !is_quoted && mentions_kept_code(words) && before.contains(char::is_alphanumeric))
        .then_some(Inline { before, after })
}

/// An update whose lines with a marker in them are replaced by those of the file.
///
/// # Errors
/// When no line of the file matches, or several do.
pub(crate) fn resolved<'u>(source: &Source, update: &'u str) -> Result<Cow<'u, str>, Refused> {
    let has_marker = |line: &&str| inline(line).is_some() && !source.lines().any(|it| it == *line);
    if !lines_with_dots(update).any(|line| has_marker(&line)) {
        return Ok(Cow::Borrowed(update));
    }
    let mut text = String::with_capacity(update.len());
    for (at, line) in update.lines().enumerate() {
        match inline(line).filter(|_| has_marker(&line)) {
            Some(inline) => text.push_str(&meaning(source, inline).ok_or_else(|| refused(at, line))?),
            None => text.push_str(line),
        }
        text.push('\n');
    }
    Ok(Cow::Owned(text))
}

/// The lines that a line with a marker stands for.
fn meaning(source: &Source, Inline { before, after }: Inline<'_>) -> Option<String> {
    let only = |fits: &dyn Fn(&str) -> bool| {
        let mut lines = source.lines().filter(|line| fits(line));
        lines.next().filter(|_| lines.next().is_none())
    };
    let begins = |line: &str| line.trim_end() == before;
    if (after.is_empty() || before.ends_with(OPENERS)) && only(&begins).is_some() {
        // In a file that shows such a line the marker would be read as that line.
        if source.lines().any(|line| line.trim() == MARKER) {
            return None;
        }
        let indentation = super::indent(before);
        if after.is_empty() {
            return Some(format!("{before}\n{indentation}{MARKER}"));
        }
        // What closes it has a line of its own below.
        let closes = |line: &&str| super::indent(line) == indentation && line.trim() == after;
        let end = source.lines().skip_while(|line| !begins(line)).find(closes)?;
        return Some(format!("{before}\n{indentation}{MARKER}\n{end}"));
    }
    let goes_on = |rest: &str| !(before.ends_with(is_word) && rest.starts_with(is_word));
    let fits = |line: &str| {
        line.strip_prefix(before)
            .is_some_and(|rest| goes_on(rest) && !rest.trim().is_empty() && rest.trim_end().ends_with(after))
    };
    only(&fits).map(str::to_owned)
}

fn is_word(it: char) -> bool {
    it.is_alphanumeric() || it == '_'
}

fn refused(at: usize, line: &str) -> Refused {
    let message = format!(
        "line {} of the update leaves out a part of itself, and no single line of the file fits: {}",
        at + 1,
        quoted(line)
    );
    Refused::new(Code::MarkerUnresolved, message, "write the line whole")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_left_out_are_not_those_of_a_file_that_shows_a_marker() {
        let source = Source::read(b"    second(1);\n    first();\n// ... existing code ...").expect("text");
        let update = "    second(1);\n    first(); # ... same ...\n// ... existing code ...\n";
        let refused = resolved(&source, update).expect_err("the marker is a line of the file");
        assert!(refused.message.contains("line 2 of the update"), "{}", refused.message);
    }

    #[test]
    fn markers_behind_code_are_told_from_comments() {
        for (line, before, after) in [
            ("  port: /* ... existing ... */,", "  port:", ","),
            ("  port: // ... existing ...,", "  port:", ","),
            ("fn f() { // ... existing code ...", "fn f() {", ""),
            ("def f(): # ... existing code ...", "def f():", ""),
            ("<p><!-- ... existing text ... --></p>", "<p>", "</p>"),
            ("f(a, /* … rest … */);", "f(a,", ");"),
        ] {
            assert_eq!(inline(line), Some(Inline { before, after }), "{line}");
        }
        for line in [
            "// ... existing code ...",
            "f(...rest); // the rest",
            "x = 1; // wait for the others...",
            "let all = [...existing];",
            "f(/* ... */)",
            "url = \"http://... existing\"",
        ] {
            assert_eq!(inline(line), None, "{line}");
        }
    }

    #[test]
    fn a_part_of_a_line_is_that_of_the_one_line_that_fits() {
        let source =
            Source::read(b"a = {\n  port: 80,\n  ports: [1],\n  deep: {\n    x: 1,\n  },\n};\nf();\n").expect("text");
        let of = |update: &str| resolved(&source, update).map(Cow::into_owned).map_err(|refused| refused.code);
        assert_eq!(of("  port: /* ... existing ... */,\nb\n").as_deref(), Ok("  port: 80,\nb\n"));
        assert_eq!(
            of("  deep: { /* ... existing ... */ },\n").as_deref(),
            Ok("  deep: {\n  // ... existing code ...\n  },\n")
        );
        assert_eq!(of("f(); // ... rest of the file ...\n").as_deref(), Ok("f();\n// ... existing code ...\n"));
        assert_eq!(of("  host: /* ... existing ... */,\n"), Err(Code::MarkerUnresolved));
        assert_eq!(of("  p /* ... existing ... */\n"), Err(Code::MarkerUnresolved), "p is a part of two names");
    }
}
