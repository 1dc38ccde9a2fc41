//! Messages name flags, and some are written where no flag is known: every one that they name can be typed.

use super::Flags;
use clap::{Command, CommandFactory};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tokrate_core::FailureKind;

/// What a command can be asked with.
fn long_names(command: &Command) -> BTreeSet<String> {
    let own = command.get_arguments().filter_map(|argument| argument.get_long()).map(str::to_owned);
    let below = command.get_subcommands().flat_map(long_names);
    own.chain(below).chain(["help".to_owned()]).collect()
}

/// The flags that a text names.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices("--").map(|(at, _)| at);
    let alone = starts.filter(|&at| !text[..at].ends_with(|before: char| before.is_alphanumeric() || before == '-'));
    let names = alone.map(|at| {
        let rest = &text[at + 2..];
        let end = rest.find(|sign: char| !sign.is_ascii_alphanumeric() && sign != '-').unwrap_or(rest.len());
        rest[..end].trim_end_matches('-')
    });
    names.filter(|name| name.starts_with(|first: char| first.is_ascii_lowercase()))
}

#[test]
fn every_flag_of_a_hint_is_one_of_bench() {
    let command = Flags::command();
    let known = long_names(command.find_subcommand("bench").expect("it is a command"));
    let hints: Vec<&str> = FailureKind::ALL.iter().flat_map(|kind| named(kind.hint())).collect();
    assert!(hints.len() > 8 && hints.contains(&"http"), "{hints:?}");
    let unknown: Vec<&&str> = hints.iter().filter(|name| !known.contains(**name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    let flags = ["tokrate", "bench", "--http", "1.1"];
    assert!(command.clone().try_get_matches_from(flags).is_ok(), "as the hint for broken HTTP has it");
}

/// Sources below a folder that are not tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("it is there") {
        let path = entry.expect("it can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match path.is_dir() {
            true if name != "tests" && name != "browser" => sources(&path, found),
            // Those of other tools stand in `foreign.rs`, which holds its own against these.
            false if name.ends_with(".rs") && !matches!(name.as_str(), "tests.rs" | "foreign.rs") => found.push(path),
            _ => {}
        }
    }
}

#[test]
fn every_flag_that_a_message_names_is_one_of_some_command() {
    let known = long_names(&Flags::command());
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("it lies beside the others");
    // `apply` reads what git writes, and the flags of other programs are theirs.
    let others = ["git", "nocapture", "exact", "example", "release"];
    let (mut files, mut seen) = (Vec::new(), 0);
    for name in
        ["apply-host", "bench", "catalog", "core", "gateway", "host", "meter", "net", "store", "tokrate", "wire"]
    {
        sources(&crates.join(name).join("src"), &mut files);
    }
    for file in files {
        let text = std::fs::read_to_string(&file).expect("it can be read");
        let program = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for line in program.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for name in named(line) {
                assert!(known.contains(name) || others.contains(&name), "--{name} in {}: {line}", file.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 100, "{seen}");
}
