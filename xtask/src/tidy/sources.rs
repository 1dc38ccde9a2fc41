//! Rules about source text: headers, sizes, names, and what pure crates may not mention.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Crates without async, I/O, clock, environment and global state.
const PURE: &[&str] = &[
    "core", "tokens", "wire", "stats", "meter", "record", "judge", "detect", "prober", "alert", "charts", "columns",
    "live", "board", "catalog", "engine", "estimate", "sim", "apply", "route",
];

/// What a pure crate may not mention outside its tests, and why.
const IMPURE: &[(&str, &str)] = &[
    ("std::time::Instant", "reads a clock"),
    ("Instant::now", "reads a clock"),
    ("SystemTime", "reads a clock"),
    ("std::env", "reads the environment"),
    ("std::fs", "touches files"),
    ("std::net", "touches sockets"),
    ("std::thread", "starts threads"),
    ("std::process", "starts or ends processes"),
    ("std::io", "does I/O"),
    ("tokio", "is asynchronous"),
    ("async fn", "is asynchronous"),
    ("static mut", "is global state"),
    ("thread_local!", "is global state"),
    ("OnceLock", "is global state"),
    ("LazyLock", "is global state"),
    ("RandomState", "is random"),
    ("HashMap", "iterates in random order; use BTreeMap"),
    ("HashSet", "iterates in random order; use BTreeSet"),
];

/// Files of pure crates that look up lines by their text and never iterate: their random seeds never show, and keep hostile
/// lines from colliding.
const LOOK_UPS: &[&str] = &["apply/src/numbered.rs", "apply/src/format/lines.rs"];

const MAX_CODE_LINES: usize = 500;
const MAX_FUNCTION_LINES: usize = 70;
const MAX_INLINE_TEST_LINES: usize = 150;
const VAGUE_NAMES: &[&str] = &["utils", "util", "helpers", "helper", "common", "manager", "misc"];
/// Traces of one machine that have no place in the project.
const MACHINE_PATHS: &[&str] = &["/root/", "/home/", "/work/"];

/// Findings about all given files.
pub fn check(root: &Path, files: &[PathBuf]) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for file in files {
        if file.components().any(|part| part.as_os_str() == "fixtures" || part.as_os_str() == "data") {
            continue;
        }
        // What edits are merged into is no source of this project.
        if file.starts_with("crates/apply/tests/cases") {
            continue;
        }
        let bytes = std::fs::read(root.join(file)).with_context(|| format!("read {}", file.display()))?;
        let Ok(text) = String::from_utf8(bytes) else { continue };
        findings.extend(check_any(file, &text));
        if file.extension().is_some_and(|extension| extension == "rs") {
            findings.extend(check_rust(file, &text));
        }
    }
    Ok(findings)
}

fn check_any(file: &Path, text: &str) -> Vec<String> {
    let is_this_rule = file.ends_with("xtask/src/tidy/sources.rs");
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for path in MACHINE_PATHS.iter().filter(|path| !is_this_rule && mentions_path(line, path)) {
            findings.push(format!("{}:{}: names a path of one machine ({path})", file.display(), number + 1));
        }
    }
    findings
}

/// Whether a line names an absolute path under `prefix`, not a part of a longer path or URL.
fn mentions_path(line: &str, prefix: &str) -> bool {
    line.match_indices(prefix).any(|(at, _)| {
        !line[..at].chars().next_back().is_some_and(|before| before.is_alphanumeric() || "._-$}~/".contains(before))
    })
}

fn check_rust(file: &Path, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let shown = file.display();
    if !text.starts_with("//!") && !text.starts_with("#!") {
        findings.push(format!("{shown}: does not open with `//!` (what the file is, and its invariant if it has one)"));
    }
    if file.file_stem().is_some_and(|stem| VAGUE_NAMES.iter().any(|name| stem == *name)) {
        findings.push(format!("{shown}: a vague name; name what is in it"));
    }
    let (code, tests) = split_tests(text);
    let is_tests =
        file.file_stem().is_some_and(|stem| stem == "tests") || in_folder(file, &["tests", "examples", "benches"]);
    if is_tests {
        return findings;
    }
    let lines = code.iter().filter(|(_, line)| is_code(line)).count();
    if lines > MAX_CODE_LINES {
        findings.push(format!("{shown}: {lines} lines of code, at most {MAX_CODE_LINES}; split it by subject"));
    }
    if tests > MAX_INLINE_TEST_LINES {
        findings.push(format!(
            "{shown}: {tests} lines of inline tests, at most {MAX_INLINE_TEST_LINES}; move them to tests.rs"
        ));
    }
    for (start, length, name) in functions(&code) {
        if length > MAX_FUNCTION_LINES {
            findings.push(format!("{shown}:{start}: function {name} has {length} lines, at most {MAX_FUNCTION_LINES}"));
        }
    }
    if PURE.iter().any(|name| file.starts_with(Path::new("crates").join(name).join("src"))) {
        findings.extend(check_pure(file, &code));
    }
    findings
}

fn check_pure(file: &Path, code: &[(usize, &str)]) -> Vec<String> {
    let mut findings = Vec::new();
    for (number, line) in code.iter().filter(|(_, line)| is_code(line)) {
        let looks_up = LOOK_UPS.iter().any(|name| file.ends_with(name));
        for (word, why) in IMPURE {
            if line.contains(word) && !(looks_up && matches!(*word, "HashMap" | "RandomState")) {
                findings.push(format!("{}:{number}: `{word}` {why}; this crate is pure", file.display()));
            }
        }
    }
    findings
}

/// The lines outside `#[cfg(test)] mod tests { … }` with their numbers, and how many lines that module has.
fn split_tests(text: &str) -> (Vec<(usize, &str)>, usize) {
    let lines: Vec<&str> = text.lines().collect();
    let start = lines
        .windows(2)
        .position(|pair| pair[0].trim() == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{'))
        .unwrap_or(lines.len());
    let code = lines[..start].iter().enumerate().map(|(index, line)| (index + 1, *line)).collect();
    (code, lines.len() - start)
}

fn is_code(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with("//")
}

/// Start line, length and name of each function, by the indentation that rustfmt gives its closing brace.
fn functions(code: &[(usize, &str)]) -> Vec<(usize, usize, String)> {
    let mut found = Vec::new();
    for (position, (number, line)) in code.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indent = line.len() - line.trim_start().len();
        let closing = format!("{}}}", &line[..indent]);
        let Some(end) = code[position..].iter().position(|(_, other)| {
            *other == closing || other.trim_end().ends_with(';') && other.len() - other.trim_start().len() == indent
        }) else {
            continue;
        };
        found.push((*number, end + 1, name));
    }
    found
}

fn function_name(line: &str) -> Option<String> {
    let line = line.trim_start();
    let before = line.find("fn ")?;
    let qualifiers = line[..before].split_whitespace();
    let is_item = qualifiers.clone().all(|word| {
        word.starts_with("pub") || ["const", "async", "unsafe", "extern", "(crate)", "(super)", "in"].contains(&word)
    });
    let name = line[before + 3..].split(['(', '<']).next()?;
    (is_item && !line.ends_with('}')).then(|| name.to_owned())
}

fn in_folder(file: &Path, folders: &[&str]) -> bool {
    file.components().any(|part| folders.iter().any(|folder| part.as_os_str() == *folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_in_a_pure_crate_is_found_and_one_in_its_tests_is_not() {
        let text = "//! x\nfn a() { Instant::now(); }\n#[cfg(test)]\nmod tests {\n    fn b() { Instant::now(); }\n}\n";
        let findings = check_rust(Path::new("crates/meter/src/a.rs"), text);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].contains("a.rs:2"));
        assert!(check_rust(Path::new("crates/net/src/a.rs"), text).is_empty());
    }

    #[test]
    fn a_long_function_and_a_missing_header_are_found() {
        let body = "    let x = 1;\n".repeat(80);
        let findings = check_rust(Path::new("crates/net/src/a.rs"), &format!("pub fn long() {{\n{body}}}\n"));
        assert_eq!(findings.len(), 2, "{findings:?}");
    }

    #[test]
    fn a_path_of_one_machine_is_found_and_a_url_is_not() {
        assert!(mentions_path("see /home/me/x", "/home/"));
        assert!(!mentions_path("https://example.org/home/me", "/home/"));
    }
}
