//! Parses with a bounded amount of work, counted in steps so that results do not depend on the machine.
//!
//! Invariant: the work is at most linear in the text; beyond the limit there is no tree.

use crate::language::Language;
use crate::source::Source;
use crate::splice::Splice;
use std::ops::ControlFlow;
use tree_sitter::{InputEdit, ParseOptions, Parser, Point, Tree};

/// Longer texts are not parsed, to bound time and memory (bytes).
const MAX_TEXT_BYTES: usize = 2 << 20;
/// Progress reports that the parser may make for the shortest text; each stands for a hundred steps.
const MIN_PROGRESS_REPORTS: usize = 2_000;
/// Bytes of text that allow one more report.
const BYTES_PER_REPORT: usize = 8;
/// Texts with more open angle brackets are not parsed: in some grammars each costs a step per bracket around it.
const MAX_OPEN_ANGLES: usize = 2_000;

/// The tree of a text; none if the language is not built in or the parse is too much work.
pub(crate) fn parse(language: Language, text: &str) -> Option<Tree> {
    bounded(language, text, None)
}

/// The tree of a text made from another by splices, in order. Unchanged parts are not parsed again.
pub(crate) fn parse_again(
    language: Language,
    source: &Source,
    old: &Tree,
    splices: &[Splice],
    text: &str,
) -> Option<Tree> {
    let mut tree = old.clone();
    // From the last to the first, so that the places of those before stay as they were.
    for splice in splices.iter().rev() {
        let start = point(source, splice.old.start);
        let rows = splice.new.matches('\n').count();
        let tail = splice.new.rfind('\n').map_or(splice.new.len(), |at| splice.new.len() - at - 1);
        let column = if rows == 0 { start.column + tail } else { tail };
        tree.edit(&InputEdit {
            start_byte: splice.old.start,
            old_end_byte: splice.old.end,
            new_end_byte: splice.old.start + splice.new.len(),
            start_position: start,
            old_end_position: point(source, splice.old.end),
            new_end_position: Point { row: start.row + rows, column },
        });
    }
    bounded(language, text, Some(&tree))
}

fn point(source: &Source, byte: usize) -> Point {
    let row = source.line_of(byte);
    Point { row, column: byte - source.bytes_of(row..row).start }
}

fn bounded(language: Language, text: &str, old: Option<&Tree>) -> Option<Tree> {
    if text.len() > MAX_TEXT_BYTES || is_deep(language, text) {
        return None;
    }
    // Made anew for each parse, so that nothing is remembered between two merges.
    let mut parser = Parser::new();
    parser.set_language(&grammar(language)?).ok()?;
    let mut remaining = MIN_PROGRESS_REPORTS + text.len() / BYTES_PER_REPORT;
    let mut progress = |_: &_| {
        remaining = remaining.saturating_sub(1);
        if remaining == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let bytes = text.as_bytes();
    let options = ParseOptions::new().progress_callback(&mut progress);
    parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), old, Some(options))
}

/// Whether angle brackets or tags nest deeper than a parser takes in linear time.
fn is_deep(language: Language, text: &str) -> bool {
    let is_html = matches!(language, Language::Html | Language::Php | Language::Vue | Language::Svelte);
    let bytes = text.as_bytes();
    let mut open: usize = 0;
    for (at, byte) in bytes.iter().enumerate() {
        match (is_html, byte, bytes.get(at + 1)) {
            (true, b'<', Some(b'/')) => open = open.saturating_sub(1),
            (true, b'<', Some(next)) if next.is_ascii_alphabetic() => open += 1,
            (true, b'/', Some(b'>')) => open = open.saturating_sub(1),
            (false, b'<', _) => open += 1,
            (false, b'>', _) => open = open.saturating_sub(1),
            (false, b';', _) => open = 0,
            _ => {}
        }
        if open > MAX_OPEN_ANGLES {
            return true;
        }
    }
    false
}

fn grammar(language: Language) -> Option<tree_sitter::Language> {
    #[allow(unreachable_patterns, reason = "a language that is left out has no arm of its own")]
    Some(match language {
        #[cfg(feature = "rust")]
        Language::Rust => tree_sitter_rust::LANGUAGE.into(),
        #[cfg(feature = "python")]
        Language::Python => tree_sitter_python::LANGUAGE.into(),
        #[cfg(feature = "javascript")]
        Language::JavaScript => tree_sitter_javascript::LANGUAGE.into(),
        #[cfg(feature = "typescript")]
        Language::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
        #[cfg(feature = "tsx")]
        Language::Tsx => tree_sitter_typescript::LANGUAGE_TSX.into(),
        #[cfg(feature = "go")]
        Language::Go => tree_sitter_go::LANGUAGE.into(),
        #[cfg(feature = "java")]
        Language::Java => tree_sitter_java::LANGUAGE.into(),
        #[cfg(feature = "c")]
        Language::C => tree_sitter_c::LANGUAGE.into(),
        #[cfg(feature = "cpp")]
        Language::Cpp => tree_sitter_cpp::LANGUAGE.into(),
        #[cfg(feature = "csharp")]
        Language::CSharp => tree_sitter_c_sharp::LANGUAGE.into(),
        #[cfg(feature = "ruby")]
        Language::Ruby => tree_sitter_ruby::LANGUAGE.into(),
        #[cfg(feature = "php")]
        Language::Php => tree_sitter_php::LANGUAGE_PHP.into(),
        #[cfg(feature = "json")]
        Language::Json => tree_sitter_json::LANGUAGE.into(),
        #[cfg(feature = "yaml")]
        Language::Yaml => tree_sitter_yaml::LANGUAGE.into(),
        #[cfg(feature = "toml")]
        Language::Toml => tree_sitter_toml_ng::LANGUAGE.into(),
        #[cfg(feature = "html")]
        Language::Html => tree_sitter_html::LANGUAGE.into(),
        #[cfg(feature = "css")]
        Language::Css => tree_sitter_css::LANGUAGE.into(),
        #[cfg(feature = "bash")]
        Language::Bash => tree_sitter_bash::LANGUAGE.into(),
        #[cfg(feature = "lua")]
        Language::Lua => tree_sitter_lua::LANGUAGE.into(),
        #[cfg(feature = "zig")]
        Language::Zig => tree_sitter_zig::LANGUAGE.into(),
        #[cfg(feature = "elixir")]
        Language::Elixir => tree_sitter_elixir::LANGUAGE.into(),
        #[cfg(feature = "protobuf")]
        Language::Protobuf => tree_sitter_proto::LANGUAGE.into(),
        #[cfg(feature = "hcl")]
        Language::Hcl => tree_sitter_hcl::LANGUAGE.into(),
        #[cfg(feature = "dockerfile")]
        Language::Dockerfile => tree_sitter_containerfile::LANGUAGE.into(),
        #[cfg(feature = "svelte")]
        Language::Svelte => tree_sitter_svelte_ng::LANGUAGE.into(),
        #[cfg(feature = "vue")]
        Language::Vue => tree_sitter_html::LANGUAGE.into(),
        #[cfg(feature = "kotlin")]
        Language::Kotlin => tree_sitter_kotlin_ng::LANGUAGE.into(),
        #[cfg(feature = "swift")]
        Language::Swift => tree_sitter_swift::LANGUAGE.into(),
        #[cfg(feature = "dart")]
        Language::Dart => tree_sitter_dart::LANGUAGE.into(),
        #[cfg(feature = "scala")]
        Language::Scala => tree_sitter_scala::LANGUAGE.into(),
        #[cfg(feature = "haskell")]
        Language::Haskell => tree_sitter_haskell::LANGUAGE.into(),
        _ => return None,
    })
}
