//! Where results go and how the run is judged: resolved from flags and settings file.

use super::verdict::{self, Requirements};
use crate::config::file::File;
use crate::flags::bench::{self as flags, Flags};
use crate::out::arrivals::check_form;
use anyhow::{Result, bail, ensure};
use std::path::{Path, PathBuf};

/// What is seen of a run while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// What the terminal allows.
    Auto,
    /// The view, drawn anew several times a second.
    Live,
    /// A line for each level that has ended.
    Lines,
    /// The plan, and when a provider asks to wait.
    Plain,
    /// Nothing.
    Quiet,
}

/// Where results go and how the run is judged.
#[derive(Clone, PartialEq, Debug)]
pub struct Outputs {
    /// Record as JSON; `-` is standard output.
    pub json: Option<PathBuf>,
    /// One line per request.
    pub jsonl: Option<PathBuf>,
    /// Every arrival.
    pub chunks: Option<PathBuf>,
    /// The report.
    pub html: Option<PathBuf>,
    /// One row per load level.
    pub csv: Option<PathBuf>,
    /// For a pull request; `-` is standard output.
    pub markdown: Option<PathBuf>,
    /// In vLLM's layout.
    pub vllm_json: Option<PathBuf>,
    /// For CI systems.
    pub junit: Option<PathBuf>,
    /// A picture of two numbers.
    pub badge: Option<PathBuf>,
    /// Database of a monitor that the requests are added to.
    pub board: Option<PathBuf>,
    /// The targets side by side.
    pub scorecard: bool,
    /// Every number of every level.
    pub wide: bool,
    /// No progress, no table.
    pub quiet: bool,
    /// What is seen while it runs.
    pub progress: Progress,
    /// Share of failed requests above which the exit code is 1.
    pub max_failures: f64,
    /// Exit with 2 when the result does not count.
    pub strict: bool,
    /// What else the result is compared with.
    pub requirements: Requirements,
}

impl Outputs {
    /// Every file that is written, with its name in messages.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &std::path::Path)> {
        let all = [
            ("record", &self.json),
            ("requests", &self.jsonl),
            ("arrivals", &self.chunks),
            ("report", &self.html),
            ("levels", &self.csv),
            ("markdown", &self.markdown),
            ("vllm result", &self.vllm_json),
            ("junit", &self.junit),
            ("badge", &self.badge),
        ];
        all.into_iter().filter_map(|(name, path)| Some((name, path.as_deref()?)))
    }

    /// Whether standard output belongs to a document, so that the table goes elsewhere.
    pub fn claims_stdout(&self) -> bool {
        self.files().any(|(_, path)| path == std::path::Path::new("-"))
    }
}

pub(super) fn outputs(flags: &Flags, file: &File, embedded: bool) -> Result<Outputs> {
    let output = &flags.output;
    let default_html = (embedded && !output.no_html).then(|| PathBuf::from("tokrate-report.html"));
    let max_failures = flags.limits.max_failures.or(file.bench.max_failures.map(|share| share.0)).unwrap_or(0.01);
    let is_stdout = |path: &Option<PathBuf>| path.as_deref() == Some(std::path::Path::new("-"));
    for (flag, path) in [
        ("--jsonl", &output.jsonl),
        ("--chunks", &output.chunks),
        ("--html", &output.html),
        ("--csv", &output.csv),
        ("--vllm-json", &output.vllm_json),
        ("--junit", &output.junit),
        ("--badge", &output.badge),
        ("--board", &output.board),
    ] {
        ensure!(!is_stdout(path), "read {flag}: only --json or --markdown can go to standard output; name a file");
    }
    output.chunks.as_deref().map(check_form).transpose()?;
    ensure!(
        !(is_stdout(&output.json) && is_stdout(&output.markdown)),
        "read --markdown: standard output belongs to --json already; name a file"
    );
    let outputs = Outputs {
        json: output.json.clone(),
        jsonl: output.jsonl.clone(),
        chunks: output.chunks.clone(),
        html: output.html.clone().or(default_html),
        csv: output.csv.clone(),
        markdown: output.markdown.clone(),
        vllm_json: output.vllm_json.clone(),
        junit: output.junit.clone(),
        badge: output.badge.clone(),
        board: output.board.clone(),
        scorecard: output.scorecard,
        wide: output.wide,
        quiet: output.quiet,
        progress: progress(output)?,
        max_failures,
        strict: flags.limits.strict,
        requirements: verdict::requirements(&flags.verdict, flags.load.search.is_some(), file)?,
    };
    check_apart(&outputs)?;
    Ok(outputs)
}

fn progress(output: &flags::Output) -> Result<Progress> {
    let is_terminal = || std::io::IsTerminal::is_terminal(&std::io::stderr());
    Ok(match output.progress {
        _ if output.quiet => Progress::Quiet,
        None | Some(flags::Progress::Auto) => Progress::Auto,
        Some(flags::Progress::Lines) => Progress::Lines,
        Some(flags::Progress::None) => Progress::Plain,
        Some(flags::Progress::Live) => {
            ensure!(
                is_terminal(),
                "read --progress live: standard error is no terminal; leave it out, or ask for lines"
            );
            Progress::Live
        }
    })
}

/// Refuses two outputs in one file: the later would take the earlier's place.
fn check_apart(outputs: &Outputs) -> Result<()> {
    let baseline = outputs.requirements.save_baseline.as_deref().map(|path| ("baseline", path));
    let mut seen: Vec<(&str, PathBuf)> = Vec::new();
    let board = outputs.board.as_deref().map(|path| ("board", path));
    for (name, path) in outputs.files().filter(|(_, path)| *path != Path::new("-")).chain(baseline).chain(board) {
        // A device or a pipe takes whatever comes.
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            continue;
        }
        let place = place_of(path);
        if let Some((other, _)) = seen.iter().find(|(_, known)| *known == place) {
            bail!(
                "write both {other} and {name} to {}: the later would replace the earlier; name a file for each",
                path.display()
            );
        }
        seen.push((name, place));
    }
    Ok(())
}

/// Where a file is or will be, links followed as far as there is anything.
fn place_of(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let there = std::fs::canonicalize(&absolute).ok();
    let in_folder = || Some(std::fs::canonicalize(absolute.parent()?).ok()?.join(absolute.file_name()?));
    there.or_else(in_folder).unwrap_or(absolute)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_outputs_are_not_written_to_one_file() {
        let outputs = |json: &str, csv: &str, kept: Option<&str>| {
            let mut flags = Flags::default();
            flags.output = flags::Output { json: Some(json.into()), csv: Some(csv.into()), ..flags::Output::default() };
            flags.verdict.save_baseline = kept.map(PathBuf::from);
            super::outputs(&flags, &File::default(), false).map(|_| ()).map_err(|error| error.to_string())
        };
        let refused = outputs("x", "./x", None).expect_err("the same file");
        assert_eq!(
            refused,
            "write both record and levels to ./x: the later would replace the earlier; name a file for each"
        );
        assert!(outputs("x", "y", Some("x")).is_err_and(|error| error.contains("record and baseline")));
        assert_eq!(outputs("x", "y", Some("z")), Ok(()));
        assert_eq!(outputs("-", "y", None), Ok(()), "standard output is no file");
        #[cfg(unix)]
        assert_eq!(outputs("/dev/null", "/dev/null", None), Ok(()), "a device takes both");
    }
}
