//! Finds import cycles between the modules of a crate.
//!
//! Declarations and re-exports of own children are no imports. Test modules are left out: they may import everything.

use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A module by its path below the crate, such as `["report", "charts"]`.
type Module = Vec<String>;

/// Findings of all crates.
pub fn check(root: &Path, files: &[PathBuf]) -> Result<Vec<String>> {
    let mut crates: BTreeMap<String, BTreeMap<Module, String>> = BTreeMap::new();
    for file in files {
        let Some((name, module)) = module_of(file) else { continue };
        let text = std::fs::read_to_string(root.join(file)).with_context(|| format!("read {}", file.display()))?;
        crates.entry(name).or_default().insert(module, without_tests(&text));
    }
    let mut findings = Vec::new();
    for (name, modules) in &crates {
        for cycle in cycles(modules) {
            let shown: Vec<String> = cycle.iter().map(|module| module.join("::")).collect();
            findings.push(format!("crates/{name}: modules import each other: {}", shown.join(", ")));
        }
    }
    Ok(findings)
}

/// Crate and module of a source file; `None` of files that are no modules of a crate under `crates`, and of tests.
fn module_of(file: &Path) -> Option<(String, Module)> {
    let parts: Vec<&str> = file.iter().filter_map(|part| part.to_str()).collect();
    let ["crates", name, "src", rest @ ..] = parts.as_slice() else { return None };
    let (last, folders) = rest.split_last()?;
    let stem = last.strip_suffix(".rs")?;
    let path = folders.iter().copied().chain((stem != "mod").then_some(stem));
    let module: Module = path.map(str::to_owned).collect();
    let is_root = matches!(module.as_slice(), [one] if one == "lib" || one == "main");
    (!is_root && module.iter().all(|part| part != "tests")).then(|| ((*name).to_owned(), module))
}

/// The code of a file: without comments, test modules and what only tests derive.
fn without_tests(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let trimmed = line.trim_start();
        if line == "#[cfg(test)]" {
            // An item that only tests have: up to its closing brace or its semicolon.
            for item in lines.by_ref() {
                if item == "}" || item.ends_with(';') && !item.starts_with(' ') {
                    break;
                }
            }
        } else if !trimmed.starts_with("//") && !trimmed.starts_with("#[cfg_attr(test") {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

/// Every strongly connected set of two or more modules.
fn cycles(modules: &BTreeMap<Module, String>) -> Vec<BTreeSet<&Module>> {
    let edges: BTreeMap<&Module, BTreeSet<&Module>> =
        modules.iter().map(|(module, code)| (module, imports(module, code, modules))).collect();
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        edges.keys().map(|module| (*module, reachable(module, &edges))).collect();
    let mut found: BTreeSet<BTreeSet<&Module>> = BTreeSet::new();
    for (module, reaches) in &reached {
        if reaches.contains(module) {
            found.insert(reaches.iter().copied().filter(|other| reached[other].contains(module)).collect());
        }
    }
    found.into_iter().collect()
}

fn reachable<'m>(from: &'m Module, edges: &BTreeMap<&'m Module, BTreeSet<&'m Module>>) -> BTreeSet<&'m Module> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(next) = open.pop().and_then(|module| edges.get(module)) {
        open.extend(next.iter().copied().filter(|module| reached.insert(*module)));
    }
    reached
}

/// The modules that a module names by paths from the crate's root or its own parents.
fn imports<'m>(module: &Module, code: &str, modules: &'m BTreeMap<Module, String>) -> BTreeSet<&'m Module> {
    let mut found = BTreeSet::new();
    for root in ["crate::", "super::"] {
        for (at, _) in code.match_indices(root) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|sign| sign.is_alphanumeric() || sign == '_' || sign == ':') {
                continue;
            }
            let mut base: Module = if root == "crate::" { Vec::new() } else { parent(module) };
            let mut rest = &code[at + root.len()..];
            while let Some(above) = rest.strip_prefix("super::") {
                base = parent(&base);
                rest = above;
            }
            for path in paths(rest) {
                let full: Module = base.iter().cloned().chain(path).collect();
                let named = (1..=full.len()).rev().find_map(|length| modules.get_key_value(&full[..length]));
                found.extend(named.map(|(named, _)| named).filter(|named| *named != module));
            }
        }
    }
    found
}

fn parent(module: &Module) -> Module {
    module[..module.len().saturating_sub(1)].to_vec()
}

/// The paths that a text begins with: one, or those of a group in braces.
fn paths(text: &str) -> Vec<Module> {
    let end = text.find(|sign: char| !(sign.is_alphanumeric() || sign == '_' || sign == ':')).unwrap_or(text.len());
    let own: Module = text[..end].split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
    let Some(group) = text[end..].strip_prefix('{').filter(|_| text[..end].ends_with("::") || end == 0) else {
        return vec![own];
    };
    let mut depth = 0;
    let mut members = vec![String::new()];
    for sign in group.chars() {
        match sign {
            '}' if depth == 0 => break,
            ',' if depth == 0 => members.push(String::new()),
            _ => {
                depth += i32::from(sign == '{') - i32::from(sign == '}');
                members.last_mut().expect("there is always one").push(sign);
            }
        }
    }
    let inner = members.iter().flat_map(|member| paths(member.trim()));
    inner.map(|path| own.iter().cloned().chain(path).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let modules = files.iter().map(|(path, text)| {
            let (_, module) = module_of(Path::new(path)).expect("a module");
            (module, without_tests(text))
        });
        let modules: BTreeMap<Module, String> = modules.collect();
        let shown =
            |cycle: BTreeSet<&Module>| cycle.iter().map(|module| module.join("::")).collect::<Vec<_>>().join(" ");
        cycles(&modules).into_iter().map(shown).collect()
    }

    #[test]
    fn a_way_round_is_found_over_groups_parents_and_full_paths() {
        let round = [
            ("crates/x/src/a.rs", "use crate::{b::Thing, d};\n"),
            ("crates/x/src/b/mod.rs", "use super::c::{\n    One,\n    Two,\n};\n"),
            ("crates/x/src/c.rs", "fn f() -> crate::a::Answer { todo!() }\n"),
            ("crates/x/src/d.rs", "use crate::c::One;\n"),
        ];
        assert_eq!(found(&round), ["a b c d"]);
        assert!(found(&round[..2]).is_empty(), "one way is no cycle");
    }

    #[test]
    fn children_may_look_up_and_tests_anywhere() {
        let tree = [
            ("crates/x/src/a.rs", "mod child;\npub use child::Thing;\n"),
            ("crates/x/src/a/child.rs", "use super::Whole;\n"),
            ("crates/x/src/b.rs", "use crate::a::Whole;\n"),
            (
                "crates/x/src/c.rs",
                "use crate::b::B;\n// crate::d\n#[cfg(test)]\nmod tests {\n    use crate::e::E;\n}\n",
            ),
            ("crates/x/src/e.rs", "#[cfg_attr(test, schemars(with = \"crate::c::C\"))]\nuse crate::c::C;\n"),
        ];
        assert!(found(&tree).is_empty(), "{:?}", found(&tree));
    }

    #[test]
    fn files_outside_of_crates_and_roots_are_no_modules() {
        for file in ["xtask/src/main.rs", "crates/x/src/lib.rs", "crates/x/tests/t.rs", "crates/x/src/a/tests.rs"] {
            assert_eq!(module_of(Path::new(file)), None, "{file}");
        }
        let module = |parts: &[&str]| Some(("x".to_owned(), parts.iter().map(|part| (*part).to_owned()).collect()));
        assert_eq!(module_of(Path::new("crates/x/src/a/mod.rs")), module(&["a"]));
        assert_eq!(module_of(Path::new("crates/x/src/a/b.rs")), module(&["a", "b"]));
    }
}
