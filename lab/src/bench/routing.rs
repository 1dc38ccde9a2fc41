//! `cargo xtask bench routing`: the tables of docs/routing.md, made anew by the simulated fleets of `dst`.
//!
//! Invariant: virtual time and kept seeds, so the same sources give the same tables on every machine.

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// How it is called.
pub const USAGE: &str = "\
usage: cargo xtask bench routing [--seeds N] [--only routing|caching] [--write]
";

/// The programs that make tables, and the lines of docs/routing.md between which these stand.
const TABLES: [(&str, &str, &str); 2] = [
    ("routing", "<!-- tables: made by `cargo xtask bench routing --write` -->", "<!-- end of the tables -->"),
    (
        "caching",
        "<!-- cache tables: made by `cargo xtask bench routing --write` -->",
        "<!-- end of the cache tables -->",
    ),
];

/// Measures, prints, and with `--write` puts the tables into the page.
pub fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let (mut seeds, mut only, mut write) = ("5".to_owned(), None, false);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seeds" => words.next().context("read what follows --seeds")?.clone_into(&mut seeds),
            "--only" => only = Some(words.next().context("read what follows --only")?.clone()),
            "--write" => write = true,
            other => bail!("read the argument {other}\n{USAGE}"),
        }
    }
    if let Some(only) = only.as_deref().filter(|only| TABLES.iter().all(|(example, ..)| example != only)) {
        bail!("make the tables {only}\n{USAGE}");
    }
    for table in TABLES.iter().filter(|(example, ..)| only.as_deref().is_none_or(|only| only == *example)) {
        make(root, table, &seeds, write)?;
    }
    Ok(())
}

fn make(root: &Path, &(example, begin, end): &(&str, &str, &str), seeds: &str, write: bool) -> Result<()> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--release", "--quiet", "--package", "tokrate-dst", "--example", example, "--", seeds]);
    let output =
        command.current_dir(root).output().with_context(|| format!("run the example {example} of tokrate-dst"))?;
    if !output.status.success() {
        bail!("run the example {example} of tokrate-dst: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let tables = String::from_utf8(output.stdout).context("read the tables")?;
    println!("{}", tables.trim());
    if write {
        let page = root.join("docs/routing.md");
        let text = std::fs::read_to_string(&page).with_context(|| format!("read {}", page.display()))?;
        let text = with_tables(&text, &tables, begin, end)
            .with_context(|| format!("find the tables of {example} in {}", page.display()))?;
        std::fs::write(&page, text).with_context(|| format!("write {}", page.display()))?;
    }
    Ok(())
}

/// The page with other tables; `None` without the lines between which they stand.
fn with_tables(page: &str, tables: &str, begin: &str, end: &str) -> Option<String> {
    let (before, rest) = page.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}\n\n{}\n\n{end}{after}", tables.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_exchanged_and_the_rest_of_the_page_stays() {
        for (_, begin, end) in TABLES {
            let page = format!("# Title\n{begin}\n\nold\n\n{end}\nmore\n");
            let new = with_tables(&page, "\n| new |\n", begin, end).expect("both lines are there");
            assert_eq!(new, format!("# Title\n{begin}\n\n| new |\n\n{end}\nmore\n"));
            assert_eq!(with_tables(&new, "| new |", begin, end), Some(new.clone()));
            assert_eq!(with_tables("no lines", "x", begin, end), None);
        }
    }
}
