//! `cargo xtask bench routing`: the tables of docs/routing.md, made anew by the simulated fleets of `dst`.
//!
//! Invariant: virtual time and kept seeds, so the same sources give the same tables on every machine.

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// How it is called.
pub const USAGE: &str = "\
usage: cargo xtask bench routing [--seeds N] [--write]
";

/// Between these lines of docs/routing.md stand the tables.
const BEGIN: &str = "<!-- tables: made by `cargo xtask bench routing --write` -->";
const END: &str = "<!-- end of the tables -->";

/// Measures, prints, and with `--write` puts the tables into the page.
pub fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let (mut seeds, mut write) = ("5".to_owned(), false);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seeds" => words.next().context("read what follows --seeds")?.clone_into(&mut seeds),
            "--write" => write = true,
            other => bail!("read the argument {other}\n{USAGE}"),
        }
    }
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--release", "--quiet", "--package", "tokrate-dst", "--example", "routing", "--", &seeds]);
    let output = command.current_dir(root).output().context("run the example routing of tokrate-dst")?;
    if !output.status.success() {
        bail!("run the example routing of tokrate-dst: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let tables = String::from_utf8(output.stdout).context("read the tables")?;
    println!("{}", tables.trim());
    if write {
        let page = root.join("docs/routing.md");
        let text = std::fs::read_to_string(&page).with_context(|| format!("read {}", page.display()))?;
        let text = with_tables(&text, &tables).with_context(|| format!("find the tables in {}", page.display()))?;
        std::fs::write(&page, text).with_context(|| format!("write {}", page.display()))?;
    }
    Ok(())
}

/// The page with other tables; `None` without the lines between which they stand.
fn with_tables(page: &str, tables: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", tables.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_exchanged_and_the_rest_of_the_page_stays() {
        let page = format!("# Title\n{BEGIN}\n\nold\n\n{END}\nmore\n");
        let new = with_tables(&page, "\n| new |\n").expect("both lines are there");
        assert_eq!(new, format!("# Title\n{BEGIN}\n\n| new |\n\n{END}\nmore\n"));
        assert_eq!(with_tables(&new, "| new |"), Some(new.clone()));
        assert_eq!(with_tables("no lines", "x"), None);
    }
}
