//! `tokrate apply`: a model's edit merged into a file, or the reason why not.

mod batch;
mod replace;

use super::Verdict;
use crate::flags::apply::Flags;
use crate::out::apply;
use anyhow::{Context, Result, anyhow};
use std::io::{Read, Write};
use std::path::Path;
use tokrate_apply::{Language, Options, Outcome, merge};

/// Merges one edit, or a batch of them.
pub fn run(flags: &Flags) -> Result<Verdict> {
    if let Some(path) = &flags.batch {
        return batch::run(path, flags.no_tree);
    }
    let Some(file) = &flags.file else { return Err(anyhow!("read FILE: name the file that is edited")) };
    let options = options(flags, file)?;
    let original = std::fs::read(file).with_context(|| format!("read {}", file.display()))?;
    let update = read_update(flags.update.as_deref().unwrap_or(Path::new("-")))?;
    let merged = match merge(&original, &update, &options) {
        Outcome::Merged(merged) => merged,
        Outcome::Refused(refused) => {
            anstream::eprint!("{}", apply::refusal(file, &original, &refused));
            return Ok(Verdict::BelowBar);
        }
    };
    let before = String::from_utf8_lossy(&original);
    if flags.in_place {
        replace::contents(file, merged.text.as_bytes())?;
        anstream::eprintln!("{}", apply::summary(file, &merged));
    } else if flags.diff {
        print(&apply::unified(file, &before, &merged.text))?;
    } else if flags.check {
        print(&format!("{}\n", apply::summary(file, &merged)))?;
    } else {
        print(&merged.text)?;
    }
    Ok(Verdict::Good)
}

fn options(flags: &Flags, file: &Path) -> Result<Options> {
    let language = flags.language.as_deref().map(|name| {
        Language::from_name(name).ok_or_else(|| {
            let known: Vec<&str> = Language::ALL.iter().map(|language| language.name()).collect();
            anyhow!("read --language: `{name}` is not known; known are {}", known.join(", "))
        })
    });
    Ok(Options {
        path: Some(file.display().to_string()),
        language: language.transpose()?,
        without_tree: flags.no_tree,
        ..Options::default()
    })
}

fn read_update(path: &Path) -> Result<Vec<u8>> {
    if path != Path::new("-") {
        return std::fs::read(path).with_context(|| format!("read --update {}", path.display()));
    }
    let mut update = Vec::new();
    std::io::stdin().lock().read_to_end(&mut update).context("read the update from standard input")?;
    Ok(update)
}

fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).context("write to standard output")
}
