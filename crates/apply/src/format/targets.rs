//! Edits that name their target by line numbers with hashes, or by a declaration of the file.
//!
//! Invariant: a line whose hash differs is another line, and nothing is changed; a name must stand for one declaration.

use super::Located;
use super::change::{Change, splices, together};
use super::find::Shift;
use super::lines::lines_of;
use super::similar::quoted;
use crate::options::Options;
use crate::outcome::{Code, Refused, Stage};
use crate::source::Source;
use serde_json::Value;
use std::ops::Range;

/// The ways to name a target.
const TARGETS: [&str; 6] = ["lines", "after", "before", "symbol", "after_symbol", "before_symbol"];
/// Other fields beside the list of edits.
const OTHER: [&str; 3] = ["path", "file_path", "instruction"];

/// An edit of a list.
struct Edit<'v> {
    /// Its place in [`TARGETS`].
    target: &'static str,
    named: &'v str,
    content: &'v str,
}

/// Whether an update is a list of such edits.
pub(super) fn begins(update: &str) -> bool {
    let is_list = |value: &Value| edits(value).is_some_and(|edits| !edits.is_empty());
    // Looked for first, as an update may be a large file of JSON.
    update.trim_start().starts_with('{')
        && update.contains("\"edits\"")
        && serde_json::from_str(update).is_ok_and(|value| is_list(&value))
}

/// Locates all edits.
pub(super) fn locate(source: &Source, update: &str, options: &Options) -> Result<Located, Refused> {
    let invalid = |message: String| {
        Refused::new(
            Code::InvalidFormat,
            message,
            "write {\"edits\": [{\"lines\": \"12:1f3a-14:09bc\", \"content\": …}]}",
        )
    };
    let value: Value =
        serde_json::from_str(update).map_err(|error| invalid(format!("the update is not JSON: {error}")))?;
    let edits =
        edits(&value).ok_or_else(|| invalid("the update is no list of edits with one target each".to_owned()))?;
    let mut symbols = None;
    let mut changes = Vec::with_capacity(edits.len());
    for edit in &edits {
        let lines = if edit.target.ends_with("symbol") {
            let symbols = symbols.get_or_insert_with(|| Symbols::of(source, options)).as_ref().map_err(Clone::clone)?;
            symbols.lines(edit)?
        } else {
            hashed(source, edit)?
        };
        let old: Vec<&str> = lines.clone().map(|line| source.line(line)).collect();
        let new = edit.content.replace("\r\n", "\n");
        let new = lines_of(&new);
        let splices = splices(source, lines.start, &old, &new, &Shift::default(), "the edit")?;
        changes.push(Change { lines, splices, reindented: false });
    }
    let is_symbol = edits.iter().any(|edit| edit.target.ends_with("symbol"));
    let (splices, reindented) = together(changes)?;
    Ok(Located { splices, stage: if is_symbol { Stage::Tree } else { Stage::Lines }, reindented, evidence: None })
}

fn edits(value: &Value) -> Option<Vec<Edit<'_>>> {
    let map = value.as_object()?;
    if map.keys().any(|key| key != "edits" && !OTHER.contains(&key.as_str())) {
        return None;
    }
    map.get("edits")?.as_array()?.iter().map(edit).collect()
}

fn edit(value: &Value) -> Option<Edit<'_>> {
    let map = value.as_object()?;
    let target = TARGETS.into_iter().find(|target| map.contains_key(*target))?;
    let content = map.get("content")?.as_str()?;
    (map.len() == 2).then_some(Edit { target, named: map.get(target)?.as_str()?, content })
}

/// The lines that are named by their numbers and hashes.
fn hashed(source: &Source, edit: &Edit<'_>) -> Result<Range<usize>, Refused> {
    let (first, last) = edit.named.split_once('-').unwrap_or((edit.named, edit.named));
    let (first, last) = (line(source, first)?, line(source, last)?);
    match edit.target {
        _ if last < first => {
            let message = format!("the lines {} are in the wrong order", quoted(edit.named));
            Err(Refused::new(Code::InvalidFormat, message, "write the first line and then the last"))
        }
        "after" => Ok(last + 1..last + 1),
        "before" => Ok(first..first),
        _ => Ok(first..last + 1),
    }
}

/// A line, counted from 0, if its hash is the one that is named.
fn line(source: &Source, named: &str) -> Result<usize, Refused> {
    let read = named.trim().split_once(':').and_then(|(number, hash)| Some((number.parse::<usize>().ok()?, hash)));
    let Some((number, hash)) = read else {
        let message = format!("{} is no line number with a hash", quoted(named));
        return Err(Refused::new(Code::InvalidFormat, message, "write it as it is shown, such as 12:1f3a"));
    };
    if number == 0 || number > source.line_count() {
        let message = format!("the file has {} lines, and no line {number}", source.line_count());
        return Err(Refused::new(Code::NoAnchor, message, "look at the file again"));
    }
    let there = source.line_hash(number - 1);
    if there != hash {
        let message = format!("line {number} is not what it was: its hash is {there}, and not {}", quoted(hash));
        return Err(Refused::new(Code::NoAnchor, message, "look at the file again").at([(number - 1, number - 1)]));
    }
    Ok(number - 1)
}

/// The declarations of a file by their names.
#[cfg(feature = "tree")]
struct Symbols {
    outline: crate::tree::Outline,
}

#[cfg(feature = "tree")]
impl Symbols {
    fn of(source: &Source, options: &Options) -> Result<Symbols, Refused> {
        let tree =
            options.parsed_as().and_then(|language| Some((language, crate::tree::parse(language, &source.text)?)));
        match tree {
            Some((language, tree)) => {
                Ok(Symbols { outline: crate::tree::Outline::of_tree(language, &source.text, &tree) })
            }
            None => Err(no_symbols()),
        }
    }

    fn lines(&self, edit: &Edit<'_>) -> Result<Range<usize>, Refused> {
        let wanted = edit.named.replace("::", ".");
        let declarations = &self.outline.declarations;
        let fits = |at: &usize| {
            let path = self.outline.path(*at).replace('\u{1f}', ".");
            path == wanted || path.strip_suffix(&wanted).is_some_and(|rest| rest.ends_with('.'))
        };
        let found: Vec<usize> = (0..declarations.len()).filter(fits).collect();
        let at = match found[..] {
            [at] => at,
            [] => {
                let message = format!("no declaration of the file is called {}", quoted(edit.named));
                return Err(Refused::new(Code::NoAnchor, message, "name it as it is declared, such as Class.method"));
            }
            _ => {
                let message = format!("{} declarations are called {}", found.len(), quoted(edit.named));
                let lines = found.iter().map(|&at| (declarations[at].lines.start, declarations[at].lines.end - 1));
                let hint = "write the names around it as well, such as Class.method";
                return Err(Refused::new(Code::AmbiguousLocation, message, hint).at(lines));
            }
        };
        let lines = declarations[at].lines.clone();
        let whole = lines.start.min(declarations[at].head.start)..lines.end;
        let shares = declarations.iter().enumerate().any(|(other, it)| {
            let touches = it.lines.start < whole.end && whole.start < it.lines.end;
            match other == at || self.is_inside(other, at) {
                true => false,
                // What is around it may end with it, as in Python, but not begin with it.
                false if self.is_inside(at, other) => it.lines.start >= whole.start,
                false => touches,
            }
        });
        if shares {
            let message = format!("{} shares a line with something else", quoted(edit.named));
            return Err(Refused::new(Code::AmbiguousLocation, message, "send it as a SEARCH/REPLACE block")
                .at([(lines.start, lines.end - 1)]));
        }
        Ok(match edit.target {
            "after_symbol" => lines.end..lines.end,
            "before_symbol" => whole.start..whole.start,
            // What goes takes its comments and attributes with it; what is replaced keeps them.
            _ if edit.content.is_empty() => whole,
            _ => lines,
        })
    }

    fn is_inside(&self, mut at: usize, outer: usize) -> bool {
        while let Some(parent) = self.outline.declarations[at].parent {
            if parent == outer {
                return true;
            }
            at = parent;
        }
        false
    }
}

#[cfg(not(feature = "tree"))]
struct Symbols;

#[cfg(not(feature = "tree"))]
impl Symbols {
    fn of(_: &Source, _: &Options) -> Result<Symbols, Refused> {
        Err(no_symbols())
    }

    fn lines(&self, _: &Edit<'_>) -> Result<Range<usize>, Refused> {
        Err(no_symbols())
    }
}

fn no_symbols() -> Refused {
    let message = "the declarations of this file are not known: there is no grammar for it, or it is too much to parse";
    Refused::new(Code::InvalidFormat, message, "name lines, or send a SEARCH/REPLACE block")
}

#[cfg(test)]
mod tests {
    use crate::{Code, Format, Options, Outcome, line_hash, merge};
    use serde_json::{Value, json};

    fn edited(path: &str, original: &str, edits: &Value) -> Result<String, (Code, String)> {
        let update = json!({"edits": edits}).to_string();
        match merge(original.as_bytes(), update.as_bytes(), &Options { path: Some(path.into()), ..Options::default() })
        {
            Outcome::Merged(merged) => {
                assert_eq!(merged.how.format, Format::Targets);
                Ok(merged.text)
            }
            Outcome::Refused(refused) => Err((refused.code, refused.message)),
        }
    }

    fn at(number: usize, line: &str) -> String {
        format!("{number}:{}", line_hash(line))
    }

    #[test]
    fn lines_are_named_by_number_and_hash() {
        let file = "a\nb\nc\nd\n";
        let range = format!("{}-{}", at(2, "b"), at(3, "c"));
        assert_eq!(edited("x", file, &json!([{"lines": range, "content": "x\n"}])), Ok("a\nx\nd\n".into()));
        let edits = json!([{"after": at(1, "a"), "content": "1"}, {"before": at(4, "d"), "content": "2"}, {"lines": at(2, "b"), "content": ""}]);
        assert_eq!(edited("x", file, &edits), Ok("a\n1\nc\n2\nd\n".into()));
        let stale = edited("x", file, &json!([{"lines": at(2, "B"), "content": "x"}])).expect_err("another line");
        assert!(stale.0 == Code::NoAnchor && stale.1.contains("not what it was"), "{stale:?}");
        assert_eq!(
            edited("x", file, &json!([{"lines": "2", "content": "x"}])).expect_err("no hash").0,
            Code::InvalidFormat
        );
        let overlap = json!([{"lines": range, "content": "x"}, {"lines": at(3, "c"), "content": "y"}]);
        assert_eq!(edited("x", file, &overlap).expect_err("twice").0, Code::OverlappingEdits);
    }

    #[test]
    #[cfg(feature = "python")]
    fn declarations_are_named_as_they_are_declared() {
        let file = "class A:\n    @cached\n    def f(self):\n        return 1\n\nclass B:\n    def f(self):\n        return 1\n";
        let edit = |target: &str, named: &str, content: &str| {
            edited("x.py", file, &json!([{target: named, "content": content}]))
        };
        let new = "    def f(self):\n        return 2\n";
        assert_eq!(edit("symbol", "A.f", new), Ok(file.replacen("return 1", "return 2", 1)));
        // Without its only line the class is none.
        assert_eq!(edit("symbol", "A.f", "").expect_err("an empty class").0, Code::SyntaxRegression);
        let more = file.replacen("\nclass B", "    x = 1\n\nclass B", 1);
        let gone = edited("x.py", &more, &json!([{"symbol": "A.f", "content": ""}]));
        assert_eq!(gone, Ok(more.replacen("    @cached\n    def f(self):\n        return 1\n", "", 1)));
        assert_eq!(
            edit("after_symbol", "A.f", "    x = 1\n"),
            Ok(file.replacen("return 1\n", "return 1\n    x = 1\n", 1))
        );
        assert_eq!(
            edit("before_symbol", "A.f", "    x = 1\n"),
            Ok(file.replacen("    @cached", "    x = 1\n    @cached", 1))
        );
        assert_eq!(edit("symbol", "f", new).expect_err("two").0, Code::AmbiguousLocation);
        assert_eq!(edit("symbol", "A.g", new).expect_err("none").0, Code::NoAnchor);
        assert_eq!(edit("symbol", "A.f", "    def f(self:\n").expect_err("broken").0, Code::SyntaxRegression);
        assert_eq!(
            edited("x.txt", file, &json!([{"symbol": "A", "content": ""}])).expect_err("no grammar").0,
            Code::InvalidFormat
        );
    }
}
