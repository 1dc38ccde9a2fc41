//! Outputs that are files which the run reads, by whatever spelling or link: they would be replaced.

use super::dataset;
use super::output::Outputs;
use crate::config::file::File;
use crate::config::length::Length;
use crate::flags::bench::Flags;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

/// Refuses an output that would replace what the run reads. A baseline may be replaced by the run's own: that is how it is kept up to date.
pub(super) fn check(flags: &Flags, file: &File, outputs: &Outputs) -> Result<()> {
    let inputs = inputs(flags, file);
    let kept = outputs.requirements.save_baseline.as_deref().map(|path| ("baseline", path));
    let board = outputs.board.as_deref().map(|path| ("board", path));
    for (name, path) in outputs.files().chain(kept).chain(board) {
        // A device or a pipe takes whatever comes.
        if path == Path::new("-") || std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            continue;
        }
        let may_replace = |flag: &str| name == "baseline" && flag == "--baseline";
        let read = inputs.iter().find(|(flag, input)| is_same(path, input) && !may_replace(flag));
        if let Some((flag, input)) = read {
            bail!(
                "write {name} to {}: {flag} reads {}, which would be replaced; name another file",
                path.display(),
                if input == path { "it".to_owned() } else { format!("the same file ({})", input.display()) }
            );
        }
    }
    Ok(())
}

/// Every file that is read, with its flag.
fn inputs(flags: &Flags, file: &File) -> Vec<(&'static str, PathBuf)> {
    let (bench, request, target) = (&file.bench, &flags.request, &flags.target);
    let mut found: Vec<(&'static str, PathBuf)> = Vec::new();
    let mut add = |flag, path: Option<&PathBuf>| found.extend(path.map(|path| (flag, path.clone())));
    add("--baseline", flags.verdict.baseline.as_ref());
    add("--config", target.config.as_ref().or(Some(&file.path)));
    add("--trace", flags.load.trace.as_ref());
    add("--tools", request.tools.as_ref());
    add("--schema", request.schema.as_ref());
    add("--key-file", target.key_file.as_ref().or(bench.key_file.as_ref()));
    add("--ca-file", target.ca_file.as_ref().or(bench.ca_file.as_ref()));
    let lora = request.lora.as_ref().or(bench.lora.as_ref()).and_then(|named| named.strip_prefix("file:"));
    add("--lora", lora.map(PathBuf::from).as_ref());
    for (flag, length) in [
        ("--input-tokens", request.input_tokens.as_ref().or(bench.input_tokens.as_ref())),
        ("--output-tokens", request.output_tokens.as_ref().or(bench.output_tokens.as_ref())),
    ] {
        if let Some(Length::InFile(path)) = length {
            add(flag, Some(path));
        }
    }
    let folders: [(&'static str, Option<&PathBuf>, &[&str]); 4] = [
        ("--clients", flags.load.clients.as_ref(), &["csv", "json", "jsonl"]),
        ("--agents", flags.load.agents.as_ref(), &["json", "jsonl"]),
        ("--audio", flags.audio.audio.as_ref(), &["wav", "txt"]),
        ("--images-from", request.attached.images_from.as_ref(), &[]),
    ];
    for (flag, path, endings) in folders {
        found.extend(path.into_iter().flat_map(|path| files_of(path, endings)).map(|path| (flag, path)));
    }
    let prompts = request.prompts.as_ref().or(bench.prompts.as_ref());
    let prompts = prompts.into_iter().flat_map(|path| dataset::files_of(path).unwrap_or_default());
    found.extend(prompts.map(|path| ("--prompts", path)));
    found
}

/// A file, or the files of a folder with one of these endings; with any, if there are none.
fn files_of(path: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(path) else { return vec![path.to_owned()] };
    let is_read = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase();
        endings.is_empty() || endings.contains(&ending.as_str())
    };
    entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_read).collect()
}

/// Whether both are one file. What is not there yet is none.
#[cfg(unix)]
fn is_same(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let of = |path: &Path| std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    of(a).is_some_and(|place| of(b) == Some(place))
}

/// Whether both are one file. What is not there yet is none.
#[cfg(not(unix))]
fn is_same(a: &Path, b: &Path) -> bool {
    let of = |path: &Path| std::fs::canonicalize(path).ok();
    of(a).is_some_and(|place| of(b) == Some(place))
}

#[cfg(test)]
mod tests {
    use crate::config::bench::output::outputs;
    use crate::config::file::File;
    use crate::flags::bench::Flags;
    use clap::{Args, FromArgMatches};

    #[cfg(unix)]
    #[test]
    fn what_a_run_reads_is_not_replaced_by_what_it_writes_however_it_is_spelled() {
        let folder = std::env::temp_dir().join(format!("tokrate-same-file-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("sub")).expect("a folder");
        let place = |name: &str| folder.join(name).display().to_string();
        for name in ["x.json", "sub/clip.wav", "sub/a.jsonl"] {
            std::fs::write(place(name), "{}").expect("it can be written");
        }
        std::os::unix::fs::symlink("x.json", place("link")).expect("a link");
        std::fs::hard_link(place("x.json"), place("hard")).expect("a link");
        let refusal = |line: &str| {
            let words = format!("bench {}", line.replace("@/", &format!("{}/", folder.display())));
            let command = Flags::augment_args(clap::Command::new("bench"));
            let matches = command.try_get_matches_from(words.split_whitespace()).expect("they are known");
            let flags = Flags::from_arg_matches(&matches).expect("flags");
            let file = File::default();
            let checked = outputs(&flags, &file, false).and_then(|outputs| super::check(&flags, &file, &outputs));
            checked.err().map_or_else(String::new, |error| format!("{error:#}"))
        };
        let plain = refusal("--json @/x.json --baseline @/x.json");
        let words = "x.json: --baseline reads it, which would be replaced; name another file";
        assert!(plain.starts_with("write record to ") && plain.ends_with(words), "{plain}");
        for (line, flag) in [
            ("--json @/sub/../x.json --baseline @/x.json", "--baseline"),
            ("--json @/link --baseline @/x.json", "--baseline"),
            ("--jsonl @/hard --baseline @/x.json", "--baseline"),
            ("--csv @/x.json --prompts @/link", "--prompts"),
            ("--html @/x.json --trace @/x.json", "--trace"),
            ("--markdown @/x.json --tools @/x.json", "--tools"),
            ("--junit @/x.json --schema @/x.json", "--schema"),
            ("--badge @/x.json --key-file @/x.json", "--key-file"),
            ("--vllm-json @/x.json --ca-file @/x.json", "--ca-file"),
            ("--board @/x.json --config @/x.json", "--config"),
            ("--save-baseline @/x.json --clients @/x.json", "--clients"),
            ("--json @/x.json --input-tokens empirical:@/x.json", "--input-tokens"),
            ("--json @/x.json --output-tokens empirical:@/x.json", "--output-tokens"),
            ("--json @/x.json --lora file:@/x.json", "--lora"),
            ("--json @/sub/a.jsonl --agents @/sub", "--agents"),
            ("--json @/sub/clip.wav --audio @/sub", "--audio"),
            ("--json @/sub/a.jsonl --images-from @/sub", "--images-from"),
        ] {
            let refused = refusal(line);
            assert!(refused.contains(&format!(": {flag} reads ")), "{line}: {refused}");
        }
        for line in [
            "--json @/y.json --baseline @/x.json",
            "--save-baseline @/link --baseline @/x.json",
            "--json @/sub/run.json --audio @/sub",
            "--json - --baseline @/x.json",
        ] {
            assert_eq!(refusal(line), "", "{line}");
        }
        std::fs::remove_dir_all(&folder).expect("it was made here");
    }
}
