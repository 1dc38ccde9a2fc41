//! The lines that go with a declaration which an update asks to remove by its name: `// remove foo`.
//!
//! It knows no language. Invariant: where it is not certain which lines are the declaration's own, there are none.

use super::indent::indent;
use super::keys::declared_name;
use super::lines::{is_balanced, is_blank};
use super::prepared::{HEADS, block_end, places_of};
use super::scopes::is_closer;
use super::snippet::Removal;
use crate::format::quoted;
use crate::outcome::{Code, Refused};
use crate::source::Source;
use std::ops::Range;

/// What a preprocessor reads, and what only folds an editor's view.
const DIRECTIVES: [&str; 18] = [
    "include",
    "define",
    "undef",
    "if",
    "ifdef",
    "ifndef",
    "else",
    "elif",
    "endif",
    "pragma",
    "import",
    "error",
    "warning",
    "line",
    "region",
    "endregion",
    "using",
    "nullable",
];
/// What begins lines that belong to the declaration below them, over several lines too.
const ABOVE: [&str; 5] = ["@", "#[", "[", "template", "requires"];
/// Four of one sign in a row stand in a line that heads a part of a file.
const BANNERS: [&str; 4] = ["----", "====", "####", "****"];
/// Words that begin a block which `end` closes, in languages that have such.
const CLOSED_BY_END: [&str; 10] =
    ["def", "defp", "defmacro", "defmodule", "class", "module", "function", "local", "describe", "it"];
/// Marks of texts over several lines.
const QUOTES: [&str; 3] = ["\"\"\"", "'''", "`"];

/// The lines of the one declaration that an update asks to remove, its comments and annotations and the blank lines after it included.
///
/// # Errors
/// When there is none, or several, or other lines may be of it or it of other lines.
pub(crate) fn removed_lines(source: &Source, removal: &Removal<'_>) -> Result<Range<usize>, Refused> {
    let places: Vec<usize> = places_of(source, removal.name, declared_name).collect();
    let [place] = places[..] else {
        let (code, found) = match places.len() {
            0 => (Code::NoAnchor, "is not declared in the file"),
            _ => (Code::AmbiguousLocation, "is declared more than once"),
        };
        let at = places.into_iter().map(|place| (place, place));
        return Err(refused(removal, code, found).at(at));
    };
    let unclear = |line: usize, why: &str| {
        let message = format!("{why}: line {}, {}", line + 1, quoted(source.line(line)));
        Err(refused(removal, Code::AmbiguousDeletion, &message).at([(line, line)]))
    };
    if indent(removal.line).len() > indent(source.line(place)).len() {
        return unclear(place, "is further out than the line that asks for it, which may be a comment");
    }
    let first = first_of(source, place);
    if let Some(line) = may_be_its_own(source, first, place) {
        return unclear(line, "may have more lines above it");
    }
    let end = block_end(place, source.line_count(), |line| source.line(line));
    if let Some(line) = goes_on(source, place, end) {
        return unclear(line, "may not end where its indentation does");
    }
    let blank = (end..source.line_count()).take_while(|&line| is_blank(source.line(line))).count();
    Ok(first..end + blank)
}

fn refused(removal: &Removal<'_>, code: Code, why: &str) -> Refused {
    let message = format!("the update asks to remove `{}`, which {why}", removal.name);
    Refused::new(code, message, "show the lines before and after it without a marker between")
}

/// The first of the comments and annotations right above a declaration.
fn first_of(source: &Source, place: usize) -> usize {
    let depth = indent(source.line(place)).len();
    let heads = |&line: &usize| {
        let words = source.line(line).trim_start();
        let is_head = HEADS.iter().any(|sign| words.starts_with(sign));
        let is_other = is_directive(words) || words.starts_with("#!") || BANNERS.iter().any(|it| words.contains(it));
        indent(source.line(line)).len() >= depth && is_head && !is_other
    };
    (0..place).rev().take_while(heads).last().unwrap_or(place)
}

/// `#include <a.h>`; a comment of another language has a blank behind its sign.
fn is_directive(words: &str) -> bool {
    let word = words.strip_prefix('#').map(|rest| rest.split(|sign: char| !sign.is_ascii_alphabetic()).next());
    word.flatten().is_some_and(|word| DIRECTIVES.contains(&word))
}

/// A line above the first of a declaration that may be of it as well, or one of its own that may be of the whole file.
fn may_be_its_own(source: &Source, first: usize, place: usize) -> Option<usize> {
    let text = |line: usize| source.line(line).trim();
    if first < place && (first == 0 || text(first).starts_with('*')) {
        return Some(first);
    }
    let depth = indent(source.line(place)).len();
    let above = first.checked_sub(1).filter(|&line| !is_blank(source.line(line)))?;
    if above == 0 && text(above).starts_with("#!") || is_directive(text(above)) {
        return None;
    }
    let is_quote = QUOTES[..2].iter().any(|quote| text(above).ends_with(quote));
    // The line that heads what ends right above.
    let is_head = |line: &usize| {
        let text = source.line(*line);
        !is_blank(text) && indent(text).len() <= depth && !is_closer(text)
    };
    let head = (0..=above).rev().find(is_head).filter(|&line| indent(source.line(line)).len() == depth);
    let is_above = head.is_some_and(|line| ABOVE.iter().any(|sign| text(line).starts_with(sign)));
    (is_quote || is_above).then_some(above)
}

/// A line that says that a declaration goes on beyond lines which look like its end.
fn goes_on(source: &Source, place: usize, end: usize) -> Option<usize> {
    let depth = indent(source.line(place)).len();
    let lines: Vec<&str> = (place..end).map(|line| source.line(line)).collect();
    let is_open = |quote: &&str| lines.iter().map(|line| line.matches(*quote).count()).sum::<usize>() % 2 == 1;
    let is_said = |line: &usize| {
        let text = source.line(*line).trim_start();
        !is_blank(text) && !HEADS.iter().any(|sign| text.starts_with(sign))
    };
    let below = (end..source.line_count()).find(is_said);
    let is_deeper = below.is_some_and(|line| indent(source.line(line)).len() > depth);
    let closer = format!("{}end", indent(source.line(place)));
    let word = source.line(place).split_whitespace().next().unwrap_or_default();
    let needs_end = lines.len() > 1
        && CLOSED_BY_END.contains(&word)
        && !lines[0].trim_end().ends_with(['{', ':'])
        && source.lines().any(|line| line.trim_end() == closer);
    let has_end = lines.last().is_some_and(|line| line.trim_start().starts_with("end"));
    let is_cut = !is_balanced(&lines) || QUOTES.iter().any(is_open) || is_deeper || needs_end && !has_end;
    is_cut.then_some(end - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of a file without a declaration.
    fn without(file: &str, name: &str) -> Result<String, Code> {
        let source = Source::read(file.as_bytes()).expect("text");
        let gone = removed_lines(&source, &Removal { name, line: "# remove it" }).map_err(|refused| refused.code)?;
        let lines = source.lines().enumerate().filter(|(at, _)| !gone.contains(at));
        Ok(lines.flat_map(|(_, line)| [line, "\n"]).collect())
    }

    #[test]
    fn comments_and_annotations_of_one_line_go_with_it() {
        let file = "use a;\n\n/// Makes one.\n#[must_use]\nfn old() -> A {\n    A\n}\n\nfn new() {\n}\n";
        assert_eq!(without(file, "old"), Ok("use a;\n\nfn new() {\n}\n".to_owned()));
        let file = "class A:\n    def f(self):\n        return 1\n    # Gone.\n    def g(self):\n        return 2\n";
        assert_eq!(without(file, "g"), Ok("class A:\n    def f(self):\n        return 1\n".to_owned()));
    }

    #[test]
    fn what_a_preprocessor_reads_and_what_heads_a_file_stays() {
        let file = "#include <stdio.h>\n#include \"a.h\"\nvoid old(int a)\n{\n}\n\nvoid new(int a)\n{\n}\n";
        let rest = "#include <stdio.h>\n#include \"a.h\"\nvoid new(int a)\n{\n}\n";
        assert_eq!(without(file, "old"), Ok(rest.to_owned()));
        let file = "int z;\n#ifdef A\nint old(void)\n{\n}\n#endif\n";
        assert_eq!(without(file, "old"), Ok("int z;\n#ifdef A\n#endif\n".to_owned()));
        let file = "#!/bin/sh\nold() {\n  a\n}\nb\n";
        assert_eq!(without(file, "old"), Ok("#!/bin/sh\nb\n".to_owned()));
        let file = "x = 1\n# ---- parts ----\ndef old():\n    return 1\n";
        assert_eq!(without(file, "old"), Ok("x = 1\n# ---- parts ----\n".to_owned()));
    }

    #[test]
    fn what_may_be_more_or_less_than_the_declaration_is_refused() {
        for (what, file) in [
            ("a licence", "# Copyright\ndef old():\n    return 1\n"),
            (
                "a decorator of several lines",
                "@Component({\n  a: 1,\n})\nexport class old {\n}\n\nexport class B {\n}\n",
            ),
            ("an attribute", "    [Route(\n        1)]\n    void old() {\n    }\n"),
            ("a derivation", "#[derive(\n    A,\n)]\nstruct old {\n}\n"),
            ("a text", "  @doc \"\"\"\n  Says it.\n  \"\"\"\n  def old(a) do\n    a\n  end\n"),
            ("a template", "template <typename T>\nvoid old(T a) {\n}\n"),
            ("a text at the margin", "  def old\n    x = <<EOS\nhello\nEOS\n    x\n  end\n\n  def new\n  end\n"),
            ("a text in a shell", "old() {\n  cat <<E\nhello\nE\n}\n"),
            ("a comment at the margin", "def old():\n    x = 1\n# note\n    return x\n"),
            ("a docstring at the margin", "def old():\n    x = \"\"\"\ntext\n\"\"\"\n    return x\n"),
            ("a factor", "const a = b\n* 3\nfunction old() {\n}\n"),
        ] {
            assert_eq!(without(file, "old"), Err(Code::AmbiguousDeletion), "{what}");
        }
    }

    #[test]
    fn a_comment_in_a_block_asks_for_nothing_outside_of_it() {
        let source = Source::read(b"function old() {\n}\n").expect("text");
        let removal = Removal { name: "old", line: "  // remove old" };
        assert_eq!(removed_lines(&source, &removal).map_err(|refused| refused.code), Err(Code::AmbiguousDeletion));
    }
}
