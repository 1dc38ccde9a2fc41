//! Calls of tools and JSON in place of free text: which flags go with them.
//!
//! Invariant: a flag that would make every answer invalid is refused beside them.

use super::inputs::{Inputs, text_of};
use crate::flags::bench::{Flags, Task};
use anyhow::{Result, anyhow, ensure};
use std::sync::Arc;
use tokrate_bench::prompts::Lengths;
use tokrate_bench::{Structure, Target, ToolTurns};
use tokrate_wire::Dialect;

/// Tokens of a result: a listing, or some lines of a file.
const RESULT_TOKENS: u32 = 200;

/// Results of tools within the turns of conversations.
pub(super) fn tool_turns(flags: &Flags) -> Result<Option<Arc<ToolTurns>>> {
    let Some(each) = flags.load.tool_turns else { return Ok(None) };
    ensure!(
        flags.request.task == Some(Task::Tools),
        "read --tool-turns: the model has to be asked for calls; give --task tools too"
    );
    let result = match &flags.load.tool_tokens {
        None => Lengths::Fixed(RESULT_TOKENS),
        Some(text) => Lengths::parse(text).map_err(|reason| anyhow!("read --tool-tokens: {reason}"))?,
    };
    Ok(Some(Arc::new(ToolTurns { each, result })))
}

/// What answers are to be, if not free text.
pub(super) fn asked(flags: &Flags, target: &Target, inputs: &Inputs) -> Result<Option<Arc<Structure>>> {
    let request = &flags.request;
    let is = |task| request.task == Some(task);
    ensure!(
        request.tools.is_none() || is(Task::Tools),
        "read --tools: they are called with --task tools; give that too"
    );
    ensure!(request.schema.is_none() || is(Task::Json), "read --schema: it belongs to --task json; give that too");
    let (task, file, flag) = match request.task {
        Some(Task::Tools) => ("tools", &request.tools, "--tools"),
        Some(Task::Json) => ("json", &request.schema, "--schema"),
        _ => return Ok(None),
    };
    for (flag, is_given, why) in [
        ("--ignore-eos", request.ignore_eos, "an answer that goes on past its end is no longer valid"),
        (
            "--sessions",
            flags.load.sessions.is_some() && flags.load.tool_turns.is_none(),
            "a call has to be answered by a tool before the next turn, as --tool-turns does;",
        ),
        ("--agents", inputs.agents.is_some(), "its steps answer with text"),
    ] {
        ensure!(!is_given, "read {flag}: with --task {task} {why}; leave it out");
    }
    let dialect = target.remote().map_or(Dialect::OpenAiChat, |remote| remote.dialect);
    let text = file.as_deref().map(|path| text_of(flag, path)).transpose()?;
    let read = if is(Task::Tools) { Structure::tools } else { Structure::json };
    let origin = file.as_ref().map_or_else(|| format!("--task {task}"), |path| format!("{flag} {}", path.display()));
    read(text.as_deref(), dialect).map(|read| Some(Arc::new(read))).map_err(|why| anyhow!("read {origin}: {why}"))
}
