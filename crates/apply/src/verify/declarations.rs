//! Checks that no declaration is duplicated within its scope.
//!
//! Invariant: repetitions that a language allows, such as overloads and conditional compilation, are no findings.

use super::line_before;
use crate::language::Language;
use crate::outcome::{Check, Code, Refused};
use crate::source::Source;
use crate::splice::Splice;
use crate::tree::{Declaration, Kind, Outline};
use std::collections::BTreeMap;
use tree_sitter::Tree;

/// A declaration that may occur once in its scope.
type Key<'o> = (Kind, &'o str, &'o str);

/// Checks that the merge duplicated no declaration.
pub(super) fn check(
    language: Language,
    source: &Source,
    splices: &[Splice],
    old: Tree,
    text: &str,
    new: Tree,
) -> Result<Check, Refused> {
    if matches!(language, Language::Css | Language::Html) {
        return Ok(Check::Skipped("the language lets declarations stand twice"));
    }
    let new = Outline::of_tree(language, text, &new);
    let groups = groups(language, &new);
    let mut twice: Vec<&Vec<usize>> = groups.values().filter(|group| group.len() > 1).collect();
    if twice.is_empty() {
        return Ok(Check::Passed);
    }
    twice.sort();
    let old = Outline::of_tree(language, &source.text, &old);
    let mut most: BTreeMap<(Kind, String), usize> = BTreeMap::new();
    for group in self::groups(language, &old).values() {
        let at = group[0];
        let count = most.entry((old.declarations[at].kind, old.path(at))).or_default();
        *count = group.len().max(*count);
    }
    for group in twice {
        let at = group[group.len() - 1];
        let declaration = &new.declarations[at];
        let before = most.get(&(declaration.kind, new.path(at))).copied().unwrap_or(0);
        if before < group.len() {
            return Err(refused(source, splices, &new, group));
        }
    }
    Ok(Check::Passed)
}

fn refused(source: &Source, splices: &[Splice], new: &Outline, group: &[usize]) -> Refused {
    let lines: Vec<usize> = group.iter().map(|&at| new.declarations[at].lines.start).collect();
    let (first, last) = (lines[0], lines[lines.len() - 1]);
    let name = &new.declarations[group[0]].name;
    let message = format!("line {}: `{name}` would be declared a second time, after line {}", last + 1, first + 1);
    let before = |line| line_before(source, splices, line);
    Refused::new(
        Code::SyntaxRegression,
        message,
        "show the old declaration's first and last line so that it is replaced",
    )
    .at(lines.iter().map(|&line| (before(line), before(line))))
}

fn groups<'o>(language: Language, outline: &'o Outline) -> BTreeMap<(usize, Key<'o>), Vec<usize>> {
    let mut groups: BTreeMap<(usize, Key<'o>), Vec<usize>> = BTreeMap::new();
    for (at, declaration) in outline.declarations.iter().enumerate() {
        if counts(language, declaration) {
            let signature = if has_overloads(language) { &*declaration.signature } else { "" };
            groups.entry((declaration.scope, (declaration.kind, &declaration.name, signature))).or_default().push(at);
        }
    }
    groups
}

fn has_overloads(language: Language) -> bool {
    use Language::{CSharp, Cpp, Java, JavaScript, Tsx, TypeScript};
    matches!(language, CSharp | Cpp | Java | JavaScript | Tsx | TypeScript)
}

/// Whether a declaration may occur only once in its scope.
fn counts(language: Language, declaration: &Declaration) -> bool {
    let name = &*declaration.name;
    if declaration.decorated || matches!(name, "_" | "<<") {
        return false;
    }
    match declaration.kind {
        // A trait is implemented for a type once; a type may have several blocks of its own.
        Kind::Impl => name.contains(" for "),
        Kind::Module | Kind::Signature | Kind::Rule | Kind::Element | Kind::Macro | Kind::Trait => false,
        Kind::Class => language != Language::Ruby,
        // A name at item level may be given a value again.
        Kind::Constant => matches!(language, Language::Rust | Language::Go),
        Kind::Function => !(language == Language::Go && matches!(name, "init" | "_")),
        Kind::Type => !matches!(language, Language::C | Language::Cpp),
        Kind::Field | Kind::Key => !matches!(language, Language::C | Language::Cpp),
        Kind::Struct | Kind::Enum | Kind::Table => true,
    }
}
