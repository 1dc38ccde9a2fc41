//! Changes of files from the histories of git repositories.
//!
//! Invariant: the same repositories, bound and seed give the same changes in the same order.

use super::chance::Chance;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// A text file before and after a commit.
pub struct Version {
    /// Name of the repository's folder.
    pub repository: String,
    /// The commit.
    pub commit: String,
    /// Path inside of the repository.
    pub path: String,
    /// The file before it.
    pub before: String,
    /// The file after it.
    pub after: String,
}

/// A changed file by the names of its two contents.
struct Listed {
    commit: String,
    path: String,
    before: String,
    after: String,
}

/// The changes of so many commits of a repository, drawn by a seed. Renamed, new, binary and generated files are left out.
pub fn versions(repository: &Path, commits: usize, seed: u64) -> Result<Vec<Version>> {
    let listed = listed(repository, commits, seed)?;
    let contents = contents(repository, listed.iter().flat_map(|file| [&*file.before, &*file.after]))?;
    let name = repository
        .canonicalize()
        .ok()
        .map(|path| if path.ends_with("repo") { path.parent().map(Path::to_path_buf).unwrap_or(path) } else { path })
        .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .unwrap_or_default();
    let mut contents = contents.into_iter();
    let mut versions = Vec::new();
    for file in listed {
        let pair = (contents.next().flatten(), contents.next().flatten());
        let (Some(before), Some(after)) = pair else { continue };
        let (Ok(before), Ok(after)) = (String::from_utf8(before), String::from_utf8(after)) else { continue };
        versions.push(Version { repository: name.clone(), commit: file.commit, path: file.path, before, after });
    }
    Ok(versions)
}

fn listed(repository: &Path, commits: usize, seed: u64) -> Result<Vec<Listed>> {
    let all = output(git(repository).args(["rev-list", "--no-merges", "HEAD"]))?;
    let mut all: Vec<&str> = all.lines().collect();
    Chance::new(seed).shuffle(&mut all);
    all.truncate(commits);
    let arguments = ["diff-tree", "--stdin", "-r", "--no-renames", "--diff-filter=M", "--no-abbrev"];
    let mut child = git(repository).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().context("write to git")?;
    let names = all.join("\n") + "\n";
    let writer = std::thread::spawn(move || input.write_all(names.as_bytes()));
    let mut text = String::new();
    child.stdout.take().context("read from git")?.read_to_string(&mut text).context("read git's list of changes")?;
    child.wait()?;
    writer.join().ok().context("write to git")?.context("write to git")?;
    let mut commit = "";
    let mut listed = Vec::new();
    for line in text.lines() {
        let Some(raw) = line.strip_prefix(':') else {
            commit = line;
            continue;
        };
        let Some((facts, path)) = raw.split_once('\t') else { continue };
        let facts: Vec<&str> = facts.split(' ').collect();
        let [_, "100644" | "100755", before, after, _] = facts[..] else { continue };
        if is_written_by_hand(path) {
            let [commit, path, before, after] = [commit, path, before, after].map(str::to_owned);
            listed.push(Listed { commit, path, before, after });
        }
    }
    Ok(listed)
}

/// Lock files, snapshots and shrunk scripts are written by programs, and nobody asks a model for a change of them.
fn is_written_by_hand(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let by_programs = [".min.js", ".min.css", ".snap", "-lock.json", "-lock.yaml", ".lock"];
    !by_programs.iter().any(|end| name.ends_with(end)) && super::language::of_path(path).is_some()
}

/// The contents behind names, in order; `None` for what the repository lacks.
fn contents<'a>(repository: &Path, names: impl Iterator<Item = &'a str>) -> Result<Vec<Option<Vec<u8>>>> {
    let names: Vec<String> = names.map(str::to_owned).collect();
    let asked = names.len();
    let mut child =
        git(repository).args(["cat-file", "--batch"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().context("write to git")?;
    let writer = std::thread::spawn(move || input.write_all((names.join("\n") + "\n").as_bytes()));
    let mut reader = BufReader::new(child.stdout.take().context("read from git")?);
    let mut contents = Vec::with_capacity(asked);
    for _ in 0..asked {
        let mut head = String::new();
        reader.read_line(&mut head).context("read what git has")?;
        let size = head.trim_end().rsplit(' ').next().and_then(|size| size.parse::<usize>().ok());
        contents.push(match size {
            Some(size) => {
                // One newline follows each content.
                let mut content = vec![0; size + 1];
                reader.read_exact(&mut content).context("read a file from git")?;
                content.pop();
                Some(content)
            }
            None => None,
        });
    }
    child.wait()?;
    writer.join().ok().context("write to git")?.ok();
    Ok(contents)
}

fn git(repository: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(repository);
    command
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output().context("run git")?;
    if !output.status.success() {
        bail!("read the history with git: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
