//! Where results go and how the run is judged: resolved from flags and settings file.

use crate::config::file::File;
use crate::flags::bench::Flags;
use anyhow::{Result, ensure};
use std::path::PathBuf;

/// Where results go and how the run is judged.
#[derive(Clone, PartialEq, Debug)]
pub struct Outputs {
    /// Record as JSON; `-` is standard output.
    pub json: Option<PathBuf>,
    /// One line per request.
    pub jsonl: Option<PathBuf>,
    /// The report.
    pub html: Option<PathBuf>,
    /// No progress, no table.
    pub quiet: bool,
    /// Share of failed requests above which the exit code is 1.
    pub max_failures: f64,
    /// Exit with 2 when the result does not count.
    pub strict: bool,
}

pub(super) fn outputs(flags: &Flags, file: &File, embedded: bool) -> Result<Outputs> {
    let output = &flags.output;
    let default_html = (embedded && !output.no_html).then(|| PathBuf::from("tokrate-report.html"));
    let max_failures = flags.limits.max_failures.or(file.bench.max_failures).unwrap_or(0.01);
    ensure!((0.0..=1.0).contains(&max_failures), "read --max-failures: {max_failures} is not a share between 0 and 1");
    for (flag, path) in [("--jsonl", &output.jsonl), ("--html", &output.html)] {
        let is_stdout = path.as_deref() == Some(std::path::Path::new("-"));
        ensure!(!is_stdout, "read {flag}: only --json can go to standard output; name a file");
    }
    Ok(Outputs {
        json: output.json.clone(),
        jsonl: output.jsonl.clone(),
        html: output.html.clone().or(default_html),
        quiet: output.quiet,
        max_failures,
        strict: flags.limits.strict,
    })
}
