//! The files that a bench reads what it sends from: traces and prompts.
//!
//! Invariant: what cannot be read is named by its file, line and column.

use super::texts::refused;
pub(super) use super::texts::text_of;
use super::{clients, dataset};
use crate::config::file::File;
use crate::flags::bench::Flags;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::sync::Arc;
use tokrate_bench::agents::AgentTrace;
use tokrate_bench::prompts::{Columns, FileKind, PromptFile};
use tokrate_bench::trace::Trace;

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    pub trace: Option<Arc<Trace>>,
    pub agents: Option<Arc<AgentTrace>>,
    pub prompts: Option<Arc<PromptFile>>,
}

/// Reads the files that the flags name.
pub(super) fn inputs(flags: &Flags, file: &File) -> Result<Inputs> {
    let limit = flags.load.trace_limit;
    ensure!(limit != Some(0), "read --trace-limit: at least one request is needed");
    let trace = flags.load.trace.as_deref().map(|path| {
        let text = text_of("--trace", path)?;
        Trace::parse(&text, limit).map(Arc::new).map_err(|bad| refused("--trace", path, &bad))
    });
    let drawn = flags.load.clients.as_deref().map(|path| clients::requests(path, flags, file)).transpose()?;
    let agents = flags.load.agents.as_deref().map(agents_of).transpose()?;
    let agents = agents.map(|trace| match limit.and_then(|limit| usize::try_from(limit).ok()) {
        Some(limit) => trace.limited(limit),
        None => trace,
    });
    let is_trace = flags.load.is_trace() || agents.is_some();
    let length = flags.request.input_tokens.is_some() || is_trace;
    let named = flags.request.prompts.as_ref().or(file.bench.prompts.as_ref().filter(|_| !length));
    ensure!(named.is_some() || !flags.request.prompts_whole, "read --prompts-whole: name the file with --prompts");
    let (column, answer) = (&flags.request.column, &flags.request.answer_column);
    for (flag, is_given) in [("--column", column.is_some()), ("--answer-column", answer.is_some())] {
        ensure!(named.is_some() || !is_given, "read {flag}: it is a column of --prompts; give that too");
    }
    let columns = Columns {
        prompt: column.clone().or_else(|| file.bench.column.clone()),
        answer: answer.clone().or_else(|| file.bench.answer_column.clone()),
    };
    // What is asked for of every answer wins over what the answers of a file have.
    let is_length_given = flags.request.output_tokens.is_some() || file.bench.output_tokens.is_some();
    let prompts = named.map(|path| prompts_of(path, flags.request.prompts_whole, &columns)).transpose()?;
    let prompts = prompts.map(|prompts| Arc::new(if is_length_given { prompts.without_answers() } else { prompts }));
    Ok(Inputs { trace: trace.transpose()?.or(drawn), agents: agents.map(Arc::new), prompts })
}

/// Sessions of agents from a file, or from the JSON files of a folder in the order of their names.
fn agents_of(path: &Path) -> Result<AgentTrace> {
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let place = || format!("read --agents {}", path.display());
        files = std::fs::read_dir(path)
            .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>())
            .with_context(place)?;
        files.retain(|file| file.extension().is_some_and(|ending| ending == "json" || ending == "jsonl"));
        files.sort();
        ensure!(!files.is_empty(), "{}: there is no .json or .jsonl file in it", place());
    }
    let texts = files.iter().map(|file| text_of("--agents", file)).collect::<Result<Vec<String>>>()?;
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    AgentTrace::parse_files(&texts).map_err(|(number, bad)| refused("--agents", &files[number], &bad))
}

/// The prompts of a file, or of the shards of a dataset.
fn prompts_of(path: &Path, is_whole: bool, columns: &Columns) -> Result<PromptFile> {
    let files = dataset::files_of(path).with_context(|| format!("read --prompts {}", path.display()))?;
    let shards = files.iter().map(|path| {
        let kind = if is_whole { FileKind::Whole } else { FileKind::of_name(&path.to_string_lossy()) };
        let is_text = matches!(kind, FileKind::Lines | FileKind::Whole);
        ensure!(
            !is_text || *columns == Columns::default(),
            "read --column or --answer-column: {} is text without columns",
            path.display()
        );
        ensure!(!dataset::is_parquet(path), "read --prompts {}: {}", path.display(), dataset::PARQUET_IS_NOT_READ);
        let text = text_of("--prompts", path)?;
        PromptFile::parse_columns(&text, kind, columns).map_err(|bad| refused("--prompts", path, &bad))
    });
    let shards = shards.collect::<Result<Vec<PromptFile>>>()?;
    PromptFile::joined(shards).context("read --prompts: there is no file")
}
