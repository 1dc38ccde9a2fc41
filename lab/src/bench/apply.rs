//! `cargo xtask bench apply`: the merge engine on updates derived from true changes in the history of git repositories.
//!
//! It does not keep what it read or judge by exit code. Invariant: the same repositories, bounds and seed give the
//! same cases, so two engines can be held against each other.

mod cases;
mod chance;
mod change;
mod decide;
mod fit;
mod formats;
mod freely;
mod history;
mod language;
mod large;
mod lazy;
mod refuse;
mod report;
mod scoped;
mod score;
mod served;
mod sketch;
mod spread;
mod twist;

use anyhow::{Context, Result, bail};
use cases::{Case, Wanted};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How it is called.
pub const USAGE: &str = "\
usage: cargo xtask bench apply [--commits N] [--cases N] [--seed N] [--show-wrong N] [--show-refused CODE]
                               [--only WORDS] [--dump FILE] [--fit FILE] [--rows FILE] [--served] [REPOSITORY…]
";

/// Cases of a class of files that are timed.
const TIMED: usize = 300;
/// Refused cases that are shown.
const REFUSED_SHOWN: usize = 20;

struct Options {
    repositories: Vec<PathBuf>,
    commits: usize,
    cases: usize,
    seed: u64,
    show_wrong: usize,
    show_refused: Option<String>,
    /// Part of `format, style` of the cases to run.
    only: String,
    dump: Option<PathBuf>,
    /// Where a card that is fitted to the cases is written to.
    fit: Option<PathBuf>,
    /// Where what is known of each case that the card is fitted to is written to.
    rows: Option<PathBuf>,
    /// Whether to measure the release binary's server too.
    served: bool,
}

impl Options {
    fn parse(root: &Path, arguments: &[String]) -> Result<Options> {
        let mut options = Options {
            repositories: Vec::new(),
            commits: 200,
            cases: 20_000,
            seed: 1,
            show_wrong: 0,
            show_refused: None,
            only: String::new(),
            dump: None,
            fit: None,
            rows: None,
            served: false,
        };
        let mut words = arguments.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("read what follows {word}"));
            let number = |value: &str| value.parse::<usize>().with_context(|| format!("read the number after {word}"));
            match word {
                "--commits" => options.commits = number(value()?)?,
                "--cases" => options.cases = number(value()?)?,
                "--seed" => options.seed = number(value()?)? as u64,
                "--show-wrong" => options.show_wrong = number(value()?)?,
                "--show-refused" => options.show_refused = Some(value()?.to_owned()),
                "--only" => options.only = value()?.to_owned(),
                "--served" => options.served = true,
                "--fit" => options.fit = Some(value()?.into()),
                "--rows" => options.rows = Some(value()?.into()),
                "--dump" => options.dump = Some(value()?.into()),
                flag if flag.starts_with('-') => bail!("understand {flag}\n{USAGE}"),
                path => options.repositories.push(path.into()),
            }
        }
        if options.repositories.is_empty() {
            options.repositories.push(root.to_path_buf());
        }
        Ok(options)
    }
}

/// Makes the cases, runs the engine on them, and prints the score.
pub fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let options = Options::parse(root, arguments)?;
    if cfg!(debug_assertions) {
        let mut command = Command::new(env!("CARGO"));
        let build = ["run", "--release", "--quiet", "--package", "lab", "--", "bench", "apply"];
        // Paths mean what they mean to the caller, so the folder is left as it is.
        return xtask::tools::run(command.args(build).args(arguments));
    }
    let mut versions = Vec::new();
    for repository in &options.repositories {
        let read = changed_files(repository, &options)?;
        eprintln!("{}: {} changed files", repository.display(), read.len());
        versions.extend(read);
    }
    // Each repository has its share when there are more changes than cases are asked for.
    chance::Chance::new(options.seed).shuffle(&mut versions);
    let mut cases = cases::cases(&versions, options.seed, options.cases);
    cases.retain(|case| format!("{}, {}", case.format, case.style).contains(&options.only));
    eprintln!("{} cases", cases.len());
    if let Some(file) = &options.dump {
        dump(&cases, file).with_context(|| format!("write {}", file.display()))?;
    }
    if let Some(file) = &options.fit {
        let fitted = decide::card(&cases, "Written by `cargo xtask bench apply --fit` (docs/apply.md).");
        println!("{}", fitted.comes);
        let write =
            |file: &Path, text: &str| std::fs::write(file, text).with_context(|| format!("write {}", file.display()));
        if let Some(rows) = &options.rows {
            write(rows, &fitted.rows)?;
        }
        return write(file, &fitted.card);
    }
    let results = score::results(&cases);
    let times = score::times(&cases, TIMED);
    let pairs = || cases.iter().zip(&results);
    let wrong = pairs().filter(|(_, result)| matches!(result, score::Result::Wrong(_) | score::Result::Panicked));
    print!("{}", report::shown(wrong, options.show_wrong));
    if let Some(code) = &options.show_refused {
        let is_asked = |(case, result): &(&Case, &score::Result)| {
            matches!(result, score::Result::Refused(refused) if refused.code.name() == code)
                && matches!(case.wanted, Wanted::Text(_))
                && case.place.unique
        };
        let chosen: Vec<_> = pairs().filter(is_asked).collect();
        let step = chosen.len().div_ceil(REFUSED_SHOWN).max(1);
        print!("{}", report::shown(chosen.into_iter().step_by(step), REFUSED_SHOWN));
    }
    println!("{}", report::tables(&cases, &results, &times, large::measured().as_ref()));
    if options.served {
        print!("{}", report::served(&served::measured(root, &cases)?));
    }
    let names: Vec<String> = options.repositories.iter().map(|path| path.display().to_string()).collect();
    println!("seed {}, {} commits of each of: {}", options.seed, options.commits, names.join(" "));
    Ok(())
}

/// Writes edits out of a repository's history, as `tokrate apply --batch` reads them.
pub fn write_edits(repository: &Path, most: usize, file: &Path) -> Result<()> {
    let options = Options::parse(repository, &[])?;
    let cases = cases::cases(&changed_files(repository, &options)?, options.seed, most);
    dump(&cases, file).with_context(|| format!("write {}", file.display()))
}

fn changed_files(repository: &Path, options: &Options) -> Result<Vec<history::Version>> {
    history::versions(repository, options.commits, options.seed)
        .with_context(|| format!("read the history of {}", repository.display()))
}

/// Writes the cases as lines of JSON, for `tokrate apply --batch` and for other engines.
fn dump(cases: &[Case], file: &Path) -> Result<()> {
    let mut out = BufWriter::new(std::fs::File::create(file)?);
    for case in cases {
        let (truth, may_refuse) = match &case.wanted {
            Wanted::Text(truth) => (Some(&**truth), false),
            Wanted::TextOrRefusal(truth) => (Some(&**truth), true),
            Wanted::Refusal => (None, true),
        };
        let line = serde_json::json!({
            "id": case.id.to_string(),
            "path": case.origin.path,
            "repository": case.origin.repository,
            "commit": case.origin.commit,
            "format": case.format,
            "style": case.style,
            "unique": case.place.unique,
            "may_refuse": may_refuse,
            "original": &*case.original,
            "update": case.update,
            "instruction": "",
            "truth": truth,
        });
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    Ok(())
}
