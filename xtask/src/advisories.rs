//! `cargo xtask advisories`: whether a dependency has a known security advisory, by cargo-deny and RustSec's database.
//!
//! It needs no network: the advisories of the crates in Cargo.lock are in `advisories.json`, without prose. Invariant: a crate
//! that these rows do not cover is an error, so that an outdated file never passes.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::{cache, tools};

/// The rows, below the workspace.
const ROWS: &str = "xtask/advisories.json";
/// The address of the RustSec database; cargo-deny's default.
const SOURCE: &str = "https://github.com/RustSec/advisory-db";
/// The folder in which cargo-deny expects a copy of it: the name is derived from the address.
const FOLDER: &str = "advisory-db-3157b0e258782691";
/// Fields of an advisory that are kept, and those of its versions.
const FACTS: [&str; 6] = ["id", "package", "date", "url", "informational", "withdrawn"];
const VERSIONS: [&str; 2] = ["patched", "unaffected"];

const USAGE: &str = "\
usage: cargo xtask advisories [--database DIR | --update DIR]
       without flags: check Cargo.lock against the rows in xtask/advisories.json; needs no network once `cargo fetch` has run
       --database DIR   check against a clone of https://github.com/RustSec/advisory-db instead
       --update DIR     write the rows anew from such a clone
";

/// The parsed arguments.
pub fn run(root: &Path, arguments: &[String]) -> Result<()> {
    match arguments {
        [] => check_rows(root),
        [flag, folder] if flag == "--database" => check(root, "clone", |at| clone(Path::new(folder), at)),
        [flag, folder] if flag == "--update" => update(root, Path::new(folder)),
        _ => bail!("understand {}\n{USAGE}", arguments.join(" ")),
    }
}

/// Checks against the rows of the repository.
fn check_rows(root: &Path) -> Result<()> {
    let path = root.join(ROWS);
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let rows: Value = serde_json::from_str(&text).with_context(|| format!("understand {}", path.display()))?;
    let covered: BTreeSet<&str> = rows["covers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let locked = locked_crates(root)?;
    let missing: Vec<&str> = locked.iter().map(String::as_str).filter(|name| !covered.contains(name)).collect();
    ensure!(
        missing.is_empty(),
        "look up {}: it is not in {ROWS}; regenerate that with `cargo xtask advisories --update DIR`",
        missing.join(", ")
    );
    println!("xtask: {} crates, advisories as of {} ({})", locked.len(), rows["as_of"], rows["commit"]);
    check(root, "rows", |at| write_database(&rows, at))
}

/// Names of what Cargo.lock holds.
fn locked_crates(root: &Path) -> Result<BTreeSet<String>> {
    let path = root.join("Cargo.lock");
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let lock: toml::Table = text.parse().with_context(|| format!("understand {}", path.display()))?;
    let packages = lock.get("package").and_then(toml::Value::as_array).context("find packages in Cargo.lock")?;
    Ok(packages.iter().filter_map(|package| package.get("name")?.as_str().map(str::to_owned)).collect())
}

/// Runs cargo-deny with a database generated for it.
fn check(root: &Path, kind: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let folder = cache::tool("advisories")?.join(kind);
    let database = folder.join(FOLDER);
    if database.exists() {
        fs::remove_dir_all(&database).with_context(|| format!("remove {}", database.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    make(&database)?;
    let settings = folder.join("deny.toml");
    let text = format!("[graph]\nall-features = true\n\n[advisories]\ndb-path = {}\n", json!(folder));
    fs::write(&settings, text).with_context(|| format!("write {}", settings.display()))?;
    let mut deny = Command::new(tools::ensure_cargo()?.join("cargo-deny"));
    if !Path::new(deny.get_program()).is_file() {
        deny = Command::new("cargo-deny");
    }
    deny.args(["--offline", "--log-level", "warn", "--config"]).arg(&settings).args(["check", "advisories"]);
    tools::run(deny.current_dir(root))
        .context("check advisories (if crates could not be downloaded: `cargo fetch` first)")
}

/// A copy of a clone.
fn clone(from: &Path, to: &Path) -> Result<()> {
    let from = std::path::absolute(from)?;
    tools::run(Command::new("git").args(["clone", "--quiet"]).arg(from).arg(to))?;
    git(to, &["fetch", "--quiet", "origin"])
}

/// The rows as a database: a repository with a file an advisory.
fn write_database(rows: &Value, at: &Path) -> Result<()> {
    for row in rows["advisories"].as_array().into_iter().flatten() {
        let (Some(id), Some(package)) = (row["id"].as_str(), row["package"].as_str()) else {
            bail!("understand a row of {ROWS}: it has no id or package: {row}");
        };
        let folder = at.join("crates").join(package);
        fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        let facts = FACTS.iter().filter(|key| !row[**key].is_null()).map(|key| format!("{key} = {}\n", row[*key]));
        let versions =
            VERSIONS.iter().filter(|key| !row[**key].is_null()).map(|key| format!("{key} = {}\n", row[*key]));
        let text = format!(
            "```toml\n[advisory]\n{}\n[versions]\n{}```\n\n# {id}\n\nSee the address above.\n",
            facts.collect::<String>(),
            versions.collect::<String>()
        );
        fs::write(folder.join(format!("{id}.md")), text).with_context(|| format!("write {id}"))?;
    }
    git(at, &["init", "--quiet"])?;
    git(at, &["add", "."])?;
    git(at, &["-c", "user.name=tokrate", "-c", "user.email=tokrate@localhost", "commit", "--quiet", "-m", "rows"])?;
    // cargo-deny checks when a database was fetched.
    git(at, &["fetch", "--quiet", "."])
}

fn git(at: &Path, arguments: &[&str]) -> Result<()> {
    tools::run(Command::new("git").args(arguments).current_dir(at))
}

/// Writes the rows anew from a clone.
fn update(root: &Path, clone: &Path) -> Result<()> {
    let covers = locked_crates(root)?;
    let mut advisories = Vec::new();
    for name in &covers {
        for path in advisories_of(clone, name)? {
            advisories.push(facts_of(&path)?);
        }
    }
    let git = |arguments: &[&str]| -> Result<String> {
        let output = Command::new("git").args(arguments).current_dir(clone).output().context("run git")?;
        ensure!(output.status.success(), "read the state of {}", clone.display());
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let rows = json!({
        "source": SOURCE,
        "commit": git(&["rev-parse", "HEAD"])?,
        "as_of": git(&["log", "-1", "--format=%cs"])?,
        "advisories": advisories,
        "covers": covers,
    });
    let path = root.join(ROWS);
    fs::write(&path, serde_json::to_string_pretty(&rows)? + "\n").with_context(|| format!("write {}", path.display()))
}

/// The files of a crate's advisories, in order.
fn advisories_of(clone: &Path, name: &str) -> Result<Vec<PathBuf>> {
    let folder = clone.join("crates").join(name);
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
        files.push(entry?.path());
    }
    files.sort();
    Ok(files)
}

/// Number, dates and versions of an advisory, without its prose.
fn facts_of(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let head = text.split_once("```toml").and_then(|(_, rest)| rest.split_once("```")).map(|(head, _)| head);
    let head = head.with_context(|| format!("find the head of {}", path.display()))?;
    let head: toml::Table = head.parse().with_context(|| format!("understand {}", path.display()))?;
    let mut row = serde_json::Map::new();
    for (table, keys) in [("advisory", &FACTS[..]), ("versions", &VERSIONS[..])] {
        for key in keys {
            if let Some(value) = head.get(table).and_then(|table| table.get(*key)) {
                row.insert((*key).to_owned(), serde_json::to_value(value)?);
            }
        }
    }
    Ok(Value::Object(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of a test's own.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tokrate-advisories-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    #[test]
    fn an_advisory_comes_to_its_facts_and_no_prose() {
        let folder = folder("facts");
        let path = folder.join("RUSTSEC-2000-0001.md");
        let text = "```toml\n[advisory]\nid = \"RUSTSEC-2000-0001\"\npackage = \"a\"\nkeywords = [\"x\"]\n\n[versions]\npatched = \
                    [\n  \">= 1.2\",\n]\n```\n\n# A title\n\nProse.\n";
        fs::write(&path, text).expect("written");
        let row = facts_of(&path).expect("facts");
        assert_eq!(row, json!({ "id": "RUSTSEC-2000-0001", "package": "a", "patched": [">= 1.2"] }));
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn a_crate_that_the_rows_do_not_cover_is_named() {
        let folder = folder("covers");
        fs::create_dir_all(folder.join("xtask")).expect("a folder");
        fs::write(folder.join("Cargo.lock"), "[[package]]\nname = \"a\"\n[[package]]\nname = \"b\"\n")
            .expect("written");
        fs::write(folder.join(ROWS), "{\"covers\": [\"a\"], \"advisories\": []}").expect("written");
        let error = check_rows(&folder).expect_err("b is not covered");
        assert!(error.to_string().starts_with("look up b: "), "{error}");
        fs::remove_dir_all(folder).expect("removed");
    }
}
